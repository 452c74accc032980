"""The parts of the page about decisions: confusion matrices, metrics, classes and the slider."""

from __future__ import annotations

from typing import Any

from evalign._errors import is_number
from evalign.reports._html import (
    Html,
    count,
    details,
    interval,
    join,
    number,
    percent,
    position,
    scrolled,
    table,
    tag,
)
from evalign.reports._html import plot as plot_of
from evalign.reports._sections import Facts, section

#: Up to so many classes two matrices stand side by side, a matrix is a table, or it is a plot; beyond, its
#: worst cells are listed. So many of them, and so many classes at once.
SIDE, TABLE, PLOT, PAIRS, LISTED = 5, 12, 60, 15, 20


def matrices(facts: Facts) -> Html | None:
    """The confusion matrices side by side, and the metrics with their intervals."""
    models = [one for one in facts.get("models") or () if one.get("matrix")]
    if not models:
        return None
    d = len(models[0]["classes"])
    lead = f"On {count(models[0].get('rows'))} held-out rows."
    lead += " Below each count, its share of the true class." if d <= TABLE else ""
    size = "card" if d <= SIDE or d > TABLE else "card wide"
    cards = [
        tag("div", heading(one), _matrix(one, place), class_=size)
        for place, one in enumerate(facts["models"]) if one.get("matrix")
    ]  # fmt: skip
    return section(
        "decisions", "What is decided, right and wrong", tag("p", lead, class_="lead"),
        tag("div", *cards, class_="side"), _metrics(models),
    )  # fmt: skip


def heading(model: Facts) -> Html:
    """The name of a model, its role and what it is."""
    mark = tag("span", model["role"], class_="mark") if model.get("role") else None
    described = tag("small", model["description"]) if model.get("description") else None
    return tag("h3", model.get("name") or "model", mark, described)


def _matrix(model: Facts, place: int) -> Html:
    cells, classes = model["matrix"], [str(one) for one in model["classes"]]
    if len(classes) <= TABLE:
        return counts_table(cells, classes, f"Confusion matrix of {model.get('name')}")
    pairs = _confused(cells, classes)
    label = f"Confusion matrix of {len(classes)} classes; the most confused pairs stand in the table."
    picture = plot_of(f"matrix-{place}", label, None) if len(classes) <= PLOT else None
    return join(picture, pairs)


def counts_table(cells: list[list[Any]], classes: list[str], caption: str, id_: str | None = None) -> Html:
    """A confusion matrix with counts and rates."""

    def name(text: str) -> Html:
        return tag("span", text, class_="clamp", title=text if len(text) > 12 else None)

    corner = tag("th", tag("span", "true ↓ "), tag("span", "predicted →"), class_="corner", scope="col")
    head = tag("tr", corner, *(tag("th", name(one), scope="col") for one in classes))
    body = []
    for i, row in enumerate(cells):
        total = sum(row)
        parts = [_cell(n, n / total if total else None, i == j) for j, n in enumerate(row)]
        body.append(tag("tr", tag("th", name(classes[i]), scope="row"), *parts))
    kind = "matrix few" if len(classes) <= 3 else "matrix"
    inner = tag("table", tag("thead", head), tag("tbody", *body), class_=kind, id=id_)
    return scrolled(inner, caption, visible=False)


def _cell(n: Any, share: float | None, right: bool) -> Html:
    heat = 0 if share is None else round(10 * share)
    parts = (tag("span", count(n), class_="n"), tag("span", percent(share), class_="rate"))
    return tag("td", *parts, class_="right" if right else "wrong", data_heat=heat)


def _confused(cells: list[list[Any]], classes: list[str]) -> Html:
    wrong = [
        (n, i, j) for i, row in enumerate(cells) for j, n in enumerate(row) if i != j and n
    ]  # fmt: skip
    worst = sorted(wrong, key=lambda one: -one[0])[:PAIRS]
    lines = [[classes[i], classes[j], count(n), percent(n / sum(cells[i]))] for n, i, j in worst]
    return table(
        ["True class", "predicted as", "rows", "of the true class"], lines,
        f"The {len(lines)} most confused of {count(len(wrong))} pairs", texts=2,
    )  # fmt: skip


def _metrics(models: list[Facts]) -> Html | None:
    names: list[str] = []
    for one in models:
        names += [name for name in one.get("metrics") or {} if name not in names]
    asked = models[0].get("metric")
    names.sort(key=lambda name: name != asked)
    if not names:
        return None
    head = ["Metric"]
    for one in models:
        head += [str(one.get("name")), "95 % interval"]
    lines = []
    for name in names:
        line: list[Any] = [tag("strong", name) if name == asked else name]
        for one in models:
            found = (one.get("metrics") or {}).get(name) or {}
            line += [number(found.get("value")), interval(found.get("low"), found.get("high"))]
        lines.append(line)
    caption = "Metrics on the held-out rows, with 95 % bootstrap intervals"
    return join(table(head, lines, caption), _kept(models))


def _kept(models: list[Facts]) -> Html | None:
    lines = [
        [name, str(one.get("name")), number(found.get("value")), status(found)]
        for one in models
        for name, found in (one.get("constraints") or {}).items()
    ]
    if not lines:
        return None
    return table(["Constraint", "model", "value", "kept"], lines, "Constraints on the held-out rows", texts=2)


def status(found: Facts) -> Html:
    """Whether a constraint is kept, in a word and a sign."""
    kept = bool(found.get("satisfied"))
    return tag("span", "✓ kept" if kept else "✗ missed", class_="kept" if kept else "missed")


def per_class(facts: Facts) -> Html | None:
    """Precision, recall and F1 of each class of the best model."""
    model = next((one for one in facts.get("models") or () if one.get("per_class")), None)
    if model is None:
        return None
    lines = [
        [one.get("class"), count(one.get("support")),
         *(number(one.get(key)) for key in ("precision", "recall", "f1"))]
        for one in sorted(model["per_class"], key=lambda one: -(one.get("support") or 0))
    ]  # fmt: skip
    head, caption = (
        ["Class", "rows", "precision", "recall", "F1"],
        f"Each class, as {model.get('name')} decides",
    )
    if len(lines) <= LISTED:
        return section("classes", "Class by class", table(head, lines, caption))
    return section(
        "classes", "Class by class",
        table(head, lines[:LISTED], f"{caption}: the {LISTED} most frequent of {len(lines)}"),
        details(f"All {len(lines)} classes", table(head, lines, caption)),
    )  # fmt: skip


def slider(facts: Facts) -> Html | None:
    """What another threshold, or another weight of a class, would do; JavaScript moves it."""
    model = (facts.get("models") or [None])[0]
    found = model and model.get("slider")
    if not found:
        return None
    two = found["kind"] == "threshold"
    classes = [str(one) for one in model["classes"]]
    part = found if two else found["classes"][0]
    at = part["chosen"]
    if two:
        what = f"Threshold: predict {classes[1]} if its probability is at least"
        lead = "Every position is counted on the held-out rows, not estimated."
        lead += " Choose a threshold here and these rows no longer judge it fairly."
    else:
        what = "Weight: multiply the probability of the class by"
        lead = "A class that weighs more is predicted more often; 1 is what the model does."
    options = [
        tag("option", one["class"], value=place) for place, one in enumerate(found.get("classes") or ())
    ]
    picker = tag("p", tag("label", "Class", for_="slider-class"), tag("select", *options, id="slider-class"))
    value = tag("output", position(part["positions"][at]), id="slider-position", for_="slider")
    last = len(part["positions"]) - 1
    control = tag(
        "div", None if two else picker,
        tag("p", tag("label", what, " ", for_="slider"), value),
        Html(f'<input type="range" id="slider" min="0" max="{last}" value="{int(at)}" list="slider-chosen">'),
        tag("datalist", tag("option", value=int(at)), id="slider-chosen"),
        tag("button", "Back to the chosen rule", type="button", id="slider-back"),
        class_="control", hidden=True,
    )  # fmt: skip
    shown = counts_table(model["matrix"], classes, "Confusion matrix at this position", "slider-matrix")
    size = "wide" if len(classes) > SIDE else None
    return section(
        "move", "Move the threshold" if two else "Move the weight of a class", tag("p", lead, class_="lead"),
        control, tag("div", tag("div", *_readout(model, part)),
                     tag("div", shown, class_=size) if len(classes) <= TABLE else None, class_="side"),
    )  # fmt: skip


def _readout(model: Facts, part: Facts) -> tuple[Html, ...]:
    """The numbers at the chosen position; JavaScript writes those of another into the same places."""
    k = _focus(model, part)
    own = model["per_class"][k] if model.get("per_class") else {}

    def line(term: str, value: Any, id_: str, note: Any = None) -> Html:
        return tag("div", tag("dt", term), tag("dd", tag("span", value, id=id_), note))

    bounds = [
        line(bound, join(number(one.get("value")), " ", status(one)), f"slider-bound-{place}")
        for place, (bound, one) in enumerate((model.get("constraints") or {}).items())
    ]
    change = tag("small", "as chosen", id="slider-change")
    value = line(str(model.get("metric")), number(model.get("value")), "slider-value", change)
    return (
        tag("dl", value, *bounds, class_="readout"),
        tag("h3", "Class “", tag("span", model["classes"][k], id="slider-focus"), "”"),
        tag(
            "dl",
            line("precision", number(own.get("precision")), "slider-precision"),
            line("recall", number(own.get("recall")), "slider-recall"),
            line("rows predicted", count(sum(row[k] for row in model["matrix"])), "slider-predicted"),
            class_="readout",
        ),
    )


def _focus(model: Facts, part: Facts) -> int:
    """The class whose precision and recall are told."""
    if "class" in part:
        return int([str(one) for one in model["classes"]].index(part["class"]))
    return int(model["positive"]) if is_number(model.get("positive")) else 1
