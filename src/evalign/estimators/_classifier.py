"""`MetricClassifier`: a network trained on the metric, as a scikit-learn classifier."""

from __future__ import annotations

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

from evalign._errors import expected, shown
from evalign.decisions import expected_calibration_error, fit_temperature
from evalign.estimators import _persistence
from evalign.estimators._bags import Bag, Task, folds, progress, train_all
from evalign.estimators._preparation import (
    checked_metric,
    checked_network,
    class_weight_tensor,
    features,
    new_scaler,
    row_weights,
    rows_of_a_batch,
    stratified_split,
)
from evalign.estimators._strategies import Problem, phases
from evalign.metrics import Confusion, Metric
from evalign.networks import mlp
from evalign.training._checkpoint import Checkpoint
from evalign.training._fit import Table, hard_value, predict_logits


class MetricClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A feed-forward network trained on the metric it is judged by.

    The default strategy trains with cross-entropy until it stalls, then on the metric, anchored by
    cross-entropy and annealed, and keeps the weights with the best metric on a validation part that it
    sets aside: there it never ends below cross-entropy. Features are centred and scaled inside.

    Args:
        metric: Anything `evalign.metrics.get` understands.
        strategy: `"aligned"`, `"cross_entropy"`, `"weighted_cross_entropy"`, `"focal"`, `"softset"` (two
            classes), `"east"` (the metric from random weights) or `"surrogate_fbeta"` (two classes).
        hidden: The sizes of the hidden layers.
        dropout: The share of units dropped in training.
        batch_size: Rows of a batch, or `"auto"`: what `batch_size_advice` says, within the data.
        lr: Learning rate of AdamW.
        max_epochs: The most epochs of a phase.
        patience: Epochs without improvement before a phase ends, or its loss is cooled.
        validation_fraction: The share of the rows set aside, stratified.
        class_weight: `"balanced"`, or a weight for each class label.
        bags: More than 1 trains that many networks, each validated on its own fold; logits are averaged.
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
        calibration_error_: With `calibrate`, the expected calibration error there, before and after.

    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, weights=[0.9], random_state=0)
    >>> model = MetricClassifier("f1", hidden=(32,), max_epochs=30, random_state=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_proba(X[:5]).shape
    ((5,), (5, 2))
    """

    classes_: NDArray[Any]
    networks_: list[nn.Module]
    scaler_: Any

    def __init__(
        self,
        metric: Metric | Callable[[Confusion], Tensor] | str = "f1",
        strategy: str = "aligned",
        *,
        hidden: Sequence[int] = (512, 256, 128),
        dropout: float = 0.25,
        batch_size: int | str = "auto",
        lr: float = 1e-3,
        max_epochs: int = 200,
        patience: int = 10,
        validation_fraction: float = 0.2,
        class_weight: Mapping[Any, float] | str | None = None,
        bags: int = 1,
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
        self.lr = lr
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.bags = bags
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
        metric = checked_metric(self)
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
            raise ValueError(f"Expected `y` with at least two classes, but got 1 class: {shown(classes[0])}.")
        self.classes_ = classes
        weight = row_weights(sample_weight, X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        pairs = self._tables(X, indices, weight, validation_data, seed, again)
        tasks = self._tasks(metric, pairs, seed, again)
        self._keep(metric, train_all(tasks, self.n_jobs), [valid for _, valid in pairs])
        return self

    def _tables(
        self,
        X: Any,
        y: NDArray[Any],
        weight: Any,
        validation_data: Any,
        seed: int,
        again: bool,
    ) -> list[tuple[Table, Table]]:
        """The training and the validation part of each bag, scaled by training rows."""
        if validation_data is not None:
            if self.bags > 1:
                raise expected("validation_data", "to be None with bags", f"data and {self.bags} bags")
            if not isinstance(validation_data, list | tuple) or len(validation_data) != 2:
                raise expected("validation_data", "to be (X, y)", type(validation_data).__name__)
            held_x, labels = validate_data(self, *validation_data, accept_sparse="csr", reset=False)
            stray = np.setdiff1d(labels, self.classes_)
            if stray.size:
                raise expected("validation_data", "with classes of `y` only", shown(stray[0]))
            self.scaler_ = self.scaler_ if again else new_scaler(X, weight)
            held_y = np.searchsorted(self.classes_, labels)
            return [(self._table(X, y, weight), self._table(held_x, held_y, None))]
        if self.bags > 1:
            parts = folds(y, int(self.bags), seed)
        else:
            parts = [stratified_split(y, self.validation_fraction, seed)]
        if not again:
            rows = np.arange(len(y)) if self.bags > 1 else parts[0][0]
            self.scaler_ = new_scaler(X[rows], None if weight is None else weight[rows])

        def table(rows: NDArray[Any]) -> Table:
            return self._table(X[rows], y[rows], None if weight is None else weight[rows])

        return [(table(rows), table(held)) for rows, held in parts]

    def _table(self, X: Any, y: NDArray[Any], weight: Any) -> Table:
        targets = torch.as_tensor(y, dtype=torch.long, device=self.device)
        weights = None if weight is None else torch.as_tensor(weight, dtype=torch.float32, device=self.device)
        return Table(features(X, self.scaler_, self.device), targets, weights)

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
                raise expected("hidden", "as in the last fit", shown(self.hidden))

    def _tasks(self, metric: Metric, pairs: list[tuple[Table, Table]], seed: int, again: bool) -> list[Task]:
        """What each bag is trained from."""
        if again and len(self.networks_) != len(pairs):
            raise expected("bags", f"as in the last fit, {len(self.networks_)}", len(pairs))
        d, tasks = len(self.classes_), []
        settings = (self.lr, int(self.max_epochs), int(self.patience))
        for number, (train, valid) in enumerate(pairs):
            counts = np.bincount(train.y.cpu().numpy(), minlength=d)
            weight = class_weight_tensor(self.class_weight, self.classes_, counts)
            plan = phases(self.strategy, Problem(metric, train.y, d, weight, *settings))
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
            tasks.append(Task(network, train, valid, plan, metric, size, seed + number, report, checkpoint))
        return tasks

    def _keep(self, metric: Metric, bags: list[Bag], held: list[Table]) -> None:
        """Take over what was trained, judged and calibrated on the rows each bag was not trained on."""
        self.networks_ = [bag.network for bag in bags]
        self.history_ = [{"bag": number, **row} for number, bag in enumerate(bags) for row in bag.history]
        self.n_iter_ = len(self.history_)
        self.temperature_ = self.history_[-1]["temperature"]
        logits = torch.cat([bag.held_logits for bag in bags])
        targets = torch.cat([table.y for table in held])
        weights = [table.weight for table in held if table.weight is not None]
        weight = torch.cat(weights) if weights else None
        self.validation_score_ = hard_value(metric, logits, Table(None, targets, weight))
        self.softmax_temperature_ = 1.0
        if self.calibrate:
            self.softmax_temperature_ = fit_temperature(logits, targets, weight)
            self.calibration_error_ = tuple(
                expected_calibration_error((logits / t).softmax(-1), targets, weight)
                for t in (1.0, self.softmax_temperature_)
            )

    def _logits(self, X: Any) -> Tensor:
        check_is_fitted(self, "networks_")
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        table = features(X, self.scaler_, self.device)
        logits = [predict_logits(network, table).double().cpu() for network in self.networks_]
        return torch.stack(logits).mean(0)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        labels = self._logits(X).argmax(-1).numpy()
        return np.asarray(self.classes_[labels])

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each class; from a metric loss they lean to 0 and 1, unless calibrated."""
        return np.asarray((self._logits(X) / self.softmax_temperature_).softmax(-1).numpy())

    def decision_function(self, X: Any) -> NDArray[Any]:
        """The logits; for two classes that of the second minus that of the first."""
        logits = self._logits(X).numpy()
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
