"""The named metrics, and what else people call them."""

from __future__ import annotations

import re
from collections.abc import Callable

from evalign._errors import expected, suggest
from evalign.metrics import _named
from evalign.metrics._metric import Metric
from evalign.metrics._ranking import auroc, average_precision

#: Every named metric, by the name used in Python, in texts and on the command line.
NAMED: dict[str, Callable[..., Metric]] = {
    factory.__name__: factory
    for factory in (
        _named.accuracy, _named.balanced_accuracy, _named.precision, _named.recall,
        _named.specificity, _named.fbeta, _named.f1, _named.jaccard, _named.gmean, _named.mcc,
        _named.cohen_kappa, _named.informedness, _named.cost, auroc, average_precision,
    )
}  # fmt: skip

#: How to write what is known by another name.
OTHER_NAMES = {
    "acc": "accuracy", "ap": "average_precision", "auc": "auroc", "auc_pr": "average_precision",
    "auc_roc": "auroc", "auprc": "average_precision", "bacc": "balanced_accuracy", "dice": "f1",
    "error_rate": "1 - accuracy()", "f": "f1", "f_beta": "fbeta", "false_negative_rate": "1 - recall()",
    "false_positive_rate": "1 - specificity()", "fnr": "1 - recall()", "fpr": "1 - specificity()",
    "g_mean": "gmean", "iou": "jaccard", "kappa": "cohen_kappa", "map": "average_precision",
    "matthews": "mcc",
    "matthews_corrcoef": "mcc", "mean_iou": "jaccard(average='macro')", "mean_recall": "balanced_accuracy",
    "miou": "jaccard(average='macro')", "npv": "precision(positive=0)", "ppv": "precision",
    "pr_auc": "average_precision", "quadratic_kappa": "cohen_kappa(weights='quadratic')",
    "quadratic_weighted_kappa": "cohen_kappa(weights='quadratic')",
    "qwk": "cohen_kappa(weights='quadratic')", "roc_auc": "auroc", "selectivity": "specificity",
    "sensitivity": "recall", "tnr": "specificity", "tpr": "recall", "true_negative_rate": "specificity",
    "true_positive_rate": "recall", "weighted_kappa": "cohen_kappa(weights='quadratic')",
    "youden": "informedness", "zero_one_loss": "1 - accuracy()",
}  # fmt: skip

_AVERAGED = re.compile(r"(macro|micro|weighted)_(.+)|(.+)_(macro|micro|weighted)")


def explain_name(name: str, text: str) -> ValueError:
    """The error for an unknown name in a text, with the spelling that was probably meant.

    >>> print(explain_name("macro_f1", "macro_f1"))
    Expected `metric` to be a known name, but got 'macro_f1'. Did you mean "f1(average='macro')"?
    """
    reason = _explain_scores(_normalize(name))
    if reason:
        return expected("metric", "to be a function of the confusion matrix", repr(text), reason)
    whole = find_spelling(text)
    spelling = whole or find_spelling(name)
    hint = suggest(name, NAMED) if spelling is None else f"Did you mean {spelling!r}?"
    got = repr(text) if whole or name == text.strip() else f"{name!r} in {text!r}"
    return expected("metric", "to be a known name", got, hint)


def find_spelling(name: str) -> str | None:
    """How a metric with another name is written, or None if that is unknown.

    >>> find_spelling("F0.5"), find_spelling("mean IoU"), find_spelling("recall_micro"), find_spelling("x")
    ('fbeta(beta=0.5)', "jaccard(average='macro')", "recall(average='micro')", None)
    """
    key = _normalize(name)
    if key in NAMED:
        return key
    if key in OTHER_NAMES:
        return OTHER_NAMES[key]
    beta = re.fullmatch(r"f_?(\d(?:\.\d+)?)", key)
    if beta:
        return f"fbeta(beta={beta[1]})"
    averaged = _AVERAGED.fullmatch(key)
    if averaged is None:
        return None
    average = averaged[1] or averaged[4]
    base = find_spelling(averaged[2] or averaged[3])
    if base is None or " " in base or "average" in base:
        return None
    arguments = base.removesuffix(")").partition("(")[2]
    separator = ", " if arguments else ""
    return f"{base.partition('(')[0]}({arguments}{separator}average={average!r})"


def is_other_name(text: str) -> bool:
    """Whether a text is a known name of something that is written differently here.

    >>> is_other_name("balanced accuracy"), is_other_name("top-5 accuracy"), is_other_name("tp +")
    (True, True, False)
    """
    return find_spelling(text) is not None or _explain_scores(_normalize(text)) != ""


def _explain_scores(key: str) -> str:
    """Why something is not a function of the predicted classes; empty if it may be one."""
    if re.fullmatch(r"top_?(\d+|k)(_acc\w*)?", key):
        what, where = "Top-k accuracy depends on the rank of the true class", "top_k_accuracy_score"
    elif key in ("log_loss", "logloss", "cross_entropy"):
        what, where = "The log-loss depends on the probabilities", "log_loss"
    elif key in ("brier", "brier_score_loss"):
        what, where = "The Brier score depends on the probabilities", "brier_score_loss"
    else:
        return ""
    advice = f"Train with cross-entropy, and score with sklearn.metrics.{where}."
    return f"{what}, not only on the predicted class. {advice}"


def _normalize(name: str) -> str:
    key = re.sub(r"[\s_-]+", "_", re.sub(r"\([^()]*\)$", "", name.strip())).casefold()
    return key.removesuffix("_score")
