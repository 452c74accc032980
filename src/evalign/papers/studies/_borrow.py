"""Work that another table has done in the same storage is not repeated."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from optuna.trial import TrialState

from evalign.papers.studies._plan import StudyPlan
from evalign.papers.studies._storage import StudyStorage
from evalign.papers.tables import TABLES, PaperColumn, PaperTable
from evalign.papers.training import Outcome, Point

#: Columns that depend only on the trained model; times and curves belong to one study.
REPRODUCIBLE = ("decisions", "thresholds", "scores")


def borrow(storage: StudyStorage, plan: StudyPlan, point: Point) -> tuple[str, Outcome] | None:
    """Return the name of a table that has done and scored the same work, and its outcome, or None.

    The same work is the same method with the same settings and seeds, on the same rows of the same data,
    scored in the same ways.
    """
    if any(column.source not in REPRODUCIBLE for column in plan.table.columns):
        return None
    fingerprints = _study_attributes(storage, plan).get("data", {})
    training, wanted = _describe(plan.table, point)
    for lender in TABLES.values():
        names = _match_columns(lender, plan.table)
        if names is None or lender.name == plan.table.name:
            continue
        theirs = dataclasses.replace(plan, table=lender)
        attributes = _study_attributes(storage, theirs)
        same_data = attributes.get("data", {}).get(point.data) == fingerprints.get(point.data) is not None
        if not same_data or attributes.get("identity") != lender.identity(plan.scale, plan.seed):
            continue
        for other, outcome in _complete_points(storage, theirs):
            same, offered = _describe(lender, other)
            if same == training and wanted.keys() <= offered.keys():
                rows = {name: offered[how] for how, name in wanted.items()}
                scores = [
                    {own: {name: one[row][names[name]] for name in names} for own, row in rows.items()}
                    for one in outcome.scores
                ]
                return lender.name, dataclasses.replace(outcome, scores=scores)
    return None


def _match_columns(lender: PaperTable, table: PaperTable) -> dict[str, str] | None:
    """The names that the columns of a table have in another one; None if it lacks some of them."""

    def content(column: PaperColumn) -> tuple[str, str, str]:
        return column.metric, column.source, column.class_name

    theirs = {content(column): column.name for column in lender.columns}
    names = {column.name: theirs.get(content(column)) for column in table.columns}
    matches = {own: name for own, name in names.items() if name is not None}
    return matches if len(matches) == len(names) else None


def _describe(table: PaperTable, point: Point) -> tuple[str, dict[str, str]]:
    """The training of a point as text, equal for equal work, and its rows by how they are scored."""
    data, rows = table.find_cells(point.data, point.rows)
    first = rows[0]
    settings = {} if first.method == "ce" else first.settings
    training = [
        data.name, data.network, first.method, settings, "" if first.method == "ce" else table.metric,
        dataclasses.asdict(table.protocol), point.stage, point.setting, point.seeds,
    ]  # fmt: skip
    text = json.dumps(training, sort_keys=True, default=dict)
    if point.stage == "grid":  # it only selects a setting, by the validation loss
        return text, {}
    ways = [json.dumps([row.settings, row.rule, row.raw, table.metric], sort_keys=True) for row in rows]
    return text, dict(zip(ways, point.rows, strict=True))


def _study_attributes(storage: StudyStorage, plan: StudyPlan) -> dict[str, Any]:
    try:
        return dict(storage.rdb.get_study_user_attrs(storage.rdb.get_study_id_from_name(plan.name)))
    except KeyError:
        return {}


def _complete_points(storage: StudyStorage, plan: StudyPlan) -> Iterator[tuple[Point, Outcome]]:
    study = storage.rdb.get_study_id_from_name(plan.name)
    for trial in storage.rdb.get_all_trials(study, deepcopy=False, states=(TrialState.COMPLETE,)):
        yield Point.from_dict(trial.user_attrs["point"]), Outcome(**trial.user_attrs["outcome"])
