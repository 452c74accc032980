"""Temperature scaling and the calibration error against naive computations."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from evalign.decisions import expected_calibration_error, fit_temperature


def overconfident(rows=4000, d=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, d, generator=generator, dtype=torch.float64)
    targets = torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(1)
    return logits, targets


@pytest.mark.parametrize("factor", [0.5, 1.0, 6.0])
def test_the_factor_that_distorted_the_logits_is_recovered(factor):
    logits, targets = overconfident()
    assert fit_temperature(factor * logits, targets) == pytest.approx(factor, rel=0.1)


def test_no_temperature_on_a_grid_is_better():
    logits, targets = overconfident(seed=1)
    best = fit_temperature(4 * logits, targets)
    lowest = min(F.cross_entropy(4 * logits / t, targets).item() for t in np.linspace(1, 10, 400))
    assert F.cross_entropy(4 * logits / best, targets).item() <= lowest + 1e-9


def test_weights_repeat_rows():
    logits, targets = overconfident(rows=200)
    times = torch.randint(1, 4, (200,))
    repeated = fit_temperature(logits.repeat_interleave(times, 0), targets.repeat_interleave(times))
    assert fit_temperature(logits, targets, times) == pytest.approx(repeated, rel=1e-5)


def test_the_error_equals_a_loop():
    logits, targets = overconfident(rows=500)
    p = (3 * logits).softmax(-1)
    confidence, predicted = p.max(-1)
    wanted = 0.0
    for k in range(15):
        inside = (confidence >= k / 15) & ((confidence < (k + 1) / 15) | (k == 14))
        if inside.any():
            gap = (predicted == targets)[inside].double().mean() - confidence[inside].mean()
            wanted += abs(gap.item()) * inside.double().mean().item()
    assert expected_calibration_error(p, targets) == pytest.approx(wanted)


def test_scaling_lowers_the_error():
    logits, targets = overconfident()
    spoilt = 5 * logits
    repaired = spoilt / fit_temperature(spoilt, targets)
    before, after = (expected_calibration_error(z.softmax(-1), targets) for z in (spoilt, repaired))
    assert after < 0.03 < before


def test_bad_shapes_are_refused():
    with pytest.raises(ValueError, match="`logits`"):
        fit_temperature(torch.zeros(3), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match="`probabilities`"):
        expected_calibration_error(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long))
