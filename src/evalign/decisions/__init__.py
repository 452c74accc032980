"""How probabilities are trusted and turned into decisions. For now: calibration."""

from evalign.decisions._calibration import expected_calibration_error, fit_temperature

__all__ = ["expected_calibration_error", "fit_temperature"]
