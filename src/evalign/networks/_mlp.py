"""Networks for tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from evalign._errors import check_whole, expected, is_number, is_whole, shown


def mlp(
    features: int, outputs: int, hidden: Sequence[int] = (512, 256, 128), dropout: float = 0.0
) -> nn.Sequential:
    """A feed-forward network: linear layers with ReLU and dropout between them.

    >>> sum(p.numel() for p in mlp(6, 2, hidden=(4,)).parameters())
    38

    References:
        Li et al. (2025), EAST, appendix E.3.2, for the default layers.
    """
    check_whole(features=features, outputs=outputs)
    if not isinstance(hidden, Iterable) or isinstance(hidden, str) or not all(map(is_whole, hidden)):
        raise expected("hidden", "to be layer sizes >= 1", shown(hidden))
    if not is_number(dropout) or not 0 <= dropout < 1:
        raise expected("dropout", "in [0, 1)", shown(dropout))
    layers: list[nn.Module] = []
    for units in map(int, hidden):
        layers += [nn.Linear(features, units), nn.ReLU()]
        layers += [nn.Dropout(float(dropout))] if dropout else []
        features = units
    return nn.Sequential(*layers, nn.Linear(features, outputs))


def btg_net(features: int) -> nn.Sequential:
    """The small network for two classes: 32, 16 and 1 units, ReLU, dropout 0.5, one logit a row.

    There is no batch normalisation, and no sigmoid at the end: losses take logits.

    >>> sum(p.numel() for p in btg_net(6).parameters())  # 6 x 32 + 32, 32 x 16 + 16, 16 + 1
    769

    References:
        Tsoi et al. (2022), Bridging the gap, supplement 4.2 and github.com/nathantsoi/btg; the sizes again in
        Tsoi et al., Aligning multiclass neural network classifier criterion with task performance via
        F-beta score, section on binary data.
    """
    return mlp(features, 1, hidden=(32, 16), dropout=0.5)
