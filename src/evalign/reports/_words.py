"""Facts in plain words."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evalign.metrics import Confusion, Metric
from evalign.reports._format import first_upper, number
from evalign.reports.facts import BenefitFacts, Interval, LearningFacts, MethodCounts

#: A gain of the metric below this is not worth collecting twice as many rows.
LITTLE = 0.01

_VERDICTS = {
    "better": "The new model is better than {}",
    "unclear": "The new model is not clearly better than {}",
    "worse": "The new model is worse than {}",
}
_FORMS = {
    "macro": "as the mean over the {} classes, each with the same weight (macro)",
    "weighted": "as the mean over the {} classes, weighted by their rows (weighted)",
    "micro": "with the counts of the {} classes taken together (micro)",
}


def describe_benefit(facts: BenefitFacts) -> list[str]:
    """Say whether the model is better than what people use today and what it finds; then what others find.

    >>> model = MethodCounts("the model", "model", 0.7, (5, 4), (4, 5), found=Interval(0.6, 0.3, 0.9))
    >>> describe_benefit(BenefitFacts("f1", ("no", "yes"), 1, (90, 10), (model,)))[0]
    'Of 100 real cases of “yes”, the model finds 60 (95 % interval 30 to 90), with 50 false alarms ...'
    """
    if facts.positive is None:
        first, *others = [_describe_metric(facts), _describe_rows(facts), _describe_rarest(facts)]
    else:
        first, *others = [_describe_cases(facts), _describe_plain(facts)]
    if facts.same is not None:
        first = f"Nothing that was tried is better than {facts.same}, which is the model. {first}"
    return [first, *(sentence for sentence in others if sentence)]


def _describe_cases(facts: BenefitFacts) -> str:
    """The real cases that are found, by the model and by its strongest rival."""
    model, rival, k = facts.methods[0], facts.rival, facts.focus
    cases = f"100 real cases of “{facts.classes[k]}”"
    alarms = f"with {_per_thousand(facts, model.false_alarms[k])} false alarms per 1,000 rows"
    share = model.share_found(facts.support, k)
    if share is None:
        none = f"None of the {facts.rows:,} held-out rows is “{facts.classes[k]}”"
        return f"{none}, so it is not known how many real cases {model.name} finds."
    if rival is None or rival.found is None or rival.found_lead is None or facts.verdict is None:
        own = "" if model.found is None else f" (95 % interval {_range(model.found)})"
        return f"Of {cases}, {model.name} finds {_hundred(share)}{own}, {alarms}."
    gap = 100 * (rival.found_lead.value or 0.0)
    lead = f"difference {number(gap, 1, signed=True)}, 95 % interval {_range(rival.found_lead, 1)}"
    found, other = _hundred(share), _hundred(rival.found.value)
    if int(found) - int(other) != round(gap):  # 79.5 and 79.1 are not 80 and 79
        found, other = _hundred(share, 1), _hundred(rival.found.value, 1)
    return (
        f"{_VERDICTS[facts.verdict].format(rival.label)}: of {cases} it finds {found}, {alarms}; "
        f"{rival.label} finds {other} with as many ({lead})."
    )


def _describe_plain(facts: BenefitFacts) -> str:
    """What the plain methods find, which raise other numbers of false alarms, so that the metric decides."""
    k, sentences = facts.focus, []
    for one in facts.methods:
        if one.role == "plain" and facts.support[k]:
            found = _hundred(one.share_found(facts.support, k))
            alarms = f"{_per_thousand(facts, one.false_alarms[k])} false alarms per 1,000 rows"
            values = f"; by {facts.metric}, the model has {_compare_values(facts, one)}" if one.lead else ""
            sentences.append(f"{first_upper(one.label)} finds {found}, with {alarms}{values}.")
    return " ".join(sentences)


def _describe_metric(facts: BenefitFacts) -> str:
    """By how much the metric is better than that of the strongest rival, of more than two classes."""
    model, rival = facts.methods[0], facts.rival
    if rival is None or rival.lead is None or facts.verdict is None:
        right = f"Of 100 rows, {model.name} gets {_right(facts, model)} right"
        return f"{right}; {facts.metric} is {number(model.value)}."
    values = _compare_values(facts, rival)
    return f"{_VERDICTS[facts.verdict].format(rival.label)} by {facts.metric}: {values}."


def _compare_values(facts: BenefitFacts, other: MethodCounts) -> str:
    """The metric of the model against that of another method."""
    assert other.lead is not None
    gap, ours, theirs = other.lead.value or 0.0, facts.methods[0].value or 0.0, other.value or 0.0
    off = abs(abs(round(ours, 3) - round(theirs, 3)) - abs(gap))
    digits = 3 if off < 0.0005 else 4  # 0.974 and 0.969 do not differ by 0.006
    gain = f"better by {number(gap, digits)}" if gap >= 0 else f"difference {number(gap, digits)}"
    lead = f"{gain}, 95 % interval {_interval(other.lead)}"
    return f"{number(ours, digits)} against {number(theirs, digits)} ({lead})"


def _describe_rows(facts: BenefitFacts) -> str:
    """The rows that are right."""
    if len(facts.methods) == 1:
        return ""
    others = [f"{one.label} {_right(facts, one)}" for one in facts.methods[1:]]
    return f"Of 100 rows it gets {_right(facts, facts.methods[0])} right, {', '.join(others)}."


def _describe_rarest(facts: BenefitFacts) -> str:
    k = facts.focus
    others = [f"{one.label} {_hundred(one.share_found(facts.support, k))}" for one in facts.methods[1:]]
    found = f"it finds {_hundred(facts.methods[0].share_found(facts.support, k))}"
    return f"Of 100 rows of “{facts.classes[k]}”, the rarest class, {', '.join([found, *others])}."


def describe_learning(facts: LearningFacts) -> str:
    """Say whether more rows would help, as far as that can be told.

    >>> describe_learning(LearningFacts("f1", "lightgbm", gain=Interval(0.03, 0.01, 0.05)))
    'Probably: with the second half of the rows, f1 was better by 0.030 (95 % interval 0.010 to 0.050).'
    """
    gain = facts.gain
    if gain is None or gain.value is None or gain.low is None or gain.high is None:
        return f"That was not measured: {facts.skipped}." if facts.skipped else "That was not measured."
    change = f"with the second half of the rows, {facts.metric} was better by {number(gain.value)}"
    head = (
        "Probably" if gain.low > 0 else "Probably not much" if gain.high < LITTLE else "That cannot be told"
    )
    return f"{head}: {change} (95 % interval {_interval(gain)})."


def describe_form(metric: Metric, classes: Sequence[str]) -> str | None:
    """Say which of its forms a metric has for these classes: of one class, or which mean over classes.

    >>> from evalign import metrics
    >>> describe_form(metrics.f1(), ["no", "yes"]), describe_form(metrics.mcc(), ["a", "b", "c"])
    ('of the class “yes” (binary)', None)
    >>> describe_form(metrics.f1(), ["a", "b", "c"])
    'as the mean over the 3 classes, each with the same weight (macro)'
    """
    positive = int(getattr(metric, "positive", 1))
    if hasattr(metric, "key"):
        return f"of the class “{classes[positive]}”"
    values = getattr(metric, "values", None)
    if values is None or values(Confusion(torch.ones(len(classes), len(classes)))).shape != (len(classes),):
        return None  # a formula of several metrics, or one value for the whole matrix
    average = getattr(metric, "average", None)
    if average == "auto":
        average = "binary" if len(classes) == 2 else "macro"
    if average == "binary":
        return f"of the class “{classes[positive]}” (binary)"
    return _FORMS[str(average)].format(len(classes))


def _hundred(share: float | None, digits: int = 0) -> str:
    return number(None if share is None else 100 * share, digits)


def _right(facts: BenefitFacts, method: MethodCounts) -> str:
    return number(100 * (1 - sum(method.missed) / facts.rows), 1)


def _per_thousand(facts: BenefitFacts, n: int) -> str:
    value = 1000 * n / facts.rows
    return number(value, 0 if value >= 10 or value == int(value) else 1)


def _range(interval: Interval, digits: int = 0) -> str:
    low, high = (None if one is None else 100 * one for one in (interval.low, interval.high))
    return f"{number(low, digits)} to {number(high, digits)}"


def _interval(interval: Interval) -> str:
    return f"{number(interval.low)} to {number(interval.high)}"
