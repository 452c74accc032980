"""The metric as a boosting objective: gradients against autograd, and real boosting runs."""

import lightgbm as lgb
import numpy as np
import pytest
import torch
import xgboost as xgb

from evalign import boosting, metrics
from evalign.softsets import LinearStep, binary_soft_confusion, soft_assign, soft_confusion

METRICS = ["f1", "mcc", "balanced_accuracy", "fbeta(beta=2)", "accuracy"]


class Data:
    """A dataset with the interface of both libraries."""

    def __init__(self, y, weight=None):
        self.y, self.weight = y, weight

    def get_label(self):
        return self.y

    def get_weight(self):
        return self.weight


def plain_loss(metric, scores, y, weight, temperature):
    """1 - M of the soft confusion matrix, by the formulas, and the cost matrix there."""
    share = weight / weight.sum()
    if scores.ndim == 1:
        step = LinearStep(temperature=temperature)
        matrix = binary_soft_confusion(
            scores.sigmoid()[:, None], y[:, None].double(), 0.5, step, share[:, None]
        )
        matrix = matrix.reshape(2, 2)
    else:
        parts = soft_assign(scores.softmax(-1), temperature)
        matrix = soft_confusion(parts, y, scores.shape[1], share)
    return 1 - metric(matrix), metric.gradient(matrix.detach())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("name", METRICS)
def test_gradient_is_that_of_autograd(name, classes, weighted):
    generator = np.random.default_rng(classes)
    shape = 200 if classes == 2 else (200, classes)
    scores, y = 2 * generator.normal(size=shape), generator.integers(0, classes, 200)
    weight = generator.uniform(0.1, 3, 200) if weighted else None
    gradient, hessian = boosting.objective(name, 0.15)(scores, Data(y, weight))

    logits = torch.from_numpy(scores).requires_grad_()
    shares = torch.ones(200).double() if weight is None else torch.from_numpy(weight)
    value, cost = plain_loss(metrics.as_metric(name), logits, torch.from_numpy(y), shares, 0.15)
    value.backward()
    spread = (cost.amax(1) - cost.amin(1))[torch.from_numpy(y)] * shares / shares.mean()
    wanted = logits.grad * 200 / spread.mean()
    np.testing.assert_allclose(gradient, wanted.numpy(), rtol=1e-6, atol=1e-9)
    assert (hessian > 0).all()
    assert gradient.shape == hessian.shape == scores.shape


def test_hessian_is_curvature_times_a_weight_of_mean_one():
    generator = np.random.default_rng(0)
    scores, y = generator.normal(size=500), generator.integers(0, 2, 500)
    _, hessian = boosting.objective("f1").gradients(scores, y)
    p = 1 / (1 + np.exp(-scores))
    weights = hessian / (p * (1 - p))
    assert weights.mean() == pytest.approx(1, rel=1e-9)
    assert np.unique(weights.round(9)).size == 2  # one weight a class


def test_gradients_do_not_depend_on_the_number_of_rows():
    generator = np.random.default_rng(1)
    scores, y = generator.normal(size=(60, 3)), generator.integers(0, 3, 60)
    once = boosting.objective("f1").gradients(scores, y)
    twice = boosting.objective("f1").gradients(np.tile(scores, (2, 1)), np.tile(y, 2))
    for one, two in zip(once, twice, strict=True):
        np.testing.assert_allclose(one, two[:60], rtol=1e-9)


def test_without_a_gradient_of_the_metric_nothing_changes():
    gradient, hessian = boosting.objective("f1").gradients(np.full(5, -1.0), np.zeros(5, dtype=int))
    assert np.isfinite(gradient).all()
    assert (hessian > 0).all()


def test_lower_is_better_is_minimised():
    costs = metrics.cost([[0, 1], [5, 0]])
    gradient, _ = boosting.objective(costs).gradients(np.zeros(4), np.array([1, 1, 0, 0]))
    assert (gradient[:2] < 0).all()  # raising the score of a positive lowers the cost
    assert (gradient[2:] > 0).all()
    assert abs(gradient[0]) == pytest.approx(5 * gradient[2])


def test_constraints_press_on_the_scores():
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 400)
    scores = generator.normal(size=400) + y  # precision below 0.9
    goal = boosting.objective("recall", constraints="precision >= 0.9")
    first, _ = goal.gradients(scores, y)
    for _ in range(200):
        last, _ = goal.gradients(scores, y)
    assert goal.loss.multipliers.item() > 0
    assert first[y == 0].sum() == pytest.approx(0)  # recall alone does not see negatives
    assert last[y == 0].sum() > 0


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(3000, 4))
    y = (x[:, 0] + 0.7 * x[:, 1] * x[:, 2] + 0.5 * generator.normal(size=3000) > 1.6).astype(int)
    return x[:2000], y[:2000], x[2000:], y[2000:]


def three_classes(x, generator):
    return np.digitize(x[:, 0] + 0.5 * generator.normal(size=len(x)), [0.5, 1.8])


SETTINGS = {"num_leaves": 7, "verbosity": -1, "num_threads": 1, "seed": 0}


def test_lightgbm_boosts_two_classes_on_the_metric(table):
    x, y, x_test, y_test = table
    start = np.full(len(y), -1.0)
    record = {}
    booster = lgb.train(
        {**SETTINGS, "objective": boosting.objective("f1"), "metric": "None"},
        lgb.Dataset(x, y, init_score=start), 40,
        valid_sets=[lgb.Dataset(x_test, y_test, init_score=np.full(len(y_test), -1.0))], valid_names=["test"],
        feval=boosting.evaluation("f1"),
        callbacks=[lgb.early_stopping(20, verbose=False), lgb.record_evaluation(record)],
    )  # fmt: skip
    scores = booster.predict(x_test, raw_score=True) - 1.0
    value = metrics.f1().score(y_test, (scores >= 0).astype(int))
    assert value == pytest.approx(max(record["test"]["f1"]))
    assert value > 0.5  # all positive: below 0.2


def test_lightgbm_boosts_many_classes_on_the_metric(table):
    x, _, x_test, _ = table
    generator = np.random.default_rng(1)
    y, y_test = three_classes(x, generator), three_classes(x_test, generator)
    settings = {**SETTINGS, "objective": boosting.objective("f1"), "num_class": 3, "metric": "None"}
    booster = lgb.train(settings, lgb.Dataset(x, y), 60)
    value = metrics.f1().score(y_test, booster.predict(x_test, raw_score=True).argmax(1))
    assert value > 0.55  # always the largest class: below 0.3


def test_xgboost_boosts_two_classes_on_the_metric(table):
    x, y, x_test, y_test = table
    train, test = (xgb.DMatrix(*pair) for pair in ((x, y), (x_test, y_test)))
    for data in (train, test):
        data.set_base_margin(np.full(data.num_row(), -1.0))
    record = {}
    booster = xgb.train(
        {"max_depth": 3, "nthread": 1, "seed": 0, "disable_default_eval_metric": 1},
        train, 40, evals=[(test, "test")], obj=boosting.objective("f1"),
        custom_metric=boosting.evaluation("f1"), evals_result=record, verbose_eval=False,
    )  # fmt: skip
    scores = booster.predict(test, output_margin=True)
    value = metrics.f1().score(y_test, (scores >= 0).astype(int))
    assert value == pytest.approx(record["test"]["f1"][-1])
    assert value > 0.6


def test_xgboost_boosts_many_classes_on_the_metric(table):
    x, _, x_test, _ = table
    generator = np.random.default_rng(1)
    y, y_test = three_classes(x, generator), three_classes(x_test, generator)
    settings = {"max_depth": 3, "nthread": 1, "num_class": 3, "disable_default_eval_metric": 1}
    booster = xgb.train(settings, xgb.DMatrix(x, y), 60, obj=boosting.objective("f1"))
    value = metrics.f1().score(y_test, booster.predict(xgb.DMatrix(x_test), output_margin=True).argmax(1))
    assert value > 0.55


def test_evaluation_counts_weights_and_takes_a_threshold():
    data = Data(np.array([1, 1, 0]), np.array([3.0, 1.0, 1.0]))
    assert boosting.evaluation("recall")(np.array([0.1, -0.1, 0.1]), data) == ("recall", 0.75)
    assert boosting.evaluation("recall", threshold=0.5)(np.array([0.1, 0.6, 0.1]), data) == ("recall", 0.25)
    assert boosting.evaluation("accuracy")(np.eye(3)[[1, 1, 2]], Data(np.array([1, 1, 0])))[
        1
    ] == pytest.approx(2 / 3)


@pytest.mark.parametrize("make", [boosting.objective, boosting.evaluation])
@pytest.mark.parametrize("wrong", ["auroc", "f1(average=None)", "f2"])
def test_metrics_without_one_number_are_refused(make, wrong):
    with pytest.raises(ValueError, match="Expected `metric`"):
        make(wrong)


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="`temperature` in"):
        boosting.objective("f1", 0.7)
    with pytest.raises(ValueError, match="`threshold` to be a finite number"):
        boosting.evaluation("f1", threshold="half")
