"""`evalign serve`: the address, the worker processes and the end."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from evalign._errors import expected
from evalign.cli._console import Console, blame_usage
from evalign.cli._main import RunError
from evalign.cli.serving._application import Application, Limits, build_application
from evalign.tables import TableModel

#: The most connections of a worker; further ones are refused with the status 503.
MAX_CONNECTIONS = 1000
#: The exit status by which uvicorn says that it could not start.
STARTUP_FAILURE = 3


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of `evalign serve`."""

    model: Path
    host: str
    port: int
    workers: int
    limits: Limits
    verify: Path | None


def run(console: Console, options: ServeOptions) -> None:
    """Serve until Ctrl-C or SIGTERM; requests in flight are answered before it ends."""
    with blame_usage():
        model = TableModel.load(options.model, options.verify)
        listener = _listen(options.host, options.port)
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"http://{host}:{listener.getsockname()[1]}"
    console.print_json({"url": address, "workers": options.workers})
    console.print(f"Serving {options.model} on {address} (Ctrl-C stops it).")
    sys.stdout.flush()
    with listener:
        if options.workers == 1:
            app: Any = build_application(model, options.limits, options.model)
            uvicorn.Server(_configure(app, options)).run([listener])
        else:
            del model
            _run_workers(options, listener)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:  # an unknown name is an error of this kind, too
        reason = error.strerror or str(error)
        raise expected("host", "and `port` to be free", f"{host} and {port} ({reason})") from None


def _configure(app: Any, options: ServeOptions, factory: bool = False) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=factory,
        workers=options.workers,
        lifespan="on",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=int(options.limits.seconds) + 1,
    )


def _run_workers(options: ServeOptions, listener: socket.socket) -> None:
    """Run worker processes, which share the cores and the address, and restart those that die."""
    cores = os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // options.workers)))
    app = Application(options.model, options.verify, options.limits)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    workers = _Workers(_configure(app, options, factory=True), [listener])
    workers.run()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    if workers.stopped_by is None:
        raise RunError("The worker processes could not start.")
    signal.raise_signal(workers.stopped_by)  # `main` says how it ended


class _Workers(Multiprocess):
    """Worker processes of which the dead are replaced, and that remember which signal stopped them."""

    stopped_by: signal.Signals | None = None

    def init_processes(self) -> None:
        """Start all workers."""
        self.processes = [self._start_worker() for _ in range(self.processes_num)]

    def _start_worker(self) -> Process:
        """Start a worker that ignores Ctrl-C until it serves; this process ends it then."""
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # is inherited
        worker = Process(self.config, self.sockets)
        worker.start()
        signal.signal(signal.SIGINT, handler)
        return worker

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died.

        uvicorn also asks each of them for a sign of life, and waits for it. One that loads the model gives
        none yet, and one that a signal to all processes has ended never will: the wait would outlast Ctrl-C.
        """
        for number, worker in enumerate(self.processes):
            if worker.process.is_alive() or self.should_exit.is_set():
                continue
            worker.kill()  # closes its pipes
            worker.join()
            if worker.exitcode == STARTUP_FAILURE:  # as any other would
                self.should_exit.set()
            else:
                self.processes[number] = self._start_worker()

    def handle_int(self) -> None:
        super().handle_int()
        self.stopped_by = signal.SIGINT

    def handle_term(self) -> None:
        super().handle_term()
        self.stopped_by = signal.SIGTERM
