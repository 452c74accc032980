"""The scikit-learn front."""

from evalign.estimators._classifier import MetricClassifier

__all__ = ["MetricClassifier"]
