"""`MetricBooster`: its promise on held-out rows, its settings, its files and its errors."""

import json
import pickle

import lightgbm as lgb
import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import f1_score, log_loss, precision_score, recall_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from evalign._torch import use_threads
from evalign.boosting import choose_threads
from evalign.decisions import fit_rule
from evalign.estimators import MetricBooster, booster

ROWS = "The held-out rows depend on the rows, as for every classifier with early stopping."
FAILURES = {f"check_sample_weight_equivalence_on_{kind}_data": ROWS for kind in ("dense", "sparse")}
LIGHT = "However light the rows of class 1 are, its F1 is only above 0 if it is predicted."
QUICK = {"n_estimators": 40, "metric_rounds": 30, "patience": 8, "n_jobs": 1, "random_state": 0}


@parametrize_with_checks(
    [
        MetricBooster(n_estimators=20, metric_rounds=2, patience=2, n_bags=2, n_jobs=1),
        MetricBooster(n_estimators=20, patience=5, n_jobs=1, strategy="log_loss", rule=False, n_bags=1),
    ],
    expected_failed_checks=lambda model: (
        FAILURES | ({"check_class_weight_classifiers": LIGHT} if model.rule else {})
    ),
)
def test_check(estimator, check):
    check(estimator)


def rare(rows=2000, seed=0, **more):
    return make_classification(
        rows, 12, n_informative=5, weights=[0.93], flip_y=0.03, class_sep=0.8, random_state=seed, **more
    )


@pytest.fixture(scope="module")
def data():
    X, y = rare()
    return train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)


@pytest.mark.parametrize("bags", [1, 3])
@pytest.mark.parametrize("metric", ["f1", "mcc", "balanced_accuracy"])
def test_never_below_the_log_loss_with_a_rule_on_held_out_rows(data, metric, bags):
    X, _, y, _ = data
    plain = MetricBooster(metric, strategy="log_loss", n_bags=bags, **QUICK).fit(X, y)
    ours = MetricBooster(metric, n_bags=bags, **QUICK).fit(X, y)
    assert ours.validation_score_ >= plain.validation_score_
    assert plain.rounds_[0][1] == 0


def test_rounds_on_the_metric_are_kept_where_they_help():
    helpful = 0
    for seed in range(6):
        X, y = rare(1500, seed)
        model = MetricBooster("f1", n_bags=3, **QUICK).fit(X, y)
        plain = MetricBooster("f1", n_bags=3, strategy="log_loss", **QUICK).fit(X, y)
        rounds = [metric for _, metric in model.rounds_]
        assert (model.validation_score_ > plain.validation_score_) == any(rounds)
        helpful += any(rounds)
    assert helpful


def make_unequal(shares, seed=0, rows=4000):
    """Classes with these shares of the rows."""
    return make_classification(
        rows, 10, n_informative=6, n_classes=len(shares), weights=shares, n_clusters_per_class=1,
        flip_y=0.005, random_state=seed,
    )  # fmt: skip


@pytest.fixture
def used(monkeypatch):
    """The settings of each call of LightGBM."""
    calls, train = [], lgb.train

    def record(options, *args, **more):
        calls.append(options)
        return train(options, *args, **more)

    monkeypatch.setattr(lgb, "train", record)
    return calls


@pytest.mark.parametrize(
    ("shares", "settings", "wanted"),
    [
        ([0.7, 0.28, 0.02], {}, 1.0),
        ([0.4, 0.4, 0.2], {}, None),
        ([0.98, 0.02], {}, None),
        ([0.7, 0.28, 0.02], {"min_child_samples": 100}, None),  # every leaf has about two rows of it
        ([0.7, 0.28, 0.02], {"params": {"lambda_l2": 0.0}}, 0.0),
        ([0.7, 0.28, 0.02], {"params": {"reg_lambda": 3.0}}, None),
    ],
)
def test_leaves_are_penalised_if_one_of_several_classes_is_rare(shares, settings, wanted, used):
    X, y = make_unequal(shares)
    MetricBooster("f1", strategy="log_loss", n_bags=1, n_estimators=2, n_jobs=1, **settings).fit(X, y)
    assert [options.get("lambda_l2") for options in used] == [wanted]


def test_the_penalty_improves_the_probabilities_of_rare_classes():
    losses = []
    for seed in range(2):
        X, y = make_unequal([0.6, 0.36, 0.02, 0.02], seed)
        parts = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
        for params in (None, {"lambda_l2": 0.0}):
            settings = {**QUICK, "strategy": "log_loss", "n_bags": 1, "n_estimators": 200}
            model = MetricBooster("f1", params=params, **settings).fit(parts[0], parts[2])
            losses.append(log_loss(parts[3], model.predict_proba(parts[1])))
    with_penalty, without = np.reshape(losses, (2, 2)).mean(0)
    assert with_penalty < 0.97 * without


def test_without_a_rule_the_log_loss_is_lightgbm_itself(data):
    from lightgbm import LGBMClassifier, early_stopping

    from evalign.estimators._rows import stratified_split

    X, X_test, y, _ = data
    ours = MetricBooster(strategy="log_loss", rule=False, n_bags=1, **QUICK).fit(X, y)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    rows, held = stratified_split(y, 0.2, seed)
    theirs = LGBMClassifier(
        n_estimators=40, learning_rate=0.05, n_jobs=1, random_state=seed, deterministic=True,
        force_row_wise=True, verbosity=-1,
    )  # fmt: skip
    theirs.fit(
        X[rows], y[rows], eval_X=(X[held],), eval_y=(y[held],), callbacks=[early_stopping(8, verbose=False)]
    )
    np.testing.assert_allclose(
        ours.predict_proba(X_test), theirs._Booster.predict(X_test)[:, None] * [-1, 1] + [1, 0]
    )
    assert ours.rule_ is None
    assert (ours.predict(X_test) == (ours.predict_proba(X_test)[:, 1] >= 0.5)).all()


def test_the_rule_comes_from_rows_no_bag_was_trained_on(data):
    X, _, y, _ = data
    model = MetricBooster("f1", n_bags=4, strategy="log_loss", **QUICK).fit(X, y)
    assert len(model.stages_) == 4
    # Every row is held out once: the rule's value is an F1 over all rows, far below that in training.
    assert model.rule_.value == model.validation_score_
    assert model.validation_score_ < f1_score(y, model.predict(X)) - 0.05


def test_bags_average_their_scores(data):
    X, X_test, y, _ = data
    model = MetricBooster("f1", n_bags=3, rule=False, **QUICK).fit(X, y)
    mean = np.mean([stage.scores(X_test) for stage in model.stages_], axis=0)
    np.testing.assert_allclose(model.decision_function(X_test), mean)


def test_bags_auto_is_five_for_few_rows_and_fewer_for_rare_classes():
    X, y = rare(400)
    assert len(MetricBooster(**QUICK).fit(X, y).stages_) == 5
    few = np.flatnonzero(y == 1)[:2]
    rows = np.concatenate([np.flatnonzero(y == 0), few])
    assert len(MetricBooster(**QUICK).fit(X[rows], y[rows]).stages_) == 2


def test_more_classes_labels_sparse_and_missing_values():
    X, y = make_classification(
        400, 10, n_informative=6, n_classes=4, weights=[0.6, 0.2, 0.1, 0.1], random_state=0
    )
    labels = np.array(["ash", "beech", "oak", "yew"])[y]
    model = MetricBooster("f1", n_bags=2, **QUICK).fit(X, labels)
    assert set(model.predict(X)) <= set(labels)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    assert model.decision_function(X).shape == (400, 4)
    by_sparse = MetricBooster("f1", n_bags=2, **QUICK).fit(sparse.csr_matrix(X), labels)
    assert by_sparse.predict(X).shape == (400,)
    X[::3, 2] = np.nan
    assert MetricBooster("f1", n_bags=2, **QUICK).fit(X, labels).validation_score_ > 0.4


@pytest.mark.parametrize(("n_bags", "sample"), [(1, 0.0), (2, 0.2)])
def test_the_rule_of_several_bags_is_judged_by_a_sample(data, monkeypatch, n_bags, sample):
    samples = []
    monkeypatch.setattr(
        booster, "fit_rule", lambda *rows, **more: samples.append(more["sample"]) or fit_rule(*rows, **more)
    )
    MetricBooster("f1", n_bags=n_bags, **QUICK).fit(data[0], data[2])
    assert set(samples) == {sample}


def test_probabilities_are_calibrated_after_rounds_on_the_metric():
    import torch

    from evalign.decisions import expected_calibration_error

    X, y = rare(6000)
    model = MetricBooster("fbeta(beta=3)", n_bags=1, rule=False, **QUICK).fit(X[:4000], y[:4000])
    assert model.rounds_[0][1] > 0
    truth = torch.from_numpy(y[4000:])
    raw = model._scores(X[4000:])
    uncalibrated = 1 / (1 + np.exp(-raw))
    errors = [
        expected_calibration_error(torch.from_numpy(p), truth)
        for p in (model.predict_proba(X[4000:]), np.stack([1 - uncalibrated, uncalibrated], 1))
    ]
    assert errors[0] < 0.03
    assert errors[0] < errors[1]


def test_constraints_are_satisfied_on_held_out_rows_or_the_violation_is_reported(data):
    X, _, y, _ = data
    model = MetricBooster("recall", "precision >= 0.8", n_bags=3, **QUICK).fit(X, y)
    assert model.rule_.feasible
    free = MetricBooster("recall", n_bags=3, **QUICK).fit(X, y)
    assert precision_score(y, free.predict(X)) < precision_score(y, model.predict(X))
    noise = np.random.default_rng(0).normal(size=X.shape)
    with pytest.warns(UserWarning, match=r"No rule satisfies .* precision"):
        hopeless = MetricBooster("recall", ["precision >= 0.99", "recall >= 0.9"], n_bags=1, **QUICK).fit(
            noise, y
        )
    assert not hopeless.rule_.feasible


def test_class_weight_multiplies_the_weights_of_the_rows(data):
    X, X_test, y, y_test = data
    plain = MetricBooster(strategy="log_loss", rule=False, n_bags=1, **QUICK).fit(X, y)
    balanced = MetricBooster(strategy="log_loss", rule=False, n_bags=1, class_weight="balanced", **QUICK).fit(
        X, y
    )
    named = MetricBooster(strategy="log_loss", rule=False, n_bags=1, class_weight={1: 10.0}, **QUICK).fit(
        X, y
    )
    assert recall_score(y_test, balanced.predict(X_test)) > recall_score(y_test, plain.predict(X_test))
    assert named.predict_proba(X_test)[:, 1].mean() > plain.predict_proba(X_test)[:, 1].mean()
    ruled = MetricBooster(n_bags=1, class_weight={1: 10.0}, **QUICK).fit(X, y)
    same = MetricBooster(n_bags=1, **QUICK).fit(X, y, np.where(y == 1, 10.0, 1.0))
    np.testing.assert_allclose(ruled.decision_function(X_test), same.decision_function(X_test), atol=1e-6)


def test_sample_weight_counts(data):
    X, _, y, _ = data
    weight = np.where(y == 1, 10.0, 1.0)
    heavy = MetricBooster("f1", n_bags=1, **QUICK).fit(X, y, weight)
    light = MetricBooster("f1", n_bags=1, **QUICK).fit(X, y)
    assert heavy.predict(X).sum() > light.predict(X).sum()
    np.testing.assert_array_equal(
        heavy.predict(X), MetricBooster("f1", n_bags=1, **QUICK).fit(X, y, 7 * weight).predict(X)
    )


def test_same_seed_same_model(data):
    X, X_test, y, _ = data
    one, two = (MetricBooster("f1", n_bags=2, **QUICK).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.decision_function(X_test), two.decision_function(X_test))


def test_params_reach_lightgbm(data):
    X, _, y, _ = data
    model = MetricBooster(n_bags=1, params={"max_depth": 1}, **QUICK).fit(X, y)
    trees = model.stages_[0].base.dump_model()["tree_info"]
    assert max(tree["num_leaves"] for tree in trees) == 2


def test_small_tables_are_boosted_by_one_thread(data, monkeypatch):
    """Threads that wait for each other after every leaf are slower than one, and far slower on busy cores."""
    used, train = [], lgb.train

    def record(params, *args, **kwargs):
        used.append((params["num_threads"], torch.get_num_threads()))
        return train(params, *args, **kwargs)

    monkeypatch.setattr(lgb, "train", record)
    with use_threads(2):
        for n_jobs in (None, 2):
            MetricBooster("f1", n_bags=1, n_estimators=5, n_jobs=n_jobs).fit(data[0], data[2])
    assert used == [(1, 1), (1, 1), (2, 2), (2, 2)]
    monkeypatch.setattr("evalign.boosting._train.cpu_count", lambda: 8)
    assert [choose_threads(np.empty((rows, 50))) for rows in (1000, 4000, 10_000_000)] == [1, 3, 8]


@pytest.mark.parametrize(
    ("classes", "params", "most"), [(20, {}, 255), (21, {}, 63), (21, {"max_bin": 15}, 15)]
)
def test_many_classes_have_few_bins(classes, params, most):
    X = np.sort(np.random.default_rng(0).normal(size=(2000, 1)), axis=0)
    y = np.arange(2000) * classes // 2000
    settings = {"strategy": "log_loss", "rule": False, "n_bags": 1, **QUICK, "n_estimators": 12}
    model = MetricBooster("accuracy", params=params, **settings).fit(X, y)
    tables = model.stages_[0].base.trees_to_dataframe()
    cuts = tables["threshold"].dropna().nunique()
    assert most / 4 < cuts < most


def test_without_rule_is_a_copy_that_predicts_the_largest_probability(data):
    X, X_test, y, _ = data
    model = MetricBooster(strategy="log_loss", n_bags=1, **QUICK).fit(X, y)
    plain = model.without_rule()
    np.testing.assert_array_equal(plain.predict_proba(X_test), model.predict_proba(X_test))
    np.testing.assert_array_equal(plain.predict(X_test), model.predict_proba(X_test).argmax(1))
    assert (plain.predict(X_test) != model.predict(X_test)).any()
    assert (plain.rule, plain.rule_) == (False, None)
    assert model.rule
    assert model.rule_ is not None


def test_verbose_shows_a_line_per_stage_and_bag(data, capsys):
    X, _, y, _ = data
    MetricBooster(n_bags=2, **QUICK).fit(X, y)
    assert capsys.readouterr() == ("", "")
    MetricBooster(n_bags=2, verbose=1, **QUICK).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line.split("\r")[-1] for line in err.splitlines(keepends=True) if line.endswith("\n")]
    assert [line.split(":")[0] for line in lines] == ["log-loss", "log-loss", "metric", "metric"]


def test_grid_search_pipeline_clone_pickle(data):
    X, X_test, y, _ = data
    pipeline = make_pipeline(StandardScaler(), MetricBooster(n_bags=1, **QUICK))
    grid = GridSearchCV(pipeline, {"metricbooster__num_leaves": [4, 8]}, scoring="f1", cv=2).fit(X, y)
    assert grid.best_score_ > 0
    model = MetricBooster("mcc", n_bags=2, **QUICK).fit(X, y)
    assert clone(model).get_params() == model.get_params()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X_test), model.predict(X_test))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("settings", [{}, {"rule": False}, {"strategy": "log_loss"}, {"n_bags": 3}])
def test_save_and_load(tmp_path, classes, settings):
    X, y = make_classification(
        600,
        8,
        n_informative=5,
        n_classes=classes,
        weights=[0.7, 0.3] if classes == 2 else [0.6, 0.3, 0.1],
        random_state=1,
    )
    labels = np.array(["x", "y", "z"])[y]
    model = MetricBooster("f1", **{"n_bags": 1, **QUICK, **settings}).fit(X, labels)
    model.save(tmp_path / "model")
    other = MetricBooster.load(tmp_path / "model")
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    assert other.get_params() == model.get_params()
    assert other.rounds_ == model.rounds_
    assert other.n_iter_ == model.n_iter_ == sum(map(sum, model.rounds_))
    assert other.validation_score_ == model.validation_score_
    other.save(tmp_path / "model")  # over the old one
    parts = [path for path in (tmp_path / "model").iterdir() if path.suffix == ".txt"]
    assert len(parts) <= 2 * len(model.stages_)
    np.testing.assert_array_equal(MetricBooster.load(tmp_path / "model").predict(X), model.predict(X))


@pytest.fixture
def saved(tmp_path, data):
    X, _, y, _ = data
    MetricBooster("f1", n_bags=1, **QUICK).fit(X[:300], y[:300]).save(tmp_path)
    return tmp_path


def break_json(folder, change):
    file = folder / "model.json"
    facts = json.loads(file.read_text())
    change(facts)
    file.write_text(json.dumps(facts))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.update(kind="MetricClassifier"), "with a MetricBooster"),
        (lambda f: f.update(format=99), "Upgrade evalign"),
        (lambda f: f.pop("weights"), "complete model.json"),
        (lambda f: f.update(weights=[]), "with trees"),
        (lambda f: f.pop("parts"), "readable model.json"),
        (lambda f: f["parts"]["0.log_loss"].update(file="../secret.txt"), "its files inside"),
        (lambda f: f["parts"]["0.log_loss"].update(sha256="0"), "another checksum"),
        (lambda f: f.update(n_features_in=3), "with trees of 3 features"),
        (lambda f: f.update(rule="{}"), "decision rule"),
        (lambda f: f["settings"].update(no_such_setting=1), "complete model.json"),
    ],
)
def test_damaged_files_are_rejected(saved, change, message):
    break_json(saved, change)
    with pytest.raises(ValueError, match=message):
        MetricBooster.load(saved)


def test_missing_and_foreign_folders_are_rejected(tmp_path, saved):
    with pytest.raises(ValueError, match=r"without model\.json"):
        MetricBooster.load(tmp_path / "nowhere")
    for part in saved.glob("*.txt"):
        part.write_text("tree")
    with pytest.raises(ValueError, match="another checksum"):
        MetricBooster.load(saved)


def test_a_metric_without_a_text_form_cannot_be_saved(tmp_path, data):
    X, _, y, _ = data
    model = MetricBooster(lambda c: c.precision + c.recall, n_bags=1, **QUICK).fit(X[:300], y[:300])
    with pytest.raises(ValueError, match="written as text"):
        model.save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "f2"}, "`metric` to be a known name"),
        ({"metric": "auroc"}, "one number"),
        ({"constraints": "precision > 0.9"}, "`constraint"),
        ({"strategy": "logloss"}, "Did you mean 'log_loss'"),
        ({"n_estimators": 0}, "`n_estimators` to be an integer >= 1"),
        ({"n_bags": 0}, "`n_bags` to be an integer >= 1"),
        ({"n_bags": "many"}, "`n_bags` to be an integer >= 1"),
        ({"learning_rate": 0}, r"`learning_rate` in \(0, 10\)"),
        ({"validation_fraction": 1.0}, r"`validation_fraction` in \(0, 1\)"),
        ({"temperature": 0.7}, "`temperature` in"),
        ({"confidence": 0.2}, "`confidence` in"),
        ({"params": [1]}, "`params` to be a dictionary"),
        ({"class_weight": "even"}, "`class_weight` to be"),
        ({"patience": 1.5}, "`patience` to be an integer"),
    ],
)
def test_wrong_settings_are_rejected(data, settings, message):
    X, _, y, _ = data
    with pytest.raises(ValueError, match=message):
        MetricBooster(**{**QUICK, **settings}).fit(X, y)


@pytest.mark.parametrize(("rows", "bags"), [(3, 3), (1, 1)])
def test_bags_are_at_most_the_rows_of_the_rarest_class(data, rows, bags):
    X, _, y, _ = data
    rows = np.r_[np.flatnonzero(y == 0)[:200], np.flatnonzero(y == 1)[:rows]]
    with pytest.warns(UserWarning, match=f"Drew {bags} bags instead of 5, since the rarest class has"):
        model = MetricBooster(n_bags=5, **QUICK).fit(X[rows], y[rows])
    assert len(model.stages_) == bags


def test_features_without_a_split_give_the_rule_alone():
    """LightGBM itself crashes if it is to boost on an objective of ours and can split nowhere."""
    y = np.arange(60) % 3 == 0
    model = MetricBooster("accuracy", n_bags=2, random_state=0).fit(np.zeros((60, 2)), y)
    assert not model.predict([[0, 0], [1, 5]]).any()
    np.testing.assert_allclose(model.predict_proba([[0, 0]]), [[2 / 3, 1 / 3]], atol=0.02)


def test_one_class_is_rejected():
    with pytest.raises(ValueError, match="at least two classes"):
        MetricBooster(**QUICK).fit(np.zeros((10, 2)), np.zeros(10))


def test_without_lightgbm_the_error_says_how_to_install_it(data, monkeypatch):
    import sys

    X, _, y, _ = data
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"evalign\[boost\]"):
        MetricBooster(**QUICK).fit(X, y)
