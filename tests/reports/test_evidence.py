"""`evidence` against scikit-learn and plain loops."""

import json

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    matthews_corrcoef,
    precision_recall_curve,
    precision_recall_fscore_support,
    precision_score,
    recall_score,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from evalign import MetricBooster, MetricClassifier, MetricDecision, metrics
from evalign.reports import ComparisonFacts, as_plain, evidence
from evalign.selection import Comparison, Row


@pytest.fixture(scope="module")
def decision(two):
    X, y, _, _ = two
    return MetricDecision(LogisticRegression(), "f1", cv=3, random_state=0).fit(X, y)


def test_the_metric_may_name_a_class_by_its_label(two, decision):
    _, _, X, y = two
    facts = evidence("decision", decision, X, y, "recall['no']", "precision['yes'] >= 0.1")
    guess = decision.predict(X)
    assert facts.metric == "recall['no']"
    assert facts.value == pytest.approx(recall_score(y, guess, pos_label="no"))
    assert facts.positive == 0
    bound = facts.constraints["precision['yes'] >= 0.1"]
    assert bound.value == pytest.approx(precision_score(y, guess, pos_label="yes"))
    with pytest.raises(ValueError, match="but got 'noo'. Did you mean 'no'?"):
        evidence("decision", decision, X, y, "recall['noo']")


def flatten(matrix):
    return np.ravel(matrix).tolist()


def test_decisions_equal_scikit_learn(two, decision):
    _, _, X, y = two
    facts = evidence("decision", decision, X, y, "f1", role="best", description="a rule")
    guess = decision.predict(X)
    assert as_plain(facts.matrix) == confusion_matrix(y, guess).tolist()
    assert (facts.name, facts.role, facts.description, facts.rows) == ("decision", "best", "a rule", 400)
    assert facts.classes == ("no", "yes")
    assert facts.positive == 1
    named = {"pos_label": "yes"}
    wanted = {
        "accuracy": accuracy_score(y, guess),
        "balanced_accuracy": balanced_accuracy_score(y, guess),
        "f1": f1_score(y, guess, **named),
        "mcc": matthews_corrcoef(y, guess),
        "precision": precision_score(y, guess, **named),
        "recall": recall_score(y, guess, **named),
    }
    assert {name: one.value for name, one in facts.metrics.items()} == pytest.approx(wanted)
    assert facts.value == pytest.approx(wanted["f1"])
    table = zip(*precision_recall_fscore_support(y, guess), strict=True)
    for one, (precision, recall, f1, support) in zip(facts.per_class, table, strict=True):
        scores = [one.precision, one.recall, one.f1, one.support]
        assert scores == pytest.approx([precision, recall, f1, support])


def test_the_slider_counts_every_threshold(two, decision):
    _, _, X, y = two
    facts = evidence("decision", decision, X, y, "f1", ["precision >= 0.7", "accuracy <= 0.8"])
    slider, p = facts.slider, decision.predict_proba(X)[:, 1]
    assert 101 <= len(slider.positions) <= 201
    assert list(slider.positions) == sorted(set(slider.positions))
    assert {0.0, 0.25, 1.0} <= set(slider.positions)
    for at, threshold in enumerate(slider.positions):
        guess = np.where(p >= threshold, "yes", "no")
        cells = [((y == i) & (guess == j)).sum() for i in ("no", "yes") for j in ("no", "yes")]
        assert list(slider.matrices[at]) == cells
        if at % 5:
            continue
        assert slider.values[at] == pytest.approx(f1_score(y, guess, pos_label="yes", zero_division=0))
        slack = precision_score(y, guess, pos_label="yes", zero_division=0) - 0.7
        assert slider.constraints["precision() >= 0.7"][at] == pytest.approx(slack)
        slack = 0.8 - accuracy_score(y, guess)
        assert slider.constraints["accuracy() <= 0.8"][at] == pytest.approx(slack)
    assert slider.positions[slider.start] == decision.rule_.threshold
    assert list(slider.matrices[slider.start]) == flatten(facts.matrix)
    bound = facts.constraints["precision() >= 0.7"]
    assert bound.slack == pytest.approx(slider.constraints["precision() >= 0.7"][slider.start])
    assert bound.value == pytest.approx(bound.bound + bound.slack)
    assert bound.satisfied is (bound.slack >= 0)


def test_rare_positives_get_thresholds_where_their_scores_are():
    generator = np.random.default_rng(0)
    y = (np.arange(20000) < 100).astype(int)
    p = np.where(y == 1, 0.004 * generator.random(20000), 0.001 * generator.random(20000))
    slider = evidence("rare", FixedClassifier(p, 0.003), np.arange(20000), y, "f1").slider
    inner = [t for t in slider.positions if 0 < t < 0.004]
    assert len(inner) > 60
    assert slider.positions[slider.start] == pytest.approx(0.003, abs=1e-4)


def test_the_slider_starts_at_the_saved_rule_where_other_rules_decided(two):
    """Out of folds, every row is decided by a rule that was fitted without it."""
    X, y, new, truth = two
    model = MetricDecision(LogisticRegression(), "f1", cv=3, random_state=0).fit(X, y)
    p = model.predict_proba(new)[:, 1]
    rule = model.rule_

    class Folds(FixedClassifier):
        classes_, rule_ = model.classes_, rule

        def predict(self, X):
            return np.where(p >= np.where(X % 2, rule.threshold, 0.4), "yes", "no")

    rows = np.arange(len(truth))
    facts = evidence("folds", Folds(p, None), rows, truth, "f1")
    slider = facts.slider
    assert slider.exact is False
    assert slider.positions[slider.start] == rule.threshold
    guess = np.where(p >= rule.threshold, "yes", "no")
    assert list(slider.matrices[slider.start]) == flatten(confusion_matrix(truth, guess))
    assert as_plain(facts.matrix) == confusion_matrix(truth, Folds(p, None).predict(rows)).tolist()
    assert evidence("decision", model, new, truth, "f1").slider.exact is True


class FixedClassifier:
    """A classifier of row numbers with fixed probabilities, and a threshold that is not an attribute."""

    classes_ = np.array([0, 1])

    def __init__(self, p, threshold):
        self.p, self._hidden = p, threshold

    def predict_proba(self, X):
        return np.stack([1 - self.p[X], self.p[X]], axis=1)

    def predict(self, X):
        return (self.p[X] >= self._hidden).astype(int)


@pytest.mark.parametrize("threshold", [0.5, 0.3, 0.123456, 0.0, 1.5])
def test_the_threshold_of_a_model_without_rule_is_found(threshold):
    p = np.random.default_rng(0).random(300)
    y = (p + 0.2 * np.random.default_rng(1).normal(size=300) > 0.5).astype(int)
    facts = evidence("fixed", FixedClassifier(p, threshold), np.arange(300), y, "f1")
    slider = facts.slider
    at = slider.positions[slider.start]
    assert ((p >= at) == (p >= threshold)).all()
    assert list(slider.matrices[slider.start]) == flatten(facts.matrix)
    assert at == 0.5 or threshold != 0.5


def test_a_score_at_the_threshold_is_positive():
    p = np.arange(11) / 10
    slider = evidence("fixed", FixedClassifier(p, 0.5), np.arange(11), (p > 0.3).astype(int), "f1").slider
    assert slider.positions[slider.start] == 0.5
    assert slider.matrices[slider.start] == (4, 0, 1, 6)


def test_a_model_whose_decisions_do_not_follow_its_probabilities_has_no_slider():
    model = FixedClassifier(np.linspace(0, 1, 100), 0.5)
    model.predict = lambda X: X % 2
    facts = evidence("odd", model, np.arange(100), np.arange(100) % 2, "f1")
    assert facts.slider is None
    assert facts.curves is not None


def test_curves_equal_scikit_learn(two, decision):
    _, _, X, y = two
    (curve,) = evidence("decision", decision, X, y, "f1").curves
    p = decision.predict_proba(X)[:, 1]
    assert curve.average_precision == pytest.approx(average_precision_score(y == "yes", p))
    precision, recall, _ = precision_recall_curve(y == "yes", p)
    known = set(zip(precision.round(9), recall.round(9), strict=True))
    assert set(zip(np.round(curve.precision, 9), np.round(curve.recall, 9), strict=True)) <= known
    for t, value, part in zip(curve.thresholds, curve.precision, curve.recall, strict=True):
        assert part == pytest.approx((p[y == "yes"] >= t).mean())
        assert value == pytest.approx((y[p >= t] == "yes").mean() if (p >= t).any() else 1.0)
    guess = decision.predict(X)
    assert curve.operating_point.precision == pytest.approx(precision_score(y, guess, pos_label="yes"))
    assert curve.operating_point.recall == pytest.approx(recall_score(y, guess, pos_label="yes"))


def test_a_long_curve_is_thinned_to_points_that_follow_it():
    generator = np.random.default_rng(0)
    p = generator.random(20000)
    y = (generator.random(20000) < p**2).astype(int)
    (curve,) = evidence("long", FixedClassifier(p, 0.5), np.arange(20000), y, "f1").curves
    assert len(curve.recall) <= 400
    steps = np.hypot(np.diff(curve.recall), np.diff(curve.precision))
    assert np.quantile(steps, 0.99) < 0.05
    assert (curve.recall[0], curve.recall[-1]) == (0, 1)


def test_calibration_equals_a_loop_and_helps_where_it_should():
    generator = np.random.default_rng(0)
    true = generator.random(3000)
    y = (generator.random(3000) < true).astype(int)
    sure = true**3 / (true**3 + (1 - true) ** 3)  # overconfident: three times the logit
    calibration = evidence("sure", FixedClassifier(sure, 0.5), np.arange(3000), y, "accuracy").calibration
    confidence, right = np.maximum(sure, 1 - sure), (sure >= 0.5) == y
    total, bins = 0.0, []
    for b in range(15):
        inside = np.floor(np.minimum(confidence * 15, 14)) == b
        if inside.any():
            bins.append((confidence[inside].mean(), right[inside].mean(), inside.sum()))
            total += inside.sum() * abs(bins[-1][0] - bins[-1][1])
    before = calibration.before
    assert before.error == pytest.approx(total / 3000)
    assert [(one.confidence, one.accuracy, one.count) for one in before.bins] == [
        pytest.approx(one) for one in bins
    ]
    assert before.error > 0.1
    assert calibration.after.error < 0.03
    few = evidence("few", FixedClassifier(sure, 0.5), np.arange(49), y[:49], "accuracy").calibration
    assert few.after is None


def test_no_row_is_calibrated_by_itself(monkeypatch):
    from evalign.reports import _curves

    p, seen = np.linspace(0.01, 0.99, 120), []

    class Recorder:
        def __init__(self, scores, y, method):
            self.rows = {tuple(row) for row in scores}
            assert set(y) == {0, 1}  # both halves have rows of both classes

        def predict_proba(self, scores):
            rows = {tuple(row) for row in scores}
            assert not rows & self.rows
            seen.append(rows)
            return np.exp(scores)

    monkeypatch.setattr(_curves, "fit_calibration", Recorder)
    y = (np.arange(120) > 117).astype(int)
    calibration = evidence("fixed", FixedClassifier(p, 0.5), np.arange(120), y, "f1").calibration
    assert len(set.union(*seen)) == 120
    assert calibration.after.error == pytest.approx(calibration.before.error)


@pytest.mark.parametrize("with_rule", [True, False])
def test_the_weight_of_a_class_changes_decisions_as_in_a_loop(four, with_rule):
    X, y, new, truth = four
    plain = LogisticRegression().fit(X, y)
    model = MetricDecision(plain, "f1", cv="prefit").fit(X[300:], y[300:]) if with_rule else plain
    facts = evidence("model", model, new, truth, "f1", "recall >= 0.5")
    names, p = list(facts.classes), model.predict_proba(new)
    assert [one.class_ for one in facts.slider.classes] == names  # which are sorted by frequency, too
    for one in facts.slider.classes:
        k = names.index(one.class_)
        assert one.positions[one.start] == 1
        assert one.matrices[one.start] == facts.matrix
        assert (one.positions[0], one.positions[-1]) == (1 / 16, 16)
        for at in range(0, len(one.positions), 8):
            weighted = p.copy()
            weighted[:, k] *= one.positions[at]
            weighted /= weighted.sum(1, keepdims=True)
            guess = model.rule_.predict(weighted) if with_rule else model.classes_[weighted.argmax(1)]
            assert as_plain(one.matrices[at]) == confusion_matrix(truth, guess, labels=names).tolist()
            assert one.values[at] == pytest.approx(f1_score(truth, guess, average="macro", zero_division=0))
            own = {"labels": names, "average": None, "zero_division": 0}
            assert one.precision[at] == pytest.approx(precision_score(truth, guess, **own)[k])
            assert one.recall[at] == pytest.approx(recall_score(truth, guess, **own)[k])
            assert one.predicted[at] == (guess == one.class_).sum()
            slack = recall_score(truth, guess, average="macro") - 0.5
            assert one.constraints["recall() >= 0.5"][at] == pytest.approx(slack)
    assert len(facts.curves) == 4


def test_matrices_of_many_classes_are_left_out():
    generator = np.random.default_rng(0)
    y = generator.integers(0, 30, 2000)
    model = LogisticRegression().fit(np.eye(30)[y] + generator.normal(size=(2000, 30)), y)
    facts = evidence("many", model, np.eye(30)[y] + generator.normal(size=(2000, 30)), y, "f1")
    tracks = facts.slider.classes
    assert len(tracks) == 20
    assert all(one.matrices is None for one in tracks)
    assert tracks[0].values[tracks[0].start] == pytest.approx(facts.value)
    assert len(facts.curves) == 10
    most = np.argsort(-np.bincount(y), kind="stable")[:20]
    assert [one.class_ for one in tracks] == [str(k) for k in most]


@metrics.metric(higher_is_better=False)
def misses(c):
    return (c.fn[1] + 2 * c.fp[1]) / c.total


@pytest.mark.parametrize(
    ("metric", "naive_value"),
    [
        ("cost([[0, 1], [5, 0]])", lambda c: (c[0, 1] + 5 * c[1, 0]) / c.sum()),
        ("tp / (tp + 2*fn + fp)", lambda c: c[1, 1] / (c[1, 1] + 2 * c[1, 0] + c[0, 1])),
        ("0.5*f1() + 0.5*accuracy()",
         lambda c: c[1, 1] / (2 * c[1, 1] + c[1, 0] + c[0, 1]) + 0.5 * np.trace(c) / c.sum()),
        (misses, lambda c: (c[1, 0] + 2 * c[0, 1]) / c.sum()),
    ],
)  # fmt: skip
def test_any_metric_is_evaluated_along_the_slider(two, decision, metric, naive_value):
    _, _, X, y = two
    facts = evidence("decision", decision, X, y, metric)
    target = metrics.as_metric(metric)
    assert facts.value == pytest.approx(naive_value(np.array(facts.matrix)))
    assert facts.metrics[target.name].value == facts.value
    assert facts.higher_is_better is target.higher_is_better
    wanted = [naive_value(np.reshape(cells, (2, 2))) for cells in facts.slider.matrices]
    assert facts.slider.values == pytest.approx(wanted)


def test_the_positive_class_may_be_the_first(two, decision):
    _, _, X, y = two
    facts = evidence("decision", decision, X, y, "f1(positive=0)")
    guess = decision.predict(X)
    assert facts.positive == 0
    assert facts.metrics["precision"].value == pytest.approx(precision_score(y, guess, pos_label="no"))
    assert facts.curves[0].class_ == "no"
    assert evidence("decision", decision, X, y, "accuracy() + f1(positive=0)").positive == 0


def test_rules_and_training_are_found_inside_pipelines(two):
    X, y, new, truth = two
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.05, np.nan, X)
    booster = MetricBooster("f1", n_bags=1, n_estimators=20, n_jobs=1, random_state=0)
    model = make_pipeline(SimpleImputer(), booster).fit(X, y)
    facts = evidence("booster", model, new, truth, "f1")
    assert facts.slider.positions[facts.slider.start] == booster.rule_.threshold
    network = MetricClassifier("f1", rule=True, hidden=(4,), max_epochs=2, n_bags=2, random_state=0)
    search = GridSearchCV(make_pipeline(SimpleImputer(), network), {}, cv=2).fit(X, y)
    facts = evidence("network", search, new, truth, "f1")
    own = search.best_estimator_[-1]
    assert facts.slider.positions[facts.slider.start] == own.rule_.threshold
    rows = [row for row in own.history_ if row["bag"] == 0]
    assert [epoch.hard for epoch in facts.history] == [row["valid_metric"] for row in rows]
    assert [epoch.epoch for epoch in facts.history] == list(range(1, len(rows) + 1))
    for epoch, row in zip(facts.history, rows, strict=True):
        soft = 1 - row["valid_loss"] if row["phase"] == "metric, anchored" else None
        assert epoch.soft == (None if soft is None else pytest.approx(soft))
        assert epoch.temperature == row["temperature"]
    assert any(epoch.soft is not None for epoch in facts.history)


def test_a_boosted_model_without_rule_decides_by_its_scores(two):
    X, y, new, truth = two
    model = MetricBooster("f1", rule=False, n_bags=1, n_estimators=20, n_jobs=1, random_state=0).fit(X, y)
    facts = evidence("booster", model, new, truth, "f1")
    assert list(facts.slider.matrices[facts.slider.start]) == flatten(facts.matrix)


def test_parts_that_need_probabilities_are_none_without_them(two):
    X, y, new, truth = two
    ridge = RidgeClassifier().fit(X, y)
    facts = evidence("ridge", ridge, new, truth, "mcc")
    assert facts.value == pytest.approx(matthews_corrcoef(truth, ridge.predict(new)))
    assert [facts.slider, facts.curves, facts.calibration, facts.history] == [None] * 4


def test_evidence_is_json_without_nan(two, decision):
    _, _, X, y = two
    undefined = metrics.metric(lambda c: c.tp / (c.fp - c.fp), name="undefined")
    facts = evidence("decision", decision, X, y, undefined)
    plain = as_plain(facts)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert facts.value is None
    assert plain["metrics"]["undefined"] == {"value": None, "low": None, "high": None}


@pytest.mark.parametrize("labels", [[False, True], [3, 7], [-1.0, 2.0], ["", "é"]])
def test_labels_of_any_type_become_text(two, labels):
    X, y, new, truth = two
    kinds = np.array(labels)
    model = LogisticRegression().fit(X, kinds[(y == "yes").astype(int)])
    facts = evidence("logistic", model, new, kinds[(truth == "yes").astype(int)], "f1")
    assert facts.classes == tuple(str(one) for one in labels)
    plain = LogisticRegression().fit(X, y)
    assert as_plain(facts.matrix) == confusion_matrix(truth, plain.predict(new)).tolist()


def test_invalid_rows_are_rejected(two, decision):
    _, _, X, y = two
    with pytest.raises(
        ValueError, match=r"Expected `y` with the classes \['no', 'yes'\] only, but got 'maybe'."
    ):
        evidence("decision", decision, X, np.where(np.arange(400) == 7, "maybe", y), "f1")
    with pytest.raises(ValueError, match="Expected `y` with the 400 rows of `X`, but got 399."):
        evidence("decision", decision, X, y[1:], "f1")
    with pytest.raises(ValueError, match="Expected `metric` that gives one number"):
        evidence("decision", decision, X, y, "auroc")


def test_intervals_are_those_of_resampled_rows(two, decision):
    """A multinomial sample of the matrix is a sample of the rows: same spread, other random numbers."""
    _, _, X, y = two
    intervals = evidence("decision", decision, X, y, "f1").metrics
    guess, generator = decision.predict(X), np.random.default_rng(5)
    samples = {"f1": [], "mcc": []}
    for _ in range(1000):
        rows = generator.integers(0, 400, 400)
        tn, fp, fn, tp = np.bincount(2 * (y[rows] == "yes") + (guess[rows] == "yes"), minlength=4)
        samples["f1"].append(2 * tp / (2 * tp + fp + fn))
        sides = float((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        samples["mcc"].append((tp * tn - fp * fn) / np.sqrt(sides))
    for name, values in samples.items():
        low, high = np.quantile(values, [0.025, 0.975])
        width, interval = high - low, intervals[name]
        assert interval.low == pytest.approx(low, abs=0.1 * width)
        assert interval.high == pytest.approx(high, abs=0.1 * width)
        assert interval.low < interval.value < interval.high


def test_intervals_cover_the_truth_as_often_as_they_claim():
    from evalign.reports._intervals import bootstrap

    generator = np.random.default_rng(0)
    shares = np.array([[0.5, 0.1], [0.1, 0.3]])
    inside = 0
    for repeat in range(200):
        matrix = generator.multinomial(400, shares.ravel()).reshape(2, 2).astype(float)
        one = bootstrap(matrix, {"accuracy": metrics.accuracy()}, seed=repeat)["accuracy"]
        inside += one.low <= 0.8 <= one.high
    assert 180 <= inside <= 198


def test_comparison_facts_contain_all_rows(reports):
    comparison = reports["two"].comparison
    assert comparison.repeats == 3
    rows = {row.method: row for row in comparison.rows}
    assert rows["broken"].error.startswith("InvalidParameterError")
    assert rows["broken"].mean is None
    assert rows["balanced"].low < rows["balanced"].difference < rows["balanced"].high
    assert rows["logistic"].mean == pytest.approx(np.mean(rows["logistic"].values))
    plain = as_plain(comparison)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_comparison_facts_describe_named_methods():
    rows = (Row("booster", (0.5,), 0.5),)
    facts = ComparisonFacts.from_comparison(Comparison("f1", True, "booster", (), rows))
    assert facts.rows[0].description == "LightGBM boosted on the metric and a fitted rule"
