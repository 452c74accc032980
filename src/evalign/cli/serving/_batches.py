"""Concurrent requests in one call of the model."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

#: Predictions of rows: the names of their classes, and their probabilities.
Predictions = tuple[Any, Any]
#: How long a batch waits for further requests, in seconds.
WAIT = 0.002


@dataclass(frozen=True, eq=False)
class Waiting:
    """The converted rows of a request, and where their predictions go."""

    table: Any
    future: asyncio.Future[Predictions]


class Batcher:
    """Gathers the rows of requests for a few milliseconds, and predicts them together in a thread.

    Requests that arrive while the model is busy are the next batch. If the model refuses a batch, its
    requests are predicted one by one, so that none fails because of another.

    Args:
        predict: From a converted table to its predictions.
        max_rows: The most rows of a batch; a request with more is a batch of its own.
    """

    def __init__(self, predict: Callable[[Any], Predictions], max_rows: int) -> None:
        self.predict_rows = predict
        self.max_rows = max_rows
        self.waiting: deque[Waiting] = deque()
        self.arrived = asyncio.Event()
        self.thread = ThreadPoolExecutor(1, "model")
        self.worker: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to work on requests."""
        self.worker = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Stop, after all requests have been answered."""
        if self.worker is not None:
            self.worker.cancel()
            await asyncio.gather(self.worker, return_exceptions=True)
        self.thread.shutdown()

    async def predict(self, table: Any) -> Predictions:
        """Predict the rows of one request."""
        job = Waiting(table, asyncio.get_running_loop().create_future())
        self.waiting.append(job)
        self.arrived.set()
        return await job.future

    async def _work(self) -> None:
        while True:
            await self.arrived.wait()
            self.arrived.clear()
            if self._count_rows() < self.max_rows:
                await asyncio.sleep(WAIT)
            while batch := list(self._take_batch()):
                await self._answer(batch)

    def _count_rows(self) -> int:
        return sum(len(job.table) for job in self.waiting)

    def _take_batch(self) -> Iterator[Waiting]:
        """Take requests as long as they fit; those that nobody waits for any more are dropped."""
        rows = 0
        while self.waiting and (rows == 0 or rows + len(self.waiting[0].table) <= self.max_rows):
            job = self.waiting.popleft()
            if not job.future.done():
                rows += len(job.table)
                yield job

    async def _answer(self, batch: list[Waiting]) -> None:
        loop = asyncio.get_running_loop()
        tables = [job.table for job in batch]
        try:
            answers = await loop.run_in_executor(self.thread, self._predict_tables, tables)
        except Exception as error:
            if len(batch) > 1:
                for job in batch:
                    await self._answer([job])
            elif not batch[0].future.done():
                batch[0].future.set_exception(error)
            return
        for job, answer in zip(batch, answers, strict=True):
            if not job.future.done():  # the request may have run out of time
                job.future.set_result(answer)

    def _predict_tables(self, tables: list[Any]) -> list[Predictions]:
        names, p = self.predict_rows(tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True))
        ends = np.cumsum([len(table) for table in tables])[:-1]
        return list(zip(np.split(names, ends), np.split(p, ends), strict=True))
