"""The wording of errors: the name of the argument, what was expected, and what was given."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable
from typing import Any


def expected(argument: str, wanted: str, got: Any, hint: str = "") -> ValueError:
    """Build the error for a wrong argument.

    >>> print(expected("temperature", "in (0, 0.4]", 0.7))
    Expected `temperature` in (0, 0.4], but got 0.7.
    """
    return ValueError(f"Expected `{argument}` {wanted}, but got {got}.{' ' + hint if hint else ''}")


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number that fits a float; booleans are not.

    >>> is_number(0.5), is_number(10**400), is_number(float("nan")), is_number(True)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def is_integer(value: Any, least: int = 1) -> bool:
    """Whether a value is an integer of at least `least`, including NumPy's; booleans are not.

    >>> is_integer(3), is_integer(0), is_integer(0, least=0), is_integer(True), is_integer(2.0)
    (True, False, True, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least


def check_integer(least: int = 1, **values: Any) -> None:
    """Refuse arguments that are not integers of at least `least`.

    >>> check_integer(features=0)
    Traceback (most recent call last):
    ValueError: Expected `features` to be an integer >= 1, but got 0.
    """
    for name, value in values.items():
        if not is_integer(value, least):
            raise expected(name, f"to be an integer >= {least}", show(value))


def show(value: Any, most: int = 300) -> str:
    """Format a value for an error message: as plain Python prints it, and not longer than a few lines.

    >>> import numpy as np
    >>> show(np.float64(0.5)), show(np.str_("a")), show([np.int64(1)]), show("x" * 100, most=5)
    ('0.5', "'a'", '[1]', "'xxxx...")
    """
    if isinstance(value, list | tuple):
        text = repr(type(value)(item.item() if hasattr(item, "item") else item for item in value))
    else:
        text = repr(value.item() if hasattr(value, "item") and getattr(value, "size", 2) == 1 else value)
    return text if len(text) <= most else f"{text[:most]}..."


def suggest(name: str, known: Iterable[str], most: int = 20) -> str:
    """Suggest the known names closest to a misspelt one, ignoring case, or list what there is.

    >>> suggest("agee", ["AGE", "city"]), suggest("zzz", ["f1", "mcc"])
    ("Did you mean 'AGE'?", "Choose from 'f1', 'mcc'.")
    """
    names = list(known)
    return suggest_similar(name, names) or (
        f"Choose from {', '.join(map(repr, names[:most]))}{', ...' if len(names) > most else ''}."
    )


def suggest_similar(name: str, known: Iterable[str]) -> str:
    """Suggest the known names closest to a misspelt one, if there are any.

    >>> suggest_similar("agee", ["AGE", "city"]), suggest_similar("zzz", ["f1", "mcc"])
    ("Did you mean 'AGE'?", '')
    """
    folded = {one.strip().casefold(): one for one in known}
    close = difflib.get_close_matches(name.strip().casefold(), folded, n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(repr(folded[one]) for one in close)}?" if close else ""
