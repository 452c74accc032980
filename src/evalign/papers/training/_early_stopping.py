"""Early stopping of each trial of a stack of networks."""

from __future__ import annotations

import torch
from torch import Tensor

from evalign._errors import check_integer, expected
from evalign.papers.networks import NetworkStack


class BestTrials:
    """Early stopping of each trial on its own: its best weights, and whether it still improves.

    A trial that has not improved for `patience` epochs is finished. It remains in the stack, since removing
    it would not save time, but its best weights no longer change, as if it had been trained alone.

    >>> from evalign.estimators import mlp
    >>> from evalign.papers.networks import stack_networks
    >>> network = stack_networks([mlp(2, 1, ()), mlp(2, 1, ())])
    >>> best = BestTrials(network, patience=1)
    >>> for losses in ([0.5, 0.5], [0.4, 0.6], [0.3, 0.1]):
    ...     best.step(torch.tensor(losses))
    >>> best.losses, best.epochs, best.running
    (tensor([0.3000, 0.5000]), tensor([2, 0]), tensor([ True, False]))
    >>> best.restore()
    """

    def __init__(self, network: NetworkStack, patience: int) -> None:
        check_integer(patience=patience)
        self.network, self.patience = network, int(patience)
        self.epoch = -1
        self.losses = torch.full((network.trials,), torch.inf)
        self.epochs = torch.full((network.trials,), -1)
        self.running = torch.ones(network.trials, dtype=torch.bool)
        self._best = network.weights.detach().clone()

    @property
    def done(self) -> bool:
        """Whether every trial is finished."""
        return not self.running.any()

    @torch.no_grad()
    def step(self, losses: Tensor) -> None:
        """Update with the validation losses (K,) of an epoch; NaN does not count as an improvement."""
        if losses.shape != self.losses.shape:
            raise expected("losses", f"of shape {tuple(self.losses.shape)}", f"shape {tuple(losses.shape)}")
        losses = losses.detach().to(self.losses.device, torch.promote_types(losses.dtype, self.losses.dtype))
        self.epoch += 1
        better = self.running & (losses < self.losses)
        self.losses = torch.where(better, losses, self.losses)
        self.epochs = self.epochs.masked_fill(better, self.epoch)
        weights = self.network.weights
        self._best = torch.where(better.to(weights.device).unsqueeze(1), weights, self._best)
        self.running = self.running & (self.epoch - self.epochs < self.patience)

    @torch.no_grad()
    def restore(self) -> None:
        """Copy the best weights of each trial into the network; a trial that never improved is reset."""
        self.network.weights.copy_(self._best)
