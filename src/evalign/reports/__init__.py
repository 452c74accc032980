"""What a person looks at: typed facts about models and data, the HTML report and the model card."""

from evalign.reports._benefit import Rival, measure_benefit, tune_decisions
from evalign.reports._evidence import evidence
from evalign.reports._explain import explain
from evalign.reports._groups import measure_groups
from evalign.reports._learning import trace_learning
from evalign.reports._render import (
    Format,
    hash_source,
    read_page,
    read_style,
    render_card,
    render_page,
    render_text,
    write_report,
)
from evalign.reports._words import describe_benefit, describe_form
from evalign.reports.facts import (
    BenefitFacts,
    CalibrationFacts,
    ColumnFacts,
    ComparisonFacts,
    CurveFacts,
    DataFacts,
    EpochFacts,
    ExplanationFacts,
    GroupsFacts,
    Interval,
    LearningFacts,
    MemberFacts,
    MethodFacts,
    ModelEvidence,
    Report,
    SliderFacts,
    TaskFacts,
    as_plain,
)

__all__ = [
    "BenefitFacts", "CalibrationFacts", "ColumnFacts", "ComparisonFacts", "CurveFacts", "DataFacts",
    "EpochFacts", "ExplanationFacts", "Format", "GroupsFacts", "Interval", "LearningFacts", "MemberFacts",
    "MethodFacts", "ModelEvidence", "Report", "Rival", "SliderFacts", "TaskFacts", "as_plain",
    "describe_benefit", "describe_form", "evidence", "explain", "hash_source", "measure_benefit",
    "measure_groups", "read_page", "read_style", "render_card", "render_page", "render_text",
    "trace_learning", "tune_decisions", "write_report",
]  # fmt: skip
