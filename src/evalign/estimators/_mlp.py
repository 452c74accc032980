"""The feed-forward network of `MetricClassifier`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from evalign._errors import check_integer, expected, is_integer, is_number, show

#: The largest number of bins per feature.
MOST_BINS = 256
#: The narrowest bin: between equal quantiles, a bin is a step.
NARROWEST = 1e-6


class PiecewiseLinear(nn.Module):
    """Each feature, and its position within each of its bins, from 0 below the bin to 1 above it.

    A linear layer of these is any piecewise linear function of a feature, with its kinks at the edges of the
    bins. Trees cut features where they like; a network of plain features must learn to.

    >>> layer = PiecewiseLinear(1, 2)
    >>> layer.place_edges(torch.tensor([[0.0], [1.0], [3.0]]))
    >>> layer(torch.tensor([[0.5], [2.0]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [2.0000, 1.0000, 0.5000]])

    References:
        Gorishniy et al. (2022), On embeddings for numerical features in tabular deep learning.
    """

    edges: Tensor

    def __init__(self, features: int, bins: int) -> None:
        super().__init__()
        self.register_buffer("edges", torch.zeros(features, bins + 1))

    @property
    def n_outputs(self) -> int:
        """The number of columns that it returns."""
        return self.edges.numel()

    @property
    def bins(self) -> tuple[Tensor, Tensor]:
        """The lower edge and the width of each bin, (features, bins)."""
        return self.edges[:, :-1], self.edges.diff().clamp_min(NARROWEST)

    def place_edges(self, x: Tensor) -> None:
        """Divide the rows evenly among the bins of each feature."""
        levels = torch.linspace(0, 1, self.edges.shape[1], dtype=torch.float64)
        quantiles = np.quantile(x.detach().cpu().double().numpy(), levels.numpy(), axis=0).T
        self.edges.copy_(torch.from_numpy(quantiles))

    def forward(self, x: Tensor) -> Tensor:
        """Encode features (n, f) as (n, f + f * bins)."""
        low, widths = self.bins
        inside = ((x.unsqueeze(2) - low) / widths).clamp(0, 1)
        return torch.cat([x, inside.flatten(1)], 1)


class ByteDropout(nn.Dropout):
    """Dropout whose masks are random bytes on a CPU, which takes a fifth of the time of `nn.Dropout`.

    >>> _ = torch.manual_seed(0)
    >>> dropped = ByteDropout(0.25)(torch.ones(1000, 100))
    >>> round((dropped == 0).double().mean().item(), 2), round(dropped.max().item(), 3)
    (0.25, 1.333)
    """

    def forward(self, x: Tensor) -> Tensor:
        """Drop units in training."""
        is_usual = x.device.type != "cpu" or torch.compiler.is_compiling()  # compiled code draws as it likes
        if is_usual or not self.training or self.p in (0, 1):
            return super().forward(x)
        return x * self.draw_kept(x.shape).to(x.dtype).div_(1 - self.p)

    def draw_kept(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        """Draw which units are kept: those whose byte is at least 256 p, if that is a whole number."""
        below = 256 * self.p
        if below != int(below):
            return torch.empty(shape).bernoulli_(1 - self.p, generator=generator).bool()
        units = math.prod(shape)
        words = torch.empty(-(-units // 8), dtype=torch.int64).random_(-(2**63), None, generator=generator)
        return words.view(torch.uint8)[:units].view(shape) >= int(below)


def mlp(
    features: int,
    outputs: int,
    hidden: Sequence[int] = (512, 256, 128),
    dropout: float = 0.0,
    n_bins: int = 0,
) -> nn.Sequential:
    """Build a feed-forward network: linear layers with ReLU and dropout between them.

    With `n_bins`, a layer of piecewise linear features comes first; its edges are not placed yet.

    >>> sum(p.numel() for p in mlp(6, 2, hidden=(4,)).parameters())
    38

    References:
        Li et al. (2025), EAST, appendix E.3.2, for the default layers.
    """
    check_integer(features=features, outputs=outputs)
    if not is_integer(n_bins, least=0) or n_bins > MOST_BINS:
        raise expected("n_bins", f"to be an integer in 0..{MOST_BINS}", show(n_bins))
    if not isinstance(hidden, Iterable) or isinstance(hidden, str) or not all(map(is_integer, hidden)):
        raise expected("hidden", "to be layer sizes >= 1", show(hidden))
    if not is_number(dropout) or not 0 <= dropout < 1:
        raise expected("dropout", "in [0, 1)", show(dropout))
    layers: list[nn.Module] = []
    if n_bins:
        first = PiecewiseLinear(features, int(n_bins))
        layers, features = [first], first.n_outputs
    for units in map(int, hidden):
        layers += [nn.Linear(features, units), nn.ReLU()]
        layers += [ByteDropout(float(dropout))] if dropout else []
        features = units
    return nn.Sequential(*layers, nn.Linear(features, outputs))
