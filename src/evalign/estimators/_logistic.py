"""Linear scores on scaled features: the logistic optimum, and from there the metric."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from evalign._typing import Floats, Indices
from evalign.decisions import Goal
from evalign.losses import MetricLoss
from evalign.softsets import LinearStep, binary_logit_confusion, binary_soft_confusion, logit_confusion

#: The temperatures of the metric, each the start of the next, and the iterations of L-BFGS at each.
TEMPERATURES = (0.2, 0.06, 0.02)
ITERATIONS = 10


@dataclass(frozen=True, eq=False)
class LinearRows:
    """Scaled features (dense or CSR), class indices (n,) or labels (n, L), and weights."""

    X: Any
    y: Indices
    weight: Floats
    num_classes: int

    @property
    def multilabel(self) -> bool:
        """Whether there are several labels per row."""
        return self.y.ndim == 2

    @property
    def n_outputs(self) -> int:
        """The number of scores per row: one for two classes, else one per class or label."""
        return 1 if self.num_classes == 2 and not self.multilabel else self.num_classes

    def take(self, rows: Indices) -> LinearRows:
        """Select rows."""
        return LinearRows(self.X[rows], self.y[rows], self.weight[rows], self.num_classes)


def predict_scores(X: Any, weights: Floats) -> Floats:
    """The scores (n, outputs) of weights (outputs, features + 1), the last column being intercepts."""
    return np.asarray(X @ weights[:, :-1].T + weights[:, -1])


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """The weights of a logistic regression, its iterations, and whether it converged."""

    weights: Floats
    n_iter: int
    converged: bool


def fit_logistic(rows: LinearRows, C: float, max_iter: int) -> LogisticFit:
    """Fit scikit-learn's logistic regression; for labels, one for each.

    A class without rows gets the probability of half a row at the mean of the features.
    """
    if rows.multilabel:
        fits = [_fit_classes(rows, rows.y[:, k], 2, C, max_iter) for k in range(rows.num_classes)]
        weights = np.concatenate([one.weights for one in fits])
        return LogisticFit(weights, max(one.n_iter for one in fits), all(one.converged for one in fits))
    return _fit_classes(rows, rows.y, rows.num_classes, C, max_iter)


def _fit_classes(rows: LinearRows, y: Indices, d: int, C: float, max_iter: int) -> LogisticFit:
    known = np.unique(y[rows.weight > 0])
    weights = np.zeros((d, rows.X.shape[1] + 1))
    n_iter, converged = 1, True
    if len(known) > 1:
        model = LogisticRegression(C=C, max_iter=max_iter)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(rows.X, y, rows.weight)
        n_iter = int(model.n_iter_.max())
        converged = not any(issubclass(one.category, ConvergenceWarning) for one in caught)
        fitted = np.concatenate([model.coef_, model.intercept_[:, None]], axis=1)
        weights[model.classes_] = np.concatenate([-fitted / 2, fitted / 2]) if len(known) == 2 else fitted
    absent = np.setdiff1d(np.arange(d), known)
    if absent.size:
        present = weights[known, -1]
        weights[absent, -1] = logsumexp(present) - np.log(2 * len(y))
    return LogisticFit(weights[1:] - weights[:1] if d == 2 else weights, n_iter, converged)


def train_on_metric(rows: LinearRows, start: Floats, goal: Goal, C: float, anchor: float) -> Floats:
    """Minimise the metric loss from `start` by L-BFGS, at one temperature after the other."""
    objective = MetricObjective(rows, goal, C, anchor)
    weights = start.ravel()
    for temperature in TEMPERATURES:
        objective.temperature = temperature
        options = {"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS}
        found = minimize(objective, weights, jac=True, method="L-BFGS-B", options=options)
        if not np.isfinite(found.x).all():
            break
        weights = found.x
    return np.asarray(weights.reshape(start.shape))


class MetricObjective:
    """The metric loss of all rows as a function of the weights of a linear model, with its gradient.

    1 - M(C) + anchor * (cross-entropy + ||coefficients||^2 / (2 n C)). The term in brackets is what logistic
    regression minimises: n is the total weight of the rows, and C there is the inverse strength of the
    penalty. The soft confusion matrix of all rows and its gradient take two products with the features.
    Violations of constraints are added once.
    """

    def __init__(self, rows: LinearRows, goal: Goal, C: float, anchor: float) -> None:
        task = "multilabel" if rows.multilabel else "multiclass"
        self.loss = MetricLoss(goal.metric, task=task, constraints=goal.constraints).eval()
        self.rows, self.anchor, self.task = rows, anchor, task
        n_problems = rows.num_classes if rows.multilabel else 1
        self.penalty = 1 / (C * rows.weight.sum() * n_problems)
        self.temperature = TEMPERATURES[0]
        self.targets = torch.from_numpy(rows.y)
        self.share = torch.from_numpy(rows.weight / rows.weight.sum())
        #: The weight of each score in the cross-entropy, and its target.
        self.scale = self.share[:, None] / n_problems
        many = rows.n_outputs > 1 and not rows.multilabel
        self.truth = (
            F.one_hot(self.targets, rows.num_classes) if many else self.targets.view(len(rows.y), -1)
        ).double()

    def __call__(self, flat: Floats) -> tuple[float, Floats]:
        """The value and the gradient."""
        weights = flat.reshape(self.rows.n_outputs, -1)
        scores = torch.from_numpy(predict_scores(self.rows.X, weights))
        point = scores.requires_grad_()
        loss = self.loss.objective(self._confusion(point), self.task)
        (slope,) = torch.autograd.grad(loss, point, materialize_grads=True)
        entropy, gap = self._cross_entropy(scores.detach())
        coefficients = weights[:, :-1]
        value = loss.item() + self.anchor * (entropy + self.penalty / 2 * np.square(coefficients).sum())
        of_intercepts = slope.add_(gap, alpha=self.anchor).sum(0).numpy()
        of_scores = slope.numpy()
        of_coefficients = np.asarray((self.rows.X.T @ of_scores).T)
        of_coefficients += self.anchor * self.penalty * coefficients
        return value, np.column_stack([of_coefficients, of_intercepts]).ravel()

    def _confusion(self, scores: Tensor) -> Tensor:
        if self.rows.multilabel:
            step = LinearStep(temperature=self.temperature)
            return binary_soft_confusion(scores.sigmoid(), self.targets, 0.5, step, self.share)
        if self.rows.n_outputs == 1:
            column = scores.squeeze(1)
            return binary_logit_confusion(column, self.targets, self.share, temperature=self.temperature)[0]
        return logit_confusion(scores, self.targets, self.share, temperature=self.temperature)[0]

    def _cross_entropy(self, scores: Tensor) -> tuple[float, Tensor]:
        """The cross-entropy and its gradient, in closed form."""
        if self.rows.n_outputs == 1 or self.rows.multilabel:
            terms, p = F.softplus(scores) - self.truth * scores, scores.sigmoid()
        else:
            logs = scores.log_softmax(1)
            terms, p = -self.truth * logs, logs.exp()
        return float((terms * self.scale).sum()), p.sub_(self.truth).mul_(self.scale)
