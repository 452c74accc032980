"""The command `python -m evalign.papers`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from evalign.papers import FIGURES, TABLES, reproduce
from evalign.papers._data import MissingDataError
from evalign.papers._reproduce import FOLDER, SCALES, STORAGE, find


def main(arguments: Sequence[str] | None = None) -> int:
    """Run tables and figures by name; 0 if all are done, 1 if something is missing, 130 after Ctrl-C."""
    given = _parser().parse_args(arguments)
    if given.list or not given.tables:
        listed = [(one.name, one.title) for one in TABLES.values()]
        listed += [(one.name, one.title) for one in FIGURES.values()]
        for name, title in listed:
            print(f"{name:14} {title}")
        return 0
    try:
        for name in given.tables:
            find(name)
        return max(_one(name, given) for name in given.tables)
    except KeyboardInterrupt:
        print(f"Stopped. What is done is kept in {given.storage}; the same command goes on.", file=sys.stderr)
        return 130
    except (ValueError, ConnectionError) as error:
        print(error, file=sys.stderr)
        return 2


def _one(name: str, given: argparse.Namespace) -> int:
    try:
        made = reproduce(
            name, scale=given.scale, jobs=given.jobs, seed=given.seed, storage=given.storage, out=given.out,
            partial=given.partial,
        )  # fmt: skip
    except MissingDataError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    for data, instruction in made.results.missing.items():
        print(f"{name}: without {data}. {instruction}", file=sys.stderr)
    for file in made.files:
        print(file)
    if not made.files:
        print(f"{name}: some cells are not done; the same command goes on.", file=sys.stderr)
    return 0 if made.results.complete else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m evalign.papers", description="Reproduce the papers' tables and figures."
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="names of tables or figures; see --list")
    parser.add_argument("--list", action="store_true", help="list the tables and figures")
    parser.add_argument(
        "--scale", choices=SCALES, default="small", help="small: minutes; full: the paper's protocol"
    )
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of all trials")
    parser.add_argument("--storage", default=STORAGE, help="SQLAlchemy URL of the studies")
    parser.add_argument("--out", default=FOLDER, help="folder for the files")
    parser.add_argument("--partial", action="store_true", help="write what is done so far, and run nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
