"""Stratified batches: shares, minimum, repeats, determinism, and their parts in several processes."""

import math
from collections import Counter
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler, TensorDataset

from evalign.training import DistributedStratifiedBatchSampler, StratifiedBatchSampler

SKEWED = [0] * 70 + [1] * 20 + [2] * 8 + [3] * 2

#: Labels of every balance, down to classes of one row.
LABELS = st.lists(st.integers(1, 25), min_size=1, max_size=6).flatmap(
    lambda sizes: st.permutations([label for label, size in enumerate(sizes) for _ in range(size)])
)
SETTINGS = {
    "targets": LABELS,
    "batch_size": st.integers(1, 30),
    "min_per_class": st.integers(0, 4),
    "seed": st.integers(0, 99),
}


def counts(targets, batch):
    """The rows of each class in a batch."""
    found = Counter(targets[row] for row in batch)
    return {label: found[label] for label in set(targets)}


def row_counts(targets, batches):
    """For each class, how often each of its rows was drawn."""
    drawn = Counter(row for batch in batches for row in batch)
    return {label: [drawn[row] for row, own in enumerate(targets) if own == label] for label in set(targets)}


@given(**SETTINGS, drop_last=st.booleans())
def test_batches_have_the_class_shares(targets, batch_size, min_per_class, seed, drop_last):
    sampler = StratifiedBatchSampler(targets, batch_size, min_per_class, seed, drop_last)
    batches, (full, left) = list(sampler), divmod(len(targets), batch_size)
    assert len(batches) == len(sampler) == (full if drop_last else math.ceil(len(targets) / batch_size))
    sizes = Counter(targets)
    for rows, batch in zip([batch_size] * full + [left], batches, strict=False):
        for label, count in counts(targets, batch).items():
            assert abs(count - rows * sizes[label] / len(targets)) < 1 + min_per_class
    if batches[:full]:
        assert max(map(len, batches[:full])) - min(map(len, batches[:full])) <= 1


@given(targets=LABELS, batch_size=st.integers(1, 30))
def test_without_a_minimum_every_batch_is_full_and_every_row_occurs_once(targets, batch_size):
    batches = list(StratifiedBatchSampler(targets, batch_size, min_per_class=0))
    full, left = divmod(len(targets), batch_size)
    assert [len(batch) for batch in batches] == [batch_size] * full + [left] * (left > 0)
    assert sorted(row for batch in batches for row in batch) == list(range(len(targets)))


@given(**SETTINGS, drop_last=st.booleans())
def test_every_batch_has_the_minimum_that_fits(targets, batch_size, min_per_class, seed, drop_last):
    least = min(min_per_class, batch_size // len(set(targets)))
    for batch in StratifiedBatchSampler(targets, batch_size, min_per_class, seed, drop_last):
        assert min(counts(targets, batch).values()) >= least


@given(**SETTINGS)
def test_rows_are_repeated_only_as_often_as_the_minimum_needs(targets, batch_size, min_per_class, seed):
    sampler = StratifiedBatchSampler(targets, batch_size, min_per_class, seed)
    batches, sizes = list(sampler), Counter(targets)
    fits = min(min_per_class, Fraction(batch_size, len(sizes)))
    for label, drawn in row_counts(targets, batches).items():
        if sizes[label] >= len(batches) * min_per_class:
            assert set(drawn) == {1}
        assert sum(drawn) == max(sizes[label], math.floor(len(batches) * fits))
        assert max(drawn) - min(drawn) <= 1
    for batch in batches:
        twice = {targets[row] for row, times in Counter(batch).items() if times > 1}
        assert all(sizes[label] < min_per_class for label in twice)


@given(**SETTINGS)
def test_drop_last_leaves_rows_out_but_repeats_no_common_one(targets, batch_size, min_per_class, seed):
    batches = list(StratifiedBatchSampler(targets, batch_size, min_per_class, seed, drop_last=True))
    for label, drawn in row_counts(targets, batches).items():
        assert max(drawn) - min(drawn) <= 1
        if Counter(targets)[label] >= len(batches) * min_per_class:
            assert set(drawn) <= {0, 1}


def test_the_last_batch_has_the_minimum_too():
    targets = [0] * 90 + [1] * 11
    batches = list(StratifiedBatchSampler(targets, batch_size=50, min_per_class=3))
    assert counts(targets, batches[-1]) == {0: 3, 1: 3}
    assert sorted(len(batch) for batch in batches) == [6, 47, 48]
    assert {times for drawn in row_counts(targets, batches).values() for times in drawn} == {1}


def test_repeats_are_added_to_the_batch():
    batches = list(StratifiedBatchSampler(SKEWED, batch_size=10))
    assert sorted(map(len, batches)) == [11] * 10  # 70 + 20 + (10 for 8) + (10 for 2) rows
    drawn = row_counts(SKEWED, batches)
    assert sorted(drawn[2]) == [1] * 6 + [2] * 2
    assert drawn[3] == [5, 5]


def test_more_classes_than_rows_per_batch_take_turns():
    targets = [label for label in range(11) for _ in range(9)] + [11]  # 100 rows, 12 classes, the last of one
    batches = list(StratifiedBatchSampler(targets, batch_size=4))
    seen = Counter(label for batch in batches for label, count in counts(targets, batch).items() if count)
    assert seen[11] == 25 * 4 // 12
    assert {seen[label] for label in range(11)} == {9}
    assert {len(batch) for batch in batches} <= {4, 5}


def test_a_minimum_that_does_not_fit_is_lowered_for_all_classes():
    targets = [0] * 94 + [1] * 3 + [2] * 3
    for batch in StratifiedBatchSampler(targets, batch_size=10, min_per_class=50):
        assert set(list(counts(targets, batch).values())[1:]) <= {3, 4}


def test_a_class_of_fewer_rows_than_the_minimum_is_repeated_within_a_batch():
    targets = ["common"] * 20 + ["rare"]
    for batch in StratifiedBatchSampler(targets, batch_size=7, min_per_class=3):
        assert batch.count(20) == 3


def test_same_seed_same_batches():
    one, two, other = (StratifiedBatchSampler(SKEWED, 16, seed=seed) for seed in (5, 5, 6))
    first = list(one)
    assert first == list(two)
    assert first != list(other)
    assert list(one) == list(two)


def test_epochs_differ_even_if_a_loop_breaks_early():
    sampler = StratifiedBatchSampler(SKEWED, 16)
    firsts = [next(iter(sampler)) for _ in range(5)]
    assert len({tuple(first) for first in firsts}) == 5
    sampler.set_epoch(2)
    assert next(iter(sampler)) == firsts[2]
    assert next(iter(sampler)) == firsts[3]


def test_a_resumed_run_draws_the_same_batches():
    sampler = StratifiedBatchSampler(SKEWED, 16, seed=3)
    for _ in range(2):
        list(sampler)
    resumed = StratifiedBatchSampler(SKEWED, 16, seed=3)
    resumed.load_state_dict(sampler.state_dict())
    assert [list(resumed) for _ in range(2)] == [list(sampler) for _ in range(2)]


def test_rows_and_batches_are_shuffled():
    targets = [0] * 20 + [1] * 20
    (batch,) = StratifiedBatchSampler(targets, 40)
    assert {targets[row] for row in batch[:20]} == {targets[row] for row in batch[20:]} == {0, 1}
    rare = StratifiedBatchSampler([0] * 35 + [1] * 5, batch_size=4, min_per_class=0)
    places = {tuple(max(batch) >= 35 for batch in rare) for _ in range(20)}
    assert all(sum(place) == 5 for place in places)
    assert len(places) > 10


def test_rare_classes_are_combined_differently_in_every_epoch():
    targets = [0] * 20 + [1] * 5 + [2] * 5 + [3] * 5 + [4] * 5  # a batch of 4 has room for two rare ones
    sampler = StratifiedBatchSampler(targets, batch_size=4, min_per_class=0)
    batches = [{targets[row] for row in batch} for _ in range(20) for batch in sampler]
    assert set.union(*(batch for batch in batches if 1 in batch)) == {0, 1, 2, 3, 4}


def test_drop_last_leaves_out_every_row_equally_often():
    sampler = StratifiedBatchSampler([0] * 8 + [1], batch_size=4, min_per_class=0, drop_last=True)
    left_out = Counter()
    for _ in range(450):
        (row,) = set(range(9)) - {row for batch in sampler for row in batch}
        left_out[row] += 1
    assert all(25 < left_out[row] < 75 for row in range(9))  # 50 each, standard deviation 6.7


@pytest.mark.parametrize(
    "targets",
    [
        np.array(SKEWED),
        torch.tensor(SKEWED),
        torch.tensor(SKEWED, dtype=torch.float32, requires_grad=True),
        tuple("abcd"[label] for label in SKEWED),
        np.array([f"class {label}" for label in SKEWED], dtype=object),
        [(label - 5) / 2 for label in SKEWED],
    ],
)
def test_labels_of_any_type_give_the_same_batches(targets):
    assert list(StratifiedBatchSampler(targets, 16)) == list(StratifiedBatchSampler(SKEWED, 16))


def test_a_real_loader():
    targets = torch.tensor(SKEWED)
    sampler = StratifiedBatchSampler(targets, 20, min_per_class=2)
    loader = DataLoader(TensorDataset(torch.arange(100), targets), batch_sampler=sampler)
    epochs = [list(loader) for _ in range(2)]
    assert len(loader) == len(epochs[0]) == 5
    for rows, labels in epochs[0]:
        assert torch.equal(targets[rows], labels)
        assert torch.bincount(labels).tolist() == [14, 4, 2, 2]
    assert not torch.equal(epochs[0][0][0], epochs[1][0][0])


@given(**SETTINGS, num_replicas=st.integers(1, 4), drop_last=st.booleans(), epoch=st.integers(0, 5))
def test_the_processes_share_the_batches_of_one(
    targets, batch_size, min_per_class, seed, num_replicas, drop_last, epoch
):
    single = StratifiedBatchSampler(targets, batch_size * num_replicas, min_per_class, seed, drop_last)
    many = [
        DistributedStratifiedBatchSampler(
            targets, batch_size, min_per_class, seed, num_replicas, rank, drop_last
        )
        for rank in range(num_replicas)
    ]
    for sampler in (single, *many):
        sampler.set_epoch(epoch)
    wholes, parts = list(single), [list(sampler) for sampler in many]
    assert {len(sampler) for sampler in many} == {len(part) for part in parts} == {len(wholes)}
    for whole, *shares in zip(wholes, *parts, strict=True):
        if len(whole) < num_replicas:
            assert all(len(share) == 1 for share in shares)
            assert {row for share in shares for row in share} == set(whole)
            continue
        assert sorted(row for share in shares for row in share) == sorted(whole)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        for label in set(targets):
            held = [counts(targets, share)[label] for share in shares]
            assert max(held) - min(held) <= 1


def test_the_parts_of_a_batch_are_disjoint():
    parts = [DistributedStratifiedBatchSampler(SKEWED, 8, 2, num_replicas=2, rank=rank) for rank in (0, 1)]
    pairs = list(zip(*parts, strict=True))
    assert len(pairs) == 7
    for one, two in pairs:
        assert not set(one) & set(two)
        for part in (one, two):
            assert counts(SKEWED, part)[2] == counts(SKEWED, part)[3] == 1


def test_no_process_gets_all_rows_of_a_rare_class():
    targets = [0] * 70 + [1] * 10  # one rare row in each of ten batches
    for rank in (0, 1):
        part = DistributedStratifiedBatchSampler(targets, 4, num_replicas=2, rank=rank)
        assert sum(counts(targets, batch)[1] for batch in part) == 5


def test_processes_are_taken_from_torch_distributed(monkeypatch):
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 3)
    monkeypatch.setattr("torch.distributed.get_rank", lambda: 2)
    given_ranks = DistributedStratifiedBatchSampler(SKEWED, 8, num_replicas=3, rank=2)
    assert list(DistributedStratifiedBatchSampler(SKEWED, 8)) == list(given_ranks)


@pytest.mark.parametrize("kind", [StratifiedBatchSampler, DistributedStratifiedBatchSampler])
def test_processes_are_taken_from_a_distributed_sampler(kind):
    """As Lightning passes it."""
    for rank in (0, 1):
        sampler = DistributedSampler(SKEWED, num_replicas=2, rank=rank)
        wanted = DistributedStratifiedBatchSampler(SKEWED, 8, num_replicas=2, rank=rank)
        assert list(kind(SKEWED, 8, sampler=sampler)) == list(wanted)
    with pytest.raises(ValueError, match="Expected `sampler` to be a DistributedSampler, but got Sequential"):
        kind(SKEWED, 8, sampler=SequentialSampler(SKEWED))


def test_a_sampler_in_place_of_targets_is_explained():
    """Lightning passes it to a batch sampler that it cannot create again."""
    sampler = DistributedSampler(SKEWED, num_replicas=2, rank=0)
    with pytest.raises(
        ValueError, match="got a DistributedSampler.* create the sampler in `train_dataloader`"
    ):
        StratifiedBatchSampler(sampler, batch_size=8, drop_last=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"targets": []}, "`targets` with at least one row"),
        ({"targets": [[0, 1], [1, 0]]}, r"`targets` with one dimension, but got shape \(2, 2\)"),
        ({"targets": torch.zeros(3, 1)}, r"`targets` with one dimension, but got shape \(3, 1\)"),
        ({"targets": 3}, "`targets` with one dimension"),
        ({"targets": [0.0, float("nan")]}, "`targets` without missing labels, but got nan in row 1"),
        ({"targets": ["a", float("nan")]}, "`targets` without missing labels, but got nan in row 1"),
        ({"targets": ["a", None]}, "`targets` to be sortable labels"),
        ({"targets": [[0], [1, 2]]}, "`targets` to be sortable labels"),
        ({"batch_size": 0}, "`batch_size` to be an integer >= 1, but got 0"),
        ({"batch_size": 2.0}, "`batch_size`"),
        ({"batch_size": True}, "`batch_size`"),
        ({"min_per_class": -1}, "`min_per_class` to be an integer >= 0, but got -1"),
        ({"min_per_class": 0.5}, "`min_per_class`"),
        ({"seed": -1}, "`seed`"),
        ({"seed": None}, "`seed`"),
    ],
)
@pytest.mark.parametrize(
    "sampler", [StratifiedBatchSampler, partial(DistributedStratifiedBatchSampler, num_replicas=1, rank=0)]
)
def test_wrong_arguments_are_refused(arguments, message, sampler):
    arguments = {"targets": [0, 1], "batch_size": 2, **arguments}
    with pytest.raises(ValueError, match=f"Expected {message}"):
        sampler(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "`num_replicas` and `rank` to be set if torch.distributed is not initialised"),
        ({"num_replicas": 2}, "`num_replicas` and `rank` to be set"),
        ({"num_replicas": 2, "rank": 2}, r"`rank` in 0\.\.1, but got 2"),
        ({"num_replicas": 2, "rank": -1}, "`rank` to be an integer >= 0"),
        ({"num_replicas": 0, "rank": 0}, "`num_replicas` to be an integer >= 1"),
    ],
)
def test_wrong_processes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"Expected {message}"):
        DistributedStratifiedBatchSampler([0, 1], 2, **arguments)


def test_a_wrong_epoch_or_state_is_refused():
    sampler = StratifiedBatchSampler([0, 1], 2)
    with pytest.raises(ValueError, match="Expected `epoch` to be an integer >= 0, but got -1"):
        sampler.set_epoch(-1)
    with pytest.raises(ValueError, match="Expected `state_dict` with the key 'epoch'"):
        sampler.load_state_dict({"seed": 1})
    with pytest.raises(ValueError, match="Expected `epoch`"):
        sampler.load_state_dict({"epoch": "1"})
