"""Batches with the class shares of the data, so that a metric of counts is meaningful on each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import BatchSampler, DistributedSampler, Sampler

from evalign._errors import check_integer, expected

_Rows: TypeAlias = npt.NDArray[np.intp]


class StratifiedBatchSampler(BatchSampler):
    """Draw batches with the class shares of the data and at least `min_per_class` rows of every class.

    An epoch over n rows has ceil(n / batch_size) batches (floor with `drop_last`), with these guarantees:

    - A class with share s has floor or ceil of batch_size * s rows in every full batch, and of s times its
      size in the last batch; the minimum changes this by at most `min_per_class`.
    - A class with enough rows for the minimum in every batch contributes each row exactly once; with
      `drop_last`, at most once, and every epoch draws again which rows are left out.
    - A rarer class is repeated until every batch has the minimum. Its rows occur equally often, give or take
      one, and twice in a batch only if the class has fewer than `min_per_class` rows.
    - These repeats are added to `batch_size`, so that all rows of the other classes are still used. A last
      batch too small for the minimum takes rows of common classes from the batches before it.
    - If the minimum of all classes exceeds `batch_size` rows, it is lowered to batch_size / classes. If that
      is not an integer, the classes take turns: below 1, each class is in at least that share of the
      batches, rounded down.

    Every iteration draws the next epoch; the batches depend only on `seed` and the epoch.

    Args:
        targets: The class of every row: a sequence, array or tensor of any sortable label type.
        batch_size: Rows per batch.
        min_per_class: The least rows of every class per batch; 0 only preserves the shares.
        seed: Seed of the shuffling.
        drop_last: Leave out the last batch if it is smaller than the others.
        sampler: A `DistributedSampler`; each of its processes takes its part of every batch, as with
            `DistributedStratifiedBatchSampler`. Lightning passes it to a batch sampler that is created in
            `train_dataloader`.

    >>> targets = ["n"] * 17 + ["y"] * 3
    >>> sampler = StratifiedBatchSampler(targets, batch_size=5)
    >>> sorted("".join(sorted(targets[row] for row in batch)) for batch in sampler)
    ['nnnnny', 'nnnny', 'nnnny', 'nnnny']

    Pass it to a loader as `DataLoader(dataset, batch_sampler=sampler)`.
    """

    #: The number of processes that share each batch, and the index of this one.
    _replicas, _rank = 1, 0

    def __init__(
        self,
        targets: Sequence[Any] | npt.NDArray[Any] | Tensor,
        batch_size: int,
        min_per_class: int = 1,
        seed: int = 0,
        drop_last: bool = False,
        sampler: DistributedSampler[Any] | None = None,
    ) -> None:
        if isinstance(targets, Sampler):  # Lightning does not know how the batch sampler was created
            raise expected(
                "targets", "to be the class of every row", f"a {type(targets).__name__}",
                "Under Lightning with several processes, create the sampler in `train_dataloader`.",
            )  # fmt: skip
        self._codes = _class_codes(targets)
        self._num_classes = int(self._codes.max()) + 1
        check_integer(batch_size=batch_size)
        check_integer(0, min_per_class=min_per_class, seed=seed)
        self.batch_size, self.min_per_class, self.seed = batch_size, min_per_class, seed
        self.drop_last = drop_last
        if sampler is not None:
            if not isinstance(sampler, DistributedSampler):
                raise expected("sampler", "to be a DistributedSampler", type(sampler).__name__)
            self._replicas, self._rank = sampler.num_replicas, sampler.rank
        #: This object: Lightning calls `batch_sampler.sampler.set_epoch`.
        self.sampler: Any = self
        #: The epoch that the next iteration draws.
        self.epoch = 0

    def __len__(self) -> int:
        full, left = self._full_batches_and_rest()
        return full + (left > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        # When the first batch is drawn: Lightning calls `iter` before `set_epoch` if it resumes a run.
        epoch = self.epoch
        self.epoch += 1  # now, not at the end: a loop that breaks early must not see the same epoch again
        yield from self._parts(np.random.default_rng((self.seed, epoch)))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that the next iteration draws.

        >>> sampler = StratifiedBatchSampler([0, 1, 0, 1, 0, 1], batch_size=2)
        >>> first = list(sampler)
        >>> sampler.set_epoch(0)
        >>> list(sampler) == first
        True
        """
        check_integer(0, epoch=epoch)
        self.epoch = epoch

    def state_dict(self) -> dict[str, int]:
        """Return what a resumed run needs: the next epoch.

        >>> StratifiedBatchSampler([0, 1], batch_size=2).state_dict()
        {'epoch': 0}
        """
        return {"epoch": self.epoch}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        >>> sampler = StratifiedBatchSampler([0, 1], batch_size=2)
        >>> sampler.load_state_dict({"epoch": 3})
        >>> sampler.epoch
        3
        """
        if "epoch" not in state_dict:
            raise expected("state_dict", "with the key 'epoch'", f"the keys {list(state_dict)}")
        self.set_epoch(state_dict["epoch"])

    def _full_batches_and_rest(self) -> tuple[int, int]:
        return divmod(len(self._codes), self.batch_size * self._replicas)

    def _parts(self, generator: np.random.Generator) -> Iterator[list[int]]:
        """This process's part of every batch, in random order."""
        for number, batch in enumerate(self._deal(generator)):
            first = (self._rank + number) % self._replicas  # otherwise one process would get all odd rows
            # Every process needs rows: if there are more processes than rows, rows repeat.
            part = np.resize(batch, max(len(batch), self._replicas))[first :: self._replicas]
            yield generator.permutation(part).tolist()

    def _deal(self, generator: np.random.Generator) -> list[_Rows]:
        """All batches of an epoch, each sorted by class.

        Rows sorted by class are dealt like cards, the i-th to batch i mod B. This spreads a class, and each
        repeated row in it, as evenly as possible over the batches, which differ by at most one row.
        """
        codes = generator.permutation(self._num_classes)[self._codes]  # new neighbours every epoch
        order = generator.permutation(len(codes))
        order = order[np.argsort(codes[order], kind="stable")]  # stable: the same on every machine
        sizes = np.bincount(codes)
        place = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)

        def times(draws: _Rows) -> _Rows:
            """How often each row occurs when each class is cycled through for this many draws."""
            return np.repeat(draws // sizes, sizes) + (place < np.repeat(draws % sizes, sizes))

        full, _ = self._full_batches_and_rest()
        dealt, last = self._draws(sizes, generator)
        cards = np.repeat(order, times(dealt))
        # A class that does not fill a round ends up in neighbouring batches: shuffle the batches, too.
        batches = [cards[first::full] for first in generator.permutation(full)]
        if len(self) > full:
            batches.append(np.repeat(order, times(dealt + last) - times(dealt)))
        return batches

    def _draws(self, sizes: _Rows, generator: np.random.Generator) -> tuple[_Rows, _Rows]:
        """The rows of each class in all full batches together, and in the smaller last batch."""
        total, rows = len(self._codes), self.batch_size * self._replicas
        _, left = self._full_batches_and_rest()
        # Integer parts of the running sum: they add up to `left`, and each is within one of its share.
        offset = generator.integers(total)
        last = np.diff((np.cumsum(sizes) * left + offset) // total, prepend=0)
        budget = min(self.min_per_class * self._num_classes, rows)
        needed = len(self) * budget // self._num_classes
        if self.drop_last:
            return np.maximum(sizes - last, needed), np.zeros_like(last)
        if left:
            last = np.maximum(last, budget // self._num_classes)
        return np.maximum(sizes, needed) - last, last


class DistributedStratifiedBatchSampler(StratifiedBatchSampler):
    """Divide the batches of a `StratifiedBatchSampler` among several processes.

    All processes draw the same batches of batch_size * num_replicas rows, those of a
    `StratifiedBatchSampler` of this size, and each takes its part: the parts are disjoint, together they are
    the batch, and the rows of a class are divided equally, give or take one. All processes have the same
    number of batches. `min_per_class` applies to all processes together, as suits losses that add up the
    confusion matrices of all processes. Processes share a row only if a batch has fewer rows than processes.

    Args:
        targets: The class of every row, the same in every process.
        batch_size: Rows per batch in each process.
        min_per_class: The least rows of every class in a batch of all processes together.
        seed: Seed of the shuffling, the same in every process.
        num_replicas: The number of processes; taken from `torch.distributed` if None.
        rank: This process, 0 to num_replicas - 1; taken from `torch.distributed` if None.
        drop_last: Leave out the last batch if it is smaller than the others.
        sampler: A `DistributedSampler` that takes the place of `num_replicas` and `rank`.

    >>> targets = ["no"] * 12 + ["yes"] * 4
    >>> for rank in (0, 1):
    ...     sampler = DistributedStratifiedBatchSampler(targets, batch_size=4, num_replicas=2, rank=rank)
    ...     print([sorted(targets[row] for row in batch) for batch in sampler])
    [['no', 'no', 'no', 'yes'], ['no', 'no', 'no', 'yes']]
    [['no', 'no', 'no', 'yes'], ['no', 'no', 'no', 'yes']]
    """

    def __init__(
        self,
        targets: Sequence[Any] | npt.NDArray[Any] | Tensor,
        batch_size: int,
        min_per_class: int = 1,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
        sampler: DistributedSampler[Any] | None = None,
    ) -> None:
        super().__init__(targets, batch_size, min_per_class, seed, drop_last, sampler)
        if sampler is not None:
            num_replicas, rank = self._replicas, self._rank
        if num_replicas is None or rank is None:
            if not (dist.is_available() and dist.is_initialized()):
                raise expected(
                    "num_replicas",
                    "and `rank` to be set if torch.distributed is not initialised",
                    f"num_replicas={num_replicas} and rank={rank}",
                )
            num_replicas = dist.get_world_size() if num_replicas is None else num_replicas
            rank = dist.get_rank() if rank is None else rank
        check_integer(num_replicas=num_replicas)
        check_integer(0, rank=rank)
        self._replicas, self._rank = num_replicas, rank
        if rank >= num_replicas:
            raise expected("rank", f"in 0..{num_replicas - 1}", rank)


def _class_codes(targets: Sequence[Any] | npt.NDArray[Any] | Tensor) -> _Rows:
    """The class of every row as a number from 0."""
    try:
        if isinstance(targets, Tensor):
            targets = targets.detach().cpu().numpy()
        # Lists become object arrays first: among strings, NumPy would turn NaN into the string "nan".
        labels = np.asarray(targets, dtype=None if hasattr(targets, "dtype") else object)
        present = labels == labels
        codes: _Rows = np.unique(np.asarray(targets)[present], return_inverse=True)[1]
    except (TypeError, ValueError) as error:
        raise expected("targets", "to be sortable labels", f"the error: {error}") from error
    if labels.ndim != 1:
        raise expected("targets", "with one dimension", f"shape {labels.shape}")
    if not len(labels):
        raise expected("targets", "with at least one row", "none")
    if not present.all():
        raise expected(
            "targets", "without missing labels", f"{labels[~present][0]} in row {present.argmin()}"
        )
    return codes
