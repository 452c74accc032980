"""How evalign says that an argument is wrong: its name, what was expected, what came."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def expected(argument: str, wanted: str, got: Any, hint: str = "") -> ValueError:
    """Build the error for a wrong argument.

    >>> print(expected("temperature", "in (0, 0.4]", 0.7))
    Expected `temperature` in (0, 0.4], but got 0.7.
    """
    return ValueError(f"Expected `{argument}` {wanted}, but got {got}.{' ' + hint if hint else ''}")


def near(name: str, known: Iterable[str]) -> str:
    """Say which known names are close to a misspelt one, or list them all.

    >>> near("f11", ["f1", "mcc"])
    'Did you mean f1?'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return f"Known: {', '.join(names)}."
