"""Fitted classifiers as nodes of a graph, from features to probabilities."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from onnx import TensorProto
from scipy.special import logit
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from evalign._errors import expected
from evalign.decisions import SMALLEST as SMALLEST_OF_RULE
from evalign.estimators import (
    CatBoost,
    MetricBooster,
    MetricClassifier,
    MetricDecision,
    MetricLinear,
    PiecewiseLinear,
    get_offsets,
)
from evalign.estimators.network import MAX_DEVIATIONS
from evalign.selection import AutoClassifier
from evalign.selection.mixture import SMALLEST, Calibrator
from evalign.tables.export._graph import Graph
from evalign.tables.export._trees import add_trees, read_catboost, read_lightgbm, read_sklearn


def refuse(part: str) -> ValueError:
    """The error for a part that has no counterpart in a graph."""
    return expected("model", "of parts that can be exported", part)


def add_classifier(graph: Graph, model: Any, features: str) -> str:
    """Add a fitted classifier, and return its probabilities (rows, d)."""
    kinds: dict[Any, Any] = {
        AutoClassifier: _add_ensemble,
        MetricBooster: _add_booster,
        MetricClassifier: _add_network,
        MetricDecision: _add_decision,
        MetricLinear: _add_linear,
        Pipeline: _add_pipeline,
        LogisticRegression: _add_logistic,
        RandomForestClassifier: _add_forest,
        ExtraTreesClassifier: _add_forest,
        DecisionTreeClassifier: _add_forest,
        CatBoost: _add_catboost,
    }
    if type(model) not in kinds:
        raise refuse(f"a {type(model).__name__}")
    return str(kinds[type(model)](graph, model, features))


def _add_linear(graph: Graph, model: MetricLinear, features: str) -> str:
    # `predict_proba` is without the rule, which comes in the end.
    intercept = model.intercept_ - get_offsets(model.rule_)
    logits = graph.linear(features, model.coef_.T, intercept[None])
    return graph.sigmoid(logits) if len(intercept) == 1 else graph.softmax(logits)


def _add_network(graph: Graph, model: MetricClassifier, features: str) -> str:
    """Scaled features through all networks, whose logits are averaged."""
    if model.network is not None:
        raise refuse("a network of your own")
    scaler, hidden = model.scaler_, features
    if scaler.mean_ is not None and scaler.with_mean:
        hidden = graph.add("Sub", hidden, graph.constant(scaler.mean_[None]))
    hidden = graph.add("Div", hidden, graph.constant(scaler.scale_[None]))
    hidden = graph.to_float32(hidden)
    ends = graph.constant(-MAX_DEVIATIONS), graph.constant(MAX_DEVIATIONS)
    scaled = graph.add("Clip", hidden, *ends)
    logits = [_add_layers(graph, network, scaled) for network in model.networks_]
    scale = graph.constant(len(logits) * model.softmax_temperature_)
    return graph.softmax(graph.add("Div", graph.sum(logits), scale))


def _add_layers(graph: Graph, network: Any, tensor: str) -> str:
    for layer in network:
        if isinstance(layer, PiecewiseLinear):
            tensor = _add_bins(graph, layer, tensor)
        elif isinstance(layer, nn.Linear):
            weights, bias = (part.detach().cpu().double().numpy() for part in (layer.weight, layer.bias))
            tensor = graph.linear(tensor, weights.T, bias[None])
        elif isinstance(layer, nn.ReLU):
            tensor = graph.add("Relu", tensor)
        elif not isinstance(layer, nn.Dropout):  # which does nothing when it predicts
            raise refuse(f"a network with a {type(layer).__name__}")
    return tensor


def _add_bins(graph: Graph, layer: PiecewiseLinear, tensor: str) -> str:
    # Networks predict in float64: so must the widths be computed.
    low, widths = (part.cpu().numpy()[None] for part in copy.deepcopy(layer).double().bins)
    columns = graph.add("Unsqueeze", tensor, graph.constant([2], np.int64))
    inside = graph.add("Sub", columns, graph.constant(low))
    inside = graph.add("Div", inside, graph.constant(widths))
    inside = graph.add("Clip", inside, graph.constant(0.0), graph.constant(1.0))
    flat = graph.add("Reshape", inside, graph.constant([-1, low.size], np.int64))
    return graph.add("Concat", tensor, flat, axis=1)


def _add_booster(graph: Graph, model: MetricBooster, features: str) -> str:
    if model.columns_ is not None:
        raise refuse("a booster with categories of its own")
    scores = [_add_stages(graph, one, features) for one in model.stages_]
    total = graph.add("Div", graph.sum(scores), graph.constant(float(len(scores))))
    is_binary = len(model.classes_) == 2
    if model.scaling_ is not None:
        slope, offsets = model.scaling_.slope, model.scaling_.offsets
        total = graph.affine(total, slope, [[offsets[1] - offsets[0]]] if is_binary else offsets[None])
    return graph.sigmoid(total) if is_binary else graph.softmax(total)


def _add_stages(graph: Graph, stages: Any, features: str) -> str:
    """Raw scores of the rounds on the log-loss, shifted by the rule, plus those on the metric."""
    trees, width = read_lightgbm(stages.base)
    scores = add_trees(graph, features, trees, width)
    if stages.weights is None:
        return scores
    if stages.calibration is not None:
        line = stages.calibration
        offsets = [[line.offsets[1] - line.offsets[0]]] if width == 1 else line.offsets[None]
        scores = graph.affine(scores, line.slope, offsets)
    if width == 1:
        shift = logit(np.clip(stages.weights[0, 0], 1e-6, 1 - 1e-6))
        scores = graph.add("Sub", scores, graph.constant([[shift]]))
    else:
        values = graph.add("MatMul", graph.softmax(scores), graph.constant(stages.weights))
        logs = graph.add("Log", graph.add("Clip", values, graph.constant(1e-12)))
        mean = graph.add("ReduceMean", logs, graph.constant([1], np.int64), keepdims=1)
        scores = graph.add("Sub", logs, mean)
    if stages.metric is None:
        return scores
    trees, width = read_lightgbm(stages.metric)
    return graph.add("Add", scores, add_trees(graph, features, trees, width))


def _add_catboost(graph: Graph, model: CatBoost, features: str) -> str:
    trees = model.trees_
    scores = add_trees(graph, graph.to_float32(features), read_catboost(trees), len(trees.bias))
    scores = graph.add("Add", scores, graph.constant(trees.bias[None]))
    return graph.sigmoid(scores) if len(trees.bias) == 1 else graph.softmax(scores)


def _add_decision(graph: Graph, model: MetricDecision, features: str) -> str:
    if model.calibration_ is not None:
        raise refuse(f"a {type(model.estimator_).__name__} without probabilities")
    return add_classifier(graph, model.estimator_, features)


def _add_pipeline(graph: Graph, model: Pipeline, features: str) -> str:
    for _, step in model.steps[:-1]:
        if type(step) is not StandardScaler:
            raise refuse(f"a {type(step).__name__} in a pipeline")
        if step.with_mean:
            features = graph.add("Sub", features, graph.constant(step.mean_[None]))
        if step.with_std:
            features = graph.add("Div", features, graph.constant(step.scale_[None]))
    return add_classifier(graph, model.steps[-1][1], features)


def _add_logistic(graph: Graph, model: LogisticRegression, features: str) -> str:
    if len(model.classes_) > 2 and model.solver == "liblinear":
        raise refuse("a LogisticRegression of one class against the rest")
    logits = graph.linear(features, model.coef_.T, model.intercept_[None])
    return graph.sigmoid(logits) if len(model.classes_) == 2 else graph.softmax(logits)


def _add_forest(graph: Graph, model: Any, features: str) -> str:
    """The mean of the shares in the leaves; scikit-learn compares features in float32."""
    members, d = getattr(model, "estimators_", [model]), len(model.classes_)
    trees = [tree for one in members for tree in read_sklearn(one.tree_, d, 1 / len(members))]
    p = add_trees(graph, graph.to_float32(features), trees, 1 if d == 2 else d)
    return graph.join(graph.add("Sub", graph.constant(1.0), p), p) if d == 2 else p


def _add_ensemble(graph: Graph, model: AutoClassifier, features: str) -> str:
    """The weighted mean of the calibrated probabilities of all members, calibrated again."""
    ensemble = model.ensemble_
    if ensemble.preprocessors is not None:
        raise refuse(f"an ensemble with a {type(ensemble.preprocessors[0]).__name__} per fold")
    parts = []
    for member in ensemble.members:
        for one in member.models:
            p = _place_classes(graph, add_classifier(graph, one, features), one.classes_, ensemble.classes)
            calibrated = _add_calibrator(graph, member.calibrator, p)
            weight = graph.constant(member.weight / len(member.models))
            parts.append(graph.add("Mul", calibrated, weight))
    return _add_calibrator(graph, ensemble.final, graph.sum(parts))


def _place_classes(graph: Graph, p: str, known: Any, classes: Any) -> str:
    """Probabilities of all classes; 0 of those that a model has not seen."""
    if np.array_equal(known, classes):
        return p
    return graph.add("MatMul", p, graph.constant(np.asarray(known)[:, None] == np.asarray(classes)))


def _add_calibrator(graph: Graph, calibrator: Calibrator, p: str) -> str:
    (line,) = calibrator.scalings
    return graph.softmax(graph.affine(graph.centred_logs(p, SMALLEST), line.slope, line.offsets[None]))


def add_decision(graph: Graph, model: Any, p: str) -> str:
    """The number of the class that the rule of a classifier decides for, (rows,)."""
    rule = getattr(model, "rule_", None)
    if len(model.classes_) == 2 and (rule is not None or isinstance(model, MetricBooster)):
        threshold = 0.5 if rule is None else float(rule.threshold)
        second = graph.add("GreaterOrEqual", graph.take_column(p, 1), graph.constant(threshold))
        return graph.add("Squeeze", graph.cast(second, TensorProto.INT64), graph.constant([1], np.int64))
    if rule is not None:
        if rule.scaling is not None:
            logs = graph.add("Log", graph.add("Clip", p, graph.constant(SMALLEST_OF_RULE)))
            p = graph.softmax(graph.affine(logs, rule.scaling.slope, rule.scaling.offsets[None]))
        p = graph.add("MatMul", p, graph.constant(rule.weights))
    return graph.add("ArgMax", p, axis=1, keepdims=0)
