"""The scikit-learn classes of LightGBM, XGBoost and CatBoost with the same objective and evaluation."""

import copy
import pickle
import threading

import lightgbm as lgb
import numpy as np
import pytest
import torch
import xgboost as xgb
from catboost import CatBoostClassifier
from sklearn.base import clone
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_score

from evalign import boosting, metrics
from evalign.boosting._catboost import differentiate_memberships
from evalign.softsets import soft_assign

ROUNDS = 60


def make_table(classes, seed=0):
    """Rows to train on, to stop by and to test on: 3 % of the last class."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(5000, 6))
    score = x[:, 0] + 0.7 * x[:, 1] * x[:, 2] + 0.8 * generator.normal(size=5000)
    y = np.digitize(score, [2.2] if classes == 2 else [0.8, 2.2])
    return [(x[rows], y[rows]) for rows in (slice(1500), slice(1500, 3000), slice(3000, None))]


def make_lightgbm(**settings):
    return lgb.LGBMClassifier(n_estimators=ROUNDS, num_leaves=7, n_jobs=1, verbose=-1, **settings)


def make_xgboost(**settings):
    return xgb.XGBClassifier(n_estimators=ROUNDS, max_depth=3, n_jobs=1, **settings)


def make_catboost(classes, **settings):
    return CatBoostClassifier(
        iterations=ROUNDS, learning_rate=0.1, depth=3, thread_count=1, verbose=0, allow_writing_files=False,
        class_names=tuple(range(classes)), **settings,
    )  # fmt: skip


def decide(model, x):
    """The documented way to predict with each class."""
    if isinstance(model, lgb.LGBMClassifier):
        return model.classes_[boosting.decide(model.predict(x, raw_score=True))]
    return model.predict(x).ravel()


def macro_f1(y, predicted):
    return f1_score(y, predicted, average="binary" if y.max() == 1 else "macro")


def continue_on_metric(library, classes, train):
    """A model of the log-loss, and one that continues from it on the metric."""
    goal = boosting.objective("f1")
    if library == "lightgbm":
        first = make_lightgbm().fit(*train)
        return first, make_lightgbm(objective=goal, metric="None").fit(*train, init_model=first)
    if library == "xgboost":
        first = make_xgboost().fit(*train)
        return first, make_xgboost(objective=goal).fit(*train, xgb_model=first)
    first = make_catboost(classes).fit(*train)
    metric = make_catboost(classes, loss_function=goal, eval_metric=boosting.evaluation("f1"))
    metric.set_params(iterations=60 if classes == 2 else 15)  # row by row, more classes take longer
    return first, metric.fit(*train, init_model=first)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_rounds_on_the_metric_improve_it(library, classes):
    train, _, test = make_table(classes)
    first, second = continue_on_metric(library, classes, train)
    before, after = (macro_f1(test[1], decide(model, test[0])) for model in (first, second))
    assert after > before + 0.01


@pytest.mark.parametrize("classes", [2, 3])
def test_xgboost_and_catboost_predict_classes_and_probabilities(classes):
    train, _, (x, y) = make_table(classes)
    goal = boosting.objective("f1")
    catboost = make_catboost(classes, loss_function=goal, eval_metric=boosting.evaluation("f1"))
    catboost.set_params(iterations=10)
    for model in (make_xgboost(objective=goal), catboost):
        p = model.fit(*train).predict_proba(x)
        np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)
        np.testing.assert_array_equal(model.predict(x).ravel(), p.argmax(1))
        assert macro_f1(y, p.argmax(1)) > 1.5 / (classes + 3)  # a constant prediction is far below


@pytest.mark.parametrize("classes", [2, 3])
def test_lightgbm_predicts_by_one_line(classes):
    train, _, (x, y) = make_table(classes)
    labels = np.array(["a", "b", "c"])
    model = make_lightgbm(objective=boosting.objective("f1")).fit(train[0], labels[train[1]])
    scores = model.predict(x, raw_score=True)
    predicted = model.classes_[boosting.decide(scores)]
    np.testing.assert_array_equal(
        predicted, labels[boosting.scores_to_probabilities(scores).argmax(1)]
    )  # the two lines of the docs agree
    assert (predicted == labels[y]).mean() > 0.6  # by chance: below 0.4


def test_early_stopping_is_by_the_metric_and_in_its_direction():
    train, valid, _ = make_table(2)
    goal, measure = boosting.objective("f1"), boosting.evaluation("f1")
    record = {}
    light = make_lightgbm(objective=goal, metric="None").fit(
        *train, eval_X=valid[0], eval_y=valid[1], eval_metric=measure,
        callbacks=[lgb.early_stopping(10, verbose=False), lgb.record_evaluation(record)],
    )  # fmt: skip
    assert light.best_score_["valid_0"] == {"f1": max(record["valid_0"]["f1"])}

    extreme = make_xgboost(objective=goal, eval_metric=measure, early_stopping_rounds=10)
    extreme.fit(*train, eval_set=[valid], verbose=False)
    assert extreme.best_score == min(extreme.evals_result()["validation_0"]["1-f1"])
    cat = make_catboost(2, loss_function=goal, eval_metric=measure, early_stopping_rounds=10)
    cat.fit(*train, eval_set=valid)
    history = cat.get_evals_result()["validation"]["Evaluation"]
    assert cat.best_iteration_ == int(np.argmax(history))

    for model, best in (
        (light, light.best_score_["valid_0"]["f1"]),
        (extreme, 1 - extreme.best_score),
        (cat, max(history)),
    ):
        assert f1_score(valid[1], decide(model, valid[0])) == pytest.approx(best, abs=1e-6)


def test_a_cost_is_minimised_in_every_library():
    cost = boosting.evaluation(metrics.cost([[0, 1], [5, 0]]))
    y, scores = np.array([1, 0]), np.array([-1.0, -1.0])
    assert cost(y, scores, None, None) == (cost.name, 2.5, False)
    assert (cost(y, scores), cost.__name__) == (2.5, cost.name)
    assert (cost.evaluate([scores], y, None), cost.is_max_optimal()) == ((2.5, 1.0), False)


def test_each_library_gets_the_form_it_expects():
    measure = boosting.evaluation("recall")
    y, scores, weight = np.array([1, 1, 0]), np.array([0.1, -0.1, 0.1]), np.array([3.0, 1.0, 1.0])
    assert measure(y, scores, None, None) == ("recall", 0.5, True)  # LGBMClassifier
    assert measure(y, scores, weight, None) == ("recall", 0.75, True)
    assert measure(y, scores) == 0.5  # XGBClassifier, which minimises
    assert measure(y, scores, sample_weight=weight) == 0.25
    assert measure.evaluate([scores], y, weight) == (0.75, 1.0)  # CatBoost
    columns = np.array([[0.2, 0.1, 0.0], [0.1, 0.9, 0.3], [0.1, 0.9, 0.3]])
    assert measure.evaluate(columns.T, np.array([0, 1, 2]), None)[0] == pytest.approx(2 / 3)


@pytest.mark.parametrize("make", [make_lightgbm, make_xgboost])
def test_weights_are_those_of_repeated_rows(make):
    (x, y), _, (x_test, _) = make_table(2)
    times = np.random.default_rng(0).integers(1, 4, len(y))
    goal = boosting.objective("f1")
    gradient, hessian = goal(y, np.linspace(-1, 1, len(y)), times)
    repeated = goal(np.repeat(y, times), np.repeat(np.linspace(-1, 1, len(y)), times))
    last = np.cumsum(times) - 1
    np.testing.assert_allclose(gradient / times * times.mean(), repeated[0][last], rtol=1e-9)
    np.testing.assert_allclose(hessian / times * times.mean(), repeated[1][last], rtol=1e-9)
    plain, weighted = (
        decide(make(objective=goal).fit(x, y, sample_weight=weight), x_test)
        for weight in (None, np.where(y == 1, 20.0, 1.0))
    )
    assert weighted.mean() > 1.5 * plain.mean()  # the wrapper passes the weights on


def test_a_metric_with_spaces_in_its_name_does_not_confuse_xgboost():
    train, valid, _ = make_table(2)
    measure = boosting.evaluation(0.5 * metrics.f1() + 0.5 * metrics.mcc())
    model = make_xgboost(eval_metric=measure, objective=boosting.objective("f1"))
    model.fit(*train, eval_set=[valid], verbose=False)
    assert set(model.evals_result()["validation_0"]) == {"logloss", "1-0.5*f1()+0.5*mcc()"}


@pytest.mark.parametrize("d", [3, 4, 9])
@pytest.mark.parametrize("temperature", [0.05, 0.2, 0.4])
def test_the_gradient_of_one_row_is_that_of_autograd(d, temperature):
    generator = np.random.default_rng(d)
    for size in (0.3, 3.0):
        logits = torch.from_numpy(size * generator.normal(size=(50, d))).requires_grad_()
        costs = torch.from_numpy(generator.normal(size=(50, d)))
        memberships = soft_assign(logits.softmax(-1), temperature)
        (memberships * costs).sum().backward()
        for row in range(50):
            z, c = logits[row].tolist(), costs[row].tolist()
            own, gradient = differentiate_memberships(z, c, temperature)
            np.testing.assert_allclose(own, memberships[row].detach(), rtol=1e-9)
            np.testing.assert_allclose(gradient, logits.grad[row], rtol=1e-8, atol=1e-12)


def pass_blocks(goal, scores, y, weight, size):
    """One pass over all rows, as CatBoost makes it for two classes."""
    parts = [slice(start, start + size) for start in range(0, len(y), size)]
    weights = [None if weight is None else weight[part] for part in parts]
    blocks = [goal.calc_ders_range(scores[p], y[p], w) for p, w in zip(parts, weights, strict=True)]
    return np.concatenate(blocks)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["f1", "mcc", "balanced_accuracy"])
def test_catboost_blocks_have_the_gradient_of_all_rows(name, weighted):
    generator = np.random.default_rng(1)
    y = (generator.random(900) < 0.2).astype(np.float32)
    scores = generator.normal(size=900) + y
    weight = generator.uniform(0.1, 3, 900).astype(np.float32) if weighted else None
    goal = boosting.objective(name)
    pass_blocks(goal, np.zeros(900), y, weight, 200)  # the first round: equal scores
    pass_blocks(goal, scores, y, weight, 250)
    got = pass_blocks(goal, scores, y, weight, 300)
    gradient, hessian = boosting.objective(name).gradients(scores, y, weight)
    np.testing.assert_allclose(got, -np.stack([gradient, hessian], 1), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_catboost_rows_have_the_gradient_of_all_rows(weighted):
    generator = np.random.default_rng(2)
    y, scores = generator.integers(0, 3, 400), generator.normal(size=(400, 3))
    weight = generator.uniform(0.1, 3, 400) if weighted else None
    goal = boosting.objective("f1")

    def pass_rows(table):
        shares = np.ones(400) if weight is None else weight
        return [goal.calc_ders_multi(*row) for row in zip(table, y.astype(float), shares, strict=True)]

    pass_rows(np.zeros((400, 3)))
    pass_rows(scores)
    pass_rows(scores)
    got = pass_rows(scores)
    gradient, hessian = boosting.objective("f1").gradients(scores, y, weight)
    np.testing.assert_allclose([row for row, _ in got], -gradient, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose([np.diag(row) for _, row in got], -hessian, rtol=1e-6)


def test_a_second_fit_of_catboost_equals_the_first():
    for classes in (2, 3):
        train, _, (x, _) = make_table(classes)
        goal, measure = boosting.objective("f1"), boosting.evaluation("f1")
        model = make_catboost(classes, loss_function=goal, eval_metric=measure).set_params(iterations=3)
        first, second = (model.fit(*train).predict_proba(x[:50]) for _ in range(2))
        np.testing.assert_array_equal(first, second)


def test_catboost_may_call_from_several_threads():
    generator = np.random.default_rng(3)
    y, scores = (generator.random(500) < 0.3).astype(np.float32), generator.normal(size=500)
    goal = boosting.objective("f1")
    threads = [
        threading.Thread(target=pass_blocks, args=(goal, scores, y, None, 50)) for _ in range(4)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert goal.rounds.total.rows == 2000  # no block was lost
    assert float(goal.rounds.total.matrix.sum()) == pytest.approx(2000)


def test_models_can_be_cloned_copied_and_pickled():
    train, _, _ = make_table(2)
    goal, measure = boosting.objective("f1"), boosting.evaluation("f1")
    models = [
        make_lightgbm(objective=goal),
        make_xgboost(objective=goal, eval_metric=measure),
        make_catboost(2, loss_function=goal, eval_metric=measure),
    ]
    assert "objective('f1')" in repr(models[0])
    assert "evaluation('f1')" in repr(models[1])
    for model in models:
        clone(model)
        again = pickle.loads(pickle.dumps(model.fit(*train)))
        np.testing.assert_array_equal(decide(again, train[0]), decide(model, train[0]))
    assert cross_val_score(models[1], *train, scoring="f1", cv=2).min() > 0.2
    constrained = boosting.objective("recall", constraints="precision >= 0.9")
    assert copy.deepcopy(constrained).loss is not constrained.loss  # multipliers are not shared


def test_wrong_use_is_explained():
    goal = boosting.objective("f1")
    with pytest.raises(ValueError, match="`y` with class indices from 0 to 1, but got 2.*Set `num_class`"):
        goal(np.array([0, 1, 2]), np.zeros(3))
    with pytest.raises(ValueError, match="`y` with class indices from 0 to 2, but got -1"):
        boosting.evaluation("f1")(np.array([0, -1]), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="`metric` with class indices, .*recall\\['rare'\\]"):
        boosting.evaluation("recall['rare']")
    with pytest.raises(ValueError, match="`y` with one class index per row"):
        goal(np.zeros((3, 2)), np.zeros(3))
    bounded = boosting.objective("recall", constraints="precision >= 0.9")
    with pytest.raises(ValueError, match="`constraints` to be empty for CatBoost"):
        bounded.calc_ders_range(np.zeros(2), np.array([0.0, 1.0]), None)
