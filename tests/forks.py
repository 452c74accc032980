"""A process that has imported everything, and forks one that runs a script for every line it reads.

Signals, exit statuses and streams are those of a real process, without the seconds that imports take.
"""

import json
import os
import runpy
import signal
import sys

import skops.io  # noqa: F401
import torch._dynamo  # imported by the first step of an optimizer)
import torch.distributed  # noqa: F401

import evalign.cli._compare
import evalign.cli._fit
import evalign.cli._predict
import evalign.papers  # noqa: F401


def child(arguments, streams):
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (path, mode) in enumerate(zip(streams, modes, strict=True)):
        os.dup2(os.open(path, mode), number)
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")
    sys.exit()


def answer(asked):
    if "wait" in asked:
        pid, status = os.waitpid(asked["wait"], os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None
    pid = os.fork()
    if pid == 0:
        child(asked["arguments"], asked["streams"])
    return pid


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
