"""The claims of Lee et al. (2021) about their figures, and whether they hold for our results."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from evalign.papers.figures._figure import Claim
from evalign.papers.figures._lee_panels import (
    BETAS,
    LAST,
    cells_with_curves,
    coefficients,
    epochs_to_share,
    median_curve,
    shapes,
)
from evalign.papers.studies import Cell, StudyResults

#: A relation counts as linear if its correlation coefficient is at most this.
LINEAR = -0.9


def shapes_claims(results: StudyResults) -> list[Claim]:
    """The claims about figure 1."""
    first, second, _ = ({line.series: line.y for line in panel.lines} for panel in shapes(results))
    gap = max(abs(a - b) for a, b in zip(first["BCE"], first["surrogate"], strict=True))
    rise = {name: values[-1] for name, values in second.items()}
    order = [rise[f"surrogate F{beta:g}"] for beta in BETAS]
    return [
        Claim("On the positives the surrogate equals BCE.", f"They differ by at most {gap:.0e}.", gap < 1e-9),
        Claim(
            "On the negatives it differs from the others: it rises more and more slowly.",
            f"At q = 0.99, P = 0.5 and beta = 1 it is {rise['surrogate F1']:.2f}, MAE {rise['MAE']:.2f}, "
            f"BCE {rise['BCE']:.2f}.",
            rise["surrogate F1"] < rise["MAE"] < rise["BCE"],
        ),
        Claim(
            "The larger beta is, the smaller the rise.",
            f"{', '.join(f'{value:.2f}' for value in order)} for beta = 0.5, 1, 2, 3.",
            order == sorted(order, reverse=True),
        ),
    ]


def convergence_claims(results: StudyResults) -> list[Claim]:
    """The claims about figure 2 (section 5.2)."""
    cells = {name: cell for name, _, cell in cells_with_curves(results)}
    epochs = _epochs(cells)
    slow = min(epochs["surrogate F2"], epochs["surrogate F3"])
    fast = max(epochs["surrogate F0.5"], epochs["surrogate F1"])
    bce = max(median_curve(cells["BCE"], "train F1"))
    return [
        _judge(
            "Surrogates with beta 2 and 3 need more epochs than those with a smaller beta.",
            f"Epochs to 90 % of the best train F1: {_format_family(epochs, 'surrogate')}.",
            slow > fast,
            _in_family(cells, "surrogate"),
        ),
        Claim("Class-balanced BCE makes no progress.", f"Its train F1 reaches {bce:.3f}.", bce < 0.3),
    ]


def accuracy_claims(results: StudyResults) -> list[Claim]:
    """The claims about figure 5 (section 5.3)."""
    cells = {name: cell for name, _, cell in cells_with_curves(results)}
    epochs = _epochs(cells)
    fast = median(_in_family(epochs, "surrogate").values())
    slow = min(epochs["MAE"], epochs["BCE"])
    best = {name: max(median_curve(cell, "validation F1")) for name, cell in cells.items()}
    ends = {name: median(median_curve(cell, "test accuracy")[-LAST:]) for name, cell in cells.items()}
    first, top = (max(values, key=values.__getitem__) for values in (best, ends))
    families = {family: max(_in_family(best, family).values()) for family in ("surrogate", "soft")}
    recall = median(median_curve(cells[top], "train recall")[-LAST:])
    return [
        _judge(
            "Surrogates converge faster than the others, except macro soft F1.",
            f"Epochs to 90 % of the best train F1: {_format_family(epochs, 'surrogate')}; "
            f"MAE {epochs['MAE']}, BCE {epochs['BCE']}.",
            fast < slow,
            _in_family(cells, "surrogate"),
        ),
        Claim(
            "A macro soft loss has the best accuracy, 0.9, by predicting every row as negative.",
            f"The best is {top} with {ends[top]:.3f}; its recall on the training part is {recall:.3f}.",
            top.startswith("soft") and recall < 0.05,
        ),
        Claim(
            "A surrogate has the best F1 on the validation part.",
            f"The best is {first} with {best[first]:.3f}; surrogates reach {families['surrogate']:.3f}, "
            f"macro soft losses {families['soft']:.3f}, MAE {best['MAE']:.3f}, BCE {best['BCE']:.3f}.",
            first.startswith("surrogate"),
        ),
    ]


def _epochs(cells: dict[str, Cell]) -> dict[str, int]:
    return {name: epochs_to_share(median_curve(cell, "train F1")) for name, cell in cells.items()}


def _in_family(values: dict[str, Any], family: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name.startswith(family)}


def _format_family(values: dict[str, int], family: str) -> str:
    return ", ".join(f"{name} {value}" for name, value in _in_family(values, family).items())


def scatter_claims(results: StudyResults, family: str, linear: bool) -> list[Claim]:
    """Whether loss and score are linearly related, as the paper claims for its loss but not for the other."""
    if linear:
        during = f"Loss and score are linearly related for every beta (a coefficient of at most {LINEAR})."
        balanced = "The same with the F-beta of balanced classes, which the loss with class weights targets."
        after = "The same with loss and score of the whole training part after each epoch."
        every = range(len(BETAS), len(BETAS) + 1)
        return [
            _linearity_claim(results, family, during, every),
            _linearity_claim(results, family, balanced, every, balanced=True),
            _linearity_claim(results, family, after, every, source="train"),
        ]
    plain = (
        "Loss and score are not linearly related, except for a few values of beta (a coefficient above "
        f"{LINEAR} for at least two of the four)."
    )
    few = range(len(BETAS) // 2 + 1)
    weighted = "The same with class weights, which the paper states that all its losses have."
    has_weighted = any(name.startswith(f"weighted {family}") for name, _, _ in cells_with_curves(results))
    return [
        _linearity_claim(results, family, plain, few),
        *([_linearity_claim(results, f"weighted {family}", weighted, few)] if has_weighted else []),
    ]


def _linearity_claim(results: StudyResults, kind: str, text: str, allowed: range, **options: Any) -> Claim:
    """A claim about how many losses of a kind are linear in the first repetition."""
    cells = {name: cell for name, _, cell in cells_with_curves(results)}
    by_beta = [coefficients(cells[f"{kind} F{beta:g}"], beta, **options) for beta in BETAS]
    first, every = [values[0] for values in by_beta], [value for values in by_beta for value in values]
    here = (
        f"The coefficients are {', '.join(f'{value:.3f}' for value in first)} for beta = 0.5, 1, 2, 3; "
        f"{sum(value <= LINEAR for value in every)} of all {len(every)} runs are at or below {LINEAR}."
    )
    holds = sum(value <= LINEAR for value in first) in allowed
    return _judge(text, here, holds, _in_family(cells, f"{kind} F"))


def _judge(text: str, here: str, holds: bool, cells: dict[str, Cell]) -> Claim:
    """A claim about losses, which cannot be judged if one of them is stuck at the end of training."""
    stuck = [name for name, cell in cells.items() if any(_is_stuck(run["train F1"]) for run in cell.curves)]
    if not stuck:
        return Claim(text, here, holds)
    return Claim(text, f"{here} Stuck at one prediction for all rows: {', '.join(stuck)}.", None)


def _is_stuck(scores: Sequence[float]) -> bool:
    """Whether the last F1 scores of a run are all the same, and not perfect.

    >>> _is_stuck([0.2, 0.18] + [0.182] * 10), _is_stuck([0.2, 0.4, 0.4, 0.5])
    (True, False)
    """
    last = set(scores[-LAST:])
    return len(last) == 1 and last.pop() < 1
