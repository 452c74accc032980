"""The scikit-learn front: classifiers trained, boosted or decided by a metric."""

from evalign.estimators._candidates import get_offsets
from evalign.estimators._columns import TableEncoder, is_table
from evalign.estimators._folds import Split, draw_shuffled, draw_splits
from evalign.estimators._means import TargetMeans
from evalign.estimators._mlp import ByteDropout, PiecewiseLinear, mlp
from evalign.estimators._responses import predict_response
from evalign.estimators._routing import find_fit_parameter, name_last_step, route_parameters
from evalign.estimators._rows import check_targets
from evalign.estimators._strategies import PhaseSettings, build_phases
from evalign.estimators.booster import MetricBooster
from evalign.estimators.catboost import CatBoost, ObliviousTrees
from evalign.estimators.decision import MetricDecision
from evalign.estimators.linear import MetricLinear
from evalign.estimators.network import MetricClassifier
from evalign.estimators.packing import pack_classifier, unpack_classifier
from evalign.estimators.persistence import SaveMixin, explain_damage

__all__ = [
    "ByteDropout", "CatBoost", "MetricBooster", "MetricClassifier", "MetricDecision", "MetricLinear",
    "ObliviousTrees", "PhaseSettings", "PiecewiseLinear", "SaveMixin", "Split", "TableEncoder", "TargetMeans",
    "build_phases", "check_targets", "draw_shuffled", "draw_splits", "explain_damage", "find_fit_parameter",
    "get_offsets", "is_table", "mlp", "name_last_step", "pack_classifier", "predict_response",
    "route_parameters", "unpack_classifier",
]  # fmt: skip
