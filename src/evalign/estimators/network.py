"""`MetricClassifier`: a network trained on the metric, as a scikit-learn classifier."""

from __future__ import annotations

import copy
import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, check_random_state
from torch import Tensor, nn

from evalign import metrics
from evalign._errors import check_integer, expected, is_integer, is_number, show
from evalign._files import pack_tensors, unpack_tensors
from evalign._torch import use_threads
from evalign._typing import ConstraintsLike, Floats, Indices, MetricLike
from evalign.decisions import expected_calibration_error, fit_rule, fit_temperature
from evalign.estimators._columns import validate_features
from evalign.estimators._folds import Split
from evalign.estimators._mlp import PiecewiseLinear, mlp
from evalign.estimators._progress import ProgressBar
from evalign.estimators._rows import (
    Targets,
    as_class_weights,
    count_classes,
    index_groups,
    normalize_weights,
)
from evalign.estimators._strategies import PhaseSettings, build_phases
from evalign.estimators._validation import read_validation_data
from evalign.estimators.persistence import SaveMixin, settings_to_json
from evalign.metrics import Constraint, Metric
from evalign.softsets import batch_size_advice
from evalign.training import Checkpoint, Fit, Phase, TrainingData, evaluate, predict_logits, take_prefix

if TYPE_CHECKING:
    from typing_extensions import Self

#: Scaled features are clipped here: that many standard deviations from the mean carry no information.
MAX_DEVIATIONS = 1e6

#: The learning rate and the patience of a linear network, of one with few hidden units, and of others.
LINEAR_PACE, SMALL_PACE, LARGE_PACE = (0.03, 30), (0.01, 30), (1e-3, 10)
FEW_UNITS = 16

#: The training and the validation part of a bag.
Parts = tuple[TrainingData, TrainingData]


class MetricClassifier(SaveMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A feed-forward network trained on the metric it is judged by.

    The default strategy trains with cross-entropy until it stalls, then on the metric, anchored by
    cross-entropy and annealed, and keeps the weights with the best metric on held-out rows: there it never
    ends below cross-entropy. A decision rule is then fitted on the same rows. Features are centred and scaled
    inside.

    Multilabel targets, 0 and 1 of shape (n, L), give one network with L outputs, one threshold per label, and
    predictions and probabilities of shape (n, L); every strategy but `"surrogate_fbeta"` accepts them.

    DataFrames of pandas and polars may contain texts and categories: the 64 most frequent ones of each
    column become columns of 0 and 1, and others, also those not seen in `fit`, are zeros in all of them. A
    missing number becomes the mean of its column, marked in one more column if `fit` saw missing ones, too.

    Args:
        metric: Anything `evalign.metrics.as_metric` accepts.
        constraints: Constraints such as `"precision >= 0.9"`. Metric losses train with them; whatever the
            strategy, the weights kept are the best of those that satisfy them on the validation rows.
        strategy: `"aligned"`, `"cross_entropy"`, `"weighted_cross_entropy"`, `"focal"`, `"softset"` (two
            classes), `"east"` (the metric from random weights) or `"surrogate_fbeta"` (two classes).
        hidden: The sizes of the hidden layers.
        dropout: The fraction of units dropped in training.
        n_bins: The number of bins per feature between whose edges the network is piecewise linear in it; the
            bins hold as many training rows each. 0 for plain features; sparse features need 0.
        batch_size: The number of rows per batch, or `"auto"`: what `batch_size_advice` recommends, within
            the data.
        learning_rate: The learning rate of AdamW, or `"auto"`: 0.03 without hidden layers, 0.01 with at most
            16 hidden units, and else 0.001. Small networks need larger steps until they are trained.
        max_epochs: The maximum number of epochs per phase.
        patience: The number of epochs without improvement after which a phase ends or its loss is cooled;
            `"auto"` is 30 with at most 16 hidden units, and else 10.
        validation_fraction: The fraction of rows held out for validation, stratified; with `groups` in `fit`,
            about that fraction.
        class_weight: `"balanced"`, or a dictionary with one weight per class label; for multilabel targets
            the weights of 0 and 1.
        rule: Decide by a rule fitted on the validation rows; False predicts the largest probability.
        n_bags: The number of networks, at most the rows (or groups) of the rarest class. With more than one,
            each is validated on its own fold, and their logits are averaged.
        calibrate: Fit a temperature for `predict_proba` on the validation rows, since probabilities
            from a metric loss are pushed to 0 and 1.
        checkpoint: A folder for the state after every epoch; a killed `fit` that is called again with the
            same settings and data ends with the same model. Requires an integer `random_state`.
        network: An `nn.Module`, or a function (features, classes) -> `nn.Module`, used instead of `hidden`.
        device: The device to train on.
        n_jobs: The number of bags trained at a time; None trains one at a time and leaves the threads to
            PyTorch.
        random_state: The seed; the same seed on the same machine gives the same model.
        verbose: 1 shows a progress bar on standard error.
        warm_start: Continue from the weights of the last `fit`.

    Attributes:
        classes_: The class labels, sorted; for multilabel targets 0 ... L - 1.
        multilabel_: Whether the targets are multilabel.
        columns_: The categories of the columns of a table; None if all features are numbers.
        history_: One row per epoch: phase, losses, hard validation metric, temperature.
        n_iter_: The number of epochs of all bags together.
        networks_: The trained networks, one per bag.
        temperature_: The final temperature of the memberships; None without a metric loss.
        validation_score_: The metric on the validation rows of all bags.
        satisfaction_: For each constraint, its value and slack on these rows and whether it is satisfied.
        rule_: The decision rule; None with `rule=False`.
        calibration_error_: With `calibrate`, the expected calibration error on these rows before and after.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricClassifier("f1", hidden=(32,), max_epochs=30, random_state=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_proba(X[:5]).shape
    ((5,), (5, 2))
    >>> careful = MetricClassifier("recall", ["precision >= 0.9"], hidden=(32,), max_epochs=30,
    ...                            random_state=0).fit(X, y)
    >>> careful.satisfaction_["precision() >= 0.9"]["satisfied"]
    True
    """

    _part_suffix = ".safetensors"
    # A network of the user's own has no text form, and a checkpoint is not part of the model.
    _unsaved_settings = ("network", "checkpoint")

    networks_: list[nn.Module]
    scaler_: StandardScaler
    softmax_temperature_: float

    def __init__(
        self,
        metric: MetricLike = "f1",
        constraints: ConstraintsLike = (),
        *,
        strategy: str = "aligned",
        hidden: Sequence[int] = (512, 256, 128),
        dropout: float = 0.25,
        n_bins: int = 0,
        batch_size: int | str = "auto",
        learning_rate: float | str = "auto",
        max_epochs: int = 200,
        patience: int | str = "auto",
        validation_fraction: float = 0.2,
        class_weight: Mapping[Any, float] | str | None = None,
        rule: bool = True,
        n_bags: int = 1,
        calibrate: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        network: nn.Module | Callable[[int, int], nn.Module] | None = None,
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
    ) -> None:
        self.metric = metric
        self.constraints = constraints
        self.strategy = strategy
        self.hidden = hidden
        self.dropout = dropout
        self.n_bins = n_bins
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.rule = rule
        self.n_bags = n_bags
        self.calibrate = calibrate
        self.checkpoint = checkpoint
        self.network = network
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "networks_")

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        validation_data: Any = None,
    ) -> Self:
        """Train the networks and fit the rule.

        Args:
            X: The features.
            y: The class of each row, or 0 and 1 of shape (n, L) for multilabel targets.
            sample_weight: Weights of the rows.
            groups: The group of each row: rows of one group are either trained on or held out for validation.
            validation_data: (X, y) or (X, y, sample_weight) in place of the held-out rows; all others are
                trained on.
        """
        metric, constraints = self._check_settings(), metrics.as_constraints(self.constraints)
        warm = self.warm_start and hasattr(self, "networks_")
        if not warm:
            self.__dict__.pop("networks_", None)  # a failed fit must not leave weights under new labels
        X, y = validate_features(self, X, y, reset=not warm, ensure_min_samples=2)
        targets = Targets.read(y)
        if warm:
            self._check_same_targets(targets)
        self.classes_, self.multilabel_ = targets.classes, targets.multilabel
        metric, constraints = metrics.resolve_classes(metric, constraints, self.classes_)
        weight = normalize_weights(sample_weight, X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if validation_data is None:
            n_bags, members = int(self.n_bags), index_groups(groups, len(targets.indices))
            splits = targets.split(n_bags, self.validation_fraction, seed, members)
            parts = self._take_splits(X, targets.indices, weight, splits, warm)
        else:
            parts = [self._take_validation_data(X, targets.indices, weight, validation_data, warm)]
        trainings = self._plan_bags(metric, constraints, parts, seed, warm)
        bags = train_bags(trainings, self.n_jobs)
        self.networks_ = [bag.network for bag in bags]
        self.history_ = [{"bag": number, **row} for number, bag in enumerate(bags) for row in bag.history]
        self.n_iter_ = len(self.history_)
        self.temperature_ = self.history_[-1]["temperature"]
        logits = torch.cat([bag.valid_logits for bag in bags])
        self._evaluate(metric, constraints, logits, _join([valid for _, valid in parts]))
        return self

    def _check_settings(self) -> Metric:
        """Check the settings, and return the metric."""
        metric = metrics.as_metric(self.metric, scalar=True)
        learning_rate, patience = self._choose_pace()
        for name, value, high in (
            ("learning_rate", learning_rate, np.inf),
            ("validation_fraction", self.validation_fraction, 1),
        ):
            if not is_number(value) or not 0 < value < high:
                raise expected(name, f"in (0, {high})", show(value))
        check_integer(max_epochs=self.max_epochs, patience=patience, n_bags=self.n_bags)
        if not isinstance(self.batch_size, str) or self.batch_size != "auto":
            check_integer(batch_size=self.batch_size)
        if not isinstance(self.rule, bool | np.bool_):
            raise expected("rule", "to be True or False", show(self.rule))
        if self.checkpoint is not None and not isinstance(self.random_state, int | np.integer):
            raise expected("random_state", "to be an integer with `checkpoint`", repr(self.random_state))
        if self.checkpoint is not None and self.warm_start:
            raise expected("warm_start", "to be False with `checkpoint`", True)
        if self.network is not None and not callable(self.network):
            raise expected("network", "to be a function (features, classes) -> nn.Module", show(self.network))
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, TypeError, AssertionError) as error:
            raise expected(
                "device", "to be a device of this machine", show(self.device), f"({error})"
            ) from None
        return metric

    def _choose_pace(self) -> tuple[Any, Any]:
        """Return the learning rate and the patience; for `"auto"`, by the size of the network."""
        rate, patience = LARGE_PACE
        if self.network is None and isinstance(self.hidden, Iterable) and all(map(is_integer, self.hidden)):
            units = sum(self.hidden)
            rate, patience = LINEAR_PACE if units == 0 else SMALL_PACE if units <= FEW_UNITS else LARGE_PACE
        own_rate, own_patience = self.learning_rate, self.patience
        return rate if own_rate == "auto" else own_rate, patience if own_patience == "auto" else own_patience

    def _check_same_targets(self, targets: Targets) -> None:
        """Check that `y` has the classes or labels of the last fit."""
        self._check_layers()
        if targets.multilabel != self.multilabel_ or not np.array_equal(targets.classes, self.classes_):
            kind = "labels" if self.multilabel_ else "classes"
            wanted = f"with the {kind} of the last fit, {self.classes_.tolist()}"
            raise expected("y", wanted, targets.classes.tolist())

    def _check_layers(self) -> None:
        """Check that the settings still are those of the fitted networks."""
        if self.network is None:
            with torch.device("meta"):
                shapes = [p.shape for p in self._build_network().parameters()]
            if shapes != [p.shape for p in self.networks_[0].parameters()]:
                raise expected("hidden", "as in the last fit", show(self.hidden))

    def _take_splits(
        self, X: Any, y: Indices, weight: Floats | None, splits: list[Split], warm: bool
    ) -> list[Parts]:
        """Take the rows of each bag, scaled by training rows."""
        if not warm:
            rows = np.arange(len(y)) if len(splits) > 1 else splits[0][0]
            self.scaler_ = _fit_scaler(X[rows], None if weight is None else weight[rows])

        def take(rows: Indices) -> TrainingData:
            return self._as_training_data(X[rows], y[rows], None if weight is None else weight[rows])

        return [(take(train), take(valid)) for train, valid in splits]

    def _take_validation_data(
        self, X: Any, y: Indices, weight: Floats | None, validation_data: Any, warm: bool
    ) -> Parts:
        """Train on all rows, and validate on those of the user."""
        if self.n_bags > 1:
            raise expected("validation_data", "to be None with several bags", f"data and {self.n_bags} bags")
        held = read_validation_data(self, validation_data)
        if not warm:
            self.scaler_ = _fit_scaler(X, weight)
        return self._as_training_data(X, y, weight), self._as_training_data(held.X, held.indices, held.weight)

    def _as_training_data(self, X: Any, y: Indices, weight: Floats | None) -> TrainingData:
        return TrainingData(
            _scale(X, self.scaler_, self.device),
            torch.as_tensor(y, dtype=torch.long, device=self.device),
            None if weight is None else torch.as_tensor(weight, dtype=torch.float32, device=self.device),
            self.multilabel_,
        )

    def _plan_bags(
        self,
        metric: Metric,
        constraints: tuple[Constraint, ...],
        parts: list[Parts],
        seed: int,
        warm: bool,
    ) -> list[BagTraining]:
        if warm and len(self.networks_) != len(parts):
            raise expected("n_bags", f"as in the last fit, {len(self.networks_)}", len(parts))
        d, trainings = len(self.classes_), []
        learning_rate, patience = self._choose_pace()
        pace = (learning_rate, int(self.max_epochs), int(patience))
        for number, (train, valid) in enumerate(parts):
            y = train.y.cpu().numpy()
            counts = count_classes(y, d)
            values = np.array([0, 1]) if self.multilabel_ else self.classes_
            cells = np.bincount(y.ravel(), minlength=len(values))
            weight = as_class_weights(self.class_weight, values, cells)
            phases = build_phases(
                self.strategy, PhaseSettings(metric, train.y, d, weight, *pace, constraints, self.multilabel_)
            )
            for phase in phases:
                phase.loss.to(self.device)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed + number)
                network = self.networks_[number] if warm else self._build_network().to(self.device)
                if not warm and self.network is None and self.n_bins:
                    self._place_edges(network, train.x)
            checkpoint = None
            if self.checkpoint is not None:
                identity = self._identify_run(network, train, valid)
                checkpoint = Checkpoint(Path(self.checkpoint) / f"bag-{number}", identity)
            size = choose_batch_size(self.batch_size, counts)
            training = BagTraining(
                network, train, valid, phases, metric, size, seed + number, constraints, checkpoint,
                bool(self.verbose),
            )  # fmt: skip
            trainings.append(training)
        return trainings

    def _count_inputs(self) -> int:
        return self.n_features_in_ if self.columns_ is None else self.columns_.n_dummies

    def _build_network(self) -> nn.Module:
        n_features, d = self._count_inputs(), len(self.classes_)
        if self.network is None:
            return mlp(n_features, d, self.hidden, self.dropout, self.n_bins)
        return _build_own_network(self.network, n_features, d)

    def _place_edges(self, network: nn.Module, x: Any) -> None:
        if not isinstance(x, Tensor):
            raise expected("n_bins", "to be 0 for sparse features", self.n_bins)
        next(layer for layer in network.modules() if isinstance(layer, PiecewiseLinear)).place_edges(x)

    def _identify_run(self, network: nn.Module, train: TrainingData, valid: TrainingData) -> str:
        """Hash what a checkpoint belongs to: the settings, the network and the data."""
        digest = hashlib.sha256(json.dumps([settings_to_json(self), repr(network)], sort_keys=True).encode())
        for part in (train, valid):
            values = part.x.cpu().numpy() if isinstance(part.x, Tensor) else part.x.data
            for array in (values, part.y.cpu().numpy()):
                digest.update(np.ascontiguousarray(array).tobytes())
            digest.update(b"none" if part.weight is None else part.weight.cpu().numpy().tobytes())
        return digest.hexdigest()

    def _evaluate(
        self, metric: Metric, constraints: Sequence[Constraint], logits: Tensor, rows: TrainingData
    ) -> None:
        """Fit the temperature and the rule on the validation rows, and score the decisions there."""
        self._fit_softmax_temperature(logits, rows)
        self.rule_ = None
        predicted = rows.decide(logits)
        if self.rule:
            p = self._to_probabilities(logits.cpu().double())
            weight = None if rows.weight is None else rows.weight.double().cpu().numpy()
            classes: Any = None if self.multilabel_ else self.classes_  # an array keeps its type
            y = rows.y.cpu().numpy()
            labels = y if self.multilabel_ else self.classes_[y]
            self.rule_ = fit_rule(p, labels, metric, constraints, weight, classes=classes)
            decided = self.rule_.predict(p)
            indices = decided if self.multilabel_ else np.searchsorted(self.classes_, decided)
            predicted = torch.as_tensor(indices, dtype=torch.long, device=rows.y.device)
        matrix = rows.confusion(predicted, logits.shape[1])
        self.validation_score_ = evaluate(metric, matrix) if self.rule_ is None else self.rule_.value
        self.satisfaction_ = describe_satisfaction(constraints, matrix)
        violations = [
            f"{name} is violated by {-one['slack']:.4g}"
            for name, one in self.satisfaction_.items()
            if not one["satisfied"]
        ]
        if violations:
            hint = "a looser constraint or more rows" if self.rule else "a looser constraint, or `rule=True`"
            warnings.warn(
                "The constraints are not satisfied on the validation rows: "
                f"{' and '.join(violations)}. Try {hint}.",
                stacklevel=3,
            )

    def _fit_softmax_temperature(self, logits: Tensor, rows: TrainingData) -> None:
        self.softmax_temperature_ = 1.0
        self.__dict__.pop("calibration_error_", None)
        if self.calibrate:
            y, weight = rows.y, rows.weight
            if self.multilabel_:  # every label of a row is a problem of two classes with the logits 0 and z
                weight = None if weight is None else weight.repeat_interleave(logits.shape[1])
                logits, y = torch.stack([torch.zeros_like(logits), logits], -1).reshape(-1, 2), y.reshape(-1)
            self.softmax_temperature_ = fit_temperature(logits, y, weight)
            self.calibration_error_ = tuple(
                expected_calibration_error((logits / t).softmax(-1), y, weight)
                for t in (1.0, self.softmax_temperature_)
            )

    def without_rule(self) -> Self:
        """Return a copy that predicts the largest probability and shares everything else.

        `validation_score_` and `satisfaction_` remain those of the rule.
        """
        check_is_fitted(self)
        model = copy.copy(self)
        model.rule, model.rule_ = False, None
        return model

    def _logits(self, X: Any) -> Tensor:
        check_is_fitted(self)
        scaled = _scale(validate_features(self, X, reset=False), self.scaler_, self.device)
        # In double precision, so that the result of a row does not depend on the rows beside it.
        own = self.network is None
        networks = [copy.deepcopy(network).double() if own else network for network in self.networks_]
        logits = [predict_logits(network, scaled).double().cpu() for network in networks]
        return torch.stack(logits).mean(0)

    def _to_probabilities(self, logits: Tensor) -> NDArray[Any]:
        scaled = logits / self.softmax_temperature_
        return np.asarray((scaled.sigmoid() if self.multilabel_ else scaled.softmax(-1)).numpy())

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row, by `rule_` if there is one, else the most probable.

        For labels, 0 or 1 for each: (n, L).
        """
        logits = self._logits(X)
        if self.rule_ is not None:
            return self.rule_.predict(self._to_probabilities(logits))
        if self.multilabel_:
            return np.asarray((logits >= 0).long().numpy())
        return np.asarray(self.classes_[logits.argmax(-1).numpy()])

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Predict the probability of each class or label; metric losses push them apart unless calibrated."""
        return self._to_probabilities(self._logits(X))

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return what decides, (n,) for two classes, else (n, d): its sign or argmax is the prediction.

        The margins of `rule_`, or the logits (for two classes the second minus the first). For labels, the
        sign of each column, (n, L).
        """
        logits = self._logits(X)
        if self.rule_ is not None:
            return self.rule_.margins(self._to_probabilities(logits))
        two = logits.shape[1] == 2 and not self.multilabel_
        return np.asarray(logits[:, 1] - logits[:, 0] if two else logits)

    @classmethod
    def load(cls, folder: str | PathLike[str], network: Any = None) -> Self:
        """Load a classifier that `save` wrote; nothing in the files is executed.

        `network` is required if the classifier was trained with one.
        """
        return cls._load(folder, network=network)

    def _get_fitted_state(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        self._check_layers()
        facts, _ = super()._get_fitted_state()
        facts |= {
            "custom_network": self.network is not None,
            "with_mean": bool(self.scaler_.with_mean),
            "history": self.history_,
            "softmax_temperature": float(self.softmax_temperature_),
            "calibration_error": list(getattr(self, "calibration_error_", ())),
            "satisfaction": self.satisfaction_,
        }
        if len(self.networks_) != self.n_bags:  # a class had too few rows
            facts["n_networks"] = len(self.networks_)
        tensors = {
            f"network.{number}.{name}": value
            for number, network in enumerate(self.networks_)
            for name, value in network.state_dict().items()
        }
        for name in ("mean_", "scale_", "var_"):
            if getattr(self.scaler_, name) is not None:
                tensors[f"scaler.{name}"] = torch.from_numpy(np.asarray(getattr(self.scaler_, name)))
        return facts, {"tensors": pack_tensors(tensors)}

    def _set_fitted_state(self, facts: dict[str, Any], parts: dict[str, bytes]) -> None:
        super()._set_fitted_state(facts, parts)
        self.hidden = tuple(self.hidden)  # JSON has lists only
        if facts["custom_network"] and self.network is None:
            raise expected("network", "to be given, since the model was trained with one", None)
        tensors = unpack_tensors(parts["tensors"])
        self.scaler_ = _restore_scaler(facts["with_mean"], self._count_inputs(), tensors)
        n_networks = len({name.split(".")[1] for name in tensors if name.startswith("network.")})
        if n_networks != facts.get("n_networks", int(self.n_bags)):
            raise expected("folder", f"with {facts.get('n_networks', self.n_bags)} networks", n_networks)
        self.networks_ = [
            self._restore_network(take_prefix(tensors, f"network.{number}")) for number in range(n_networks)
        ]
        self.history_ = facts["history"]
        self.n_iter_ = len(self.history_)
        self.temperature_ = self.history_[-1]["temperature"]
        self.softmax_temperature_ = facts["softmax_temperature"]
        if facts["calibration_error"]:
            self.calibration_error_ = tuple(facts["calibration_error"])
        self.satisfaction_ = dict(facts["satisfaction"])

    def _restore_network(self, weights: dict[str, Tensor]) -> nn.Module:
        # The default network adopts the stored tensors as they are: sizes in a forged file cost no memory.
        own = self.network is not None
        with torch.device("cpu" if own else "meta"):
            network = self._build_network()
        try:
            network.load_state_dict(weights, assign=not own)
        except RuntimeError as error:
            raise expected("network", "with the layers of the saved one", f"others ({error})") from None
        return network.to(self.device).eval()


@dataclass(frozen=True)
class BagTraining:
    """Everything that one network is trained from; it can be sent to another process."""

    network: nn.Module
    train: TrainingData
    valid: TrainingData
    phases: Sequence[Phase]
    metric: Metric
    batch_size: int
    seed: int
    constraints: tuple[Constraint, ...]
    checkpoint: Checkpoint | None
    verbose: bool


@dataclass(frozen=True)
class Bag:
    """A trained network, its history, and its logits for its validation rows."""

    network: nn.Module
    history: list[dict[str, Any]]
    valid_logits: Tensor


def train_bags(trainings: Sequence[BagTraining], n_jobs: int | None) -> list[Bag]:
    """Train all networks, `n_jobs` at a time."""
    if len(trainings) == 1 or n_jobs in (None, 1):
        return [_train_bag(training) for training in trainings]
    bags: list[Bag] = Parallel(n_jobs=n_jobs)(
        delayed(_train_bag_on_one_thread)(training) for training in trainings
    )
    return bags


def _train_bag(training: BagTraining) -> Bag:
    """Train one network; the global random state is not changed."""
    bar = ProgressBar("epoch")

    def report(row: dict[str, Any]) -> None:
        text = f"loss {row['train_loss']:.4f}, validation loss {row['valid_loss']:.4f}"
        text += f", metric {row['valid_metric']:.4f}"
        text += "" if row["temperature"] is None else f", temperature {row['temperature']:.3f}"
        bar.show(row["phase"], row["epoch"] + 1, training.phases[0].max_epochs, text)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        fit = Fit(
            training.network, training.train, training.valid, training.metric,
            batch_size=training.batch_size, seed=training.seed, constraints=training.constraints,
            report=report if training.verbose else None, checkpoint=training.checkpoint,
        )  # fmt: skip
        try:
            fit.run(copy.deepcopy(training.phases))
        finally:
            bar.close()
    return Bag(training.network, fit.history, predict_logits(training.network, training.valid.x))


def _train_bag_on_one_thread(training: BagTraining) -> Bag:
    """Train in one of several processes, which must not compete for cores."""
    with use_threads(1):
        return _train_bag(training)


def describe_satisfaction(constraints: Sequence[Constraint], matrix: Tensor) -> dict[str, dict[str, Any]]:
    """Describe whether a confusion matrix satisfies each constraint.

    >>> from evalign import metrics
    >>> describe_satisfaction([metrics.precision() >= 0.5], torch.tensor([[6.0, 1.0], [0.0, 3.0]]))
    {'precision() >= 0.5': {'value': 0.75, 'slack': 0.25, 'satisfied': True}}
    """
    facts = {}
    for constraint in constraints:
        value = evaluate(constraint.metric, matrix)
        slack = constraint.sign * (value - constraint.bound)
        facts[constraint.name] = {"value": value, "slack": slack, "satisfied": slack >= 0}
    return facts


def choose_batch_size(batch_size: int | str, counts: NDArray[Any]) -> int:
    """Return the batch size; for `"auto"`, what the classes need in at least eight steps per epoch.

    >>> choose_batch_size("auto", np.array([9000, 1000]))
    1016
    """
    if batch_size != "auto":
        return int(batch_size)
    advice = batch_size_advice(len(counts), (counts / counts.sum()).tolist()).rows
    return max(32, min(advice, 4096, int(counts.sum()) // 8))


def _build_own_network(network: Any, n_features: int, d: int) -> nn.Module:
    """Copy or build the network of the user, and try it on two rows."""
    model = copy.deepcopy(network) if isinstance(network, nn.Module) else network(n_features, d)
    wanted = f"to give an nn.Module from {n_features} features to {d} logits"
    if not isinstance(model, nn.Module) or not list(model.parameters()):
        raise expected("network", wanted, type(model).__name__)
    mode = model.training
    try:
        with torch.no_grad():
            logits = model.eval()(torch.zeros(2, n_features))
    except (RuntimeError, TypeError) as error:
        raise expected("network", wanted, f"an error ({error})") from None
    if not isinstance(logits, Tensor) or logits.shape != (2, d):
        raise expected("network", wanted, f"shape {tuple(getattr(logits, 'shape', ()))} for two rows")
    return model.train(mode)


def _fit_scaler(X: Any, weight: Floats | None) -> StandardScaler:
    """Fit centring and scaling on rows with a weight above 0; sparse features are only scaled."""
    if weight is not None:
        if not (weight > 0).any():
            raise expected("sample_weight", "above 0 for some of the training rows", "zeros only")
        X = X[weight > 0]
    with np.errstate(over="ignore", invalid="ignore"):
        return StandardScaler(with_mean=not sparse.issparse(X)).fit(X)


def _restore_scaler(with_mean: bool, n_inputs: int, tensors: dict[str, Tensor]) -> StandardScaler:
    scaler = StandardScaler(with_mean=with_mean)
    for name in ("mean_", "scale_", "var_"):
        stored = tensors.get(f"scaler.{name}")
        setattr(scaler, name, None if stored is None else stored.numpy())
    if scaler.scale_ is None or len(scaler.scale_) != n_inputs:
        raise expected("folder", "with one scale per feature", n_inputs)
    scaler.n_features_in_ = n_inputs
    return scaler


def _scale(X: Any, scaler: StandardScaler, device: str) -> Any:
    """Scale features to a float32 tensor, or to a CSR matrix if they are sparse and stay so."""
    if sparse.issparse(X) and scaler.with_mean:
        X = X.toarray()
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = scaler.transform(X).astype(np.float32)
    values = scaled.data if sparse.issparse(scaled) else scaled
    if np.isnan(values).any():
        raise expected("X", "that can be scaled", "values that are too large")
    np.clip(values, -MAX_DEVIATIONS, MAX_DEVIATIONS, out=values)
    return scaled.tocsr() if sparse.issparse(scaled) else torch.from_numpy(scaled).to(device)


def _join(parts: Sequence[TrainingData]) -> TrainingData:
    """Join the targets and weights of several parts."""
    weights = [part.weight for part in parts if part.weight is not None]
    weight = torch.cat(weights) if weights else None
    return TrainingData(None, torch.cat([part.y for part in parts]), weight, parts[0].multilabel)
