"""Training of stacked trials: a loss a trial, and the best weights of each."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from evalign._errors import check_integer, expected
from evalign.losses import AdversarialLoss, MetricLoss, WMWLoss
from evalign.papers.networks._losses import soft_set_losses
from evalign.papers.networks._stacked import Stacked

#: Losses whose work depends on the values, which `torch.func.vmap` cannot batch.
_ONE_BY_ONE = (AdversarialLoss, WMWLoss)


def trial_losses(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """The loss of each trial, (K,), from stacked logits (K, N, ...); backpropagate through their sum.

    `targets` are (N,) for all trials, or (K, N, ...) for each its own. Any loss will do that is a function
    of its arguments; one with a state, such as the memory of `MetricLoss`, is refused.

    >>> from evalign.losses import MetricLoss
    >>> logits = torch.tensor([[2.0, -1.0, 0.5], [-2.0, 1.0, 0.5]])
    >>> trial_losses(MetricLoss("f1"), logits, torch.tensor([1, 0, 1]))
    tensor([0.1778, 0.5782])
    """
    if logits.ndim < 2:
        raise expected("logits", "of shape (trials, N, ...)", f"shape {tuple(logits.shape)}")
    trials, count = logits.shape[:2]
    if targets.shape[:2] != (trials, count) and targets.shape != (count,):
        wanted = f"of shape ({count},) or ({trials}, {count}, ...)"
        raise expected("targets", wanted, f"shape {tuple(targets.shape)}")
    if targets.ndim == 1:
        targets = targets.expand(trials, -1)
    if isinstance(loss, MetricLoss):
        if loss.memory or loss.constraints:
            raise expected("loss", "without memory and constraints, which each trial has its own of", loss)
        together = soft_set_losses(loss, logits, targets)
        if together is not None:
            return together
    if isinstance(loss, _ONE_BY_ONE):
        return torch.stack([loss(*pair) for pair in zip(logits, targets, strict=True)])
    # A copy, since a loss may keep what it saw last, and nothing batched may leave vmap that way.
    losses: Tensor = torch.func.vmap(copy.copy(loss))(logits, targets)
    return losses


class BestTrials:
    """Early stopping trial by trial: the best weights of each, and which of them still improve.

    A trial that has not improved for `patience` epochs is finished. It goes on in the stack, since leaving
    would not save time, but its best weights stay as they are: as if it had been trained alone.

    >>> from evalign.estimators import mlp
    >>> from evalign.papers.networks import stacked
    >>> network = stacked([mlp(2, 1, ()), mlp(2, 1, ())])
    >>> best = BestTrials(network, patience=1)
    >>> for losses in ([0.5, 0.5], [0.4, 0.6], [0.3, 0.1]):
    ...     best.step(torch.tensor(losses))
    >>> best.losses, best.epochs, best.running
    (tensor([0.3000, 0.5000]), tensor([2, 0]), tensor([ True, False]))
    >>> best.restore()
    """

    def __init__(self, network: Stacked, patience: int) -> None:
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
        """Take the validation losses (K,) of an epoch; a NaN is no improvement."""
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
        """Put the best weights of each trial into the network; those it began with where none was good."""
        self.network.weights.copy_(self._best)
