"""One network, or a bag of them that are validated on each other's rows."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

from evalign._errors import expected
from evalign.metrics import Constraint
from evalign.training import Checkpoint, Fit, Phase, TrainingData, predict_logits


@dataclass(frozen=True)
class Bag:
    """A trained network, its history, and its logits for the rows it was validated on."""

    network: nn.Module
    history: list[dict[str, Any]]
    held_logits: Tensor


@dataclass(frozen=True)
class Task:
    """All that one network is trained from; it can be sent to another process."""

    network: nn.Module
    train: TrainingData
    valid: TrainingData
    plan: Sequence[Phase]
    metric: Any
    batch_size: int
    seed: int
    constraints: tuple[Constraint, ...] = ()
    report: Callable[[dict[str, Any]], None] | None = None
    checkpoint: Checkpoint | None = None


def train_one(task: Task) -> Bag:
    """Train a network; the global random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.seed)
        fit = Fit(
            task.network, task.train, task.valid, task.metric, batch_size=task.batch_size,
            seed=task.seed, constraints=task.constraints, report=task.report, checkpoint=task.checkpoint,
        )  # fmt: skip
        fit.run(copy.deepcopy(task.plan))
    return Bag(task.network, fit.history, predict_logits(task.network, task.valid.x))


def train_all(tasks: Sequence[Task], n_jobs: int | None) -> list[Bag]:
    """Train all networks, several at a time with `n_jobs`."""
    if len(tasks) == 1 or n_jobs in (None, 1):
        bags = [train_one(task) for task in tasks]
    else:
        bags = Parallel(n_jobs=n_jobs)(delayed(_quietly)(task) for task in tasks)
    if tasks[0].report is not None:
        sys.stderr.write("\n")
    return bags


def _quietly(task: Task) -> Bag:
    """In a process of many, one thread each, so that they do not fight for cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return train_one(task)
    finally:
        torch.set_num_threads(threads)


def folds(y: NDArray[Any], bags: int, seed: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Training and validation rows of each bag; every row is validated on once.

    >>> [len(held) for _, held in folds(np.array([0, 1] * 5), 5, seed=0)]
    [2, 2, 2, 2, 2]
    """
    fewest = int(np.bincount(y).min())
    if fewest < bags:
        raise expected("n_bags", f"of at most {fewest}, the rows of the rarest class", bags)
    splitter = StratifiedKFold(bags, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y))


def progress(row: dict[str, Any]) -> None:
    """Show a row of the history on standard error: one line, written over again and again."""
    temperature = "" if row["temperature"] is None else f", temperature {row['temperature']:.3f}"
    sys.stderr.write(
        f"\r{row['phase']}: epoch {row['epoch'] + 1}, loss {row['train_loss']:.4f}, "
        f"validation loss {row['valid_loss']:.4f}, metric {row['valid_metric']:.4f}{temperature}   "
    )
    sys.stderr.flush()
