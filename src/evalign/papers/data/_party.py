"""The cocktail party as graphs: who stands where, and who talks with whom, frame by frame."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evalign.datasets.reading import Content, counted, lines, refused

#: Frames with more groups than this are too few to be split evenly on their own.
MANY_GROUPS = 4


def cocktailparty_graph(files: Sequence[Path]) -> Content:
    """One graph per annotated frame: X (frames, people, 3) and y (frames, people, people), 1 = same group."""
    tracking, grouping = files
    people, frames = _frames(tracking)
    groups = _groups(grouping, people)
    X = np.empty((len(groups), len(people), 3), dtype=np.float32)
    for row, stamp in enumerate(groups):
        if stamp not in frames:
            raise refused(tracking, f"with the frame {stamp}, which {grouping.name} annotates", "none")
        X[row] = _features(tracking, stamp, frames[stamp])
    member = np.array(list(groups.values()), dtype=np.int64)
    return Content(
        X=X,
        y=(member[:, :, None] == member[:, None, :]).astype(np.int64),
        feature_names=("x", "y", "head angle"),
        class_names=("different groups", "same group"),
        strata=np.minimum(member.max(axis=1) + 1, MANY_GROUPS),
    )


def _frames(file: Path) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """The people, and the cells of every frame by its time stamp."""
    frames: dict[str, list[str]] = {}
    people: tuple[str, ...] = ()
    with lines(file) as stream:
        for number, line in enumerate(stream, 1):
            stamp, *cells = line.split() or [""]
            people = people or tuple(cells[::4])
            if not people or len(cells) != 4 * len(people) or tuple(cells[::4]) != people:
                wanted = f"with a stamp, then id, x, y and angle of the same people, in line {number}"
                raise refused(file, wanted, repr(line.strip()[:60]))
            frames[stamp] = cells
    counted(file, len(frames))
    return people, frames


def _features(file: Path, stamp: str, cells: list[str]) -> NDArray[np.float32]:
    try:
        numbers: NDArray[np.float32] = np.array([cells[i::4] for i in (1, 2, 3)], dtype=np.float32).T
    except ValueError as error:
        raise refused(file, f"with numbers in frame {stamp}", error) from None
    if not np.isfinite(numbers).all():
        raise refused(file, f"with finite numbers in frame {stamp}", numbers.tolist())
    return numbers


def _groups(file: Path, people: tuple[str, ...]) -> dict[str, list[int]]:
    """The group number of every person, by time stamp; a line reads `stamp < A B > < C >`."""
    groups: dict[str, list[int]] = {}
    with lines(file) as stream:
        for number, line in enumerate(stream, 1):
            stamp, _, rest = line.strip().partition(" ")
            if not re.fullmatch(r"(<( \w+)+ > ?)+", rest):
                wanted = f"with a stamp and groups like < ID_001 ID_002 > in line {number}"
                raise refused(file, wanted, repr(line.strip()[:60]))
            members = [group.split() for group in re.findall(r"<([^>]*)>", rest)]
            if sorted(person for group in members for person in group) != sorted(people):
                wanted = f"with each of {', '.join(people)} once in line {number}"
                raise refused(file, wanted, repr(rest[:80]))
            groups[stamp] = [
                next(index for index, group in enumerate(members) if person in group) for person in people
            ]
    counted(file, len(groups))
    return groups
