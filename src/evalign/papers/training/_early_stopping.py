"""Early stopping of each trial of a stack of networks."""

from __future__ import annotations

import torch
from torch import Tensor

from evalign._errors import check_integer, expected
from evalign.papers.networks import NetworkStack


class BestTrials:
    """Early stopping of each trial on its own: its best weights, and whether it still improves.

    A trial that has not improved for `patience` epochs is finished: its best weights no longer change, as if
    it had been trained alone. `drop_finished` takes it out of the stack, so that the others train faster.

    Attributes:
        trials: The numbers of the trials that the stack still has.

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
        self.trials = torch.arange(network.trials)
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
        """Update with the validation losses of the trials in the stack; NaN is not an improvement."""
        if losses.shape != self.trials.shape:
            raise expected("losses", f"of shape {tuple(self.trials.shape)}", f"shape {tuple(losses.shape)}")
        losses = losses.detach().to(self.losses.device)
        self.losses = self.losses.to(torch.promote_types(losses.dtype, self.losses.dtype))
        self.epoch += 1
        better = self.running[self.trials] & (losses < self.losses[self.trials])
        improved = self.trials[better]
        self.losses[improved] = losses[better].to(self.losses.dtype)
        self.epochs[improved] = self.epoch
        self._best[improved] = self.network.weights[better]
        self.running = self.running & (self.epoch - self.epochs < self.patience)

    def drop_finished(self, optimizer: torch.optim.Optimizer) -> Tensor | None:
        """Take finished trials out of the stack and its optimizer.

        Returns the positions of the others, whose rows the caller selects, or None if nothing changed.
        """
        running = self.running[self.trials]
        if running.all() or self.done:
            return None
        kept = running.nonzero().squeeze(1)
        self.trials = self.trials[kept]
        self.network.keep_trials(kept, optimizer)
        return kept

    def restore(self) -> None:
        """Return to all trials, with the best weights of each; a trial that never improved is reset."""
        self.network.set_weights(self._best)
