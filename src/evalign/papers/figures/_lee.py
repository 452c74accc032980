"""The figures of Lee et al. (2021), the surrogate F-beta loss."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from evalign.papers.figures._figure import Claim, PaperFigure
from evalign.papers.figures._lee_claims import (
    accuracy_claims,
    convergence_claims,
    scatter_claims,
    shapes_claims,
)
from evalign.papers.figures._lee_panels import (
    BETAS,
    convergence,
    convergence_numbers,
    scatter,
    scatter_numbers,
    shapes,
    shapes_numbers,
)
from evalign.papers.studies import StudyResults
from evalign.papers.tables import PaperColumn, PaperData, PaperRow, PaperTable, Scale

CITATION = (
    "Lee, Yang and Yoo (2021), A surrogate loss function for optimization of F-beta score in binary "
    "classification with imbalanced data, arXiv 2104.01459."
)

ROWS = (
    *(PaperRow(f"surrogate F{beta:g}", "surrogate", {"beta": beta}) for beta in BETAS),
    *(PaperRow(f"soft F{beta:g}", "soft fbeta", {"beta": beta}) for beta in BETAS),
    *(
        PaperRow(f"weighted soft F{beta:g}", "balanced soft fbeta", {"beta": beta}, extra=True)
        for beta in BETAS
    ),
    PaperRow("MAE", "balanced mae"),
    PaperRow("BCE", "balanced ce", extra=True),
)
COLUMNS = (
    *(column for of in ("running", "train") for column in (
        PaperColumn(f"{of} loss", "loss", f"{of} epochs"),
        *(PaperColumn(f"{of} F{beta:g}", f"fbeta(beta={beta:g})", f"{of} epochs") for beta in BETAS),
        PaperColumn(f"{of} precision", "precision", f"{of} epochs", extra=True),
        PaperColumn(f"{of} recall", "recall", f"{of} epochs", extra=True),
    )),
    PaperColumn("validation F1", "f1", "valid epochs"),
    PaperColumn("test accuracy", "accuracy", "test epochs"),
    PaperColumn("test F1", "f1", "test epochs", extra=True),
)  # fmt: skip

#: Section 5.1: no grid, no early stopping.
PAPER = {"learning_rate": 0.01, "batch_size": 100, "max_epochs": 120}
#: With the paper's learning rate and so few images, surrogates get stuck at predicting every row as positive.
MEDIUM = {
    **PAPER, "learning_rate": 0.001, "max_epochs": 40, "network": "resnet18", "rows": 3000,
    "precision": "mixed",
}  # fmt: skip
#: Losses that are not in the paper are left out at scale medium, except BCE.
WEIGHTED = tuple(("", f"weighted soft F{beta:g}") for beta in BETAS)
SMALL = {**PAPER, "max_epochs": 40, "network": "darknet_tiny", "shrink": 2, "rows": 2000}

NOTES = (
    "Stochastic gradient descent with momentum 0.9 and weight decay 0.0001, as in the paper; images are "
    "shifted by up to 4 pixels and mirrored; a tenth of the training part, drawn anew for each repetition, "
    "is used for validation.",
    "At scale small the ResNet is replaced by Tiny Darknet, images are shrunk to 16 x 16 pixels, and 2,000 "
    "of them are used, including the test part, for 40 epochs instead of 120. A repetition takes about 600 "
    "steps, in the paper 65,000 (54,000 with CIFAR-10): compare the shapes of curves, not their ends.",
    "At scale medium the network is ResNet-18 for both datasets, on 3,000 images for 40 epochs, once for "
    "each loss; 'weighted soft' is left out. The learning rate is 0.001 instead of 0.01: with 0.01, "
    "surrogates get stuck at predicting every row as positive. Hidden layers are computed in bfloat16 while "
    "the network is trained, unless the processor has no instructions for it.",
    "The paper does not specify the first layer of its ResNet: here, at scale full, it is the 7 x 7 "
    "convolution of the original.",
    "According to the paper all losses use class weights. The macro soft F-beta loss (eq. 23 and 24) already "
    "has the share of positives in its formula: 'soft' is as printed, 'weighted soft' counts every row n / "
    "n_y times, which makes it the F-beta of balanced classes.",
)


def _study(name: str, data: PaperData) -> PaperTable:
    title = f"training runs for the figures on {data.title}"
    return PaperTable(
        name, title, CITATION, (data,), ROWS, COLUMNS,
        full=Scale(5, PAPER), small=Scale(3, SMALL), medium=Scale(1, MEDIUM, skip=WEIGHTED),
    )  # fmt: skip


FORMULAS = PaperTable("lee-formulas", "formulas", CITATION, (), (), (), Scale(0, {}), Scale(0, {}))
FASHION = _study("lee-fashion", PaperData("fashion_mnist_tshirt", "Fashion-MNIST, T-shirt/top", "resnet18"))
PLANES = _study("lee-cifar10", PaperData("cifar10_airplane", "CIFAR-10, airplane", "resnet34"))


def _convergence(
    number: int, study: PaperTable, claims: Callable[[StudyResults], list[Claim]]
) -> PaperFigure:
    return PaperFigure(
        f"lee-figure{number}", f"convergence by loss: {study.data[0].title} against the rest",
        f"{CITATION} Figure {number}.", "convergence", study, convergence, convergence_numbers,
        claims,
        (*NOTES, "The paper omits BCE, since it made no progress there; here it is drawn.",
                 "Scores are computed on whole parts after each epoch, without shifts and mirroring."),
    )  # fmt: skip


def _scatter(number: int, study: PaperTable, family: str, name: str, linear: bool) -> PaperFigure:
    return PaperFigure(
        f"lee-figure{number}", f"{name} against F-beta score: {study.data[0].title} against the rest",
        f"{CITATION} Figure {number}.", "scatter", study, partial(scatter, family=family),
        partial(scatter_numbers, family=family), partial(scatter_claims, family=family, linear=linear),
        (*NOTES, "Each point is an epoch of the first repetition, and the loss is the one that is minimised, "
                 "with the beta of the score. The table has all repetitions and the scores of other betas.",
                 "The paper does not specify whether loss and score on the training part are taken during or "
                 "after an epoch. Here they are computed from the network's outputs on all batches during an "
                 "epoch; the table also has those of the whole part after each epoch, without shifts and "
                 "mirroring and with the running means of batch normalisation."),
    )  # fmt: skip


FIGURES = (
    PaperFigure(
        "lee-figure1", "the shapes of the losses", f"{CITATION} Figure 1.", "shapes", FORMULAS,
        shapes, shapes_numbers, shapes_claims,
        ("If all positives have the same probability, and all negatives too, a class-balanced loss is the "
         "sum of a function of the share q0 of positives predicted as negative and one of the share q1 of "
         "negatives predicted as positive. Each is computed with evalign's losses of one row; MAE is drawn "
         "at half its size, as in the paper.",
         "The curves of the negatives are shifted to start at 0. Panel (c), with the share of positives of "
         "the other figures, is not in the paper."),
    ),
    _convergence(2, FASHION, convergence_claims),
    _scatter(3, FASHION, "surrogate", "surrogate F-beta loss", linear=True),
    _scatter(4, FASHION, "soft", "macro soft F-beta loss", linear=False),
    _convergence(5, PLANES, accuracy_claims),
    _scatter(6, PLANES, "surrogate", "surrogate F-beta loss", linear=True),
    _scatter(7, PLANES, "soft", "macro soft F-beta loss", linear=False),
)  # fmt: skip
