"""The metric as a gradient-boosting objective, for LightGBM and XGBoost."""

from evalign.boosting._objective import Objective, evaluation, objective
from evalign.boosting._train import (
    BoostingPlan,
    LabelledRows,
    Stages,
    decide,
    import_lightgbm,
    scores_to_probabilities,
    train_stages,
)

__all__ = [
    "BoostingPlan", "LabelledRows", "Objective", "Stages", "decide", "evaluation", "import_lightgbm",
    "objective", "scores_to_probabilities", "train_stages",
]  # fmt: skip
