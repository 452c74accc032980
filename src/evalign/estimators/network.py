"""`MetricClassifier`: a network trained on the metric, as a scikit-learn classifier."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_is_fitted,
    check_random_state,
    validate_data,
)
from torch import Tensor, nn

from evalign._errors import expected, show
from evalign._typing import ConstraintsLike, MetricLike
from evalign.decisions import DecisionRule
from evalign.estimators import _persistence
from evalign.estimators._bags import Task, progress, train_all
from evalign.estimators._mlp import mlp
from evalign.estimators._preparation import (
    checked_metric,
    checked_network,
    class_weight_tensor,
    features,
    row_weights,
    rows_of_a_batch,
    tables,
)
from evalign.estimators._strategies import Problem, phases
from evalign.estimators._verdict import take_over
from evalign.metrics import Constraint, Metric, as_constraints
from evalign.training import Checkpoint, TrainingData, predict_logits


class MetricClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A feed-forward network trained on the metric it is judged by.

    The default strategy trains with cross-entropy until it stalls, then on the metric, anchored by
    cross-entropy and annealed, and keeps the weights with the best metric on a validation part that it
    sets aside: there it never ends below cross-entropy. Features are centred and scaled inside.

    Args:
        metric: Anything `evalign.metrics.as_metric` understands.
        strategy: `"aligned"`, `"cross_entropy"`, `"weighted_cross_entropy"`, `"focal"`, `"softset"` (two
            classes), `"east"` (the metric from random weights) or `"surrogate_fbeta"` (two classes).
        hidden: The sizes of the hidden layers.
        dropout: The share of units dropped in training.
        batch_size: Rows of a batch, or `"auto"`: what `batch_size_advice` says, within the data.
        learning_rate: Learning rate of AdamW.
        max_epochs: The most epochs of a phase.
        patience: Epochs without improvement before a phase ends, or its loss is cooled.
        validation_fraction: The share of the rows set aside, stratified.
        class_weight: `"balanced"`, or a weight for each class label.
        constraints: Bounds such as `"precision >= 0.9"`. Metric losses train with them, and the weights
            kept are the best of those that keep them on the validation rows, whatever the strategy.
        rule: Predict by a decision rule fitted on the validation rows, not by the largest probability.
        n_bags: More than 1 trains that many networks, each validated on its own fold; logits are averaged.
        calibrate: Fit a temperature for `predict_proba` on the validation rows, since probabilities
            from a metric loss are pushed to 0 and 1. It changes no prediction.
        checkpoint: A folder for the state after every epoch; a killed `fit` called again with the same
            settings and data ends with the same model. Needs an integer `random_state`.
        network: An `nn.Module`, or a function (features, classes) -> `nn.Module`, instead of layers.
        device: Where to train.
        n_jobs: How many bags are trained at a time.
        random_state: Seed; the same seed on the same machine gives the same model.
        verbose: 1 shows the progress on standard error.
        warm_start: Go on from the weights of the last `fit`.

    Attributes:
        classes_: The class labels, sorted.
        history_: A row for every epoch: phase, losses, hard validation metric, temperature.
        networks_: The trained networks, one a bag.
        temperature_: The temperature of the memberships at the end; None without a metric loss.
        validation_score_: The metric on the validation rows, of all bags together.
        satisfaction_: For each constraint, its value and slack there and whether it is satisfied.
        rule_: With `rule`, the decision rule, else None.
        calibration_error_: With `calibrate`, the expected calibration error there, before and after.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricClassifier("f1", hidden=(32,), max_epochs=30, random_state=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_proba(X[:5]).shape
    ((5,), (5, 2))
    >>> careful = MetricClassifier("recall", constraints=["precision >= 0.9"], rule=True, hidden=(32,),
    ...                            max_epochs=30, random_state=0).fit(X, y)
    >>> careful.satisfaction_["precision() >= 0.9"]["satisfied"]
    True
    """

    classes_: NDArray[Any]
    rule_: DecisionRule | None
    softmax_temperature_: float
    networks_: list[nn.Module]
    scaler_: Any

    def __init__(
        self,
        metric: MetricLike = "f1",
        strategy: str = "aligned",
        *,
        hidden: Sequence[int] = (512, 256, 128),
        dropout: float = 0.25,
        batch_size: int | str = "auto",
        learning_rate: float = 1e-3,
        max_epochs: int = 200,
        patience: int = 10,
        validation_fraction: float = 0.2,
        class_weight: Mapping[Any, float] | str | None = None,
        constraints: ConstraintsLike = (),
        rule: bool = False,
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
        self.strategy = strategy
        self.hidden = hidden
        self.dropout = dropout
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.constraints = constraints
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
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        validation_data: tuple[Any, Any] | None = None,
    ) -> MetricClassifier:
        """Train. `validation_data` = (X, y) takes the place of rows set aside."""
        metric, bounds = checked_metric(self), as_constraints(self.constraints)
        again = self.warm_start and hasattr(self, "networks_")
        if not again:
            self.__dict__.pop("networks_", None)  # a failed fit must not keep weights under new labels
        X, y = validate_data(self, X, y, accept_sparse="csr", reset=not again, ensure_min_samples=2)
        check_classification_targets(y)
        classes, indices = np.unique(y, return_inverse=True)
        if again:
            self._check_layers()
        if again and not np.array_equal(classes, self.classes_):
            raise expected(
                "y", f"with the classes of the last fit, {self.classes_.tolist()}", classes.tolist()
            )
        if len(classes) < 2:
            raise ValueError(f"Expected `y` with at least two classes, but got 1 class: {show(classes[0])}.")
        self.classes_ = classes
        weight = row_weights(sample_weight, X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        pairs = tables(self, X, indices, weight, validation_data, seed, again)
        tasks = self._tasks(metric, bounds, pairs, seed, again)
        take_over(self, metric, bounds, train_all(tasks, self.n_jobs), [valid for _, valid in pairs])
        return self

    def _new_network(self) -> nn.Module:
        features, d = self.n_features_in_, len(self.classes_)
        if self.network is None:
            return mlp(features, d, self.hidden, self.dropout)
        return checked_network(self.network, features, d)

    def _check_layers(self) -> None:
        """The settings must still be those of the fitted networks."""
        if self.network is None:
            with torch.device("meta"):
                wanted = [p.shape for p in self._new_network().parameters()]
            if wanted != [p.shape for p in self.networks_[0].parameters()]:
                raise expected("hidden", "as in the last fit", show(self.hidden))

    def _tasks(
        self,
        metric: Metric,
        bounds: tuple[Constraint, ...],
        pairs: list[tuple[TrainingData, TrainingData]],
        seed: int,
        again: bool,
    ) -> list[Task]:
        """What each bag is trained from."""
        if again and len(self.networks_) != len(pairs):
            raise expected("n_bags", f"as in the last fit, {len(self.networks_)}", len(pairs))
        d, tasks = len(self.classes_), []
        settings = (self.learning_rate, int(self.max_epochs), int(self.patience))
        for number, (train, valid) in enumerate(pairs):
            counts = np.bincount(train.y.cpu().numpy(), minlength=d)
            weight = class_weight_tensor(self.class_weight, self.classes_, counts)
            plan = phases(self.strategy, Problem(metric, train.y, d, weight, *settings, bounds))
            for phase in plan:
                phase.loss.to(self.device)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed + number)
                network = self.networks_[number] if again else self._new_network().to(self.device)
            checkpoint = None
            if self.checkpoint is not None:
                identity = _persistence.identity(self, network, train, valid)
                checkpoint = Checkpoint(Path(self.checkpoint) / f"bag-{number}", identity)
            size = rows_of_a_batch(self.batch_size, counts)
            report = progress if self.verbose else None
            rows = (network, train, valid, plan, metric, size, seed + number)
            tasks.append(Task(*rows, bounds, report, checkpoint))
        return tasks

    def _logits(self, X: Any) -> Tensor:
        check_is_fitted(self, "networks_")
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        table = features(X, self.scaler_, self.device)
        # In double precision, so that a row's result does not depend on the rows beside it.
        own = self.network is None
        networks = [copy.deepcopy(one).double() if own else one for one in self.networks_]
        logits = [predict_logits(network, table).double().cpu() for network in networks]
        return torch.stack(logits).mean(0)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row: that with the largest probability, or what `rule_` decides."""
        logits = self._logits(X)
        if self.rule_ is not None:
            return self.rule_.predict(self._probabilities(logits))
        return np.asarray(self.classes_[logits.argmax(-1).numpy()])

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each class; from a metric loss they lean to 0 and 1, unless calibrated."""
        return self._probabilities(self._logits(X))

    def _probabilities(self, logits: Tensor) -> NDArray[Any]:
        return np.asarray((logits / self.softmax_temperature_).softmax(-1).numpy())

    def decision_function(self, X: Any) -> NDArray[Any]:
        """What is compared to decide, (n,) for two classes, else (n, d): its sign or argmax predicts.

        The logits (for two classes the second minus the first), or the margins of `rule_`.
        """
        logits = self._logits(X)
        if self.rule_ is not None:
            return self.rule_.margins(self._probabilities(logits))
        return np.asarray(logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits)

    def save(self, folder: str | PathLike[str]) -> None:
        """Save the classifier: weights in safetensors, the rest in JSON; a killed save loses nothing."""
        check_is_fitted(self, "networks_")
        self._check_layers()
        _persistence.save(self, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str], network: Any = None) -> MetricClassifier:
        """Load a classifier; nothing in the files is executed. `network` is needed if one was given."""
        model: MetricClassifier = _persistence.load(cls, folder, network)
        return model
