"""From arrays to tables: splitting, scaling, class weights, batch sizes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import _check_sample_weight, validate_data
from torch import Tensor, nn

from evalign import metrics
from evalign._errors import check_integer, expected, is_number, show
from evalign.estimators._bags import folds
from evalign.metrics import Metric
from evalign.softsets import batch_size_advice
from evalign.training import TrainingData

#: Scaled features are cut off here: so many deviations from the mean are no information.
FARTHEST = 1e6


def checked_metric(model: Any) -> Metric:
    """Check the settings of a classifier, and find its metric."""
    metric = metrics.as_metric(model.metric, scalar=True)
    for name, high in (("learning_rate", np.inf), ("validation_fraction", 1)):
        value = getattr(model, name)
        if not is_number(value) or not 0 < value < high:
            raise expected(name, f"in (0, {high})", show(value))
    for name in ("max_epochs", "patience", "n_bags", "batch_size"):
        value = getattr(model, name)
        if name != "batch_size" or not isinstance(value, str) or value != "auto":
            check_integer(**{name: value})
    if not isinstance(model.rule, bool | np.bool_):
        raise expected("rule", "to be True or False", show(model.rule))
    if model.checkpoint is not None and not isinstance(model.random_state, int | np.integer):
        raise expected("random_state", "to be an integer with `checkpoint`", repr(model.random_state))
    if model.checkpoint is not None and model.warm_start:
        raise expected("warm_start", "to be False with `checkpoint`", True)
    if model.network is not None and not callable(model.network):
        raise expected("network", "to be a function (features, classes) -> nn.Module", show(model.network))
    try:
        torch.empty(0, device=model.device)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise expected("device", "to be one of this machine", show(model.device), f"({error})") from None
    return metric


def checked_network(given: Any, features: int, classes: int) -> nn.Module:
    """A network of the user's own, a copy or newly made, tried on two rows."""
    network = copy.deepcopy(given) if isinstance(given, nn.Module) else given(features, classes)
    wanted = f"to make an nn.Module from {features} features to {classes} logits"
    if not isinstance(network, nn.Module) or not list(network.parameters()):
        raise expected("network", wanted, type(network).__name__)
    mode = network.training
    try:
        with torch.no_grad():
            logits = network.eval()(torch.zeros(2, features))
    except (RuntimeError, TypeError) as error:
        raise expected("network", wanted, f"an error ({error})") from None
    if not isinstance(logits, Tensor) or logits.shape != (2, classes):
        raise expected("network", wanted, f"shape {tuple(getattr(logits, 'shape', ()))} for two rows")
    return network.train(mode)


def stratified_split(y: NDArray[Any], fraction: float, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Indices of a training and a validation part that hold the same shares of every class.

    Every class keeps at least one row for training; one with two rows or more has one to validate.

    >>> train, valid = stratified_split(np.array([0] * 8 + [1] * 2 + [2]), 0.25, seed=0)
    >>> len(train), np.bincount(np.array([0] * 8 + [1] * 2 + [2])[valid]).tolist()
    (8, [2, 1])
    """
    generator = np.random.default_rng(seed)
    valid = []
    for label in np.unique(y):
        rows = generator.permutation(np.flatnonzero(y == label))
        size = min(max(1, round(fraction * len(rows))), len(rows) - 1)
        valid.append(rows[:size])
    held = np.sort(np.concatenate(valid))
    if held.size == 0:
        raise expected("y", "with two rows of some class, to set one aside for validation", f"{y.size} rows")
    return np.setdiff1d(np.arange(len(y)), held), held


def tables(
    model: Any, X: Any, y: NDArray[Any], weight: Any, validation_data: Any, seed: int, again: bool
) -> list[tuple[TrainingData, TrainingData]]:
    """The training and the validation part of each bag, scaled by training rows."""

    def table(X: Any, y: NDArray[Any], weight: Any) -> TrainingData:
        targets = torch.as_tensor(y, dtype=torch.long, device=model.device)
        if weight is not None:
            weight = torch.as_tensor(weight, dtype=torch.float32, device=model.device)
        return TrainingData(features(X, model.scaler_, model.device), targets, weight)

    if validation_data is not None:
        held_x, held_y = _validation_rows(model, validation_data)
        model.scaler_ = model.scaler_ if again else new_scaler(X, weight)
        return [(table(X, y, weight), table(held_x, held_y, None))]
    if model.n_bags > 1:
        parts = folds(y, int(model.n_bags), seed)
    else:
        parts = [stratified_split(y, model.validation_fraction, seed)]
    if not again:
        rows = np.arange(len(y)) if model.n_bags > 1 else parts[0][0]
        model.scaler_ = new_scaler(X[rows], None if weight is None else weight[rows])

    def part(rows: NDArray[Any]) -> TrainingData:
        return table(X[rows], y[rows], None if weight is None else weight[rows])

    return [(part(rows), part(held)) for rows, held in parts]


def _validation_rows(model: Any, given: Any) -> tuple[Any, NDArray[Any]]:
    """Checked features and class indices of rows to validate on that the user gave."""
    if model.n_bags > 1:
        raise expected("validation_data", "to be None with bags", f"data and {model.n_bags} bags")
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise expected("validation_data", "to be (X, y)", type(given).__name__)
    X, labels = validate_data(model, *given, accept_sparse="csr", reset=False)
    stray = np.setdiff1d(labels, model.classes_)
    if stray.size:
        raise expected("validation_data", "with classes of `y` only", show(stray[0]))
    return X, np.searchsorted(model.classes_, labels)


def new_scaler(X: Any, weight: NDArray[Any] | None) -> StandardScaler:
    """Centring and scaling by the training rows that count; sparse features are only scaled."""
    if weight is not None:
        if not (weight > 0).any():
            raise expected("sample_weight", "above 0 for some of the rows to train on", "zeros only")
        X = X[weight > 0]
    with np.errstate(over="ignore", invalid="ignore"):
        return StandardScaler(with_mean=not sparse.issparse(X)).fit(X)


def row_weights(sample_weight: Any, X: Any) -> NDArray[Any] | None:
    """Weights with mean 1, or None; only their ratios matter."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise expected("sample_weight", "with a weight above 0", "zeros only")
    weight = weight / weight.max()
    return np.asarray(weight / weight.mean())


def features(X: Any, scaler: StandardScaler, device: str) -> Any:
    """Scaled features as a float32 tensor, or a CSR matrix if they came sparse and stay so."""
    if sparse.issparse(X) and scaler.with_mean:
        X = X.toarray()
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = scaler.transform(X).astype(np.float32)
    values = scaled.data if sparse.issparse(scaled) else scaled
    if np.isnan(values).any():
        raise expected("X", "that can be scaled", "values that are too large")
    np.clip(values, -FARTHEST, FARTHEST, out=values)
    return scaled.tocsr() if sparse.issparse(scaled) else torch.from_numpy(scaled).to(device)


def class_weight_tensor(
    class_weight: Mapping[Any, float] | str | None, classes: NDArray[Any], counts: NDArray[Any]
) -> Tensor | None:
    """Weights in the order of the classes; `"balanced"` is n / (d n_y), as in scikit-learn.

    >>> class_weight_tensor("balanced", np.array(["a", "b"]), np.array([3, 1]))
    tensor([0.6667, 2.0000])
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise expected("class_weight", "to be 'balanced' or a weight a class", repr(class_weight))
        return torch.as_tensor(counts.sum() / (len(counts) * counts), dtype=torch.float32)
    if not isinstance(class_weight, Mapping):
        raise expected("class_weight", "to be 'balanced' or a weight a class", show(class_weight))
    known = classes.tolist()
    if not all(is_number(value) and value >= 0 for value in class_weight.values()):
        raise expected("class_weight", "with weights >= 0", show(list(class_weight.values())))
    stray = [label for label in class_weight if label not in known]
    if stray:
        raise expected("class_weight", "with classes of `y` only", show(stray[0]))
    return torch.tensor([float(class_weight.get(label, 1.0)) for label in known])


def rows_of_a_batch(batch_size: int | str, counts: NDArray[Any]) -> int:
    """The batch size asked for, or for `"auto"` what the classes need, in at least eight steps an epoch.

    >>> rows_of_a_batch("auto", np.array([9000, 1000]))
    1016
    """
    if batch_size != "auto":
        return int(batch_size)
    advice = batch_size_advice(len(counts), (counts / counts.sum()).tolist()).rows
    return max(32, min(advice, 4096, int(counts.sum()) // 8))
