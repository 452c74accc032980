"""Decision rules and calibration, for any classifier with probabilities or scores."""

from evalign.decisions._calibration import expected_calibration_error, fit_temperature
from evalign.decisions._calibrators import Calibration, fit_calibration
from evalign.decisions._fit_rule import fit_rule
from evalign.decisions._rule import DecisionRule

__all__ = [
    "Calibration", "DecisionRule", "expected_calibration_error", "fit_calibration", "fit_rule",
    "fit_temperature",
]  # fmt: skip
