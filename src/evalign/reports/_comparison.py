"""A comparison of methods as facts of a report."""

from __future__ import annotations

from typing import Any

from evalign.reports._held import plain
from evalign.selection import METHODS, Comparison


def comparison_facts(comparison: Comparison) -> dict[str, Any]:
    """A comparison as facts that JSON can hold, with what each named method is.

    >>> from evalign.selection import Comparison, Row
    >>> rows = (Row("lightgbm", (0.5, 0.7), 0.6, 0.1, fit_time=1.0), Row("mine", error="ValueError: no"))
    >>> facts = comparison_facts(Comparison("f1", True, "lightgbm", (), rows))
    >>> facts["best"], facts["repeats"], [row["description"] for row in facts["rows"]]
    ('lightgbm', 2, ['LightGBM, stopped early', ''])
    """
    return plain(  # type: ignore[no-any-return]
        {
            "metric": comparison.metric,
            "higher_is_better": comparison.higher_is_better,
            "reference": comparison.reference,
            "best": comparison.best,
            "repeats": max(len(row.values) for row in comparison.rows),
            "constraints": comparison.constraints,
            "rows": [
                {
                    "method": row.method,
                    "description": METHODS[row.method].description if row.method in METHODS else "",
                    "mean": row.mean,
                    "standard_error": row.standard_error,
                    "difference": row.difference,
                    "low": None if row.interval is None else row.interval[0],
                    "high": None if row.interval is None else row.interval[1],
                    "fit_time": row.fit_time,
                    "error": row.error,
                    "slack": row.slack,
                    "kept": row.n_satisfied,
                    "values": row.values,
                }
                for row in comparison.rows
            ],
        }
    )
