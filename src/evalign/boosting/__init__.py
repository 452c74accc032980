"""The metric as a gradient-boosting objective, for LightGBM, XGBoost and CatBoost."""

from evalign.boosting._evaluation import Evaluation, evaluation
from evalign.boosting._labels import LabelStages, train_label_stages
from evalign.boosting._objective import Objective, objective
from evalign.boosting._train import (
    BoostingPlan,
    LabelledRows,
    Stages,
    choose_threads,
    decide,
    import_lightgbm,
    scores_to_probabilities,
    train_stages,
)

__all__ = [
    "BoostingPlan", "Evaluation", "LabelStages", "LabelledRows", "Objective", "Stages",
    "choose_threads", "decide", "evaluation", "import_lightgbm", "objective", "scores_to_probabilities",
    "train_label_stages", "train_stages",
]  # fmt: skip
