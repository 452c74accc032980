"""Whether a monitored value is to be minimised or maximised."""

from __future__ import annotations

import re

from evalign._errors import expected
from evalign.metrics import NAMED

MODES = ("min", "max")

#: Words that say where or how a value was computed, not what it is.
_CONTEXT = {
    "val", "valid", "validation", "eval", "evaluation", "test", "dev", "holdout", "train", "training",
    "macro", "micro", "weighted", "binary", "multiclass", "multilabel", "mean", "avg", "average", "score",
    "epoch", "step",
}  # fmt: skip

#: Common names beside those of `evalign.metrics`.
_HIGHER = {
    "acc", "bal_acc", "auc", "roc_auc", "auprc", "pr_auc", "ap", "map", "kappa", "matthews_corrcoef",
    "f2", "f_beta", "dice", "iou", "miou", "jaccard_index", "sensitivity", "tpr", "tnr", "ppv", "npv",
    "youden", "g_mean",
}  # fmt: skip
_LOWER = {"cost", "error", "err", "error_rate", "nll", "perplexity", "ppl", "brier", "ece", "fpr", "fnr"}


def resolve_mode(mode: str, monitor: str) -> str:
    """Return "min" or "max"; "auto" looks at the name of the monitored value.

    >>> [resolve_mode("auto", name) for name in ("val_loss", "eval_f1_macro", "valid_acc", "val_cost")]
    ['min', 'max', 'max', 'min']
    >>> resolve_mode("auto", "val_quality")
    Traceback (most recent call last):
    ValueError: Expected `mode` to be 'min' or 'max' for the monitor 'val_quality', but got 'auto'.
    """
    if mode in MODES:
        return mode
    if mode != "auto":
        raise expected("mode", "to be 'auto', 'min' or 'max'", repr(mode))
    higher = _is_higher_better(monitor)
    if higher is None:
        raise expected("mode", f"to be 'min' or 'max' for the monitor {monitor!r}", "'auto'")
    return "max" if higher else "min"


def _is_higher_better(monitor: str) -> bool | None:
    """Whether higher values are better, by the words of the name; None if it is not known."""
    name = re.sub(r"/dataloader_idx_\d+$", "", monitor)  # added by Lightning
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower())
    if words[:1] == ["neg"]:  # scikit-learn's scorers of losses
        return True
    if "loss" in name.lower():
        return False
    what = "_".join(word for word in words if word not in _CONTEXT)
    if what in _LOWER | _HIGHER:
        return what in _HIGHER
    return NAMED[what]().higher_is_better if what in NAMED else None
