"""What `evidence` says against scikit-learn and plain loops."""

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
from sklearn.pipeline import make_pipeline

from evalign import AutoClassifier, MetricBooster, MetricClassifier, MetricDecision, metrics
from evalign.reports import comparison_facts, evidence


@pytest.fixture(scope="module")
def ruled(two):
    X, y, _, _ = two
    return MetricDecision(LogisticRegression(), "f1", cv=3, random_state=0).fit(X, y)


def test_decisions_equal_scikit_learn(two, ruled):
    _, _, X, y = two
    found = evidence("ruled", ruled, X, y, "f1", role="best", description="a rule")
    guess = ruled.predict(X)
    assert found["matrix"] == confusion_matrix(y, guess).tolist()
    assert (found["name"], found["role"], found["description"], found["rows"]) == (
        "ruled",
        "best",
        "a rule",
        400,
    )
    assert found["classes"] == ["no", "yes"]
    assert found["positive"] == 1
    named = {"pos_label": "yes"}
    wanted = {
        "accuracy": accuracy_score(y, guess),
        "balanced_accuracy": balanced_accuracy_score(y, guess),
        "f1": f1_score(y, guess, **named),
        "mcc": matthews_corrcoef(y, guess),
        "precision": precision_score(y, guess, **named),
        "recall": recall_score(y, guess, **named),
    }
    assert {name: one["value"] for name, one in found["metrics"].items()} == pytest.approx(wanted)
    assert found["value"] == pytest.approx(wanted["f1"])
    table = zip(*precision_recall_fscore_support(y, guess), strict=True)
    for one, (precision, recall, f1, support) in zip(found["per_class"], table, strict=True):
        told = [one["precision"], one["recall"], one["f1"], one["support"]]
        assert told == pytest.approx([precision, recall, f1, support])


def test_the_slider_counts_every_threshold(two, ruled):
    _, _, X, y = two
    found = evidence("ruled", ruled, X, y, "f1", ["precision >= 0.7", "accuracy <= 0.8"])
    slider, p = found["slider"], ruled.predict_proba(X)[:, 1]
    assert 101 <= len(slider["positions"]) <= 201
    assert slider["positions"] == sorted(set(slider["positions"]))
    assert {0.0, 0.25, 1.0} <= set(slider["positions"])
    for at, threshold in enumerate(slider["positions"]):
        guess = np.where(p >= threshold, "yes", "no")
        cells = [((y == i) & (guess == j)).sum() for i in ("no", "yes") for j in ("no", "yes")]
        assert slider["matrices"][at] == cells
        if at % 5:
            continue
        assert slider["values"][at] == pytest.approx(f1_score(y, guess, pos_label="yes", zero_division=0))
        slack = precision_score(y, guess, pos_label="yes", zero_division=0) - 0.7
        assert slider["constraints"]["precision() >= 0.7"][at] == pytest.approx(slack)
        slack = 0.8 - accuracy_score(y, guess)
        assert slider["constraints"]["accuracy() <= 0.8"][at] == pytest.approx(slack)
    assert slider["positions"][slider["chosen"]] == ruled.rule_.threshold
    assert slider["matrices"][slider["chosen"]] == np.ravel(found["matrix"]).tolist()
    bound = found["constraints"]["precision() >= 0.7"]
    assert bound["slack"] == pytest.approx(slider["constraints"]["precision() >= 0.7"][slider["chosen"]])
    assert bound["value"] == pytest.approx(bound["bound"] + bound["slack"])
    assert bound["satisfied"] is (bound["slack"] >= 0)


def test_rare_positives_get_thresholds_where_their_scores_are():
    generator = np.random.default_rng(0)
    y = (np.arange(20000) < 100).astype(int)
    p = np.where(y == 1, 0.004 * generator.random(20000), 0.001 * generator.random(20000))
    slider = evidence("rare", Given(p, 0.003), np.arange(20000), y, "f1")["slider"]
    inner = [t for t in slider["positions"] if 0 < t < 0.004]
    assert len(inner) > 60
    assert slider["positions"][slider["chosen"]] == pytest.approx(0.003, abs=1e-4)


class Given:
    """A classifier of row numbers with given probabilities, and a threshold that it does not tell."""

    classes_ = np.array([0, 1])

    def __init__(self, p, threshold):
        self.p, self.threshold = p, threshold

    def predict_proba(self, X):
        return np.stack([1 - self.p[X], self.p[X]], axis=1)

    def predict(self, X):
        return (self.p[X] >= self.threshold).astype(int)


@pytest.mark.parametrize("threshold", [0.5, 0.3, 0.123456, 0.0, 1.5])
def test_the_threshold_of_a_model_without_rule_is_found(threshold):
    p = np.random.default_rng(0).random(300)
    y = (p + 0.2 * np.random.default_rng(1).normal(size=300) > 0.5).astype(int)
    model = Given(p, threshold)
    found = evidence("given", model, np.arange(300), y, "f1")
    slider = found["slider"]
    at = slider["positions"][slider["chosen"]]
    assert ((p >= at) == (p >= threshold)).all()
    assert slider["matrices"][slider["chosen"]] == np.ravel(found["matrix"]).tolist()
    assert at == 0.5 or threshold != 0.5


def test_a_score_at_the_threshold_is_positive():
    p = np.arange(11) / 10
    slider = evidence("given", Given(p, 0.5), np.arange(11), (p > 0.3).astype(int), "f1")["slider"]
    assert slider["positions"][slider["chosen"]] == 0.5
    assert slider["matrices"][slider["chosen"]] == [4, 0, 1, 6]


def test_a_model_whose_decisions_do_not_follow_its_probabilities_has_no_slider():
    model = Given(np.linspace(0, 1, 100), 0.5)
    model.predict = lambda X: X % 2
    found = evidence("odd", model, np.arange(100), np.arange(100) % 2, "f1")
    assert found["slider"] is None
    assert found["curves"] is not None


def test_curves_equal_scikit_learn(two, ruled):
    _, _, X, y = two
    (curve,) = evidence("ruled", ruled, X, y, "f1")["curves"]
    p = ruled.predict_proba(X)[:, 1]
    assert curve["average_precision"] == pytest.approx(average_precision_score(y == "yes", p))
    precision, recall, _ = precision_recall_curve(y == "yes", p)
    known = set(zip(precision.round(9), recall.round(9), strict=True))
    assert set(zip(np.round(curve["precision"], 9), np.round(curve["recall"], 9), strict=True)) <= known
    for t, value, part in zip(curve["thresholds"], curve["precision"], curve["recall"], strict=True):
        assert part == pytest.approx((p[y == "yes"] >= t).mean())
        assert value == pytest.approx((y[p >= t] == "yes").mean() if (p >= t).any() else 1.0)
    guess = ruled.predict(X)
    assert curve["chosen"]["precision"] == pytest.approx(precision_score(y, guess, pos_label="yes"))
    assert curve["chosen"]["recall"] == pytest.approx(recall_score(y, guess, pos_label="yes"))


def test_a_long_curve_is_thinned_to_points_that_follow_it():
    generator = np.random.default_rng(0)
    p = generator.random(20000)
    y = (generator.random(20000) < p**2).astype(int)
    (curve,) = evidence("long", Given(p, 0.5), np.arange(20000), y, "f1")["curves"]
    assert len(curve["recall"]) <= 400
    steps = np.hypot(np.diff(curve["recall"]), np.diff(curve["precision"]))
    assert np.quantile(steps, 0.99) < 0.05
    assert (curve["recall"][0], curve["recall"][-1]) == (0, 1)


def test_calibration_equals_a_loop_and_helps_where_it_should():
    generator = np.random.default_rng(0)
    true = generator.random(3000)
    y = (generator.random(3000) < true).astype(int)
    sure = true**3 / (true**3 + (1 - true) ** 3)  # three times too sure
    found = evidence("sure", Given(sure, 0.5), np.arange(3000), y, "accuracy")["calibration"]
    confidence, right = np.maximum(sure, 1 - sure), (sure >= 0.5) == y
    total, bins = 0.0, []
    for b in range(15):
        inside = np.floor(np.minimum(confidence * 15, 14)) == b
        if inside.any():
            bins.append((confidence[inside].mean(), right[inside].mean(), inside.sum()))
            total += inside.sum() * abs(bins[-1][0] - bins[-1][1])
    assert found["before"]["error"] == pytest.approx(total / 3000)
    assert [tuple(one.values()) for one in found["before"]["bins"]] == [pytest.approx(one) for one in bins]
    assert found["before"]["error"] > 0.1
    assert found["after"]["error"] < 0.03
    few = evidence("few", Given(sure, 0.5), np.arange(49), y[:49], "accuracy")["calibration"]
    assert few["after"] is None


def test_no_row_is_calibrated_by_itself(monkeypatch):
    from evalign.reports import _curves

    p, seen = np.linspace(0.01, 0.99, 120), []

    class Recorded:
        def __init__(self, scores, y, method):
            self.fitted = {tuple(row) for row in scores}
            assert set(y) == {0, 1}  # both halves have rows of both classes

        def predict_proba(self, scores):
            rows = {tuple(row) for row in scores}
            assert not rows & self.fitted
            seen.append(rows)
            return np.exp(scores)

    monkeypatch.setattr(_curves, "fit_calibration", Recorded)
    found = evidence("given", Given(p, 0.5), np.arange(120), (np.arange(120) > 117).astype(int), "f1")
    assert len(set.union(*seen)) == 120
    assert found["calibration"]["after"]["error"] == pytest.approx(found["calibration"]["before"]["error"])


@pytest.mark.parametrize("with_rule", [True, False])
def test_the_weight_of_a_class_moves_decisions_as_a_loop_says(four, with_rule):
    X, y, new, truth = four
    plain = LogisticRegression().fit(X, y)
    model = MetricDecision(plain, "f1", cv="prefit").fit(X[300:], y[300:]) if with_rule else plain
    found = evidence("model", model, new, truth, "f1", "recall >= 0.5")
    names, p = found["classes"], model.predict_proba(new)
    assert [one["class"] for one in found["slider"]["classes"]] == names  # they are by frequency, too
    for one in found["slider"]["classes"]:
        k = names.index(one["class"])
        assert one["positions"][one["chosen"]] == 1
        assert one["matrices"][one["chosen"]] == found["matrix"]
        assert (one["positions"][0], one["positions"][-1]) == (1 / 16, 16)
        for at in range(0, len(one["positions"]), 8):
            moved = p.copy()
            moved[:, k] *= one["positions"][at]
            moved /= moved.sum(1, keepdims=True)
            guess = model.rule_.predict(moved) if with_rule else model.classes_[moved.argmax(1)]
            assert one["matrices"][at] == confusion_matrix(truth, guess, labels=names).tolist()
            assert one["values"][at] == pytest.approx(
                f1_score(truth, guess, average="macro", zero_division=0)
            )
            own = {"labels": names, "average": None, "zero_division": 0}
            assert one["precision"][at] == pytest.approx(precision_score(truth, guess, **own)[k])
            assert one["recall"][at] == pytest.approx(recall_score(truth, guess, **own)[k])
            assert one["predicted"][at] == (guess == one["class"]).sum()
            slack = recall_score(truth, guess, average="macro") - 0.5
            assert one["constraints"]["recall() >= 0.5"][at] == pytest.approx(slack)
    assert len(found["curves"]) == 4


def test_many_classes_leave_their_matrices_out():
    generator = np.random.default_rng(0)
    y = generator.integers(0, 30, 2000)
    model = LogisticRegression().fit(np.eye(30)[y] + generator.normal(size=(2000, 30)), y)
    found = evidence("many", model, np.eye(30)[y] + generator.normal(size=(2000, 30)), y, "f1")
    parts = found["slider"]["classes"]
    assert len(parts) == 20
    assert all(one["matrices"] is None for one in parts)
    assert parts[0]["values"][parts[0]["chosen"]] == pytest.approx(found["value"])
    assert len(found["curves"]) == 10
    most = np.argsort(-np.bincount(y), kind="stable")[:20]
    assert [one["class"] for one in parts] == [str(k) for k in most]


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
def test_any_metric_is_told_along_the_slider(two, ruled, metric, naive_value):
    _, _, X, y = two
    found = evidence("ruled", ruled, X, y, metric)
    asked = metrics.as_metric(metric)
    assert found["value"] == pytest.approx(naive_value(np.array(found["matrix"])))
    assert found["metrics"][asked.name]["value"] == found["value"]
    assert found["higher_is_better"] is asked.higher_is_better
    wanted = [naive_value(np.reshape(cells, (2, 2))) for cells in found["slider"]["matrices"]]
    assert found["slider"]["values"] == pytest.approx(wanted)


def test_the_positive_class_may_be_the_first(two, ruled):
    _, _, X, y = two
    found = evidence("ruled", ruled, X, y, "f1(positive=0)")
    guess = ruled.predict(X)
    assert found["positive"] == 0
    assert found["metrics"]["precision"]["value"] == pytest.approx(precision_score(y, guess, pos_label="no"))
    assert found["curves"][0]["class"] == "no"
    assert (
        evidence("ruled", ruled, X, y, "accuracy + f1(positive=0)".replace("y +", "y() +"))["positive"] == 0
    )


def test_rules_and_training_are_found_inside_pipelines(two):
    X, y, new, truth = two
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.05, np.nan, X)
    booster = MetricBooster("f1", n_bags=1, n_estimators=20, n_jobs=1, random_state=0)
    model = make_pipeline(SimpleImputer(), booster).fit(X, y)
    found = evidence("booster", model, new, truth, "f1")
    assert found["slider"]["positions"][found["slider"]["chosen"]] == booster.rule_.threshold
    network = MetricClassifier("f1", rule=True, hidden=(4,), max_epochs=2, n_bags=2, random_state=0)
    methods = {"network": make_pipeline(SimpleImputer(), network)}
    chosen = AutoClassifier("f1", methods=methods, cv=2, random_state=0).fit(X, y)
    found = evidence("network", chosen, new, truth, "f1")
    own = chosen.best_estimator_[-1]
    assert found["slider"]["positions"][found["slider"]["chosen"]] == own.rule_.threshold
    rows = [row for row in own.history_ if row["bag"] == 0]
    assert [row["hard"] for row in found["history"]] == [row["valid_metric"] for row in rows]
    assert [row["epoch"] for row in found["history"]] == list(range(1, len(rows) + 1))
    for row, own_row in zip(found["history"], rows, strict=True):
        soft = 1 - own_row["valid_loss"] if own_row["phase"] == "metric, anchored" else None
        assert row["soft"] == (None if soft is None else pytest.approx(soft))
        assert row["temperature"] == own_row["temperature"]
    assert any(row["soft"] is not None for row in found["history"])


def test_a_boosted_model_without_rule_decides_by_its_scores(two):
    X, y, new, truth = two
    model = MetricBooster("f1", rule=False, n_bags=1, n_estimators=20, n_jobs=1, random_state=0).fit(X, y)
    found = evidence("booster", model, new, truth, "f1")
    slider = found["slider"]
    assert slider["matrices"][slider["chosen"]] == np.ravel(found["matrix"]).tolist()


def test_what_needs_probabilities_is_none_without(two):
    X, y, new, truth = two
    found = evidence("ridge", RidgeClassifier().fit(X, y), new, truth, "mcc")
    assert found["value"] == pytest.approx(matthews_corrcoef(truth, RidgeClassifier().fit(X, y).predict(new)))
    assert [found[key] for key in ("slider", "curves", "calibration", "history")] == [None] * 4


def test_evidence_is_json_without_nan(two, ruled):
    _, _, X, y = two
    undefined = metrics.metric(lambda c: c.tp / (c.fp - c.fp), name="undefined")
    found = evidence("ruled", ruled, X, y, undefined)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["value"] is None
    assert found["metrics"]["undefined"] == {"value": None, "low": None, "high": None}


@pytest.mark.parametrize("labels", [[False, True], [3, 7], [-1.0, 2.0], ["", "é"]])
def test_labels_of_any_type_are_told_as_text(two, labels):
    X, y, new, truth = two
    kinds = np.array(labels)
    model = LogisticRegression().fit(X, kinds[(y == "yes").astype(int)])
    found = evidence("logistic", model, new, kinds[(truth == "yes").astype(int)], "f1")
    assert found["classes"] == [str(one) for one in labels]
    plain = LogisticRegression().fit(X, y)
    assert found["matrix"] == confusion_matrix(truth, plain.predict(new)).tolist()


def test_wrong_rows_are_refused(two, ruled):
    _, _, X, y = two
    with pytest.raises(
        ValueError, match=r"Expected `y` with the classes \['no', 'yes'\] only, but got 'maybe'."
    ):
        evidence("ruled", ruled, X, np.where(np.arange(400) == 7, "maybe", y), "f1")
    with pytest.raises(ValueError, match="Expected `y` with the 400 rows of `X`, but got 399."):
        evidence("ruled", ruled, X, y[1:], "f1")
    with pytest.raises(ValueError, match="Expected `metric` that gives one number"):
        evidence("ruled", ruled, X, y, "auroc")


def test_intervals_are_those_of_drawn_rows(two, ruled):
    """A multinomial draw of the matrix is a draw of the rows: the same spread, from other random numbers."""
    _, _, X, y = two
    found = evidence("ruled", ruled, X, y, "f1")["metrics"]
    guess, generator = ruled.predict(X), np.random.default_rng(5)
    drawn = {"f1": [], "mcc": []}
    for _ in range(1000):
        rows = generator.integers(0, 400, 400)
        tn, fp, fn, tp = np.bincount(2 * (y[rows] == "yes") + (guess[rows] == "yes"), minlength=4)
        drawn["f1"].append(2 * tp / (2 * tp + fp + fn))
        sides = float((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        drawn["mcc"].append((tp * tn - fp * fn) / np.sqrt(sides))
    for name, values in drawn.items():
        low, high = np.quantile(values, [0.025, 0.975])
        wide = high - low
        assert found[name]["low"] == pytest.approx(low, abs=0.1 * wide)
        assert found[name]["high"] == pytest.approx(high, abs=0.1 * wide)
        assert found[name]["low"] < found[name]["value"] < found[name]["high"]


def test_intervals_cover_the_truth_as_often_as_they_say():
    from evalign.reports._intervals import intervals

    generator = np.random.default_rng(0)
    shares = np.array([[0.5, 0.1], [0.1, 0.3]])
    inside = 0
    for repeat in range(200):
        matrix = generator.multinomial(400, shares.ravel()).reshape(2, 2).astype(float)
        one = intervals(matrix, {"accuracy": metrics.accuracy()}, seed=repeat)["accuracy"]
        inside += one["low"] <= 0.8 <= one["high"]
    assert 180 <= inside <= 198


def test_comparison_facts_hold_all_rows(facts):
    found = facts["two"]["comparison"]
    assert found["repeats"] == 3
    rows = {row["method"]: row for row in found["rows"]}
    assert rows["broken"]["error"].startswith("InvalidParameterError")
    assert rows["broken"]["mean"] is None
    assert rows["balanced"]["low"] < rows["balanced"]["difference"] < rows["balanced"]["high"]
    assert rows["logistic"]["mean"] == pytest.approx(np.mean(rows["logistic"]["values"]))
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_comparison_facts_describe_named_methods():
    from evalign.selection import Comparison
    from evalign.selection.comparison import Row

    found = comparison_facts(Comparison("f1", True, "booster", (), (Row("booster", (0.5,), 0.5),)))
    assert found["rows"][0]["description"] == "LightGBM boosted on the metric and a fitted rule"
