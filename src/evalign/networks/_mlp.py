"""Networks for tables."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn

from evalign._errors import expected, is_number, shown


def mlp(
    features: int, outputs: int, hidden: Sequence[int] = (512, 256, 128), dropout: float = 0.0
) -> nn.Sequential:
    """A feed-forward network: linear layers with ReLU and dropout between them.

    >>> sum(p.numel() for p in mlp(6, 2, hidden=(4,)).parameters())
    38

    References:
        Li et al. (2025), EAST, appendix E.3.2, for the default layers.
    """
    for name, value in (("features", features), ("outputs", outputs)):
        if not _is_size(value):
            raise expected(name, "to be an integer >= 1", shown(value))
    if not isinstance(hidden, Iterable) or isinstance(hidden, str) or not all(map(_is_size, hidden)):
        raise expected("hidden", "to be layer sizes >= 1", shown(hidden))
    if not is_number(dropout) or not 0 <= dropout < 1:
        raise expected("dropout", "in [0, 1)", shown(dropout))
    layers: list[nn.Module] = []
    for units in map(int, hidden):
        layers += [nn.Linear(features, units), nn.ReLU()]
        layers += [nn.Dropout(float(dropout))] if dropout else []
        features = units
    return nn.Sequential(*layers, nn.Linear(features, outputs))


def _is_size(units: Any) -> bool:
    return isinstance(units, numbers.Integral) and not isinstance(units, bool) and int(units) >= 1
