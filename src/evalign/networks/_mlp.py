"""Networks for tables."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from evalign._errors import expected


def mlp(
    features: int, outputs: int, hidden: Sequence[int] = (512, 256, 128), dropout: float = 0.0
) -> nn.Sequential:
    """A feed-forward network: linear layers with ReLU and dropout between them.

    >>> sum(p.numel() for p in mlp(6, 2, hidden=(4,)).parameters())
    38

    References:
        Li et al. (2025), EAST, appendix E.3.2, for the default layers.
    """
    if any(isinstance(units, bool) or not isinstance(units, int) or units < 1 for units in hidden):
        raise expected("hidden", "to be layer sizes >= 1", list(hidden))
    if not 0 <= dropout < 1:
        raise expected("dropout", "in [0, 1)", dropout)
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [nn.Linear(features, units), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
        features = units
    return nn.Sequential(*layers, nn.Linear(features, outputs))
