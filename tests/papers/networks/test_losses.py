"""Training of stacked trials: the loss of each, and early stopping trial by trial."""

import copy

import pytest
import torch
from torch import nn

from evalign.estimators import mlp
from evalign.losses import AdversarialLoss, FocalLoss, MetricLoss, SoftFBetaLoss, WMWLoss
from evalign.papers.networks import BestTrials, stacked, trial_losses
from evalign.softsets import LinearStep, SigmoidStep


def batch(*shape, classes=2, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(*shape, dtype=dtype, generator=generator)
    return logits.requires_grad_(), torch.randint(classes, shape[:2], generator=generator)


def check_equals_a_loop(loss, logits, targets):
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
    "metric", ["f1", "fbeta(beta=2)", "accuracy", "mcc", "auroc", "tp / (tp + fp)", "tp"]
)
@pytest.mark.parametrize("step", STEPS)
def test_metric_loss_of_one_logit(metric, step):
    loss = MetricLoss(metric, task="binary", **STEPS[step])
    check_equals_a_loop(loss, *batch(4, 30, 1))
    check_equals_a_loop(loss, *batch(4, 30))


def test_same_targets_for_all():
    logits, targets = batch(4, 30, 1)
    check_equals_a_loop(MetricLoss("f1"), logits, targets[0])


def test_single_precision():
    check_equals_a_loop(MetricLoss("f1", **STEPS["btg"]), *batch(4, 30, 1, dtype=torch.float32))


@pytest.mark.parametrize("targets", [0, 1])
def test_a_batch_of_one_class(targets):
    logits, _ = batch(4, 30, 1)
    check_equals_a_loop(MetricLoss("f1", **STEPS["btg"]), logits, torch.full((30,), targets))


def test_probabilities_at_0_and_1():
    logits = torch.tensor(
        [[-800.0, 800.0, 0.0], [800.0, -800.0, 1.0]], dtype=torch.float64, requires_grad=True
    )
    check_equals_a_loop(MetricLoss("f1", **STEPS["btg"]), logits, torch.tensor([0, 0, 0]))


def test_after_inference_mode():
    """What is kept between calls must serve gradients whoever called first."""
    logits, targets = batch(2, 30, 1)
    loss = MetricLoss("f1", step=LinearStep(0.123), task="binary")
    with torch.inference_mode():
        trial_losses(loss, logits, targets)
    check_equals_a_loop(loss, logits, targets)


def test_cooling():
    logits, targets = batch(2, 30, 1)
    loss = MetricLoss("f1")
    check_equals_a_loop(loss, logits, targets)
    loss.temperature = 0.05
    check_equals_a_loop(loss, logits, targets)


@pytest.mark.parametrize("options", [
    {"class_weight": [1.0, 5.0]}, {"anchor": 0.3}, {"task": "multiclass"}, {"ignore_index": 0},
])  # fmt: skip
def test_other_metric_losses(options):
    shape = (3, 20, 2) if "task" in options else (3, 20, 1)
    check_equals_a_loop(MetricLoss("f1", **options), *batch(*shape))


def test_many_classes_and_labels():
    check_equals_a_loop(MetricLoss("mcc"), *batch(3, 20, 4, classes=4))
    logits, _ = batch(3, 20, 4)
    targets = torch.randint(2, (3, 20, 4), generator=torch.Generator().manual_seed(0))
    check_equals_a_loop(MetricLoss("f1", task="multilabel"), logits, targets)


def test_ignored_rows():
    logits, targets = batch(3, 20, 1)
    targets[0, :5] = targets[1, 7] = -100
    check_equals_a_loop(MetricLoss("f1"), logits, targets)


@pytest.mark.parametrize("loss", [WMWLoss(), FocalLoss(), SoftFBetaLoss()], ids=repr)
def test_losses_other_than_metrics(loss):
    check_equals_a_loop(loss, *batch(3, 12))


class Branching(AdversarialLoss):
    """It reads the values, as the solver of the adversarial loss does, but needs no compiler to start."""

    def __init__(self):
        nn.Module.__init__(self)

    def forward(self, logits, targets):
        return logits.pow(2).mean() if logits[0] > targets[0] else logits.exp().mean()


def test_the_adversarial_loss_is_taken_trial_by_trial():
    check_equals_a_loop(Branching(), *batch(5, 12))


def test_losses_of_torch():
    logits, targets = batch(3, 20)
    check_equals_a_loop(nn.BCEWithLogitsLoss(), logits, targets.double())
    check_equals_a_loop(nn.CrossEntropyLoss(), *batch(3, 20, 4, classes=4))


def test_a_trial_that_fails_fails_alone():
    logits, targets = batch(3, 20, 1)
    with torch.no_grad():
        logits[1, 4] = torch.inf
    losses = trial_losses(MetricLoss("f1", **STEPS["btg"]), logits, targets)
    assert losses.isnan().tolist() == [False, True, False]
    (gradient,) = torch.autograd.grad(losses[[0, 2]].sum(), logits)
    assert gradient[[0, 2]].isfinite().all()


def test_the_loss_keeps_nothing_of_the_batch():
    logits, targets = batch(3, 20, 4, classes=4)
    loss = MetricLoss("f1")
    trial_losses(loss, logits, targets)
    assert loss.last_confusion is None
    copy.deepcopy(loss)


@pytest.mark.parametrize("options", [{"memory": 0.9}, {"constraints": ["precision >= 0.9"]}])
def test_a_loss_with_a_state_is_refused(options):
    with pytest.raises(
        ValueError, match="Expected `loss` without memory and constraints, .*but got MetricLoss"
    ):
        trial_losses(MetricLoss("f1", **options), *batch(3, 20, 1))


@pytest.mark.parametrize("shape", [(), (3,), (19,), (20, 3), (3, 19), (2, 20)])
def test_bad_targets(shape):
    logits, _ = batch(3, 20, 1)
    with pytest.raises(
        ValueError, match=r"Expected `targets` of shape \(20,\) or \(3, 20, ...\), but got shape"
    ):
        trial_losses(MetricLoss("f1"), logits, torch.zeros(shape, dtype=torch.long))


def test_bad_logits():
    with pytest.raises(
        ValueError, match=r"Expected `logits` of shape \(trials, N, ...\), but got shape \(3,\)"
    ):
        trial_losses(MetricLoss("f1"), torch.zeros(3), torch.zeros(3, dtype=torch.long))


def test_bad_values_of_targets():
    logits, _ = batch(3, 20, 1)
    with pytest.raises(ValueError, match=r"Expected `targets` in 0..1, but got 2"):
        trial_losses(MetricLoss("f1"), logits, torch.full((20,), 2))


def curve(losses, patience):
    """Epoch and value of the best loss of one trial that stops by itself."""
    best, at = float("inf"), -1
    for epoch, loss in enumerate(losses):
        if loss < best:
            best, at = loss, epoch
        if epoch - at >= patience:
            break
    return at, best


@pytest.mark.parametrize("patience", [1, 2, 4])
def test_early_stopping_of_each_trial(patience):
    network = stack_networks(lambda: mlp(2, 1, ()), range(6))
    best = BestTrials(network, patience)
    curves = torch.rand(12, 6, generator=torch.Generator().manual_seed(patience))
    history = []
    for epoch, losses in enumerate(curves):
        with torch.no_grad():
            network.weights.fill_(epoch)
        best.step(losses)
        history.append(best.done)
    wanted = [curve(column.tolist(), patience) for column in curves.T]
    assert best.epochs.tolist() == [at for at, _ in wanted]
    torch.testing.assert_close(best.losses, torch.tensor([value for _, value in wanted]))
    stops = [min(at + patience, 99) for at, _ in wanted]
    assert history == [epoch >= max(stops) for epoch in range(12)]
    best.restore()
    assert torch.equal(network.weights, best.epochs.float().unsqueeze(1).expand_as(network.weights))


def test_early_stopping_equals_training_alone():
    seeds, patience = range(4), 3
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, dtype=torch.float64, generator=generator)
    y = (x[:, 0] + torch.randn(60, generator=generator) > 0).long()
    loss = MetricLoss("f1", task="binary")

    def make():
        return mlp(3, 1, (4,), 0.5).double()

    network = stack_networks(make, seeds)
    best, optimizer = BestTrials(network, patience), torch.optim.Adam(network.parameters(), lr=0.1)
    while not best.done:
        optimizer.zero_grad()
        trial_losses(loss, network.train()(x[:40]), y[:40]).sum().backward()
        optimizer.step()
        best.step(trial_losses(loss, network.eval()(x[40:]), y[40:]))
    best.restore()
    for seed, trained in zip(seeds, network.unstack(), strict=True):
        torch.manual_seed(seed)
        single = make()
        optimizer, lowest, waited, kept = torch.optim.Adam(single.parameters(), lr=0.1), float("inf"), 0, None
        while waited < patience:
            optimizer.zero_grad()
            loss(single.train()(x[:40]), y[:40]).backward()
            optimizer.step()
            value = loss(single.eval()(x[40:]), y[40:]).item()
            waited += 1
            if value < lowest:
                lowest, waited, kept = value, 0, copy.deepcopy(single)
        assert best.losses[seed].item() == pytest.approx(lowest, abs=1e-10)
        for p, q in zip(trained.parameters(), kept.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-8, atol=1e-10)
    assert len(set(best.epochs.tolist())) > 1


def test_nan_is_no_improvement():
    network = stack_networks(lambda: mlp(2, 1, ()), range(2))
    first = network.weights.detach().clone()
    best = BestTrials(network, patience=2)
    for losses in ([torch.nan, 0.5], [torch.nan, torch.nan], [0.1, torch.nan]):
        with torch.no_grad():
            network.weights.add_(1)
        best.step(torch.tensor(losses))
    assert best.done
    assert best.epochs.tolist() == [-1, 0]
    best.restore()
    torch.testing.assert_close(network.weights, first + torch.tensor([[0.0], [1.0]]))


@pytest.mark.parametrize("patience", [0, -1, 1.5, None, True], ids=repr)
def test_bad_patience(patience):
    with pytest.raises(ValueError, match="Expected `patience` to be an integer >= 1, but got"):
        BestTrials(stack_networks(lambda: mlp(2, 1, ()), range(2)), patience)


def test_bad_losses():
    best = BestTrials(stack_networks(lambda: mlp(2, 1, ()), range(2)), 3)
    with pytest.raises(ValueError, match=r"Expected `losses` of shape \(2,\), but got shape \(\)"):
        best.step(torch.tensor(0.5))
