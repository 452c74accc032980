"""The parts of the page that are words and tables: what was asked, the answer, methods, data, origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from evalign._errors import is_number
from evalign.reports._html import Html, count, details, interval, join, number, plot, table, tag

Facts = dict[str, Any]

#: So many classes are listed by name, and so many columns at once.
NAMED_CLASSES, LISTED_COLUMNS = 12, 15


def section(name: str, title: str, *children: Any) -> Html:
    """A part of the page with a heading."""
    return tag(
        "section", tag("h2", title, id=f"{name}-title"), *children, id=name, aria_labelledby=f"{name}-title"
    )


def terms(*pairs: tuple[str, Any]) -> Html:
    """Terms and what they are; those that are None are left out."""
    rows = [tag("div", tag("dt", term), tag("dd", given)) for term, given in pairs if given not in (None, "")]
    return tag("dl", *rows, class_="terms")


def asked(facts: Facts) -> Html | None:
    """What was asked."""
    task = facts.get("task")
    if not task:
        return None
    data = facts.get("data") or {}
    columns = data.get("columns")
    size = [f"{count(data['rows'])} rows"] if is_number(data.get("rows")) else []
    size += [_plural(len(columns))] if columns else []
    metric = task.get("metric")
    better = {True: "higher is better", False: "lower is better"}.get(task.get("higher_is_better"))
    return section(
        "asked",
        "What was asked",
        terms(
            ("Predict", task.get("target") and tag("strong", task["target"])),
            ("From", task.get("file") and join(task["file"], f" ({', '.join(size)})" if size else None)),
            ("Judged by", metric and join(tag("strong", metric), better and f", {better}")),
            ("While keeping", ", ".join(str(one) for one in task.get("constraints") or ())),
            ("Classes", _classes(task)),
        ),
    )


def _classes(task: Facts) -> Html | None:
    classes = task.get("classes") or []
    parts: list[Any] = []
    for name in classes[:NAMED_CLASSES]:
        parts += [", " if parts else None, str(name)]
        if task.get("positive") is not None and str(name) == str(task["positive"]):
            parts.append(tag("span", "positive", class_="mark"))
    if len(classes) > NAMED_CLASSES:
        parts.append(f" and {len(classes) - NAMED_CLASSES} more")
    return join(*parts) if parts else None


def answer(facts: Facts) -> Html | None:
    """The answer in one sentence."""
    if not facts.get("answer"):
        return None
    return section("answer", "The answer", tag("p", facts["answer"], class_="answer"))


def ranked(comparison: Facts) -> list[Facts]:
    """The methods that did not fail, best first; those that miss the constraints on average come last."""
    rows = [row for row in comparison.get("rows") or () if is_number(row.get("mean"))]
    sign = -1 if comparison.get("higher_is_better") is False else 1
    return sorted(rows, key=lambda row: (min(_slack(row), 0), sign * row["mean"]), reverse=True)


def _slack(row: Facts) -> float:
    return float(row["slack"]) if is_number(row.get("slack")) else 0.0


def comparison(facts: Facts) -> Html | None:
    """The methods on the same splits: an interval plot, the table and what failed."""
    found = facts.get("comparison")
    if not found or not found.get("rows"):
        return None
    rows, metric = ranked(found), str(found.get("metric") or "metric")
    failed = [row for row in found["rows"] if row not in rows]
    reference, repeats = found.get("reference"), found.get("repeats")
    bounds = found.get("constraints") or ()
    head = ["Method", metric, f"difference to {reference}", "95 % interval", "fit (s)"]
    head += [" and ".join(str(one) for one in bounds)] * bool(bounds)
    lines = [_line(row, found)[: len(head)] for row in rows]
    label = "Methods by their mean: " + "; ".join(map(_told, rows))
    lead = (
        f"Every method on the same {count(repeats)} splits of the data, judged on rows it was not trained on."
    )
    if found.get("higher_is_better") is False:
        lead += f" Lower {metric} is better: differences below 0 are gains."
    note = (
        f"Each split and the mean; the difference to {reference} with its 95 % interval. An interval that "
        f"holds 0 may be chance. The diamond is {found.get('best')}."
    )
    if bounds:
        lead += " Methods that keep the constraints on average come first, then those that miss them least."
    return section(
        "comparison", "How the methods compare", tag("p", lead, class_="lead"),
        plot("comparison", label, None, note) if rows else None,
        table(head, lines, f"Means over {count(repeats)} splits, with the standard error of the mean"),
        _failures(failed),
    )  # fmt: skip


def _told(row: Facts) -> str:
    text = f"{row.get('method')} {number(row['mean'])}"
    if is_number(row.get("difference")):
        text += f", difference {number(row['difference'], signed=True)}"
    if is_number(row.get("low")):
        text += f", interval {interval(row['low'], row.get('high'))}"
    return text


def _line(row: Facts, found: Facts) -> list[Any]:
    mean, error, repeats = number(row["mean"]), row.get("standard_error"), found.get("repeats")
    marks = [
        tag("span", role, class_="mark")
        for role in ("best", "reference")
        if found.get(role) == row.get("method")
    ]
    described = tag("small", row["description"]) if row.get("description") else None
    return [
        join(row.get("method"), *marks, described),
        mean if error is None else f"{mean} ± {number(error)}",
        number(row.get("difference"), signed=True),
        interval(row.get("low"), row.get("high")),
        number(row.get("fit_time"), 2),
        f"kept in {count(row['kept'])} of {count(repeats)}" if is_number(row.get("kept")) else "",
    ]


def _failures(failed: list[Facts]) -> Html | None:
    if not failed:
        return None
    lines = [tag("li", tag("strong", row.get("method")), ": ", str(row.get("error"))) for row in failed]
    return join(tag("h3", "Methods that failed"), tag("ul", *lines, class_="failed"))


def data(facts: Facts) -> Html | None:
    """The data: warnings, class counts and columns."""
    found = facts.get("data")
    if not found:
        return None
    warnings, counts = found.get("warnings") or (), found.get("class_counts") or {}
    columns = found.get("columns") or ()
    return section(
        "data", "The data",
        tag("ul", *(tag("li", str(one)) for one in warnings), class_="warnings") if warnings else None,
        join(tag("h3", "Classes"), _bars(counts)) if counts else None,
        join(tag("h3", "Columns"), _columns(columns, found)) if columns else None,
    )  # fmt: skip


def _columns(columns: Sequence[Facts], found: Facts) -> Html:
    """The columns; of many, those that something is to be said of, and all folded away."""
    kinds = Counter(str(one.get("kind") or "unknown") for one in columns)
    told = f"{_plural(len(columns))}: " + ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())

    def lines(some: Sequence[Facts]) -> Html:
        head = ["Column", "kind", "note", "missing", "distinct"]
        body = [
            [one.get("name"), one.get("kind") or "", one.get("note") or "", _missing(one, found),
             count(one.get("distinct"))]
            for one in some
        ]  # fmt: skip
        return table(head, body, told if some is columns else f"{_plural(len(some))} with a note", texts=3)

    if len(columns) <= LISTED_COLUMNS:
        return lines(columns)
    noted = [one for one in columns if one.get("note")][:LISTED_COLUMNS]
    every = details(f"All {len(columns)} columns", lines(columns))
    return join(tag("p", f"{told}.", class_="lead"), lines(noted) if noted else None, every)


def _plural(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns} columns"


def _missing(column: Facts, found: Facts) -> str:
    missing, rows = column.get("missing"), found.get("rows")
    share = f" ({number(100 * missing / rows, 1)} %)" if is_number(missing) and missing and rows else ""
    return count(missing) + share


def _bars(counts: dict[str, Any]) -> Html:
    """Rows of each class as bars, the most frequent ones by name."""
    known = sorted(((name, n) for name, n in counts.items() if is_number(n)), key=lambda one: -one[1])
    total, most = sum(n for _, n in known) or 1, max((n for _, n in known), default=1) or 1
    lines = [
        tag("li", tag("span", name, class_="name"),
            tag("span", class_="bar", style=f"--share:{n / most:.4f}"),
            tag("span", f"{count(n)} ({number(100 * n / total, 1)} %)", class_="rows"))
        for name, n in known[:NAMED_CLASSES]
    ]  # fmt: skip
    rest = known[NAMED_CLASSES:]
    rare = count(min((n for _, n in rest), default=0))
    more = f"{len(rest)} more classes with {count(sum(n for _, n in rest))} rows, the rarest with {rare}."
    return join(tag("ol", *lines, class_="bars"), tag("p", more) if rest else None)


def origin(facts: Facts) -> Html | None:
    """How to make the page again: the command, the seed and the versions."""
    versions, command = facts.get("versions") or {}, facts.get("command")
    if not versions and not command:
        return None
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return section(
        "origin", "How this was made",
        tag("p", tag("code", *_words(str(command))), class_="command") if command else None,
        terms(("Seed", facts.get("seed") if facts.get("seed") is None else str(facts["seed"])),
              ("Versions", listed), ("Made", date(facts.get("created")))),
    )  # fmt: skip


def _words(command: str) -> list[Any]:
    """The words of a command, which break between lines and nowhere else."""
    parts: list[Any] = []
    for word in command.split(" "):
        parts += [" " if parts else None, tag("span", word)]
    return parts


def date(given: Any) -> Html | None:
    """A day and an hour as people write them.

    >>> date("2025-06-01T10:05:00+00:00")
    '<time datetime="2025-06-01T10:05:00+00:00">1 June 2025, 10:05 UTC</time>'
    """
    if not given:
        return None
    try:
        day = datetime.fromisoformat(str(given))
    except ValueError:
        return join(given)
    text = f"{day.day} {day:%B %Y, %H:%M} {day.tzname() or ''}".strip()
    return tag("time", text, datetime=given)
