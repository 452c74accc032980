"""The figures of Lee et al. (2021), the surrogate F-beta loss."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from evalign.papers._figure import Claim, Figure
from evalign.papers._lee_claims import (
    accuracy_misleads,
    convergence_claims,
    scatter_claims,
    shapes_claims,
)
from evalign.papers._lee_panels import (
    BETAS,
    convergence,
    convergence_numbers,
    scatter,
    scatter_numbers,
    shapes,
    shapes_numbers,
)
from evalign.papers._results import Results
from evalign.papers._table import Column, Data, Row, Scale, Table

CITATION = (
    "Lee, Yang and Yoo (2021), A surrogate loss function for optimization of F-beta score in binary "
    "classification with imbalanced data, arXiv 2104.01459."
)

ROWS = (
    *(Row(f"surrogate F{beta:g}", "surrogate", {"beta": beta}) for beta in BETAS),
    *(Row(f"soft F{beta:g}", "soft fbeta", {"beta": beta}) for beta in BETAS),
    *(Row(f"weighted soft F{beta:g}", "balanced soft fbeta", {"beta": beta}, extra=True) for beta in BETAS),
    Row("MAE", "balanced mae"), Row("BCE", "balanced ce", extra=True),
)  # fmt: skip
COLUMNS = (
    *(column for of in ("running", "train") for column in (
        Column(f"{of} loss", "loss", f"{of} epochs"),
        *(Column(f"{of} F{beta:g}", f"fbeta(beta={beta:g})", f"{of} epochs") for beta in BETAS),
        Column(f"{of} precision", "precision", f"{of} epochs", extra=True),
        Column(f"{of} recall", "recall", f"{of} epochs", extra=True),
    )),
    Column("validation F1", "f1", "valid epochs"), Column("test accuracy", "accuracy", "test epochs"),
    Column("test F1", "f1", "test epochs", extra=True),
)  # fmt: skip

#: Section 5.1: no grid, no early stopping.
PAPER = {"lr": 0.01, "batch_size": 100, "max_epochs": 120}
SMALL = {**PAPER, "max_epochs": 40, "network": "darknet_tiny", "shrink": 2, "rows": 2000}

NOTES = (
    "Stochastic gradient descent with momentum 0.9 and weight decay 0.0001, as in the paper; images shifted "
    "by up to 4 pixels and mirrored; a tenth of the training part, drawn for each repetition, validates.",
    "At scale small Tiny Darknet stands in for the ResNet, images are shrunk to 16 x 16 pixels, and 2,000 of "
    "them are used, test part included, for 40 epochs in place of 120. A repetition takes some 600 steps, "
    "the paper's 65,000 (54,000 with CIFAR-10): look at the shape of a curve, not at its end.",
    "The paper does not say which first layer its ResNet has: here, at scale full, it is the 7 x 7 "
    "convolution of the original.",
    "The paper says that it weighs the classes in all losses. The macro soft F-beta loss (eq. 23 and 24) has "
    "the share of positives in its formula: 'soft' is as printed, 'weighted soft' counts every row n / n_y "
    "times, which makes it the F-beta of balanced classes.",
)


def _study(name: str, data: Data) -> Table:
    return Table(name, f"runs for the figures on {data.title}", CITATION, (data,), ROWS, COLUMNS,
                 full=Scale(5, PAPER), small=Scale(3, SMALL))  # fmt: skip


NOTHING = Table("lee-formulas", "formulas", CITATION, (), (), (), Scale(0, {}), Scale(0, {}))
FASHION = _study("lee-fashion", Data("fashion_mnist_tshirt", "Fashion-MNIST, T-shirt/top", "resnet18"))
PLANES = _study("lee-cifar10", Data("cifar10_airplane", "CIFAR-10, airplane", "resnet34"))


def _convergence(number: int, study: Table, claims: Callable[[Results], list[Claim]]) -> Figure:
    return Figure(
        f"lee-figure{number}", f"convergence by loss: {study.data[0].title} against the rest",
        f"{CITATION} Figure {number}.", "convergence", study, convergence, convergence_numbers,
        claims,
        (*NOTES, "The paper leaves BCE out, since it made no progress there; here it is drawn.",
                 "Scores are of whole parts after each epoch, without shifts and mirroring."),
    )  # fmt: skip


def _scatter(number: int, study: Table, family: str, name: str, linear: bool) -> Figure:
    return Figure(
        f"lee-figure{number}", f"{name} against F-beta score: {study.data[0].title} against the rest",
        f"{CITATION} Figure {number}.", "scatter", study, partial(scatter, family=family),
        partial(scatter_numbers, family=family), partial(scatter_claims, family=family, linear=linear),
        (*NOTES, "A point is an epoch of the first repetition, and the loss is the one that is trained on, "
                 "with the beta of the score. The table has all repetitions, and scores of other betas.",
                 "The paper does not say whether loss and score on the training part are taken while an "
                 "epoch is trained or after it. Here they are of all batches of an epoch, as the network saw "
                 "and judged them; the table has also those of the whole part after each epoch, without "
                 "shifts and mirroring, by the running means of batch normalisation."),
    )  # fmt: skip


FIGURES = (
    Figure(
        "lee-figure1", "the shapes of the losses", f"{CITATION} Figure 1.", "shapes", NOTHING,
        shapes, shapes_numbers, shapes_claims,
        ("If all positives have the same probability, and all negatives, a class-balanced loss is a function "
         "of the share q0 of positives that is missed plus one of the share q1 of negatives that is taken. "
         "Each is drawn from evalign's own losses of one row, and MAE at half its size, as in the paper.",
         "Curves of the negatives are moved to start at 0. Panel (c) is not in the paper: the share of "
         "positives that the other figures have."),
    ),
    _convergence(2, FASHION, convergence_claims),
    _scatter(3, FASHION, "surrogate", "surrogate F-beta loss", linear=True),
    _scatter(4, FASHION, "soft", "macro soft F-beta loss", linear=False),
    _convergence(5, PLANES, accuracy_misleads),
    _scatter(6, PLANES, "surrogate", "surrogate F-beta loss", linear=True),
    _scatter(7, PLANES, "soft", "macro soft F-beta loss", linear=False),
)  # fmt: skip
