"""Drift: what is counted chunk by chunk, against numbers by hand and by pandas."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

from evalign.tables import Column, Profile, Schema
from evalign.tables._drift import measure_stability

SCHEMA = Schema(
    (
        Column("x", "number"),
        Column("city", "category"),
        Column("day", "date", format="iso"),
        Column("on", "boolean"),
    )
)


def rows(n=400, seed=0, shift=0.0):
    generator = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "x": generator.normal(shift, 1, n),
            "city": pd.Series(generator.choice(["Rome", "Oslo"], n), dtype=object),
            "day": pd.Timestamp("2021-01-01") + pd.to_timedelta(generator.integers(0, 100, n), "D"),
            "on": generator.integers(0, 2, n).astype(float),
        }
    )
    return SCHEMA.convert(table)


@pytest.fixture(scope="module")
def profile():
    return Profile.measure(SCHEMA, rows(), {"no": 0.8, "yes": 0.2})


def kinds(profile, table, predictions=("no",) * 320 + ("yes",) * 80):
    return [(one.column, one.kind) for one in profile.find_drift(profile.count(table, predictions))]


def test_rows_of_the_same_kind_have_no_drift(profile):
    assert kinds(profile, rows(seed=1)) == []


def move(table, rows):
    """The cities, of which some are new."""
    return table["city"].mask(np.arange(len(table)) < rows, "Bonn")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"x": lambda table: table["x"].mask(np.arange(400) < 60)}, [("x", "missing")]),
        ({"x": lambda table: table["x"] + 3}, [("x", "range"), ("x", "distribution")]),
        ({"city": partial(move, rows=40)}, [("city", "unseen"), ("city", "distribution")]),
        ({"city": partial(move, rows=12)}, []),
        ({"day": lambda one: one["day"] + pd.Timedelta("90D")}, [("day", "range"), ("day", "distribution")]),
        ({"on": lambda table: table["on"] * 0}, [("on", "distribution")]),
    ],
)  # fmt: skip
def test_each_difference_is_found(profile, change, wanted):
    assert kinds(profile, rows(seed=1).assign(**change)) == wanted


def test_predictions(profile):
    assert kinds(profile, rows(seed=1), ["yes"] * 300 + ["no"] * 100) == [(None, "predictions")]


def test_chunks_count_as_the_whole(profile):
    table, labels = rows(seed=2, shift=2.0), np.array(["no", "yes"] * 200, dtype=object)
    whole = profile.count(table, labels)
    parts = [
        profile.count(table[start : start + 150], labels[start : start + 150]) for start in (0, 150, 300)
    ]
    summed = {name: parts[0][name] + parts[1][name] + parts[2][name] for name in whole}
    assert profile.find_drift(summed) == profile.find_drift(whole)


def test_the_stability_index_by_pandas(profile):
    new = rows(seed=3, shift=0.8)
    edges = [-np.inf, *profile.columns["x"].edges, np.inf]
    old, new = (pd.cut(table["x"], edges).value_counts(normalize=True, sort=False) for table in (rows(), new))
    wanted = sum((q - p) * np.log(q / p) for p, q in zip(old, new, strict=True))
    (drift,) = [
        one
        for one in profile.find_drift(profile.count(rows(seed=3, shift=0.8)))
        if one.kind == "distribution"
    ]
    assert drift.value == pytest.approx(wanted)
    assert measure_stability(np.array(old), np.array(old)) == 0


def test_few_rows_have_no_distribution(profile):
    assert kinds(profile, rows(seed=1)[:50].assign(on=0.0), ["yes"] * 50) == []


def test_it_reads_back(profile):
    facts = json.loads(json.dumps(profile.to_json()))
    assert Profile.from_json(facts, SCHEMA) == profile
    for wrong in ({}, {"columns": {}}, [], {**facts, "columns": {**facts["columns"], "x": {"missing": "a"}}}):
        with pytest.raises(ValueError, match="with a complete profile"):
            Profile.from_json(wrong, SCHEMA)
    facts["columns"]["city"]["shares"] = [1.0]
    with pytest.raises(ValueError, match="with a complete profile"):
        Profile.from_json(facts, SCHEMA)
