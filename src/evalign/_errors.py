"""How evalign says that an argument is wrong: its name, what was expected, what came."""

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
    """Whether a value is a finite real number that fits a float; True and False are not.

    >>> is_number(0.5), is_number(10**400), is_number(float("nan")), is_number(True)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def is_whole(value: Any, least: int = 1) -> bool:
    """Whether a value is an integer of at least so much, NumPy's included; True and False are none.

    >>> is_whole(3), is_whole(0), is_whole(0, least=0), is_whole(True), is_whole(2.0)
    (True, False, True, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least


def check_whole(least: int = 1, **values: Any) -> None:
    """Refuse arguments that are not integers of at least so much.

    >>> check_whole(features=0)
    Traceback (most recent call last):
    ValueError: Expected `features` to be an integer >= 1, but got 0.
    """
    for name, value in values.items():
        if not is_whole(value, least):
            raise expected(name, f"to be an integer >= {least}", shown(value))


def shown(value: Any) -> str:
    """How a value is shown in an error: as Python writes it, not as NumPy does.

    >>> import numpy as np
    >>> shown(np.float64(0.5)), shown(np.str_("a")), shown([np.int64(1)])
    ('0.5', "'a'", '[1]')
    """
    if isinstance(value, list | tuple):
        return repr(type(value)(item.item() if hasattr(item, "item") else item for item in value))
    return repr(value.item() if hasattr(value, "item") and getattr(value, "size", 2) == 1 else value)


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
