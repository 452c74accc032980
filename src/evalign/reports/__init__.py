"""What a person looks at: typed facts about models and data, the HTML report and the model card."""

from evalign.reports._evidence import evidence
from evalign.reports._render import hash_source, read_page, read_style, render_card, render_page, write_page
from evalign.reports.facts import (
    CalibrationFacts,
    ColumnFacts,
    ComparisonFacts,
    CurveFacts,
    DataFacts,
    EpochFacts,
    Interval,
    MethodFacts,
    ModelEvidence,
    Report,
    SliderFacts,
    TaskFacts,
    as_plain,
)

__all__ = [
    "CalibrationFacts", "ColumnFacts", "ComparisonFacts", "CurveFacts", "DataFacts", "EpochFacts", "Interval",
    "MethodFacts", "ModelEvidence", "Report", "SliderFacts", "TaskFacts", "as_plain", "evidence",
    "hash_source", "read_page", "read_style", "render_card", "render_page", "write_page",
]  # fmt: skip
