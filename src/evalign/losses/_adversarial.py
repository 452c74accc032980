"""The adversarial loss of the package `ap_perf`, as a PyTorch criterion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from evalign import metrics
from evalign._errors import expected
from evalign.metrics import Metric, as_batch

# Each metric in the language of ap_perf: ap/an are the actual, pp/pn the predicted sums.
_DEFINITIONS: dict[str, Callable[[Any, float], Any]] = {
    "accuracy": lambda c, beta: (c.tp + c.tn) / c.all,
    "precision": lambda c, beta: c.tp / c.pp,
    "recall": lambda c, beta: c.tp / c.ap,
    "specificity": lambda c, beta: c.tn / c.an,
    "f1": lambda c, beta: (2 * c.tp) / (c.ap + c.pp),
    "fbeta": lambda c, beta: ((1 + beta**2) * c.tp) / (beta**2 * c.ap + c.pp),
}


class AdversarialLoss(nn.Module):
    """Robust training on a metric for two classes: a game against the worst labelling of the batch.

    Exact for a batch but slow: each batch solves an optimisation problem over n x n matrices, so use
    small batches (25 in the paper). Requires `pip install evalign[adversarial]`.

    Args:
        metric: accuracy, precision, recall, specificity, f1 or fbeta, for two classes.
        iterations: Solver steps per batch.
        rho: Step size of the solver.

    >>> loss = AdversarialLoss("f1")
    >>> logits = torch.tensor([1.0, -1.0, 0.5], requires_grad=True)
    >>> loss(logits, torch.tensor([1, 0, 1])).ndim
    0

    References:
        Fathony and Kolter (2020), AP-Perf: incorporating generic performance metrics in
        differentiable learning.
    """

    def __init__(self, metric: Metric | str = "f1", *, iterations: int = 100, rho: float = 1.0) -> None:
        super().__init__()
        self.metric = metrics.as_metric(metric)
        if iterations < 1 or not rho > 0:
            raise expected("iterations", "and `rho` to be positive", f"{iterations} and {rho}")
        self._options = {"max_iter": iterations, "rho": rho}
        self._solver = _build_solver(self.metric)

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of a small batch with one logit per row."""
        rows = as_batch(logits, targets, task="binary")
        if rows.logits.shape[0] == 0:
            raise expected("logits", "with at least one row", "none")
        if not rows.logits.isfinite().all():
            return rows.logits.sum() * torch.nan
        labels = (rows.targets > 0.5).to(rows.logits.dtype).squeeze(1)
        value: Tensor = _Game.apply(rows.logits.squeeze(1), labels, self._solver, self._options)  # type: ignore[no-untyped-call]
        return value


class _Game(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, solver: Any, options: dict[str, Any]) -> Tensor:
        potentials, truth = (side.detach().double().cpu().numpy() for side in (logits, labels))
        value, adversary = solver.objective(potentials, truth, **options)
        ctx.gradient = torch.as_tensor(adversary, dtype=logits.dtype, device=logits.device) - labels
        return -logits.new_tensor(value + potentials @ truth)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * ctx.gradient, None, None, None


def _build_solver(metric: Metric) -> Any:
    """Build the solver of `ap_perf` for a metric."""
    try:
        from ap_perf import PerformanceMetric  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("AdversarialLoss requires ap_perf: pip install 'evalign[adversarial]'.") from error
    name = metric.name.split("(")[0]
    if name not in _DEFINITIONS or getattr(metric, "average", None) not in ("auto", "binary"):
        known = ", ".join(_DEFINITIONS)
        raise expected("metric", f"to be one of {known}, for two classes", metric.name)
    beta = metric.params.get("beta", 1.0)
    if not isinstance(beta, int | float):
        raise expected("beta", "to be one number", beta)

    class Definition(PerformanceMetric):  # type: ignore[misc]
        def define(self, c: Any) -> Any:
            return _DEFINITIONS[name](c, beta)

    solver = Definition()
    solver.initialize()
    if name == "specificity":
        solver.enforce_special_case_negative()
    elif name != "accuracy":
        solver.enforce_special_case_positive()
    return solver
