"""What Lee et al. (2021) read in their figures, and whether it holds for the runs at hand."""

from __future__ import annotations

from statistics import median
from typing import Any

from evalign.papers._figure import Claim
from evalign.papers._lee_panels import BETAS, LAST, cells_of, coefficients, middle, reached, shapes
from evalign.papers._results import Cell, Results

#: What "linear" is taken to mean.
LINEAR = -0.9


def shapes_claims(results: Results) -> list[Claim]:
    """What the paper reads in figure 1."""
    first, second, _ = ({line.series: line.y for line in panel.lines} for panel in shapes(results))
    apart = max(abs(a - b) for a, b in zip(first["BCE"], first["surrogate"], strict=True))
    rise = {name: values[-1] for name, values in second.items()}
    order = [rise[f"surrogate F{beta:g}"] for beta in BETAS]
    return [
        Claim("On the positives the surrogate is BCE.", f"They differ by at most {apart:.0e}.", apart < 1e-9),
        Claim(
            "On the negatives it is unlike the others: it rises ever more slowly.",
            f"At q = 0.99, P = 0.5 and beta = 1 it is {rise['surrogate F1']:.2f}, MAE {rise['MAE']:.2f}, "
            f"BCE {rise['BCE']:.2f}.",
            rise["surrogate F1"] < rise["MAE"] < rise["BCE"],
        ),
        Claim(
            "The larger beta, the smaller the rise.",
            f"{', '.join(f'{value:.2f}' for value in order)} for beta = 0.5, 1, 2, 3.",
            order == sorted(order, reverse=True),
        ),
    ]


def convergence_claims(results: Results) -> list[Claim]:
    """What the paper reads in figure 2 (section 5.2)."""
    cells = {name: cell for name, _, cell in cells_of(results)}
    epochs = _epochs(cells)
    slow = min(epochs["surrogate F2"], epochs["surrogate F3"])
    fast = max(epochs["surrogate F0.5"], epochs["surrogate F1"])
    bce = max(middle(cells["BCE"], "train F1"))
    return [
        Claim(
            "Surrogates with beta 2 and 3 need more epochs than those with a smaller beta.",
            f"Epochs to 90 % of the best train F1: {_listed(epochs, 'surrogate')}.",
            slow > fast,
        ),
        Claim("Class-balanced BCE makes no progress.", f"Its train F1 reaches {bce:.3f}.", bce < 0.3),
    ]


def accuracy_misleads(results: Results) -> list[Claim]:
    """What the paper reads in figure 5 (section 5.3)."""
    cells = {name: cell for name, _, cell in cells_of(results)}
    epochs = _epochs(cells)
    fast = median(_of(epochs, "surrogate").values())
    slow = min(epochs["MAE"], epochs["BCE"])
    best = {name: max(middle(cell, "validation F1")) for name, cell in cells.items()}
    ends = {name: median(middle(cell, "test accuracy")[-LAST:]) for name, cell in cells.items()}
    first, top = (max(values, key=values.__getitem__) for values in (best, ends))
    families = {family: max(_of(best, family).values()) for family in ("surrogate", "soft")}
    recall = median(middle(cells[top], "train recall")[-LAST:])
    return [
        Claim(
            "Surrogates converge faster than the others, macro soft F1 excepted.",
            f"Epochs to 90 % of the best train F1: {_listed(epochs, 'surrogate')}; MAE {epochs['MAE']}, "
            f"BCE {epochs['BCE']}.",
            fast < slow,
        ),
        Claim(
            "A macro soft loss has the best accuracy, 0.9, by calling everything negative.",
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
    return {name: reached(middle(cell, "train F1")) for name, cell in cells.items()}


def _of(values: dict[str, Any], family: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name.startswith(family)}


def _listed(values: dict[str, int], family: str) -> str:
    return ", ".join(f"{name} {value}" for name, value in _of(values, family).items())


def scatter_claims(results: Results, family: str, linear: bool) -> list[Claim]:
    """Whether loss and score lie on a line, as the paper says of its loss and not of the other."""
    if linear:
        told = f"Loss and score are linearly related for every beta (taken as a coefficient up to {LINEAR})."
        weighed = "The same with the F-beta of balanced classes, for which class weights make the loss ask."
        after = "The same with loss and score of the whole training part after each epoch."
        every = range(len(BETAS), len(BETAS) + 1)
        return [
            _lines(results, family, told, every),
            _lines(results, family, weighed, every, balanced=True),
            _lines(results, family, after, every, of="train"),
        ]
    told = (
        "Loss and score are not linearly related, except for a few beta (taken as a coefficient above "
        f"{LINEAR} for at least two of the four)."
    )
    few = range(len(BETAS) // 2 + 1)
    weighted = "The same, with the class weights that the paper says all its losses have."
    return [_lines(results, family, told, few), _lines(results, f"weighted {family}", weighted, few)]


def _lines(results: Results, kind: str, told: str, allowed: range, **how: Any) -> Claim:
    """A claim of how many of the losses of a kind are linear, in the first repetition."""
    cells = {name: cell for name, _, cell in cells_of(results)}
    found = [coefficients(cells[f"{kind} F{beta:g}"], beta, **how) for beta in BETAS]
    first, every = [values[0] for values in found], [value for values in found for value in values]
    said = f"The coefficients are {', '.join(f'{value:.3f}' for value in first)} for beta = 0.5, 1, 2, 3; of "
    said += f"all {len(every)} runs, at {LINEAR} or below: {sum(value <= LINEAR for value in every)}."
    return Claim(told, said, sum(value <= LINEAR for value in first) in allowed)
