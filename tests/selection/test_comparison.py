"""`compare`: pairing, statistics, resuming, and what happens when something goes wrong."""

import io
import json
import math
import re
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.metrics import f1_score, precision_score, recall_score
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import evalign as ev
from evalign.selection import Comparison, compare
from evalign.selection.comparison import Row, corrected_interval

X, Y = make_classification(240, 6, weights=[0.7], flip_y=0.1, random_state=0)
METHODS = {"bayes": GaussianNB(), "tree": DecisionTreeClassifier(max_depth=3)}


class Recorder(ClassifierMixin, BaseEstimator):
    """Predicts the most frequent class; records its training rows, and fails or stops on request."""

    fits: list = []  # noqa: RUF012
    seeds: list = []  # noqa: RUF012
    stop_at = math.inf

    def __init__(self, fail=False, random_state=None):
        self.fail = fail
        self.random_state = random_state

    def fit(self, X, y):
        if self.fail:
            raise RuntimeError("no luck\nat all")
        if len(Recorder.fits) >= Recorder.stop_at:
            raise KeyboardInterrupt
        Recorder.fits.append(np.asarray(X).tobytes())
        Recorder.seeds.append(self.random_state)
        self.classes_, counts = np.unique(y, return_counts=True)
        self.most_ = self.classes_[counts.argmax()]
        return self

    def predict(self, X):
        return np.full(len(X), self.most_)


@pytest.fixture(autouse=True)
def _fresh():
    Recorder.fits, Recorder.seeds, Recorder.stop_at = [], [], math.inf


def test_values_are_those_of_scikit_learn_on_its_own_splits():
    comparison = compare(X, Y, "f1", methods=METHODS, n_repeats=3, random_state=7)
    seed = np.random.RandomState(7).randint(2**31 - 1)
    splits = StratifiedShuffleSplit(3, test_size=0.2, random_state=seed).split(X, Y)
    expected = [
        f1_score(Y[test], GaussianNB().fit(X[train], Y[train]).predict(X[test])) for train, test in splits
    ]
    np.testing.assert_allclose(comparison.row("bayes").values, expected, atol=1e-9)
    assert comparison.row("bayes").mean == pytest.approx(np.mean(expected))
    assert comparison.row("bayes").standard_error == pytest.approx(np.std(expected, ddof=1) / math.sqrt(3))
    assert comparison.row("bayes").fit_time > 0
    assert comparison.row("bayes").predict_time > 0


def test_every_method_sees_the_same_rows_and_seed_and_every_repeat_others():
    compare(X, Y, "f1", methods={"a": Recorder(), "b": Recorder()}, n_repeats=3)
    rows = np.array(Recorder.fits, dtype=object).reshape(3, 2)
    assert (rows[:, 0] == rows[:, 1]).all()
    assert len(set(rows[:, 0])) == 3
    seeds = np.array(Recorder.seeds).reshape(3, 2)
    assert (seeds[:, 0] == seeds[:, 1]).all()
    assert len(set(seeds[:, 0])) == 3


def test_a_seed_set_by_the_user_is_kept():
    compare(X, Y, "f1", methods={"a": Recorder(random_state=5)}, n_repeats=2)
    assert Recorder.seeds == [5, 5]


def test_the_corrected_interval_by_hand():
    # Differences 0.01, 0.02, 0.06: mean 0.03, variance (4 + 1 + 9) 1e-4 / 2 = 7e-4; k = 3 and
    # n_test / n_train = 1/4 give the error sqrt(7e-4 (1/3 + 1/4)) = 0.0202073, and t(0.975, 2) = 4.302653.
    low, high = corrected_interval(np.array([0.01, 0.02, 0.06]), ratio=0.25)
    assert low == pytest.approx(0.03 - 4.302653 * 0.0202073, abs=1e-6)
    assert high == pytest.approx(0.03 + 4.302653 * 0.0202073, abs=1e-6)


def test_rows_have_the_paired_difference_and_its_interval():
    comparison = compare(X, Y, "mcc", methods=METHODS, n_repeats=4, test_size=0.25, reference="tree")
    gaps = np.array(comparison.row("bayes").values) - comparison.row("tree").values
    half = 3.182446 * math.sqrt(gaps.var(ddof=1) * (1 / 4 + 1 / 3))  # t(0.975, 3)
    assert comparison.row("bayes").difference == pytest.approx(gaps.mean())
    assert comparison.row("bayes").interval == pytest.approx(
        (gaps.mean() - half, gaps.mean() + half), abs=1e-6
    )
    assert comparison.row("tree").difference is None
    assert comparison.reference == "tree"


def test_two_processes_find_what_one_finds():
    methods = {**METHODS, "forest": DecisionTreeClassifier(splitter="random")}
    one, two = (compare(X, Y, "f1", methods=methods, n_repeats=3, n_jobs=jobs) for jobs in (1, 2))
    assert [row.values for row in one.rows] == [row.values for row in two.rows]
    assert one.best == two.best


def test_a_killed_run_resumes_with_what_is_missing(tmp_path):
    methods = {"a": Recorder(), "b": Recorder(random_state=1)}
    file = tmp_path / "trials.jsonl"
    Recorder.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        compare(X, Y, "accuracy", methods=methods, n_repeats=3, trials_file=file)
    assert len(Recorder.fits) == 3
    Recorder.stop_at = math.inf
    resumed = compare(X, Y, "accuracy", methods=methods, n_repeats=3, trials_file=file)
    assert len(Recorder.fits) == 6
    again = compare(X, Y, "accuracy", methods=methods, n_repeats=3, trials_file=file)
    assert len(Recorder.fits) == 6
    assert again == resumed
    whole = compare(X, Y, "accuracy", methods=methods, n_repeats=3)
    assert [row.values for row in whole.rows] == [row.values for row in resumed.rows]


def test_more_repeats_and_changed_settings_run_only_what_is_new(tmp_path):
    file = tmp_path / "trials.jsonl"
    compare(X, Y, "accuracy", methods={"a": Recorder()}, n_repeats=2, trials_file=file)
    compare(X, Y, "accuracy", methods={"a": Recorder()}, n_repeats=4, trials_file=file)
    assert len(Recorder.fits) == 4
    compare(X, Y, "accuracy", methods={"a": Recorder(random_state=3)}, n_repeats=4, trials_file=file)
    assert len(Recorder.fits) == 8
    compare(X, Y, "accuracy", methods={"a": Recorder()}, n_repeats=4, random_state=1, trials_file=file)
    assert len(Recorder.fits) == 12


def test_only_the_trial_of_a_truncated_line_is_run_again(tmp_path):
    file = tmp_path / "trials.jsonl"
    compare(X, Y, "accuracy", methods={"a": Recorder()}, n_repeats=3, trials_file=file)
    for length in (30, 5):  # cut in the middle of a line, and of its first word
        lines = file.read_text().splitlines()
        file.write_text("\n".join([*lines[:-1], lines[-1][:length]]))
        done = len(Recorder.fits)
        compare(X, Y, "accuracy", methods={"a": Recorder()}, n_repeats=3, trials_file=file)
        assert len(Recorder.fits) == done + 1
    compare(X, Y, "accuracy", methods={"a": Recorder()}, n_repeats=3, trials_file=file)
    assert len(Recorder.fits) == 5


@pytest.mark.parametrize(
    ("data", "metric", "constraints"),
    [(X + 1, "f1", ()), (X, "mcc", ()), (X, "f1", "precision >= 0.1")],
    ids=["data", "metric", "constraints"],
)
def test_trials_of_other_data_are_rejected(tmp_path, data, metric, constraints):
    file = tmp_path / "trials.jsonl"
    compare(X, Y, "f1", methods=METHODS, n_repeats=1, trials_file=file)
    before = file.read_text()
    with pytest.raises(ValueError, match="`trials_file` of this data, metric and constraints"):
        compare(data, Y, metric, methods=METHODS, n_repeats=1, constraints=constraints, trials_file=file)
    assert file.read_text() == before


@pytest.mark.parametrize("text", ["my notes", '{"a": 1}\n', "[1, 2]", '"text"'])
def test_other_files_are_rejected_and_left_alone(tmp_path, text):
    file = tmp_path / "notes.txt"
    file.write_text(text)
    with pytest.raises(ValueError, match="`trials_file` of finished trials"):
        compare(X, Y, "f1", methods=METHODS, n_repeats=1, trials_file=file)
    assert file.read_text() == text


def test_a_folder_is_not_a_trials_file(tmp_path):
    with pytest.raises(ValueError, match="`trials_file` that can be written"):
        compare(X, Y, "f1", methods=METHODS, n_repeats=1, trials_file=tmp_path)


def test_a_trials_file_needs_a_seed(tmp_path):
    with pytest.raises(ValueError, match="`random_state` to be an integer with `trials_file`, but got None"):
        compare(X, Y, "f1", methods=METHODS, random_state=None, trials_file=tmp_path / "trials.jsonl")


def test_a_failing_method_does_not_stop_the_others(tmp_path):
    file = tmp_path / "trials.jsonl"
    methods = {"bad": Recorder(fail=True), **METHODS}
    comparison = compare(X, Y, "f1", methods=methods, n_repeats=2, trials_file=file)
    assert comparison.row("bad") == Row("bad", error="RuntimeError: no luck")
    assert comparison.row("tree").mean > 0
    assert comparison.row("tree").difference is None  # the reference failed
    assert "| bad | failed: RuntimeError: no luck |" in comparison.to_markdown()
    assert "bad failed" in comparison.advice
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 4  # to be tried again


def test_all_failing_is_an_error():
    with pytest.raises(ValueError, match="All methods failed: a: RuntimeError: no luck; b: Runtime"):
        compare(X, Y, "f1", methods={"a": Recorder(fail=True), "b": Recorder(fail=True)}, n_repeats=2)


def test_a_cost_is_better_when_lower():
    cost = ev.metrics.cost([[0, 1], [5, 0]])
    assert not cost.higher_is_better
    methods = {"guess": DummyClassifier(), "tree": DecisionTreeClassifier(max_depth=4)}
    comparison = compare(X, Y, cost, methods=methods, n_repeats=4)
    assert comparison.best == "tree"
    assert comparison.row("tree").mean < comparison.row("guess").mean
    tree, guess = comparison.row("tree"), comparison.row("guess")
    assert tree.difference == pytest.approx(tree.mean - guess.mean)
    assert comparison.row("tree").interval[1] < 0
    assert comparison.advice.endswith("over guess; use it.")


def test_constraints_on_test_parts_count_before_the_metric():
    methods = {"all": DummyClassifier(strategy="constant", constant=1), "bayes": GaussianNB()}
    free = compare(X, Y, "recall", methods=methods, n_repeats=3)
    bound = compare(X, Y, "recall", methods=methods, n_repeats=3, constraints=["precision >= 0.5"])
    assert free.best == "all"
    assert bound.best == "bayes"
    seed = np.random.RandomState(0).randint(2**31 - 1)
    slacks = []
    for train, test in StratifiedShuffleSplit(3, test_size=0.2, random_state=seed).split(X, Y):
        guess = GaussianNB().fit(X[train], Y[train]).predict(X[test])
        slacks.append(precision_score(Y[test], guess) - 0.5)
    assert bound.row("bayes").slack == pytest.approx(np.mean(slacks))
    assert bound.row("bayes").n_satisfied == 3
    assert bound.row("all").n_satisfied == 0
    assert "| satisfied in 3 of 3 |" in bound.to_markdown()
    assert "all, which violates precision() >= 0.5; use it" in bound.advice


def test_if_no_method_satisfies_the_constraints_the_nearest_is_best():
    methods = {"all": DummyClassifier(strategy="constant", constant=1), "bayes": GaussianNB()}
    comparison = compare(X, Y, "recall", methods=methods, n_repeats=2, constraints="precision >= 0.999")
    assert comparison.best == "bayes"
    assert "no method satisfies precision() >= 0.999 on average" in comparison.advice
    upper = compare(X, Y, "recall", methods=methods, n_repeats=2, constraints="recall <= 0.9")
    assert upper.row("all").slack == pytest.approx(-0.1)


def test_labels_may_be_strings():
    names = np.array(["no", "yes"])[Y]
    comparison = compare(X, names, "recall", methods=METHODS, n_repeats=2)
    assert (
        comparison.row("bayes").values
        == compare(X, Y, "recall", methods=METHODS, n_repeats=2).row("bayes").values
    )
    seed = np.random.RandomState(0).randint(2**31 - 1)
    train, test = next(StratifiedShuffleSplit(2, test_size=0.2, random_state=seed).split(X, Y))
    guess = GaussianNB().fit(X[train], names[train]).predict(X[test])
    expected = recall_score(names[test], guess, pos_label="yes")
    assert comparison.row("bayes").values[0] == pytest.approx(expected)


def test_methods_get_data_frames_with_column_names():
    class NeedsNames(GaussianNB):
        def fit(self, X, y):
            assert list(X.columns) == list("abcdef")
            return super().fit(X, y)

    frame = pd.DataFrame(X, columns=list("abcdef"))
    comparison = compare(frame, pd.Series(Y), "f1", methods={"bayes": NeedsNames()}, n_repeats=2)
    assert (
        comparison.row("bayes").values
        == compare(X, Y, "f1", methods=METHODS, n_repeats=2).row("bayes").values
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(240)}, "`y` with two classes, but got 1 class: 0.0"),
        ({"y": np.r_[np.zeros(239), 1]}, "`y` with at least two rows of every class, but got 1 row of 1.0"),
        (
            {"X": X[:6], "y": [0, 0, 1, 1, 2, 2]},
            "`y` with a row of each of 3 classes in both parts, but got 6",
        ),
        ({"X": X[:60], "y": [0] * 58 + [1] * 2, "test_size": 0.9}, "`test_size` that leaves rows of every"),
        ({"y": Y[:100]}, "inconsistent numbers of samples"),
        ({"test_size": 1.5}, r"`test_size` in \(0, 1\), but got 1.5"),
        ({"n_repeats": 0}, "`n_repeats` to be an integer >= 1, but got 0"),
        ({"metric": "f11"}, "Did you mean 'f1'"),
        ({"metric": "auroc"}, "`metric` that gives one number from predicted classes, but got auroc"),
        ({"constraints": "precision"}, "`constraint` to be a metric, >= or <=, and a number"),
        (
            {"reference": "bayess"},
            "`reference` to be one of `methods`, but got 'bayess'. Did you mean 'bayes'?",
        ),
    ],
)
def test_errors_name_the_invalid_argument(change, message):
    arguments = {"X": X, "y": Y, "metric": "f1", "methods": METHODS, **change}
    with pytest.raises(ValueError, match=message):
        compare(**arguments)


def test_predictions_of_unknown_classes_are_a_failure():
    class Odd(Recorder):
        def predict(self, X):
            return np.full(len(X), 7)

    comparison = compare(X, Y, "f1", methods={"odd": Odd(), **METHODS}, n_repeats=1)
    assert "7" in comparison.row("odd").error


def test_json_round_trip():
    comparison = compare(
        X, Y, "f1", methods={"bad": Recorder(fail=True), **METHODS}, n_repeats=2, constraints="recall >= 0.1"
    )
    assert Comparison.from_json(comparison.to_json()) == comparison
    single = compare(X, Y, "f1", methods=METHODS, n_repeats=1)
    assert Comparison.from_json(single.to_json()) == single


def test_to_frame():
    table = compare(X, Y, "f1", methods=METHODS, n_repeats=2).to_frame()
    assert table.index.tolist() == ["bayes", "tree"]
    assert table.loc["tree", "low"] < table.loc["tree", "difference"] < table.loc["tree", "high"]
    assert math.isnan(table.loc["bayes", "low"])


def example(best_values, interval, **settings):
    rows = (
        Row("plain", (0.5, 0.5), 0.5, 0.0, fit_time=1.0),
        Row("new", best_values, float(np.mean(best_values)), 0.006, 0.018, interval, fit_time=2.0),
    )
    return Comparison(**{"metric": "f1", "higher_is_better": True, "reference": "plain"} | settings,
                      constraints=(), rows=rows)  # fmt: skip


def test_advice_depends_on_the_interval():
    sure = example((0.71, 0.714), (0.009, 0.027))
    assert sure.advice == (
        "new: f1 0.712 +/- 0.006, +0.018 (95 % interval 0.009 to 0.027) over plain; use it."
    )
    unsure = example((0.71, 0.714), (-0.009, 0.045)).advice
    assert unsure.endswith(
        "(95 % interval -0.009 to 0.045) over plain; the interval contains 0, so plain may be as good."
    )
    assert "from one split" in example((0.71,), None).advice
    assert example((0.71, 0.714), (0.009, 0.027), higher_is_better=False).advice == (
        "plain: f1 0.500 +/- 0.000; no other method has a better mean."
    )


def test_the_markdown_table_is_the_text():
    text = str(example((0.71, 0.714), (0.009, 0.027)))
    assert text.splitlines() == [
        "| method | f1 | difference from plain | 95 % interval | fit (s) |",
        "| --- | --- | --- | --- | --- |",
        "| plain | 0.500 +/- 0.000 |  |  | 1.00 |",
        "| new | 0.712 +/- 0.006 | +0.018 | 0.009 to 0.027 | 2.00 |",
    ]


def test_progress_is_one_line_and_optional(monkeypatch):
    output = {}
    for verbose in (None, False, True):
        stream = io.StringIO()
        stream.isatty = lambda: True
        monkeypatch.setattr(sys, "stderr", stream)
        compare(X, Y, "f1", methods=METHODS, n_repeats=2, verbose=verbose)
        output[verbose] = stream.getvalue()
    assert output[False] == ""
    for verbose in (None, True):
        assert output[verbose].count("\n") == 1
        assert re.search(r"4 of 4 trials \[[0-9:]+<00:00\]\s*\n$", output[verbose])


def test_progress_is_written_line_by_line_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr("evalign._progress.PAUSE", 0.0)
    for verbose in (None, False):
        compare(X, Y, "f1", methods=METHODS, n_repeats=2, verbose=verbose)
    assert capsys.readouterr().err == ""
    compare(X, Y, "f1", methods=METHODS, n_repeats=2, verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"compare: {n} of 4 trials" for n in range(1, 5)]
    assert lines[0].endswith(" s left")
