"""The panels of the figures of Lee et al. (2021), and the numbers behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

import torch
from torch import nn

from evalign.losses import FocalLoss, MAELoss, SurrogateFBetaLoss
from evalign.papers.figures._figure import Line, Panel, correlation
from evalign.papers.studies import Cell, StudyResults

BETAS = (0.5, 1.0, 2.0, 3.0)

#: The share of positives in both datasets.
RATE = 0.1

#: The number of epochs at the end of a curve over which its final value is taken.
LAST = 10


class _HalfLoss(nn.Module):
    """Half of a loss: the paper draws MAE, 2 q, as q."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.loss(logits, targets) / 2
        return value


def _surrogate(beta: float, rate: float) -> nn.Module:
    return SurrogateFBetaLoss(beta, rate, class_balanced=False)


def shape(loss: nn.Module, q: Sequence[float], positive: bool) -> tuple[float, ...]:
    """The loss of one row with probability 1 - q (positive) or q (negative), minus its value at q = 0."""
    probability = torch.tensor([0.0, *q], dtype=torch.float64)
    logits = (1 - probability if positive else probability).logit(1e-12)  # finite
    target = torch.tensor([float(positive)], dtype=torch.float64)
    start, *values = (float(loss(logit.view(1), target)) for logit in logits)
    return tuple(value - start for value in values)


def shapes(_: StudyResults) -> tuple[Panel, ...]:
    """Figure 1: the cost of a share of mistakes on the positives (a) and on the negatives (b, c)."""
    q = tuple(number / 100 for number in range(100))
    rows = {"BCE": FocalLoss(0, task="binary"), "MAE": _HalfLoss(MAELoss(task="binary"))}

    def lines(losses: dict[str, nn.Module], positive: bool) -> tuple[Line, ...]:
        return tuple(Line(name, q, shape(loss, q, positive)) for name, loss in losses.items())

    balanced, unbalanced = (
        {f"surrogate F{beta:g}": _surrogate(beta, rate) for beta in BETAS} for rate in (0.5, RATE)
    )
    positives = "share of positives predicted as negative, q0"
    negatives = "share of negatives predicted as positive, q1"
    return (
        Panel("(a) positives", positives, "loss", lines({**rows, "surrogate": _surrogate(1.0, 0.5)}, True)),
        Panel("(b) negatives, P = 0.5", negatives, "loss", lines({**rows, **balanced}, False)),
        Panel(f"(c) negatives, P = {RATE}", negatives, "loss", lines({**rows, **unbalanced}, False)),
    )


def shapes_numbers(results: StudyResults) -> list[str]:
    """The increase of each loss at some shares of mistakes."""
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


def cells_with_curves(results: StudyResults) -> Iterator[tuple[str, bool, Cell]]:
    """Yield the rows that have curves: the name, whether the row is not in the paper, and its cell."""
    for data, row in results.plan.cells():
        cell = results.cells[data.name, row.name]
        if cell.curves:
            yield row.name, row.extra, cell


def median_curve(cell: Cell, column: str) -> tuple[float, ...]:
    """The median over repetitions for each epoch that all of them reached."""
    return tuple(median(values) for values in zip(*(run[column] for run in cell.curves), strict=False))


def convergence(results: StudyResults) -> tuple[Panel, ...]:
    """Figures 2 and 5: scores over epochs."""
    panels = []
    for letter, column in zip("abc", ("train F1", "validation F1", "test accuracy"), strict=True):
        lines = []
        for name, _, cell in cells_with_curves(results):
            curves = [median_curve(cell, column), *(tuple(run[column]) for run in cell.curves)]
            lines += [Line(name, tuple(range(1, len(y) + 1)), y, number) for number, y in enumerate(curves)]
        panels.append(Panel(f"({letter}) {column}", "epoch", column, tuple(lines)))
    return tuple(panels)


def epochs_to_share(curve: Sequence[float], share: float = 0.9) -> int:
    """The first epoch in which a curve reaches this share of its best value.

    >>> epochs_to_share([0.1, 0.5, 0.96, 1.0])
    3
    """
    return next(epoch for epoch, value in enumerate(curve, 1) if value >= share * max(curve))


def convergence_numbers(results: StudyResults) -> list[str]:
    """The final and best values of the curves."""
    columns = ("train F1", "train precision", "train recall", "test F1", "test accuracy")
    table = [
        f"| Loss | best validation F1 | epochs to 90 % of the best train F1 | {' | '.join(columns)} |",
        f"|---|---|---|{'---|' * len(columns)}",
    ]
    for name, extra, cell in cells_with_curves(results):
        last = [median(median_curve(cell, column)[-LAST:]) for column in columns]
        best, epochs = (
            max(median_curve(cell, "validation F1")),
            epochs_to_share(median_curve(cell, "train F1")),
        )
        values = " | ".join(f"{value:.3f}" for value in last)
        table.append(f"| {name}{' (extra)' if extra else ''} | {best:.3f} | {epochs} | {values} |")
    explanation = f"The last {len(columns)} columns are medians over the last {LAST} epochs."
    if _count_repetitions(results) > 1:
        explanation = f"Medians over repetitions. {explanation}"
    return [*table, "", explanation]


def _count_repetitions(results: StudyResults) -> int:
    return max((len(cell.curves) for _, _, cell in cells_with_curves(results)), default=0)


def scatter(results: StudyResults, family: str) -> tuple[Panel, ...]:
    """Figures 3, 4, 6 and 7: the loss and the score of the same beta, one point per epoch."""
    panels = []
    for letter, beta in zip("abcd", BETAS, strict=True):
        lines = tuple(
            Line(name, tuple(run["running loss"]), tuple(run[f"running F{beta:g}"]), number)
            for name, _, cell in cells_with_curves(results)
            if name == f"{family} F{beta:g}"
            for number, run in enumerate(cell.curves, 1)
        )
        panels.append(
            Panel(
                f"({letter}) beta = {beta:g}",
                "loss during an epoch of training",
                f"F{beta:g} during an epoch of training",
                lines,
            )
        )
    return tuple(panels)


def coefficients(
    cell: Cell, beta: float, source: str = "running", log: bool = False, balanced: bool = False
) -> list[float]:
    """The correlation of loss and F-beta on the training part, one value per repetition.

    Both are taken during the epochs of training, or after each epoch with `source="train"`. `log` uses the
    logarithm of the score, over the epochs in which it is above 0; `balanced` uses the score of balanced
    classes.
    """
    values = []
    for run in cell.curves:
        scores = run[f"{source} F{beta:g}"]
        if balanced:
            scores = [
                balanced_fbeta(*pair, beta)
                for pair in zip(run[f"{source} precision"], run[f"{source} recall"], strict=True)
            ]
        pairs = list(zip(run[f"{source} loss"], scores, strict=True))
        if log:
            pairs = [(loss, math.log(score)) for loss, score in pairs if score > 0]
        values.append(correlation(*zip(*pairs, strict=True)) if pairs else math.nan)
    return values


def balanced_fbeta(precision: float, recall: float, beta: float, rate: float = RATE) -> float:
    """F-beta for balanced classes, from precision p and recall r at a share `rate` of positives.

    F-beta = (1 + beta^2) r / (r + f + beta^2), with the false positive rate
    f = r rate (1 - p) / ((1 - rate) p); it is 0 without true positives.

    >>> round(balanced_fbeta(0.5, 0.8, 1.0, rate=0.5) - 2 * 0.5 * 0.8 / 1.3, 12)
    0.0
    >>> round(balanced_fbeta(0.5, 0.9, 1.0), 3)
    0.9
    """
    if recall <= 0:
        return 0.0
    false_positive_rate = recall * rate * (1 - precision) / ((1 - rate) * precision)
    return (1 + beta**2) * recall / (recall + false_positive_rate + beta**2)


def scatter_numbers(results: StudyResults, family: str) -> list[str]:
    """The coefficients of every loss with the score of every beta; those shown in the paper are bold."""
    heads = [f"F{beta:g} score" for beta in BETAS]
    heads += ["bold, log of the score", "bold, balanced classes"]
    heads += ["bold, after each epoch", "bold, after each epoch, balanced classes"]
    table = [f"| Loss | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name, extra, cell in cells_with_curves(results):
        own = next((beta for beta in BETAS if name.removeprefix("weighted ") == f"{family} F{beta:g}"), None)
        if own is None and name not in ("MAE", "BCE"):
            continue
        texts = [_format_range(coefficients(cell, beta)) for beta in BETAS]
        if own is None:
            table.append(f"| {name} (extra) | {' | '.join(texts)} |  |  |  |  |")
            continue
        texts[BETAS.index(own)] = f"**{texts[BETAS.index(own)]}**"
        texts.append(_format_range(coefficients(cell, own, log=True)))
        texts.append(_format_range(coefficients(cell, own, balanced=True)))
        texts.append(_format_range(coefficients(cell, own, source="train")))
        texts.append(_format_range(coefficients(cell, own, source="train", balanced=True)))
        table.append(f"| {name}{' (extra)' if extra else ''} | {' | '.join(texts)} |")
    several = ": the first repetition, with the lowest and highest of all repetitions in brackets"
    which = several if _count_repetitions(results) > 1 else ""
    explanation = (
        f"Correlation of loss and score over the epochs{which}. The surrogate is designed to match the "
        "gradient of the logarithm of F-beta (eq. 11, 12 and 22), hence the logarithm. Balanced classes: the "
        "F-beta that the same recalls of both classes would give with as many positives as negatives."
    )
    return [*table, "", explanation]


def _format_range(values: Sequence[float]) -> str:
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "constant"
    spread = f" ({min(known):.2f} to {max(known):.2f})" if len(values) > 1 else ""
    return f"{values[0]:.2f}{spread}"
