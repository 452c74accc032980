"""What a model brings, against scikit-learn and naive loops; and in which words that is said."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, recall_score, roc_curve

from evalign import metrics
from evalign.reports import Rival, describe_benefit, describe_form, measure_benefit, tune_decisions
from evalign.reports._format import number
from evalign.reports._words import describe_learning
from evalign.reports.facts import BenefitFacts, Interval, LearningFacts, MethodCounts


class Fixed:
    """Decisions and scores of certain rows."""

    def __init__(self, predicted, scores=None, classes=(0, 1)):
        self.classes_ = np.array(classes)
        self._predicted = predicted
        if scores is not None:
            self.predict_proba = lambda X: np.stack([1 - scores, scores], axis=1)

    def predict(self, X):
        return self._predicted


@pytest.fixture(scope="module")
def rows():
    """Classes, good scores and poor ones, with ties among them."""
    generator = np.random.default_rng(0)
    y = (generator.random(3000) < 0.1).astype(int)
    good = np.clip(0.4 * y + generator.normal(0.3, 0.15, 3000), 0, 1)
    poor = np.round(np.clip(0.2 * y + generator.normal(0.3, 0.15, 3000), 0, 1), 2)
    return y, good, poor


def compare(y, first, second, role="tuned"):
    """The benefit of deciding by the first scores from 0.6 on, compared with the second ones."""
    model = Fixed((first >= 0.6).astype(int), first)
    rival = Rival("LightGBM", role, Fixed((second >= 0.5).astype(int), second))
    return measure_benefit("the new model", model, [rival], np.arange(len(y)), y, "f1", positive=1)


def test_counts_and_the_share_found_with_as_many_false_alarms(rows):
    y, good, poor = rows
    facts = compare(y, good, poor)
    model, rival = facts.methods
    guess = good >= 0.6
    assert facts.support == (int((y == 0).sum()), int(y.sum()))
    assert model.missed[1] == int((~guess & (y == 1)).sum()) == model.false_alarms[0]
    assert model.false_alarms[1] == int((guess & (y == 0)).sum()) == model.missed[0]
    assert model.found.value == pytest.approx(recall_score(y, guess))
    assert model.value == pytest.approx(f1_score(y, guess))
    assert rival.value == pytest.approx(f1_score(y, poor >= 0.5))
    # The curve of scikit-learn at the model's share of false alarms, which ties make a line.
    false, true, _ = roc_curve(y, poor, drop_intermediate=False)
    wanted = np.interp(model.false_alarms[1] / facts.support[0], false, true)
    assert rival.found.value == pytest.approx(wanted)
    assert rival.found_lead.value == pytest.approx(model.found.value - wanted)


def test_intervals_are_those_of_a_paired_bootstrap_of_rows(rows):
    y, good, poor = rows
    facts = compare(y, good, poor)
    rival, generator = facts.methods[1], np.random.default_rng(1)
    leads, found = [], []
    for _ in range(300):
        own = generator.integers(0, len(y), len(y))
        case, first, second = y[own] == 1, good[own] >= 0.6, poor[own] >= 0.5
        one, other = (2 * (case & guess).sum() / (case.sum() + guess.sum()) for guess in (first, second))
        leads.append(one - other)
        false, true, _ = roc_curve(y[own], poor[own], drop_intermediate=False)
        alarms = (first & ~case).sum() / (~case).sum()
        found.append((first & case).sum() / case.sum() - np.interp(alarms, false, true))
    for interval, samples in ((rival.lead, leads), (rival.found_lead, found)):
        width = np.quantile(samples, 0.975) - np.quantile(samples, 0.025)
        assert interval.low == pytest.approx(np.quantile(samples, 0.025), abs=0.12 * width)
        assert interval.high == pytest.approx(np.quantile(samples, 0.975), abs=0.12 * width)


def test_many_scores_are_sampled_in_groups():
    generator = np.random.default_rng(2)
    y = (generator.random(30_000) < 0.1).astype(int)
    scores = np.clip(0.2 * y + generator.normal(0.4, 0.1, 30_000), 0, 1)
    noisy = np.clip(scores + generator.normal(0, 0.05, 30_000), 0, 1)
    facts = compare(y, scores, noisy)
    model, rival = facts.methods
    assert rival.found_lead.low < rival.found_lead.value < rival.found_lead.high
    false, true, _ = roc_curve(y, noisy)
    wanted = np.interp(model.false_alarms[1] / facts.support[0], false, true)
    assert rival.found.value == pytest.approx(wanted, abs=0.002)


def test_the_first_sentence_says_whether_it_is_better(rows):
    y, good, poor = rows
    better, worse, same = compare(y, good, poor), compare(y, poor, good), compare(y, good, good)
    assert [one.verdict for one in (better, worse, same)] == ["better", "worse", "unclear"]
    first = describe_benefit(better)[0]
    hundred = round(100 * better.methods[0].found.value)
    assert first.startswith("The new model is better than LightGBM with a tuned threshold: of 100 real cases")
    assert f"it finds {hundred}, with " in first
    assert (
        f"LightGBM with a tuned threshold finds {100 * better.methods[1].found.value:.0f} with as many"
        in first
    )
    assert describe_benefit(worse)[0].startswith("The new model is worse than LightGBM with a tuned thresh")
    assert describe_benefit(same)[0].startswith("The new model is not clearly better than LightGBM with")
    assert "(difference 0.0, 95 % interval " in describe_benefit(same)[0]


def test_without_a_tuned_rival_nothing_is_claimed(rows):
    y, good, poor = rows
    facts = compare(y, good, poor, role="plain")
    assert facts.verdict is None
    assert facts.methods[1].found is None  # its threshold is its own
    first, plain = describe_benefit(facts)
    assert first.startswith("Of 100 real cases of “1”, the new model finds ")
    found = 100 * recall_score(y, poor >= 0.5)
    assert plain.startswith(f"LightGBM as it comes finds {found:.0f}, with ")
    ours, theirs, lead = facts.methods[0].value, facts.methods[1].value, facts.methods[1].lead
    assert theirs == pytest.approx(f1_score(y, poor >= 0.5))
    shown = re.search(r"; by f1, the model has (\S+) against (\S+) \(better by (\S+), ", plain).groups()
    assert [float(one) for one in shown] == pytest.approx([ours, theirs, ours - theirs], abs=5e-4)
    assert plain.endswith(f"95 % interval {lead.low:.3f} to {lead.high:.3f}).")
    alone = describe_benefit(
        replace(facts, methods=facts.methods[:1], same="LightGBM with a tuned threshold")
    )
    assert alone[0].startswith("Nothing that was tried is better than LightGBM with a tuned threshold, which")


def test_more_than_two_classes_are_compared_by_the_metric(four):
    X, y, new, truth = four
    good, poor = LogisticRegression().fit(X, y), LogisticRegression(C=1e-4).fit(X, y)
    rivals = [Rival("LightGBM", "tuned", poor)]
    facts = measure_benefit("the new model", good, rivals, new, truth, "f1")
    assert facts.verdict == "better"
    first, right, rarest = describe_benefit(facts)
    values = [f1_score(truth, model.predict(new), average="macro") for model in (good, poor)]
    assert first.startswith(
        "The new model is better than LightGBM with a tuned rule by f1: {:.3f} against {:.3f} (".format(
            *values
        )
    )
    assert right.startswith(f"Of 100 rows it gets {100 * good.score(new, truth):.1f} right, LightGBM with")
    found = 100 * (good.predict(new) == truth)[truth == "dog"].mean()
    assert rarest.startswith(f"Of 100 rows of “dog”, the rarest class, it finds {found:.0f}, ")


def test_rows_without_a_case():
    facts = measure_benefit("it", Fixed(np.zeros(5, int), np.zeros(5)), [], range(5), np.zeros(5, int), "f1",
                            positive=1)  # fmt: skip
    assert describe_benefit(facts) == [
        "None of the 5 held-out rows is “1”, so it is not known how many real cases it finds."
    ]


def test_the_cases_of_the_first_sentence_differ_by_the_difference():
    def describe(found, rival):
        counts = {"missed": (0, 1000 - found), "false_alarms": (1000 - found, 0)}
        model = MethodCounts("the new model", "model", 0.7, **counts)
        gap, width = (found - rival) / 1000, 0.01
        facts = {
            "found": Interval(rival / 1000, 0, 1),
            "found_lead": Interval(gap, gap - width, gap + width),
        }
        other = MethodCounts("LightGBM", "tuned", 0.7, (0, 0), (0, 0), **facts)
        return describe_benefit(BenefitFacts("f1", ("no", "yes"), 1, (1000, 1000), (model, other)))[0]

    near = describe(795, 791)
    assert "it finds 79.5, with 0 false alarms" in near
    assert "finds 79.1 with as many (difference +0.4, " in near
    far = describe(795, 705)
    assert "it finds 80, with" in far
    assert "finds 71 with as many (difference +9.0, " in far


def test_the_values_of_the_first_sentence_differ_by_the_difference():
    def describe(value, rival):
        model = MethodCounts("the new model", "model", value, (1, 1, 1), (1, 1, 1))
        lead = Interval(value - rival, 0.001, 0.01)
        other = MethodCounts("LightGBM", "tuned", rival, (1, 1, 1), (1, 1, 1), lead)
        return describe_benefit(BenefitFacts("f1", ("a", "b", "c"), None, (9, 9, 9), (model, other)))[0]

    assert "by f1: 0.9743 against 0.9687 (better by 0.0056, 95 % interval 0.001 " in describe(0.9743, 0.9687)
    assert "by f1: 0.974 against 0.969 (better by 0.005, 95 % interval 0.001 " in describe(0.9742, 0.9689)
    assert f"by f1: 0.969 against 0.974 (difference {number(-0.005)}, 95 % interval " in describe(
        0.9689, 0.9742
    )


def test_each_half_is_tuned_on_the_other(rows):
    y, good, _ = rows
    p = np.stack([1 - good, good], axis=1)
    decided = tune_decisions(p, y, [0, 1], metrics.f1(), ())
    assert f1_score(y, decided) > f1_score(y, good >= 0.5) + 0.02


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (Interval(0.03, 0.01, 0.05), "Probably: with the second half of the rows, f1 was better by 0.030 "),
        (
            Interval(0.001, -0.004, 0.006),
            "Probably not much: with the second half of the rows, f1 was better",
        ),
        (Interval(0.02, -0.01, 0.05), "That cannot be told: with the second half of the rows, f1 was better"),
        (Interval(-0.03, -0.05, -0.01), f"Probably not much: .* f1 was better by {number(-0.03)} "),
        (None, "That was not measured: there are too few rows."),
    ],
)
def test_words_on_more_rows(gain, words):
    facts = LearningFacts("f1", "LightGBM", gain=gain, skipped=None if gain else "there are too few rows")
    assert re.match(words, describe_learning(facts))


@pytest.mark.parametrize(
    ("metric", "classes", "words"),
    [
        ("f1", "ab", "of the class “b” (binary)"),
        ("f1(positive=0)", "ab", "of the class “a” (binary)"),
        ("f1(average='macro')", "ab", "as the mean over the 2 classes, each with the same weight (macro)"),
        ("f1", "abc", "as the mean over the 3 classes, each with the same weight (macro)"),
        (
            "f1(average='weighted')",
            "abc",
            "as the mean over the 3 classes, weighted by their rows (weighted)",
        ),
        ("recall(average='micro')", "abc", "with the counts of the 3 classes taken together (micro)"),
        ("recall['c']", "abc", "of the class “c”"),
        ("accuracy", "ab", None),
        ("mcc", "abc", None),
        ("(precision + recall) / 2", "ab", "of the class “b” (binary)"),
        ("accuracy * mcc", "ab", None),
    ],
)
def test_the_form_of_a_metric(metric, classes, words):
    target, _ = metrics.resolve_classes(metrics.as_metric(metric), (), tuple(classes))
    assert describe_form(target, tuple(classes)) == words
