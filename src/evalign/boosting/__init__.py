"""The metric as a gradient-boosting objective, for LightGBM and XGBoost."""

from evalign.boosting._objective import evaluation, objective

__all__ = ["evaluation", "objective"]
