"""The small network of Tsoi et al. (2022)."""

from __future__ import annotations

from torch import nn

from evalign.estimators import mlp


def btg_net(features: int) -> nn.Sequential:
    """The small network for two classes: 32, 16 and 1 units, ReLU, dropout 0.5, one logit per row.

    It has neither batch normalisation nor a final sigmoid: losses take logits.

    >>> sum(p.numel() for p in btg_net(6).parameters())  # 6 x 32 + 32, 32 x 16 + 16, 16 + 1
    769

    References:
        Tsoi et al. (2022), Bridging the gap, supplement 4.2 and github.com/nathantsoi/btg; the same sizes in
        Tsoi et al., Aligning multiclass neural network classifier criterion with task performance via
        F-beta score, section on binary data.
    """
    return mlp(features, 1, hidden=(32, 16), dropout=0.5)
