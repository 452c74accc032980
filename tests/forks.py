"""Fork a process that runs a script, for every request on standard input; `conftest.py` sends them.

Signals, exit statuses and streams are those of a real process, but everything is already imported: a fresh
interpreter would spend seconds on that in every test.
"""

import gc
import json
import os
import pkgutil
import runpy
import signal
import sys
from importlib import import_module

import skops.io  # noqa: F401
import torch._dynamo  # imported by the first step of an optimizer
import torch.distributed  # noqa: F401

import evalign.cli
import evalign.papers


def import_commands():
    """Import every module of the command line, which imports its parts late."""
    for module in pkgutil.iter_modules(evalign.cli.__path__):
        import_module(f"evalign.cli.{module.name}")


def run(arguments, streams):
    """Turn this process into one that was started with these arguments and streams."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (path, mode) in enumerate(zip(streams, modes, strict=True)):
        os.dup2(os.open(path, mode), number)
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")
    sys.exit()


def answer(request):
    """Return the exit status of a process (None while it runs), or the id of a new one."""
    if "wait" in request:
        pid, status = os.waitpid(request["wait"], os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None
    for module in request["imports"]:
        import_module(module)
    gc.freeze()  # a child that ends would go through, and thereby copy, everything that was imported
    pid = os.fork()
    if pid == 0:
        run(request["arguments"], request["streams"])
    return pid


if __name__ == "__main__":
    del sys.path[0]  # this folder, where transformers would take tests/datasets for the library of that name
    import_commands()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
