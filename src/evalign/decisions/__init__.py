"""Decision rules and calibration, for any classifier with probabilities or scores."""

from evalign.decisions._calibration import expected_calibration_error, fit_temperature
from evalign.decisions._calibrators import Calibration, fit_calibration
from evalign.decisions._evidence import Evidence
from evalign.decisions._fit_rule import fit_rule
from evalign.decisions._goal import ROUNDING, Goal, Standing
from evalign.decisions._inputs import as_probabilities, as_targets
from evalign.decisions._rule import DecisionRule, Gain
from evalign.decisions._scaling import SMALLEST, Scaling, fit_scaling

__all__ = [
    "ROUNDING", "SMALLEST", "Calibration", "DecisionRule", "Evidence", "Gain", "Goal", "Scaling", "Standing",
    "as_probabilities", "as_targets", "expected_calibration_error", "fit_calibration", "fit_rule",
    "fit_scaling", "fit_temperature",
]  # fmt: skip
