"""`MetricLinear`: its optimum, its conventions, its cross-fitted choice and its files."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import parallel_config
from safetensors.torch import load as read_safetensors
from safetensors.torch import save as write_safetensors
from scipy import sparse
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, precision_score
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import evalign as ev
from evalign import metrics
from evalign._files import read_bundle, write_bundle
from evalign.decisions import Goal
from evalign.estimators import MetricDecision, MetricLinear, _logistic
from evalign.estimators._candidates import CANDIDATES, Blend, FoldScores, get_offsets
from evalign.estimators._logistic import LinearRows, MetricObjective, fit_logistic
from evalign.estimators._offsets import fit_offsets

ROWS = "The folds depend on the rows, as for every classifier with a cross-validation inside."
RULE = "It expects the class with the largest probability, and the rule for F1 decides otherwise."
QUICK = {"cv": 2, "random_state": 0}
FAILURES = {f"check_sample_weight_equivalence_on_{kind}_data": ROWS for kind in ("dense", "sparse")}
FAILURES |= {"check_classifiers_train": RULE}


@parametrize_with_checks([MetricLinear(cv=2, random_state=0)], expected_failed_checks=lambda model: FAILURES)
def test_check(estimator, check, monkeypatch):
    monkeypatch.setattr(_logistic, "ITERATIONS", 3)  # the checks are about conventions, not about the optimum
    if "representation_invariance" in str(check) or "sparse_array" in str(check):
        pytest.skip("it takes long; other checks have lists, arrays and sparse matrices")
    check(estimator)


def with_outliers(rows=600, seed=0):
    """The first feature separates the classes, the second one less, and outliers mislead the log-loss.

    The loss of the negatives far out on the positive side of the first feature grows with its coefficient, so
    logistic regression relies on the second feature. The metric counts each of them once.
    """
    generator = np.random.default_rng(seed)
    y = (generator.random(rows) < 0.2).astype(int)
    X = generator.normal(size=(rows, 2)) + np.outer(y, [4.0, 1.5])
    X[(y == 0) & (generator.random(rows) < 0.03), 0] = 30.0
    return X, y


def best_f1_of_all_lines(X, y):
    """The best F1 of all directions in steps of two degrees, and all thresholds."""
    best = 0.0
    for angle in np.linspace(0, 2 * np.pi, 181):
        order = np.argsort(-(X @ [np.cos(angle), np.sin(angle)]))
        predicted = np.arange(1, len(y) + 1)
        best = max(best, (2 * np.cumsum(y[order]) / (predicted + y.sum())).max())
    return best


def test_the_metric_wins_where_outliers_mislead_the_log_loss():
    X, y = with_outliers()
    X_new, y_new = with_outliers(2000, seed=1)
    ours = MetricLinear("f1", **QUICK).fit(X, y)
    plain = MetricDecision(LogisticRegression(), "f1", random_state=0).fit(X, y)
    value = f1_score(y_new, ours.predict(X_new))
    assert ours.chosen_ in ("metric", "metric from zero")
    assert value > f1_score(y_new, plain.predict(X_new)) + 0.2
    assert value > best_f1_of_all_lines(X_new, y_new) - 0.02
    # The features of new rows count in their own units, and probabilities are calibrated.
    assert abs(ours.predict_proba(X_new)[:, 1].mean() - y_new.mean()) < 0.03


def test_a_well_specified_problem_stays_with_logistic_regression_or_equals_it():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(2000, 3))
    y = (generator.random(2000) < 1 / (1 + np.exp(2 - X @ [2.0, -1.0, 0.0]))).astype(int)
    model = MetricLinear("f1", **QUICK).fit(X, y)
    direction = model.coef_[0] / np.linalg.norm(model.coef_[0])
    np.testing.assert_allclose(direction, np.array([2.0, -1.0, 0.0]) / 5**0.5, atol=0.08)


@pytest.fixture(scope="module")
def binary():
    return make_classification(
        400, 8, n_informative=4, weights=[0.85], flip_y=0.02, class_sep=1.5, random_state=0
    )


@pytest.fixture(scope="module")
def three():
    return make_classification(
        300, 6, n_informative=4, n_redundant=0, n_classes=3, weights=[0.6, 0.2], class_sep=2.0, random_state=1
    )


def test_the_decision_function_is_linear_and_decides(binary, three):
    for X, y in (binary, three):
        labels = np.array(["a", "b", "c"])[y]
        model = MetricLinear("f1", **QUICK).fit(5 * X + 100, labels)
        linear = (5 * X + 100) @ model.coef_.T + model.intercept_
        decisions = model.decision_function(5 * X + 100)
        np.testing.assert_allclose(decisions, linear if len(model.classes_) == 3 else linear[:, 0])
        decided = linear.argmax(1) if len(model.classes_) == 3 else (linear[:, 0] >= 0).astype(int)
        np.testing.assert_array_equal(model.predict(5 * X + 100), model.classes_[decided])
        assert model.coef_.shape == (len(model.intercept_), X.shape[1])
        assert model.n_features_in_ == X.shape[1]


def test_the_rule_is_that_of_the_intercepts(binary, three):
    for X, y in (binary, three):
        model = MetricLinear("f1", **QUICK).fit(X, y)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(1), 1)
        np.testing.assert_array_equal(model.rule_.predict(p), model.predict(X))


def test_logistic_regression_is_the_mean_of_scikit_learns_over_the_folds(binary):
    X, y = binary
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    model = MetricLinear("accuracy", C=0.05, cv=folds).fit(X, y)
    scaler = StandardScaler().fit(X)
    Z = scaler.transform(X)
    fits = [LogisticRegression(C=0.05, max_iter=1000).fit(Z[rows], y[rows]) for rows, _ in folds.split(X, y)]
    if model.chosen_ == "logistic regression":
        coefficients = np.mean([one.coef_ for one in fits], axis=0)
        np.testing.assert_allclose(model.coef_ * scaler.scale_, coefficients, rtol=1e-6)
    p = np.empty(len(y))
    for fit, (_, held_out) in zip(fits, folds.split(X, y), strict=True):
        p[held_out] = fit.predict_proba(Z[held_out])[:, 1]
    predicted = np.empty(len(y), dtype=int)
    for _, held_out in folds.split(X, y):
        rest = np.setdiff1d(np.arange(len(y)), held_out)
        rule = ev.decisions.fit_rule(p[rest], y[rest], "accuracy")
        predicted[held_out] = rule.predict(p[held_out])
    assert model.candidates_["logistic regression"] == pytest.approx((predicted == y).mean(), abs=0.01)


@pytest.mark.parametrize("metric", ["f1", "mcc", "balanced_accuracy", "fbeta(beta=2)"])
def test_never_below_logistic_regression_by_cross_fitting(binary, three, metric):
    for X, y in (binary, three):
        model = MetricLinear(metric, **QUICK).fit(X, y)
        assert model.validation_score_ == model.candidates_[model.chosen_]
        assert model.validation_score_ >= model.candidates_["logistic regression"]
        assert set(model.candidates_) == {one.name for one in CANDIDATES}


def make_rows(kind, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(60, 3))
    if kind == "labels":
        return LinearRows(X, (X[:, :2] + generator.normal(size=(60, 2)) > 0).astype(int), np.ones(60), 2)
    d = 2 if kind == "two" else 3
    y = generator.integers(0, d, 60)
    return LinearRows(X, y, generator.random(60) + 0.5, d)


@pytest.mark.parametrize("constraints", [(), ("precision >= 0.95",)])
@pytest.mark.parametrize("kind", ["two", "three", "labels"])
def test_the_objective_is_the_loss_and_its_gradient_is_right(kind, constraints):
    rows = make_rows(kind)
    goal = Goal(metrics.f1(), metrics.as_constraints(constraints), labels=kind == "labels")
    objective = MetricObjective(rows, goal, C=0.5, anchor=0.3)
    weights = np.random.default_rng(1).normal(size=(rows.n_outputs, 4))
    value, gradient = objective(weights.ravel())
    z = torch.from_numpy(rows.X @ weights[:, :3].T + weights[:, 3])
    z = torch.cat([torch.zeros_like(z), z], 1) if kind == "two" else z
    task = "multilabel" if kind == "labels" else "multiclass"
    loss = ev.MetricLoss("f1", anchor=0.3, task=task, constraints=constraints).eval()
    penalty = (weights[:, :3] ** 2).sum() / (rows.weight.sum() * (2 if kind == "labels" else 1))
    plain = loss(z, torch.from_numpy(rows.y), torch.from_numpy(rows.weight))
    assert value == pytest.approx(float(plain) + 0.3 * penalty, rel=1e-6)
    for at in range(weights.size):
        step = np.zeros(weights.size)
        step[at] = 1e-6
        slope = (objective(weights.ravel() + step)[0] - objective(weights.ravel() - step)[0]) / 2e-6
        assert gradient[at] == pytest.approx(slope, abs=1e-5)


def test_offsets_equal_those_of_a_grid():
    generator = np.random.default_rng(0)
    y = generator.choice(3, 150, p=[0.7, 0.2, 0.1])
    logits = np.log([0.7, 0.2, 0.1]) + 1.2 * np.eye(3)[y] + 0.8 * generator.normal(size=(150, 3))
    goal = Goal(metrics.f1())
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)

    def mixed(offsets):
        predicted = (logits + offsets).argmax(1)
        matrix = np.zeros((3, 3))
        for row, guess in enumerate(predicted):
            matrix[:, guess] += (np.eye(3)[y[row]] + p[row]) / 2
        return float(goal.metric(torch.from_numpy(matrix)))

    grid = np.linspace(-1, 2.5, 15)
    best = max(mixed(np.array([0.0, a, b])) for a in grid for b in grid)
    assert mixed(fit_offsets(logits, y, np.ones(150), goal)) > best - 0.003


def test_offsets_satisfy_constraints_by_labels():
    generator = np.random.default_rng(0)
    y = generator.choice(3, 200, p=[0.6, 0.3, 0.1])
    logits = np.log([0.6, 0.3, 0.1]) + np.eye(3)[y] + generator.normal(size=(200, 3))
    goal = Goal(metrics.as_metric("recall[2]"), metrics.as_constraints("precision[2] >= 0.5"))
    values = []
    for one in (goal, Goal(goal.metric)):
        predicted = (logits + fit_offsets(logits, y, np.ones(200), one)).argmax(1)
        values.append(precision_score(y == 2, predicted == 2))
    assert values[0] >= 0.5 > values[1]


def test_many_classes_have_offsets_by_rarity():
    d = 20
    y = np.repeat(np.arange(d), np.arange(1, d + 1) * 3)
    logits = np.log(np.bincount(y) / len(y)) + np.eye(d)[y]
    offsets = fit_offsets(logits, y, np.ones(len(y)), Goal(metrics.balanced_accuracy()))
    assert balanced_accuracy_score(y, (logits + offsets).argmax(1)) > balanced_accuracy_score(
        y, logits.argmax(1)
    )
    shift = np.log(np.bincount(y).min() / np.bincount(y))[1:]
    np.testing.assert_allclose(offsets[1:] / shift, offsets[1] / shift[0])


@pytest.mark.parametrize("name", [one.name for one in CANDIDATES])
def test_blended_weights_have_the_blended_scores(name):
    generator = np.random.default_rng(0)
    X, kinds = generator.normal(size=(5, 3)), ("logistic", "metric", "zero")
    weights = {kind: generator.normal(size=(2, 4)) for kind in kinds}
    scores = {kind: X @ table[:, :3].T + table[:, 3] for kind, table in weights.items()}
    candidate = next(one for one in CANDIDATES if one.name == name)
    blend = Blend(candidate, np.array([2.0, 3.0]), np.array([-1.0, 1.0]))
    table = blend.apply_to_weights(weights)
    np.testing.assert_allclose(X @ table[:, :3].T + table[:, 3], blend.apply(scores))


def test_a_candidate_must_be_significantly_better():
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 400)
    noisy = (2 * y - 1 + 2.0 * generator.normal(size=400))[:, None]
    for gain, name in ((0.0, "logistic regression"), (0.6, "metric")):
        better = noisy + gain * (2 * y[:, None] - 1)
        scores = {"logistic": noisy, "metric": better, "zero": noisy}
        held_out = FoldScores(scores, np.arange(400) % 4, y, np.ones(400), 2, Goal(metrics.accuracy()))
        assert held_out.choose(CANDIDATES)[0].name == name


def test_sparse_features_are_not_densified(monkeypatch):
    generator = np.random.default_rng(0)
    X = sparse.random(400, 500, density=0.02, format="csr", random_state=0)
    X = sparse.hstack([X, sparse.csr_matrix((400, 3))]).tocsr()  # columns of zeros
    y = (X @ generator.normal(size=503) > 0.2).astype(int)

    def refuse(*args, **kwargs):
        raise AssertionError("densified")

    with monkeypatch.context() as patch:
        patch.setattr(type(X), "toarray", refuse)
        model = MetricLinear("f1", **QUICK).fit(X, y)
        predicted = model.predict(X)
    np.testing.assert_array_equal(model.coef_[0, -3:], 0)
    np.testing.assert_allclose(model.decision_function(X), X.toarray() @ model.coef_[0] + model.intercept_)
    assert (predicted == y).mean() > 0.8
    assert model.predict_proba(X.toarray()).shape == (400, 2)


def test_weights_count_as_rows(binary):
    X, y = binary
    heavy = MetricLinear("f1", **QUICK).fit(X, y, sample_weight=np.where(y == 1, 10.0, 1.0))
    plain = MetricLinear("f1", **QUICK).fit(X, y)
    assert heavy.predict(X).mean() > plain.predict(X).mean()
    doubled = MetricLinear("f1", **QUICK).fit(X, y, sample_weight=np.full(len(y), 2.0))
    np.testing.assert_allclose(doubled.coef_, plain.coef_)
    # Rows without weight change neither the scaling nor the penalty nor the counts.
    noise = np.random.default_rng(0).normal(size=(50, X.shape[1])) * 100
    weight = np.r_[np.ones(len(y)), np.zeros(50)]
    splits = [(np.r_[train, np.arange(400, 450)], test) for train, test in KFold(2).split(X)]
    ignored = MetricLinear("f1", cv=splits).fit(np.r_[X, noise], np.r_[y, np.ones(50, int)], weight)
    alone = MetricLinear("f1", cv=KFold(2)).fit(X, y)
    assert ignored.candidates_["logistic regression"] == alone.candidates_["logistic regression"]
    assert (ignored.predict(X) == alone.predict(X)).mean() > 0.97


def test_groups_stay_together(binary):
    X, y = binary
    groups = np.arange(len(y)) // 8
    seen = []

    class Spy(GroupKFold):
        def split(self, X, y=None, groups=None):
            seen.append(groups)
            return super().split(X, y, groups)

    MetricLinear("f1", cv=Spy(3)).fit(X, y, groups=groups)
    np.testing.assert_array_equal(seen[0], groups)
    # A copy of each row in its group: with groups, no copy of a held-out row is trained on.
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 40)), generator.integers(0, 2, 60)
    twice = np.r_[X, X], np.r_[y, y]
    apart = MetricLinear("accuracy", **QUICK).fit(*twice, groups=np.r_[np.arange(60), np.arange(60)])
    mixed = MetricLinear("accuracy", **QUICK).fit(*twice)
    assert mixed.validation_score_ > apart.validation_score_ + 0.1


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_multilabel(tmp_path, average):
    X, Y = make_multilabel_classification(400, n_features=10, n_classes=4, random_state=0)
    metric = f"f1(average='{average}')"
    model = MetricLinear(metric, **QUICK).fit(X, Y)
    predicted = model.predict(X)
    assert model.coef_.shape == (4, 10)
    assert predicted.shape == model.predict_proba(X).shape == (400, 4)
    np.testing.assert_array_equal(predicted, X @ model.coef_.T + model.intercept_ >= 0)
    np.testing.assert_array_equal(predicted, model.rule_.predict(model.predict_proba(X)))
    assert f1_score(Y, predicted, average=average) > 0.7
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(MetricLinear.load(tmp_path / "model").predict(X), predicted)


def test_tables_with_categories(tmp_path):
    generator = np.random.default_rng(0)
    size = generator.normal(size=400)
    color = generator.choice(["red", "blue"], 400, p=[0.7, 0.3])
    y = (size + 2 * (color == "red") + generator.normal(size=400) > 2).astype(int)
    size[::7] = np.nan
    table = pd.DataFrame({"size": size, "color": color})
    model = MetricLinear("f1", **QUICK).fit(table, y)
    assert model.coef_names_ == ["size", "size is missing", "color=red", "color=blue"]
    assert model.coef_[0, 2] > model.coef_[0, 3]
    model.save(tmp_path / "model")
    loaded = MetricLinear.load(tmp_path / "model")
    assert loaded.coef_names_ == model.coef_names_
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    named = MetricLinear("f1", **QUICK).fit(table[["size"]].fillna(0), y)
    assert named.coef_names_ == ["size"]


def test_constraints_are_satisfied_and_reported(binary):
    X, y = binary
    for confidence in (None, 0.8):
        settings = {"confidence": confidence, "random_state": 0}
        model = MetricLinear("recall", ["precision >= 0.6"], **settings).fit(X, y)
        assert model.rule_.feasible
        assert precision_score(y, model.predict(X)) > 0.6
    with pytest.warns(UserWarning, match="No rule satisfies the constraints"):
        MetricLinear("recall", ["precision >= 0.99", "recall >= 0.99"], **QUICK).fit(X, y)


def test_no_candidate_violates_the_constraints_more_than_logistic_regression(binary):
    # By cross-fitting alone, a better recall that violates the constraint would be chosen here.
    X, y = binary
    settings = {"confidence": 0.9, "cv": 5, "random_state": 0}
    plain = MetricDecision(LogisticRegression(), "recall", ["precision >= 0.6"], **settings).fit(X, y)
    assert plain.rule_.feasible
    assert MetricLinear("recall", ["precision >= 0.6"], **settings).fit(X, y).rule_.feasible


def test_metrics_may_name_classes(three):
    X, y = three
    labels = np.array(["a", "b", "rare"])[y]
    named = MetricLinear("recall['rare']", ["precision['rare'] >= 0.6"], **QUICK).fit(X, labels)
    by_index = MetricLinear("recall[2]", ["precision[2] >= 0.6"], **QUICK).fit(X, y)
    np.testing.assert_array_equal(named.coef_, by_index.coef_)


@pytest.mark.parametrize("counts", [(200, 10), (200, 1), (200, 2), (150, 60, 10), (150, 60, 1), (150, 2, 1)])
def test_rare_classes(counts):
    generator = np.random.default_rng(0)
    y = np.repeat(np.arange(len(counts)), counts)
    X = generator.normal(size=(len(y), 4))
    X[:, 0] += 3 * y
    model = MetricLinear("f1", **QUICK).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict_proba(X)).all()
    assert set(model.predict(X)) <= set(range(len(counts)))
    if min(counts) == 10:
        assert f1_score(y, model.predict(X), average="macro") > 0.8


def test_constant_features_have_no_coefficient(binary):
    X, y = binary
    wide = np.c_[X, np.full(len(y), 7.0), np.zeros(len(y))]
    model = MetricLinear("f1", **QUICK).fit(wide, y)
    np.testing.assert_array_equal(model.coef_[0, -2:], 0)
    plain = MetricLinear("f1", **QUICK).fit(X, y)
    np.testing.assert_allclose(model.decision_function(wide), plain.decision_function(X), atol=1e-6)


def test_fewer_rows_than_features():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, 100))
    y = (X[:, 0] > 0.3).astype(int)
    model = MetricLinear("f1", **QUICK).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert f1_score(y, model.predict(X)) > 0.9


def test_separable_data():
    X = np.linspace(-1, 1, 80)[:, None]
    y = (X[:, 0] > 0.4).astype(int)
    for C in (1.0, 1e6):
        model = MetricLinear("f1", C=C, **QUICK).fit(X, y)
        assert f1_score(y, model.predict(X)) > 0.95
        assert model.coef_[0, 0] > 0


def test_units_of_the_features_do_not_matter(binary):
    X, y = binary
    scale = 10.0 ** np.arange(-4, 4)
    plain = MetricLinear("f1", **QUICK).fit(X, y)
    scaled = MetricLinear("f1", **QUICK).fit(X * scale + 3, y)
    np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-4)


def test_no_convergence_is_a_warning(binary):
    X, y = binary
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations; increase `max_iter`"):
        model = MetricLinear("f1", max_iter=1, **QUICK).fit(X, y)
    assert model.n_iter_ == 1


def test_jobs_and_seeds_do_not_change_the_model(binary):
    X, y = binary
    with parallel_config("threading"):
        one, two = (MetricLinear("f1", n_jobs=jobs, **QUICK).fit(X, y) for jobs in (None, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"C": 0}, "Expected `C` to be a number > 0, but got 0"),
        ({"C": "1"}, "Expected `C`"),
        ({"max_iter": 0}, "Expected `max_iter` to be an integer >= 1"),
        ({"confidence": 0.4}, r"Expected `confidence` in \(0.5, 1\), but got 0.4"),
        ({"metric": "f2"}, "Did you mean"),
        ({"cv": 1}, "Expected `cv`"),
        ({"cv": 0.3}, "Expected `cv` with at least two splits"),
        ({"cv": ShuffleSplit(1)}, "Expected `cv` with at least two splits, but got one"),
    ],
)
def test_bad_settings(binary, settings, match):
    with pytest.raises(ValueError, match=match):
        MetricLinear(**settings).fit(*binary)


def test_bad_rows(binary):
    X, y = binary
    with pytest.raises(ValueError, match="Expected `X` that can be scaled"):
        MetricLinear().fit(X * 1e200, y)
    with pytest.raises(ValueError, match="at least one non-zero number"):
        MetricLinear().fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MetricLinear().fit(X, y, groups=np.arange(3))


def test_round_trip(tmp_path, binary, three):
    for number, (X, y) in enumerate((binary, three)):
        model = MetricLinear("mcc", **QUICK).fit(X, y)
        model.save(tmp_path / str(number))
        loaded = MetricLinear.load(tmp_path / str(number))
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        assert loaded.candidates_ == model.candidates_
        assert (loaded.chosen_, loaded.n_iter_) == (model.chosen_, model.n_iter_)
        assert loaded.get_params() == model.get_params()


@pytest.mark.parametrize("change", ["shape", "nan", "rule"])
def test_forged_files_are_refused(tmp_path, binary, change):
    MetricLinear("f1", **QUICK).fit(*binary).save(tmp_path)
    facts, parts = read_bundle(tmp_path, "model", ".safetensors", "MetricLinear")
    tensors = read_safetensors(parts["weights"])
    if change == "shape":
        tensors["coef"] = tensors["coef"][:, 1:].clone()
    elif change == "nan":
        tensors["intercept"] *= float("nan")
    else:
        facts["rule"] = None
    facts = {key: value for key, value in facts.items() if key not in ("format", "parts")}
    write_bundle(tmp_path, "model", facts, {"weights": write_safetensors(tensors)}, ".safetensors")
    with pytest.raises(ValueError, match="Expected `folder` with"):
        MetricLinear.load(tmp_path)


def test_saved_files_are_json_and_tensors(tmp_path, binary):
    MetricLinear("f1", **QUICK).fit(*binary).save(tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())
    assert facts["kind"] == "MetricLinear"
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}


def test_absent_classes_of_a_fold_are_improbable():
    rows = make_rows("three")
    kept = np.flatnonzero(rows.y != 1)
    weights = fit_logistic(rows.take(kept), 1.0, 100).weights
    p = np.exp(rows.X @ weights[:, :3].T + weights[:, 3])
    p /= p.sum(1, keepdims=True)
    assert p[:, 1].max() < 0.05
    two = LogisticRegression().fit(rows.X[kept], rows.y[kept], rows.weight[kept])
    ratio = p[:, 2] / (p[:, 0] + p[:, 2])
    np.testing.assert_allclose(ratio, two.predict_proba(rows.X)[:, 1], rtol=1e-6)
    alone = fit_logistic(rows.take(np.flatnonzero(rows.y == 2)), 1.0, 100).weights
    assert alone[2, -1] > alone[0, -1] + 3


def test_offsets_of_extreme_thresholds_are_finite():
    X = np.zeros((20, 1))
    X[:, 0] = np.arange(20)
    y = np.r_[np.zeros(19, int), 1]
    model = MetricLinear("recall", **QUICK).fit(X, y)  # everything positive is best
    assert np.isfinite(model.intercept_).all()
    assert np.isfinite(get_offsets(model.rule_)).all()
