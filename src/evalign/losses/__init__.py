"""Criteria for PyTorch: the metric as a loss, and the losses it is compared with."""

from evalign.losses._accumulator import LossAccumulator
from evalign.losses._adversarial import AdversarialLoss
from evalign.losses._measure import Measure
from evalign.losses._metric_loss import BTG_THRESHOLDS, MetricLoss
from evalign.losses._pointwise import FocalLoss, MAELoss, SurrogateFBetaLoss, class_balanced_weights
from evalign.losses._setwise import DiceLoss, SoftFBetaLoss, WMWLoss

__all__ = [
    "BTG_THRESHOLDS", "AdversarialLoss", "DiceLoss", "FocalLoss", "LossAccumulator", "MAELoss", "Measure",
    "MetricLoss", "SoftFBetaLoss", "SurrogateFBetaLoss", "WMWLoss", "class_balanced_weights",
]  # fmt: skip
