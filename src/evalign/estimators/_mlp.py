"""The feed-forward network of `MetricClassifier`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from evalign._errors import check_integer, expected, is_integer, is_number, show


def mlp(
    features: int, outputs: int, hidden: Sequence[int] = (512, 256, 128), dropout: float = 0.0
) -> nn.Sequential:
    """Build a feed-forward network: linear layers with ReLU and dropout between them.

    >>> sum(p.numel() for p in mlp(6, 2, hidden=(4,)).parameters())
    38

    References:
        Li et al. (2025), EAST, appendix E.3.2, for the default layers.
    """
    check_integer(features=features, outputs=outputs)
    if not isinstance(hidden, Iterable) or isinstance(hidden, str) or not all(map(is_integer, hidden)):
        raise expected("hidden", "to be layer sizes >= 1", show(hidden))
    if not is_number(dropout) or not 0 <= dropout < 1:
        raise expected("dropout", "in [0, 1)", show(dropout))
    layers: list[nn.Module] = []
    for units in map(int, hidden):
        layers += [nn.Linear(features, units), nn.ReLU()]
        layers += [nn.Dropout(float(dropout))] if dropout else []
        features = units
    return nn.Sequential(*layers, nn.Linear(features, outputs))
