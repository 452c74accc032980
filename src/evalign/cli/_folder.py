"""Where a report goes: looked at before any work, made when there is something to put there."""

from __future__ import annotations

from pathlib import Path

from evalign._errors import expected
from evalign.tables import check_writable


def check_folder(out: Path) -> None:
    """Refuse a folder that is none or cannot be written, and leave no trace."""
    there = out
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        wrong = f"the file {out}" if there == out else f"{out}, though {there} is a file"
        raise expected("out", "to be a folder", wrong)
    check_writable(there)


def check_file(out: Path) -> None:
    """The same for a file."""
    if out.is_dir():
        raise expected("out", "to be a file", f"the folder {out}")
    if not out.parent.is_dir():
        raise expected("out", "in a folder that exists", str(out))
    check_writable(out.parent)
