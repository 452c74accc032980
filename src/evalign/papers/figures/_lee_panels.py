"""What is drawn in the figures of Lee et al. (2021), and the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

import torch
from torch import nn

from evalign.losses import FocalLoss, MAELoss, SurrogateFBetaLoss
from evalign.papers._figure import Line, Panel, correlation
from evalign.papers._results import Cell, Results

BETAS = (0.5, 1.0, 2.0, 3.0)

#: The share of positives in both datasets.
RATE = 0.1

#: Epochs at the end of a curve that speak for it.
LAST = 10


class _Half(nn.Module):
    """Half a loss: the paper draws MAE, 2 q, as q."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.loss(logits, targets) / 2
        return value


def _surrogate(beta: float, rate: float) -> nn.Module:
    return SurrogateFBetaLoss(beta, rate, class_balanced=False)


def term(loss: nn.Module, q: Sequence[float], positive: bool) -> tuple[float, ...]:
    """The loss of one row with probability 1 - q (positive) or q (negative), less its value at q = 0."""
    probability = torch.tensor([0.0, *q], dtype=torch.float64)
    logits = (1 - probability if positive else probability).logit(1e-12)  # finite
    target = torch.tensor([float(positive)], dtype=torch.float64)
    start, *values = (float(loss(logit.view(1), target)) for logit in logits)
    return tuple(value - start for value in values)


def shapes(_: Results) -> tuple[Panel, ...]:
    """Figure 1: what a share of mistakes costs, on the positives (a) and on the negatives (b, c)."""
    q = tuple(number / 100 for number in range(100))
    rows = {"BCE": FocalLoss(0, task="binary"), "MAE": _Half(MAELoss(task="binary"))}

    def lines(losses: dict[str, nn.Module], positive: bool) -> tuple[Line, ...]:
        return tuple(Line(name, q, term(loss, q, positive)) for name, loss in losses.items())

    by_beta, by_beta_here = (
        {f"surrogate F{beta:g}": _surrogate(beta, rate) for beta in BETAS} for rate in (0.5, RATE)
    )
    missed, taken = "share of positives missed, q0", "share of negatives taken, q1"
    return (
        Panel("(a) positives", missed, "loss", lines({**rows, "surrogate": _surrogate(1.0, 0.5)}, True)),
        Panel("(b) negatives, P = 0.5", taken, "loss", lines({**rows, **by_beta}, False)),
        Panel(f"(c) negatives, P = {RATE}", taken, "loss", lines({**rows, **by_beta_here}, False)),
    )


def shapes_numbers(results: Results) -> list[str]:
    """How much each loss has grown at some shares of mistakes."""
    at = (10, 50, 90)
    table = [
        f"| Panel | Loss | {' | '.join(f'q = {place / 100}' for place in at)} |",
        "|---|---|---|---|---|",
    ]
    for panel in shapes(results):
        for line in panel.lines:
            values = " | ".join(f"{line.y[place]:.3f}" for place in at)
            table.append(f"| {panel.title} | {line.series} | {values} |")
    return table


def cells_of(results: Results) -> Iterator[tuple[str, bool, Cell]]:
    """The rows that have curves: name, whether the paper lacks it, and its cell."""
    for data, row in results.plan.cells():
        cell = results.cells[data.name, row.name]
        if cell.curves:
            yield row.name, row.extra, cell


def middle(cell: Cell, column: str) -> tuple[float, ...]:
    """The median over repetitions, epoch by epoch, as long as all of them went on."""
    return tuple(median(values) for values in zip(*(one[column] for one in cell.curves), strict=False))


def convergence(results: Results) -> tuple[Panel, ...]:
    """Figures 2 and 5: scores over epochs."""
    panels = []
    for letter, column in zip("abc", ("train F1", "validation F1", "test accuracy"), strict=True):
        lines = []
        for name, _, cell in cells_of(results):
            every = [middle(cell, column), *(tuple(one[column]) for one in cell.curves)]
            lines += [Line(name, tuple(range(1, len(y) + 1)), y, number) for number, y in enumerate(every)]
        panels.append(Panel(f"({letter}) {column}", "epoch", column, tuple(lines)))
    return tuple(panels)


def reached(curve: Sequence[float], share: float = 0.9) -> int:
    """The first epoch with so much of the best value of a curve.

    >>> reached([0.1, 0.5, 0.96, 1.0])
    3
    """
    return next(epoch for epoch, value in enumerate(curve, 1) if value >= share * max(curve))


def convergence_numbers(results: Results) -> list[str]:
    """Where the curves lead."""
    columns = ("train F1", "train precision", "train recall", "test F1", "test accuracy")
    table = [
        f"| Loss | best validation F1 | epochs to 90 % of the best train F1 | {' | '.join(columns)} |",
        f"|---|---|---|{'---|' * len(columns)}",
    ]
    for name, extra, cell in cells_of(results):
        last = [median(middle(cell, column)[-LAST:]) for column in columns]
        best, epochs = max(middle(cell, "validation F1")), reached(middle(cell, "train F1"))
        values = " | ".join(f"{value:.3f}" for value in last)
        table.append(f"| {name}{' (extra)' if extra else ''} | {best:.3f} | {epochs} | {values} |")
    said = (
        f"Medians over repetitions; the last {len(columns)} columns are medians over the last {LAST} epochs."
    )
    return [*table, "", said]


def scatter(results: Results, family: str) -> tuple[Panel, ...]:
    """Figures 3, 4, 6 and 7: the loss and the score of the same beta, a point for every epoch."""
    panels = []
    for letter, beta in zip("abcd", BETAS, strict=True):
        lines = tuple(
            Line(name, tuple(one["running loss"]), tuple(one[f"running F{beta:g}"]), number)
            for name, _, cell in cells_of(results)
            if name == f"{family} F{beta:g}"
            for number, one in enumerate(cell.curves, 1)
        )
        panels.append(
            Panel(
                f"({letter}) beta = {beta:g}",
                "loss in an epoch of training",
                f"F{beta:g} in an epoch of training",
                lines,
            )
        )
    return tuple(panels)


def coefficients(
    cell: Cell, beta: float, of: str = "running", log: bool = False, balanced: bool = False
) -> list[float]:
    """The correlation of loss and F-beta on the training part, one for each repetition.

    They are those in the epochs of training, or with `of="train"` those after each epoch. With `log` it is
    that of the logarithm of the score, over the epochs in which it is above 0; `balanced` takes the score
    of balanced classes.
    """
    found = []
    for one in cell.curves:
        scores = one[f"{of} F{beta:g}"]
        if balanced:
            scores = [
                balanced_fbeta(*pair, beta)
                for pair in zip(one[f"{of} precision"], one[f"{of} recall"], strict=True)
            ]
        pairs = list(zip(one[f"{of} loss"], scores, strict=True))
        if log:
            pairs = [(loss, math.log(score)) for loss, score in pairs if score > 0]
        found.append(correlation(*zip(*pairs, strict=True)) if pairs else math.nan)
    return found


def balanced_fbeta(precision: float, recall: float, beta: float, rate: float = RATE) -> float:
    """F-beta if positives were as many as negatives, of a share `rate` of positives; 0 without a hit.

    F-beta = (1 + beta^2) r / (r + f + beta^2), with the share of negatives taken
    f = r rate (1 - p) / ((1 - rate) p).

    >>> round(balanced_fbeta(0.5, 0.8, 1.0, rate=0.5) - 2 * 0.5 * 0.8 / 1.3, 12)
    0.0
    >>> round(balanced_fbeta(0.5, 0.9, 1.0), 3)
    0.9
    """
    if recall <= 0:
        return 0.0
    taken = recall * rate * (1 - precision) / ((1 - rate) * precision)
    return (1 + beta**2) * recall / (recall + taken + beta**2)


def scatter_numbers(results: Results, family: str) -> list[str]:
    """The coefficients of every loss with the score of every beta; the paper's pairs are bold."""
    heads = [f"F{beta:g} score" for beta in BETAS]
    heads += ["bold, log of the score", "bold, balanced classes"]
    heads += ["bold, after each epoch", "bold, after each epoch, balanced classes"]
    table = [f"| Loss | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name, extra, cell in cells_of(results):
        own = next((beta for beta in BETAS if name.removeprefix("weighted ") == f"{family} F{beta:g}"), None)
        if own is None and name not in ("MAE", "BCE"):
            continue
        found = [_several(coefficients(cell, beta)) for beta in BETAS]
        if own is None:
            table.append(f"| {name} (extra) | {' | '.join(found)} |  |  |  |  |")
            continue
        found[BETAS.index(own)] = f"**{found[BETAS.index(own)]}**"
        found.append(_several(coefficients(cell, own, log=True)))
        found.append(_several(coefficients(cell, own, balanced=True)))
        found.append(_several(coefficients(cell, own, of="train")))
        found.append(_several(coefficients(cell, own, of="train", balanced=True)))
        table.append(f"| {name}{' (extra)' if extra else ''} | {' | '.join(found)} |")
    said = (
        "Correlation of loss and score over the epochs: the first repetition, and in brackets the lowest and "
        "the highest of all repetitions. The surrogate is made to match the gradient of the logarithm of "
        "F-beta (eq. 11, 12 and 22), hence the logarithm. Balanced classes: the F-beta that the same recalls "
        "of both classes would have if there were as many positives as negatives."
    )
    return [*table, "", said]


def _several(values: Sequence[float]) -> str:
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "constant"
    spread = f" ({min(known):.2f} to {max(known):.2f})" if len(values) > 1 else ""
    return f"{values[0]:.2f}{spread}"
