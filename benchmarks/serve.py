"""A load test of `evalign serve`, on this machine only: requests per second, latency and errors.

Fits a small model (seven columns of numbers, one of categories), serves it in a process of its own on a free
port of the loopback interface, and sends requests from many clients, each of which keeps one connection and
sends its next request when the last one is answered. Every answer is compared with the model's own. The
clients run in this process and take about as much time as the server: more cores give more requests.

    python benchmarks/serve.py [--clients 200] [--seconds 10] [--rows 1] [--workers 1] [--method booster]
"""

import argparse
import asyncio
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from predict import evalign_command, write

import evalign
from evalign.tables import TableModel, read

#: No test runs longer, whatever is asked for.
MOST_SECONDS, MOST_CLIENTS = 60, 500


@dataclass
class Tally:
    """Seconds of each answer, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)

    def fail(self, reason: str) -> None:
        """Count something that went wrong."""
        self.errors[reason] = self.errors.get(reason, 0) + 1


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> tuple[int, bytes]:
    """Send a request over an open connection, and return the status and the body of the answer."""
    head = "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
    return int(lines[0].split()[1]), await reader.readexactly(length)


async def run_client(address, requests, end: float, tally: Tally, seed: int) -> None:
    generator = np.random.default_rng(seed)
    try:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        while time.perf_counter() < end:
            body, wanted = requests[generator.integers(len(requests))]
            start = time.perf_counter()
            status, answer = await ask(reader, writer, body)
            tally.seconds.append(time.perf_counter() - start)
            if status != 200:
                tally.fail(f"status {status}")
            elif [row["prediction"] for row in json.loads(answer)["predictions"]] != wanted:
                tally.fail("another prediction")
        writer.close()
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        tally.fail(repr(error))


async def run_clients(address, requests, clients: int, seconds: float) -> tuple[Tally, float]:
    """Run all clients for some seconds; the first of them is not counted."""
    await run_client(address, requests, time.perf_counter() + 1, Tally(), 0)
    tally, start = Tally(), time.perf_counter()
    work = [run_client(address, requests, start + seconds, tally, seed) for seed in range(clients)]
    await asyncio.wait_for(asyncio.gather(*work), seconds + 60)
    return tally, time.perf_counter() - start


def make_requests(model: TableModel, path: Path, rows: int) -> list[tuple[bytes, list[str]]]:
    """Bodies of rows, and the classes that the model predicts for them."""
    table = read(path)[: 200 * rows].drop(columns="y")
    names = model.predict(table).tolist()
    records = table.to_dict("records")
    starts = range(0, len(records), rows)
    return [(json.dumps(records[at : at + rows]).encode(), names[at : at + rows]) for at in starts]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--method", default="lightgbm_rule")
    options = parser.parse_args()
    clients, seconds = min(options.clients, MOST_CLIENTS), min(options.seconds, MOST_SECONDS)
    environment = {**os.environ, "PYTHONPATH": str(Path(evalign.__file__).parents[1])}
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "rows.csv"), Path(folder, "model")
        write(data, 20_000)
        fit = ["fit", data, "--target=y", f"--method={options.method}", f"--out={model}", "--quiet"]
        subprocess.run(evalign_command(*fit), env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        requests = make_requests(TableModel.load(model), data, options.rows)
        serve = evalign_command("serve", model, "--port=0", "--json", f"--workers={options.workers}")
        with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
            try:
                lines = iter(server.stdout.readline, "}\n")
                address = urlsplit(json.loads("".join(lines) + "}")["url"])
                tally, took = asyncio.run(run_clients(address, requests, clients, seconds))
            finally:
                server.send_signal(signal.SIGTERM)
            status = server.wait(60)
    p50, p99 = np.quantile(tally.seconds, [0.5, 0.99]) * 1000
    today = datetime.datetime.now(datetime.timezone.utc).date()
    print(
        f"{today}, {os.cpu_count()} cores ({platform.machine()}), load {os.getloadavg()[0]:.1f}, "
        f"evalign {evalign.__version__}"
    )
    print(f"{clients} clients, {options.rows} rows per request, {options.workers} workers, {options.method}")
    print(f"{len(tally.seconds):,} requests in {took:.1f} s: {len(tally.seconds) / took:,.0f} per second")
    print(f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, errors {sum(tally.errors.values())} {tally.errors or ''}")
    print(f"exit status {status} after SIGTERM")
    if tally.errors:
        sys.exit(1)


if __name__ == "__main__":
    main()
