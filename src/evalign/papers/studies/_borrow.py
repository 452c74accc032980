"""What another table of the same storage has done already is not done again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from optuna.trial import TrialState

from evalign.papers._plan import Plan
from evalign.papers._storage import Storage
from evalign.papers._table import Column, Table
from evalign.papers._tables import TABLES
from evalign.papers._units import Outcome, Point

#: What a trained model does again whenever it is asked; times and curves are a study's own.
JUDGED = ("decisions", "thresholds", "scores")


def borrow(storage: Storage, plan: Plan, point: Point) -> tuple[str, Outcome] | None:
    """The name of a table that has the same work done and judged, and what came of it; None if none has.

    The same work is the same method with the same settings and seeds, on the same rows of the same data.
    """
    if any(column.of not in JUDGED for column in plan.table.columns):
        return None
    prints, wanted = _attributes(storage, plan).get("data", {}), _work(plan.table, point)
    for lender in TABLES.values():
        names = _same_columns(lender, plan.table)
        if names is None or lender.name == plan.table.name:
            continue
        theirs = dataclasses.replace(plan, table=lender)
        attributes = _attributes(storage, theirs)
        same_data = attributes.get("data", {}).get(point.data) == prints.get(point.data) is not None
        if not same_data or attributes.get("identity") != lender.identity(plan.scale, plan.seed):
            continue
        for done, outcome in _done(storage, theirs):
            if _work(lender, done) == wanted:
                scores = [{name: one[names[name]] for name in names} for one in outcome.scores]
                return lender.name, dataclasses.replace(outcome, scores=scores)
    return None


def _same_columns(lender: Table, table: Table) -> dict[str, str] | None:
    """How the columns of a table are named in another one; None if it lacks some."""

    def content(column: Column) -> tuple[str, str, str]:
        return column.metric, column.of, column.of_class

    known = {content(column): column.name for column in lender.columns}
    names = {column.name: known.get(content(column)) for column in table.columns}
    found = {own: name for own, name in names.items() if name is not None}
    return found if len(found) == len(names) else None


def _work(table: Table, point: Point) -> str:
    """The same for the same work."""
    data = next(one for one in table.data if one.name == point.data)
    row = next(one for one in table.rows if one.name == point.row)
    parts = [
        data.name, data.network, row.method, row.settings, row.rule, table.metric,
        point.stage, point.setting, point.seeds,
    ]  # fmt: skip
    return json.dumps(parts, sort_keys=True, default=dict)


def _attributes(storage: Storage, plan: Plan) -> dict[str, Any]:
    try:
        return dict(storage.rdb.get_study_user_attrs(storage.rdb.get_study_id_from_name(plan.name)))
    except KeyError:
        return {}


def _done(storage: Storage, plan: Plan) -> Iterator[tuple[Point, Outcome]]:
    study = storage.rdb.get_study_id_from_name(plan.name)
    for trial in storage.rdb.get_all_trials(study, deepcopy=False, states=(TrialState.COMPLETE,)):
        yield Point.from_dict(trial.user_attrs["point"]), Outcome(**trial.user_attrs["outcome"])
