"""Where results go: checked before any work, created when there is something to write."""

from __future__ import annotations

from pathlib import Path

from evalign._errors import expected
from evalign.tables import check_writable


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be created or written, without creating anything."""
    existing = out
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        wrong = f"the file {out}" if existing == out else f"{out}, though {existing} is a file"
        raise expected("out", "to be a folder", wrong)
    check_writable(existing)


def check_file(out: Path) -> None:
    """Refuse a file that cannot be created or written, without creating anything."""
    if out.is_dir():
        raise expected("out", "to be a file", f"the folder {out}")
    if not out.parent.is_dir():
        raise expected("out", "in a folder that exists", str(out))
    check_writable(out.parent)
