"""Reader of CocktailParty as graphs: where people stand and who talks to whom, frame by frame."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evalign.datasets.reading import Content, check_row_count, file_error, open_text

#: The number of rows of each official file.
ROWS = {"grouping.ref": 320, "tracking_hp.log": 24875}
#: Frames with this many groups or more form one stratum: each number alone would be too rare to split.
MANY_GROUPS = 4


def read_cocktailparty_graph(files: Sequence[Path]) -> Content:
    """Read one graph per annotated frame: X (frames, people, 3), y (frames, people, people), 1 if grouped."""
    tracking, grouping = files
    people, frames = _read_frames(tracking)
    groups = _read_groups(grouping, people)
    X = np.empty((len(groups), len(people), 3), dtype=np.float32)
    for row, stamp in enumerate(groups):
        if stamp not in frames:
            raise file_error(tracking, f"with the frame {stamp}, which {grouping.name} annotates", "none")
        X[row] = _parse_features(tracking, stamp, frames[stamp])
    member = np.array(list(groups.values()), dtype=np.int64)
    return Content(
        X=X,
        y=(member[:, :, None] == member[:, None, :]).astype(np.int64),
        feature_names=("x", "y", "head angle"),
        class_names=("different groups", "same group"),
        strata=np.minimum(member.max(axis=1) + 1, MANY_GROUPS),
    )


def _read_frames(file: Path) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Return the people, and the cells of every frame by its time stamp."""
    frames: dict[str, list[str]] = {}
    people: tuple[str, ...] = ()
    with open_text(file) as stream:
        for number, line in enumerate(stream, 1):
            stamp, *cells = line.split() or [""]
            people = people or tuple(cells[::4])
            if not people or len(cells) != 4 * len(people) or tuple(cells[::4]) != people:
                wanted = f"with a stamp, then id, x, y and angle of the same people, in line {number}"
                raise file_error(file, wanted, repr(line.strip()[:60]))
            frames[stamp] = cells
    check_row_count(file, len(frames), ROWS)
    return people, frames


def _parse_features(file: Path, stamp: str, cells: list[str]) -> NDArray[np.float32]:
    try:
        numbers: NDArray[np.float32] = np.array([cells[i::4] for i in (1, 2, 3)], dtype=np.float32).T
    except ValueError as error:
        raise file_error(file, f"with numbers in frame {stamp}", error) from None
    if not np.isfinite(numbers).all():
        raise file_error(file, f"with finite numbers in frame {stamp}", numbers.tolist())
    return numbers


def _read_groups(file: Path, people: tuple[str, ...]) -> dict[str, list[int]]:
    """Return the group of every person by time stamp; a line has the form `stamp < A B > < C >`."""
    groups: dict[str, list[int]] = {}
    with open_text(file) as stream:
        for number, line in enumerate(stream, 1):
            stamp, _, rest = line.strip().partition(" ")
            if not re.fullmatch(r"(<( \w+)+ > ?)+", rest):
                wanted = f"with a stamp and groups like < ID_001 ID_002 > in line {number}"
                raise file_error(file, wanted, repr(line.strip()[:60]))
            members = [group.split() for group in re.findall(r"<([^>]*)>", rest)]
            if sorted(person for group in members for person in group) != sorted(people):
                wanted = f"with each of {', '.join(people)} once in line {number}"
                raise file_error(file, wanted, repr(rest[:80]))
            groups[stamp] = [
                next(index for index, group in enumerate(members) if person in group) for person in people
            ]
    check_row_count(file, len(groups), ROWS)
    return groups
