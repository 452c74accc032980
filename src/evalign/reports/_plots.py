"""The parts of the page that are plots; each has a sentence and a table with its numbers."""

from __future__ import annotations

from typing import Any

from evalign._errors import is_number
from evalign.reports._html import Html, count, number, percent, plot, position, table, tag
from evalign.reports._sections import Facts, section

#: Lines of a table that stands for a plot, about.
LINES = 25


def curves(facts: Facts) -> Html | None:
    """Precision against recall, and the metric against the threshold or the weight of a class."""
    models = facts.get("models") or []
    with_curves = [one for one in models if one.get("curves")]
    best = models[0] if models and models[0].get("slider") else None
    if not with_curves and not best:
        return None
    return section(
        "curves", "What other rules would reach",
        tag("div", _precision_recall(with_curves) if with_curves else None,
            _along(best) if best else None, class_="side"),
    )  # fmt: skip


def _thinned(items: list[Any], also: int | None = None) -> list[Any]:
    """About `LINES` of many items, the ends and one more among them."""
    step = max(1, -(-len(items) // LINES))
    kept = {*range(0, len(items), step), len(items) - 1, also}
    return [one for place, one in enumerate(items) if place in kept]


def _precision_recall(models: list[Facts]) -> Html:
    told = [
        f"{one.get('name')}, class {curve['class']}: average precision "
        f"{number(curve.get('average_precision'))}, chosen rule at precision "
        f"{number(curve['chosen']['precision'])} and recall {number(curve['chosen']['recall'])}"
        for one in models
        for curve in one["curves"]
    ]  # fmt: skip
    first = models[0]["curves"][0]
    points = list(zip(first["recall"], first["precision"], first["thresholds"], strict=True))
    lines = [[number(x), number(y), position(t)] for x, y, t in _thinned(points)]
    numbers = table(
        ["Recall", "precision", "threshold"], lines, f"{models[0].get('name')}, class {first['class']}"
    )
    note = "Precision against recall; diamonds mark the chosen rules."
    note += " Click a class to show or hide it." if len(models[0]["curves"]) > 1 else ""
    return plot("precision-recall", "Precision against recall. " + "; ".join(told) + ".", numbers, note)


def _along(model: Facts) -> Html:
    found, metric = model["slider"], str(model.get("metric"))
    two = found["kind"] == "threshold"
    part = found if two else found["classes"][0]
    at, axis = part["chosen"], "threshold" if two else f"weight of {part['class']}"
    points = list(zip(part["positions"], part["values"], strict=True))
    lines = [[position(x), number(y)] for x, y in _thinned(points, at)]
    known = [(y, x) for x, y in points if is_number(y)]
    best = (max if model.get("higher_is_better") is not False else min)(known, default=(None, None))
    label = (
        f"{metric} against the {axis} for {model.get('name')}: {number(part['values'][at])} at the chosen "
        f"{position(part['positions'][at])}; the best on these rows is {number(best[0])} at "
        f"{position(best[1])}."
    )
    moved = "threshold" if two else "weight of the class chosen below"
    note = f"{metric} against the {moved}; the line marks the chosen rule."
    note += " Shaded where the constraints are kept." if part.get("constraints") else ""
    return plot("along", label, table([axis.capitalize(), metric], lines, f"{metric} along the {axis}"), note)


def training(facts: Facts) -> Html | None:
    """Soft against hard metric over training, with the temperature."""
    model = next((one for one in facts.get("models") or () if one.get("history")), None)
    if model is None:
        return None
    rows = model["history"]
    best = max((row["hard"] for row in rows if is_number(row.get("hard"))), default=None)
    label = (
        f"{len(rows)} epochs of {model.get('name')}; the hard metric on the validation rows ends at "
        f"{number(rows[-1].get('hard'))}, its highest is {number(best)}."
    )
    lines = [
        [count(row.get("epoch")), row.get("phase") or "", number(row.get("soft")), number(row.get("hard")),
         number(row.get("temperature")), number(row.get("loss"))]
        for row in _thinned(rows)
    ]  # fmt: skip
    head = ["Epoch", "phase", "soft", "hard", "temperature", "loss"]
    soft = any(is_number(row.get("soft")) for row in rows)
    lead = "Does the surrogate follow the metric? Both on the validation rows of the training."
    if any("anchored" in str(row.get("phase")) for row in rows):
        lead += " The soft line is 1 − loss, which also holds the share of cross-entropy that anchors it."  # noqa: RUF001
    if not soft:
        lead = "The metric on the validation rows of the training, which did not see the metric."
    numbers = table(head, lines, "Epochs", texts=2)
    return section("training", "Training", tag("p", lead, class_="lead"), plot("training", label, numbers))


def calibration(facts: Facts) -> Html | None:
    """Confidence against accuracy, before and after a calibration."""
    models = [one for one in facts.get("models") or () if one.get("calibration")]
    if not models:
        return None
    cards = []
    for place, one in enumerate(facts["models"]):
        found = one.get("calibration")
        if not found:
            continue
        after = found.get("after")
        told = f"expected calibration error {number(found['before'].get('error'))}"
        told += f", {number(after.get('error'))} after a calibration" if after else ""
        lines = [
            [name, number(spot["confidence"]), percent(spot["accuracy"]), count(spot["count"])]
            for name in ("before", "after")
            for spot in (found.get(name) or {}).get("bins") or ()
        ]
        numbers = table(["When", "confidence", "right", "rows"], lines, f"Calibration of {one.get('name')}")
        label = f"Confidence against accuracy of {one.get('name')}: {told}."
        cards.append(
            tag(
                "div",
                tag("h3", one.get("name")),
                plot(f"calibration-{place}", label, numbers, told.capitalize() + "."),
                class_="card",
            )
        )
    lead = (
        "How often the most probable class is right, against how probable the model says it is. On the "
        "diagonal a probability means what it says. The calibration of each half of the rows was fitted on "
        "the other half."
    )
    return section(
        "calibration", "Calibration", tag("p", lead, class_="lead"), tag("div", *cards, class_="side")
    )
