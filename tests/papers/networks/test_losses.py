"""The losses of stacked trials equal those computed one by one."""

import copy

import pytest
import torch
from torch import nn

from evalign.losses import AdversarialLoss, FocalLoss, MetricLoss, SoftFBetaLoss, WMWLoss
from evalign.papers.networks import trial_losses
from evalign.softsets import LinearStep, SigmoidStep


def batch(*shape, classes=2, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(*shape, dtype=dtype, generator=generator)
    return logits.requires_grad_(), torch.randint(classes, shape[:2], generator=generator)


def check_equals_loop(loss, logits, targets):
    own = targets if targets.ndim > 1 else targets.expand(len(logits), -1)
    together = trial_losses(loss, logits, targets)
    one_by_one = torch.stack([loss(z, y) for z, y in zip(logits, own, strict=True)])
    torch.testing.assert_close(together, one_by_one)
    gradients = [torch.autograd.grad(losses.sum(), logits)[0] for losses in (together, one_by_one)]
    torch.testing.assert_close(*gradients)


STEPS = {
    "default": {},
    "btg": {"step": LinearStep(0.2), "thresholds": "btg"},
    "sigmoid": {"step": SigmoidStep(), "thresholds": [0.3, 0.8]},
    "warmest": {"temperature": 0.4, "thresholds": "btg"},
    "cold": {"temperature": 0.01},
}


@pytest.mark.parametrize(
    "metric", ["f1", "fbeta(beta=2)", "accuracy", "mcc", "auroc", "tp / (tp + fp)", "tp / total"]
)
@pytest.mark.parametrize("step", STEPS)
def test_metric_loss_of_one_logit(metric, step):
    loss = MetricLoss(metric, task="binary", **STEPS[step])
    check_equals_loop(loss, *batch(4, 30, 1))
    check_equals_loop(loss, *batch(4, 30))


def test_same_targets_for_all():
    logits, targets = batch(4, 30, 1)
    check_equals_loop(MetricLoss("f1"), logits, targets[0])


def test_single_precision():
    check_equals_loop(MetricLoss("f1", **STEPS["btg"]), *batch(4, 30, 1, dtype=torch.float32))


@pytest.mark.parametrize("targets", [0, 1])
def test_a_batch_of_one_class(targets):
    logits, _ = batch(4, 30, 1)
    check_equals_loop(MetricLoss("f1", **STEPS["btg"]), logits, torch.full((30,), targets))


def test_probabilities_at_0_and_1():
    logits = torch.tensor(
        [[-800.0, 800.0, 0.0], [800.0, -800.0, 1.0]], dtype=torch.float64, requires_grad=True
    )
    check_equals_loop(MetricLoss("f1", **STEPS["btg"]), logits, torch.tensor([0, 0, 0]))


def test_after_inference_mode():
    """Tensors cached in inference mode must also work where gradients are needed."""
    logits, targets = batch(2, 30, 1)
    loss = MetricLoss("f1", step=LinearStep(0.123), task="binary")
    with torch.inference_mode():
        trial_losses(loss, logits, targets)
    check_equals_loop(loss, logits, targets)


def test_cooling():
    logits, targets = batch(2, 30, 1)
    loss = MetricLoss("f1")
    check_equals_loop(loss, logits, targets)
    loss.temperature = 0.05
    check_equals_loop(loss, logits, targets)


@pytest.mark.parametrize("options", [
    {"class_weight": [1.0, 5.0]}, {"anchor": 0.3}, {"task": "multiclass"}, {"ignore_index": 0},
])  # fmt: skip
def test_other_metric_losses(options):
    shape = (3, 20, 2) if "task" in options else (3, 20, 1)
    check_equals_loop(MetricLoss("f1", **options), *batch(*shape))


def test_many_classes_and_labels():
    check_equals_loop(MetricLoss("mcc"), *batch(3, 20, 4, classes=4))
    logits, _ = batch(3, 20, 4)
    targets = torch.randint(2, (3, 20, 4), generator=torch.Generator().manual_seed(0))
    check_equals_loop(MetricLoss("f1", task="multilabel"), logits, targets)


def test_ignored_rows():
    logits, targets = batch(3, 20, 1)
    targets[0, :5] = targets[1, 7] = -100
    check_equals_loop(MetricLoss("f1"), logits, targets)


@pytest.mark.parametrize("loss", [WMWLoss(), FocalLoss(), SoftFBetaLoss()], ids=repr)
def test_losses_other_than_metrics(loss):
    check_equals_loop(loss, *batch(3, 12))


class Branching(AdversarialLoss):
    """Branches on values, as the solver of the adversarial loss does, but starts without a compiler."""

    def __init__(self):
        nn.Module.__init__(self)

    def forward(self, logits, targets):
        return logits.pow(2).mean() if logits[0] > targets[0] else logits.exp().mean()


def test_the_adversarial_loss_is_computed_trial_by_trial():
    check_equals_loop(Branching(), *batch(5, 12))


def test_losses_of_torch():
    logits, targets = batch(3, 20)
    check_equals_loop(nn.BCEWithLogitsLoss(), logits, targets.double())
    check_equals_loop(nn.CrossEntropyLoss(), *batch(3, 20, 4, classes=4))


def test_a_trial_that_is_nan_does_not_affect_the_others():
    logits, targets = batch(3, 20, 1)
    with torch.no_grad():
        logits[1, 4] = torch.inf
    losses = trial_losses(MetricLoss("f1", **STEPS["btg"]), logits, targets)
    assert losses.isnan().tolist() == [False, True, False]
    (gradient,) = torch.autograd.grad(losses[[0, 2]].sum(), logits)
    assert gradient[[0, 2]].isfinite().all()


def test_the_loss_stores_nothing_of_the_batch():
    logits, targets = batch(3, 20, 4, classes=4)
    loss = MetricLoss("f1")
    trial_losses(loss, logits, targets)
    assert loss.last_confusion is None
    copy.deepcopy(loss)


@pytest.mark.parametrize("options", [{"memory": 0.9}, {"constraints": ["precision >= 0.9"]}])
def test_a_loss_with_a_state_is_rejected(options):
    with pytest.raises(
        ValueError, match="Expected `loss` without memory and constraints, .*but got MetricLoss"
    ):
        trial_losses(MetricLoss("f1", **options), *batch(3, 20, 1))


@pytest.mark.parametrize("shape", [(), (3,), (19,), (20, 3), (3, 19), (2, 20)])
def test_invalid_targets(shape):
    logits, _ = batch(3, 20, 1)
    with pytest.raises(
        ValueError, match=r"Expected `targets` of shape \(20,\) or \(3, 20, ...\), but got shape"
    ):
        trial_losses(MetricLoss("f1"), logits, torch.zeros(shape, dtype=torch.long))


def test_invalid_logits():
    with pytest.raises(
        ValueError, match=r"Expected `logits` of shape \(trials, N, ...\), but got shape \(3,\)"
    ):
        trial_losses(MetricLoss("f1"), torch.zeros(3), torch.zeros(3, dtype=torch.long))


def test_invalid_values_of_targets():
    logits, _ = batch(3, 20, 1)
    with pytest.raises(ValueError, match=r"Expected `targets` in 0..1, but got 2"):
        trial_losses(MetricLoss("f1"), logits, torch.full((20,), 2))
