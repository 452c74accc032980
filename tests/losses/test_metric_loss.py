"""MetricLoss: what it computes, for every task and shape, with memory, anchor, weights and state."""

import copy
import io

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import evalign as ev
from evalign import metrics
from evalign.losses import BTG_THRESHOLDS, MetricLoss
from evalign.metrics import as_batch
from evalign.softsets import HardStep, LinearStep, SigmoidStep

COST = metrics.cost([[0, 1, 2], [3, 0, 1], [5, 1, 0]])
METRICS = ["accuracy", "balanced_accuracy", "precision", "recall", "specificity", "fbeta(beta=2)", "f1",
           "jaccard", "gmean", "mcc", "cohen_kappa", "informedness"]  # fmt: skip


def named(task):
    """Multilabel targets have the shape of the logits, so the task must be named."""
    return {"task": "multilabel"} if task == "multilabel" else {}


def batch(d=3, rows=30, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, d, generator=generator, dtype=dtype)
    return logits.requires_grad_(), torch.randint(0, d, (rows,), generator=generator)


def naive_step(p, tau, t):
    """EAST eq. 4 for numbers."""
    tau_m = 5 * t * min(tau, 1 - tau)
    lo, hi = tau - tau_m / 2, tau + tau_m / 2
    if p < lo:
        return p * t / lo
    if p > hi:
        return 1 - t + (p - hi) * t / (1 - hi)
    return 0.5 + (p - tau) * (1 - 2 * t) / tau_m


def naive_confusion(logits, targets, t):
    """EAST section 4.2, one row and one class at a time."""
    d = logits.shape[1]
    matrix = np.zeros((d, d))
    for z, y in zip(logits.detach().numpy(), targets.tolist(), strict=True):
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        tau = np.sort(p)[-2:].mean()
        h = np.array([naive_step(value, tau, t) for value in p])
        matrix[y] += h / h.sum()
    return matrix


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("d", [2, 4])
@pytest.mark.parametrize("t", [0.05, 0.2])
def test_the_loss_is_one_minus_the_metric_of_the_soft_matrix(name, d, t):
    logits, targets = batch(d)
    wanted = 1 - metrics.as_metric(name)(naive_confusion(logits, targets, t)).item()
    loss = MetricLoss(name, temperature=t)
    assert loss(logits, targets).item() == pytest.approx(wanted, abs=1e-9)
    np.testing.assert_allclose(loss.last_confusion, naive_confusion(logits, targets, t), atol=1e-9)


def test_a_cost_is_minimised_as_it_is():
    logits, targets = batch(3)
    wanted = COST(naive_confusion(logits, targets, 0.2)).item()
    assert MetricLoss(COST)(logits, targets).item() == pytest.approx(wanted)


@pytest.mark.parametrize("form", ["name", "call", "text", "function", "metric"])
def test_every_form_of_a_metric_is_accepted(form):
    logits, targets = batch(2)
    given = {
        "name": "f1",
        "call": "fbeta(beta=1)",
        "text": "2*tp / (2*tp + fp + fn)",
        "function": lambda c: 2 * c.tp / (2 * c.tp + c.fp + c.fn),
        "metric": metrics.f1(),
    }[form]
    wanted = 1 - metrics.f1()(naive_confusion(logits, targets, 0.2)).item()
    assert MetricLoss(given)(logits, targets).item() == pytest.approx(wanted)


@pytest.mark.parametrize("metric", ["(tp - fp) / total", "tp[1] / total", metrics.metric(lambda c: c.recall)])
def test_the_loss_does_not_depend_on_the_size_of_the_batch(metric):
    logits, targets = batch(2)
    loss = MetricLoss(metric)
    doubled = loss(torch.cat([logits, logits]), torch.cat([targets, targets]))
    assert doubled.item() == pytest.approx(loss(logits, targets).item())


@pytest.mark.parametrize("shape", [(30,), (30, 1)])
def test_one_logit_equals_two(shape):
    logits, targets = batch(2)
    margin = (logits[:, 1] - logits[:, 0]).view(shape)
    loss = MetricLoss("f1")
    wanted = loss(logits, targets)
    torch.testing.assert_close(loss(margin, targets), wanted)
    torch.testing.assert_close(loss(margin, targets.view(shape)), wanted)
    torch.testing.assert_close(loss(margin, targets.double()), wanted)
    torch.testing.assert_close(MetricLoss("f1", task="binary")(logits, targets), wanted)


@pytest.mark.parametrize("step", [None, LinearStep(0.1), SigmoidStep()])
@pytest.mark.parametrize("thresholds", [0.3, [0.2, 0.6], "btg"])
def test_thresholds_average_the_metric(step, thresholds):
    logits, targets = batch(2)
    margin = logits[:, 1]
    levels = {"btg": BTG_THRESHOLDS, 0.3: [0.3]}.get(
        thresholds if not isinstance(thresholds, list) else "", thresholds
    )
    use = step or LinearStep(temperature=0.2)
    values = []
    for tau in levels:
        c = np.zeros((2, 2))
        for p, y in zip(margin.sigmoid(), targets, strict=True):
            h = use(p, tau).item()
            c[y] += [1 - h, h]
        values.append(metrics.f1()(c).item())
    loss = MetricLoss("f1", thresholds=thresholds, step=step)
    assert loss(margin, targets).item() == pytest.approx(1 - np.mean(values))


def test_auroc_reads_all_thresholds_at_once():
    logits, targets = batch(2)
    loss = MetricLoss("auroc")
    value = loss(logits[:, 1], targets)
    assert value.item() == pytest.approx(1 - metrics.auroc()(loss.last_confusion).item())


@pytest.mark.parametrize("name", ["auroc", "average_precision"])
def test_two_logits_have_the_curve_of_their_difference(name):
    logits, targets = batch(2)
    loss = MetricLoss(name)
    torch.testing.assert_close(loss(logits, targets), loss(logits[:, 1] - logits[:, 0], targets))


def test_the_odds_of_a_class_against_the_rest():
    logits = 30 * torch.randn(40, 5, dtype=torch.float64, generator=torch.manual_seed(0))
    logits[0], logits[1] = 1.0, torch.tensor([2.0, 2.0, 0.0, 0.0, 0.0])
    logits.requires_grad_()
    found = as_batch(logits, torch.arange(40) % 5).one_against_rest().logits
    rest = [logits[:, [j for j in range(5) if j != k]].logsumexp(1) for k in range(5)]
    wanted = logits - torch.stack(rest, 1)
    torch.testing.assert_close(found, wanted)
    gradients = [torch.autograd.grad(side.sin().sum(), logits)[0] for side in (found, wanted)]
    torch.testing.assert_close(*gradients)


def test_curves_of_many_classes_take_the_memory_of_the_logits():
    """One table per class and threshold, but none of rows x classes x classes."""
    logits = torch.randn(8, 2000, requires_grad=True)
    with torch.profiler.profile(profile_memory=True) as profile:
        as_batch(logits, torch.arange(8)).one_against_rest().logits.sum().backward()
    largest = max(event.self_cpu_memory_usage for event in profile.events())
    assert 0 < largest <= 8 * logits.numel() * 4


@pytest.mark.parametrize("name", ["auroc", "average_precision", "auroc(average='weighted')"])
def test_more_classes_have_the_curves_of_each_against_the_rest(name):
    logits, targets = batch(4)
    p, labels = logits.softmax(-1), F.one_hot(targets, 4)
    loss, by_label = MetricLoss(name), MetricLoss(name, task="multilabel")
    wanted = by_label(torch.log(p / (1 - p)), labels)
    torch.testing.assert_close(loss(logits, targets), wanted)
    weight = torch.rand(len(logits), dtype=torch.float64)
    cells = weight[:, None].expand(-1, 4)
    torch.testing.assert_close(loss(logits, targets, weight), by_label(torch.log(p / (1 - p)), labels, cells))
    # With many thresholds and a cold step, the loss is one minus the score over all thresholds.
    fine = MetricLoss(name, thresholds=np.linspace(0.001, 0.999, 999), temperature=1e-4)
    exact = 1 - metrics.as_metric(name).score(targets, p.detach().numpy())
    assert fine(logits, targets).item() == pytest.approx(exact, abs=0.01)


def test_the_anchor_of_a_curve_is_the_cross_entropy_of_the_classes():
    logits, targets = batch(4)
    anchored, plain = MetricLoss("auroc", anchor=0.5), MetricLoss("auroc")
    wanted = plain(logits, targets) + 0.5 * F.cross_entropy(logits, targets)
    torch.testing.assert_close(anchored(logits, targets), wanted)


@pytest.mark.parametrize("name", ["recall[0]", "precision[1]", "(fp / total)[0]"])
def test_one_class_of_one_logit_is_that_of_two(name):
    logits, targets = batch(2)
    loss = MetricLoss(name)
    torch.testing.assert_close(loss(logits[:, 1] - logits[:, 0], targets), loss(logits, targets))


def test_a_constraint_on_the_share_of_false_alarms_is_enforced_by_predicted_classes():
    logits = torch.tensor([2.0, 1.0, -1.0, 3.0])  # two of three negatives are predicted as positive
    loss = MetricLoss("recall", constraints=["fp <= 0.1 * total"], multiplier_learning_rate=1.0)
    loss(logits, torch.tensor([0, 0, 0, 1]))
    assert loss.multipliers.tolist() == pytest.approx([2 / 4 - 0.1])


def test_the_last_confusion_has_one_matrix_per_label_and_threshold():
    logits, targets = batch(2)
    labels = F.one_hot(targets, 2)
    one, many = MetricLoss("f1"), MetricLoss("f1", thresholds="btg")
    by_label, all_by_label = (MetricLoss("f1", thresholds=t, task="multilabel") for t in (None, "btg"))
    assert one.last_confusion is None
    for loss, z, y, shape in (
        (one, logits, targets, (2, 2)),
        (one, logits[:, 1], targets, (2, 2)),
        (many, logits[:, 1], targets, (9, 2, 2)),
        (by_label, logits, labels, (2, 2, 2)),
        (all_by_label, logits, labels, (9, 2, 2, 2)),
    ):
        loss(z, y)
        assert loss.last_confusion.shape == shape
        assert not loss.last_confusion.requires_grad
        assert loss.last_confusion.sum((-2, -1)).allclose(torch.tensor(30.0).double())


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_multilabel_uses_one_matrix_per_label(average):
    logits, _ = batch(3)
    targets = torch.randint(0, 2, (30, 3), generator=torch.Generator().manual_seed(1))
    c = np.zeros((3, 2, 2))
    for i in range(30):
        for label in range(3):
            h = naive_step(logits[i, label].sigmoid().item(), 0.5, 0.2)
            c[label, targets[i, label]] += [1 - h, h]
    wanted = 1 - metrics.f1(average=average).over_labels(c).item()
    loss = MetricLoss(metrics.f1(average=average), task="multilabel")
    assert loss(logits, targets).item() == pytest.approx(wanted)
    assert loss(logits, targets.double()).item() == pytest.approx(wanted)


def test_dense_logits_are_rows():
    logits, targets = batch(4, rows=2 * 3 * 5)
    dense = logits.view(2, 3, 5, 4).movedim(-1, 1)
    loss = MetricLoss("mcc")
    torch.testing.assert_close(loss(dense, targets.view(2, 3, 5)), loss(logits, targets))
    weight = torch.rand(30).double()
    torch.testing.assert_close(
        loss(dense, targets.view(2, 3, 5), weight.view(2, 3, 5)), loss(logits, targets, weight)
    )
    by_image = torch.tensor([1.0, 3.0]).double()
    torch.testing.assert_close(
        loss(dense, targets.view(2, 3, 5), by_image), loss(logits, targets, by_image.repeat_interleave(15))
    )


def test_soft_targets():
    logits, targets = batch(4)
    loss = MetricLoss("f1", task="multiclass")
    one_hot = F.one_hot(targets, 4).double()
    torch.testing.assert_close(loss(logits, one_hot), loss(logits, targets))
    dense = one_hot.view(2, 15, 4).movedim(-1, 1)
    torch.testing.assert_close(loss(logits.view(2, 15, 4).movedim(-1, 1), dense), loss(logits, targets))
    mixed = (one_hot + one_hot.roll(1, 0)) / 2
    twice = loss(torch.cat([logits, logits]), torch.cat([targets, targets.roll(1)]))
    torch.testing.assert_close(loss(logits, mixed), twice)
    blank = one_hot.clone()
    blank[:7] = 0
    torch.testing.assert_close(loss(logits, blank), loss(logits[7:], targets[7:]))


@pytest.mark.parametrize("task", ["multiclass", "binary", "multilabel"])
def test_ignored_rows_have_no_effect(task):
    if task == "multilabel":
        logits = batch(2)[0]
        targets = torch.randint(0, 2, (30, 2), generator=torch.Generator().manual_seed(1))
    else:
        logits, targets = batch(4 if task == "multiclass" else 2)
        logits = logits if task == "multiclass" else logits[:, 1]
    hidden = targets.clone()
    hidden[:7] = -100
    loss = MetricLoss("f1", anchor=0.5, **named(task))
    torch.testing.assert_close(loss(logits, hidden), loss(logits[7:], targets[7:]))
    if task == "multiclass":
        other = MetricLoss("f1", anchor=0.5, ignore_index=2, **named(task))
        keep = targets != 2
        torch.testing.assert_close(other(logits, targets), loss(logits[keep], targets[keep]))


@pytest.mark.parametrize("d", [2, 4])
def test_weights_repeat_rows(d):
    logits, targets = batch(d)
    times = torch.randint(1, 4, (30,), generator=torch.Generator().manual_seed(2))
    loss = MetricLoss("f1", anchor=0.3)
    repeated = loss(logits.repeat_interleave(times, 0), targets.repeat_interleave(times))
    torch.testing.assert_close(loss(logits, targets, times.double()), repeated)
    class_weight = torch.arange(1, d + 1)
    weighted = MetricLoss("f1", anchor=0.3, class_weight=class_weight.tolist())
    torch.testing.assert_close(
        weighted(logits, targets), loss(logits, targets, class_weight[targets].double())
    )


def test_class_weights_of_labels_and_soft_targets():
    logits, targets = batch(2)
    weighted = MetricLoss("f1", class_weight=[1, 4])
    plain = MetricLoss("f1")
    wanted = plain(logits, targets, torch.tensor([1.0, 4.0]).double()[targets])
    torch.testing.assert_close(weighted(logits[:, 1] - logits[:, 0], targets), wanted)
    soft = MetricLoss("f1", class_weight=[1, 4], task="multiclass")
    torch.testing.assert_close(soft(logits, F.one_hot(targets, 2).double()), wanted)


@pytest.mark.parametrize("task", ["multiclass", "soft", "binary", "multilabel"])
def test_the_anchor_is_cross_entropy(task):
    logits, targets = batch(3)
    entropy = F.cross_entropy(logits, targets)
    if task == "soft":
        targets = F.one_hot(targets, 3).double()
    elif task == "multilabel":
        targets = F.one_hot(targets, 3)
        entropy = F.binary_cross_entropy_with_logits(logits, targets.double())
    elif task == "binary":
        logits, targets = logits[:, 0], (targets == 1).long()
        entropy = F.binary_cross_entropy_with_logits(logits, targets.double())
    name = "multiclass" if task == "soft" else task
    anchored, plain = MetricLoss("f1", anchor=0.7, task=name), MetricLoss("f1", task=name)
    torch.testing.assert_close(anchored(logits, targets) - plain(logits, targets), 0.7 * entropy)


def test_memory_is_the_running_average_of_normalised_matrices():
    loss, fresh = MetricLoss("f1", memory=0.75), MetricLoss("f1")
    running = None
    for seed, rows in enumerate((30, 10, 60)):
        logits, targets = batch(3, rows=rows, seed=seed)
        value = loss(logits, targets)
        fresh(logits, targets)
        share = fresh.last_confusion / rows
        running = share if running is None else 0.75 * running + 0.25 * share
        torch.testing.assert_close(loss.running_confusion, running)
        torch.testing.assert_close(value.detach(), 1 - metrics.f1()(running))


def test_memory_does_not_shrink_the_gradient():
    """The gradient is that of the metric at the running average, not (1 - memory) times it."""
    loss = MetricLoss("f1", memory=0.9)
    first, targets = batch(3, seed=0)
    loss(first, targets)
    logits, targets = batch(3, seed=1)
    loss(logits, targets).backward()
    point = loss.running_confusion
    again = logits.detach().requires_grad_()
    newest = MetricLoss("accuracy")
    shares = newest.measure(again, targets).confusion
    (metrics.f1().gradient(point) * shares).sum().neg().backward()
    torch.testing.assert_close(logits.grad, again.grad)


def test_memory_does_not_change_without_gradients_or_in_eval_mode():
    loss = MetricLoss("f1", memory=0.9)
    logits, targets = batch(3)
    loss(logits, targets)
    kept = loss.running_confusion.clone()
    other, labels = batch(3, seed=5)
    alone = MetricLoss("f1")(other, labels)
    with torch.no_grad():
        torch.testing.assert_close(loss(other, labels), alone.detach())
    torch.testing.assert_close(loss.eval()(other, labels), alone)
    torch.testing.assert_close(loss.running_confusion, kept)


def test_memory_survives_a_batch_that_is_not_finite_or_empty():
    loss = MetricLoss("f1", memory=0.9)
    logits, targets = batch(3)
    loss(torch.full_like(logits, torch.nan).requires_grad_(), targets)
    assert loss.running_confusion.isfinite().all()
    loss(logits, targets)
    kept = loss.running_confusion.clone()
    assert loss(torch.full_like(logits, torch.nan).requires_grad_(), targets).isnan()
    torch.testing.assert_close(loss.running_confusion, kept)
    value = loss(logits, torch.full_like(targets, -100))
    torch.testing.assert_close(loss.running_confusion, kept)
    torch.testing.assert_close(value.detach(), 1 - metrics.f1()(kept))


def test_state_dict_contains_memory_and_temperature():
    loss = MetricLoss("f1", memory=0.9)
    logits, targets = batch(3)
    loss(logits, targets)
    loss.temperature = 0.05
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    file.seek(0)
    other = MetricLoss("f1", memory=0.9)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.temperature == 0.05
    later, labels = batch(3, seed=1)
    torch.testing.assert_close(other(later, labels), loss(later, labels))
    empty = MetricLoss("f1", memory=0.9)
    other.load_state_dict(empty.state_dict())
    assert other.running_confusion is None


def test_deepcopy_and_module_methods():
    loss = MetricLoss("f1", memory=0.9, class_weight=[1, 2, 3]).double()
    logits, targets = batch(3)
    loss(logits, targets)
    twin = copy.deepcopy(loss)
    torch.testing.assert_close(twin(logits, targets), loss(logits, targets))
    assert "'f1'" in repr(loss)
    assert "temperature=0.2" in repr(loss)


def test_a_batch_without_positives():
    """No soft count can raise F1 then, unless the memory has seen positives."""
    logits, targets = batch(2)
    none = torch.zeros_like(targets)
    for z in (logits, logits[:, 1]):
        loss = MetricLoss("f1")
        (gradient,) = torch.autograd.grad(loss(z, none), logits)
        assert loss(z, none).item() == pytest.approx(1)
        assert (gradient == 0).all()
        remembers = MetricLoss("f1", memory=0.9)
        remembers(z, targets)
        (gradient,) = torch.autograd.grad(remembers(z, none), logits)
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0


@pytest.mark.parametrize("name", METRICS)
def test_many_classes_and_few_rows(name):
    logits, targets = batch(257, rows=32, dtype=torch.float32)
    value = MetricLoss(name)(logits, targets)
    value.backward()
    assert value.isfinite()
    assert logits.grad.isfinite().all()
    assert logits.grad.abs().sum() > 0


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("task", ["multiclass", "binary", "multilabel"])
def test_logits_at_eighty_are_finite(name, task):
    logits, targets = batch(4, dtype=torch.float32)
    targets = {"multiclass": targets, "binary": targets % 2, "multilabel": F.one_hot(targets, 4)}[task]
    logits = (80 * logits.detach().sign()).requires_grad_()
    value = MetricLoss(name, anchor=0.1, **named(task))(logits[:, 0] if task == "binary" else logits, targets)
    value.backward()
    assert value.isfinite()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", ["f1", "recall", "accuracy", "precision", "specificity"])
@pytest.mark.parametrize("task", ["multiclass", "pair", "binary", "thresholds", "multilabel"])
def test_logits_that_are_not_finite_give_nan(bad, name, task):
    logits, targets = batch(2 if task == "pair" else 4)
    logits = logits.detach().clone()
    logits[int((targets == 0).nonzero()[0]), 0] = bad
    loss = MetricLoss(name, thresholds="btg" if task == "thresholds" else None, **named(task))
    if task in ("binary", "thresholds"):
        logits, targets = logits[:, 0], targets % 2
    elif task == "multilabel":
        targets = F.one_hot(targets, 4)
    assert loss(logits, targets).isnan()


@pytest.mark.parametrize("shape", [(0, 3), (0, 2), (0,)])
def test_an_empty_batch_has_a_finite_loss_and_no_gradient(shape):
    logits = torch.zeros(shape, requires_grad=True)
    value = MetricLoss("f1", anchor=0.1)(logits, torch.zeros(0, dtype=torch.long))
    value.backward()
    assert value.item() == 1
    assert logits.grad.shape == shape


def test_all_rows_ignored_and_all_weights_zero():
    logits, targets = batch(3)
    loss = MetricLoss("f1", anchor=0.1)
    for value in (loss(logits, torch.full_like(targets, -100)), loss(logits, targets, torch.zeros(30))):
        (gradient,) = torch.autograd.grad(value, logits)
        assert value.item() == 1
        assert (gradient == 0).all()


def test_one_class_only():
    logits, targets = batch(3)
    value = MetricLoss("f1")(logits, torch.ones_like(targets))
    value.backward()
    assert value.isfinite()
    assert logits.grad.isfinite().all()


def test_temperature_can_be_set_and_is_checked():
    loss = MetricLoss("f1")
    logits, targets = batch(3)
    loss.temperature = 0.01
    cold = loss(logits, targets)
    assert cold.item() == pytest.approx(MetricLoss("f1", temperature=0.01)(logits, targets).item())
    for bad in (0, 0.41, -1, float("nan")):
        with pytest.raises(ValueError, match=r"Expected `temperature` in \(0, 0.4\], but got"):
            loss.temperature = bad
    assert loss.temperature == 0.01
    with pytest.raises(ValueError, match="`step` is fixed"):
        MetricLoss("f1", step=SigmoidStep()).temperature = 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "f2"}, r"Did you mean 'fbeta\(beta=2\)'"),
        ({"metric": "tp - fp"}, r"`metric` to be scale-free in a loss.* as in '\(tp - fp\) / total'"),
        ({"metric": "recall['rare']"}, "`metric` with class indices in a loss"),
        ({"metric": lambda c: c.tp - c.fp}, "`metric` to be scale-free in a loss"),
        (
            {"metric": "f1", "constraints": "fp <= 10"},
            "`constraints` to be scale-free .*'fp <= 0.01 [*] total'",
        ),
        ({"metric": "f1", "task": "regression"}, "`task` to be one of"),
        ({"metric": "f1", "temperature": 0.7}, r"`temperature` in \(0, 0.4\], but got 0.7"),
        ({"metric": "f1", "memory": 1}, r"`memory` in \[0, 1\)"),
        ({"metric": "f1", "memory": "0.9"}, r"`memory` in \[0, 1\), but got '0.9'"),
        ({"metric": "f1", "anchor": -1}, "`anchor` to be a number >= 0"),
        ({"metric": "f1", "anchor": None}, "`anchor` to be a number >= 0, but got None"),
        ({"metric": "f1", "thresholds": [0.5, 1]}, r"`thresholds` in \(0, 1\)"),
        ({"metric": "f1", "thresholds": []}, r"`thresholds` in \(0, 1\)"),
        ({"metric": "f1", "thresholds": "all"}, "`thresholds` to be numbers or 'btg'"),
        ({"metric": "f1", "class_weight": [1, -1]}, "`class_weight` with one weight >= 0"),
        ({"metric": "f1", "class_weight": "balanced"}, "but got 'balanced'. See class_balanced_weights"),
        ({"metric": "f1", "class_weight": {0: 1, 1: 2}}, "`class_weight` with one weight >= 0"),
        ({"metric": "f1", "step": HardStep()}, "`step` with a gradient"),
        ({"metric": metrics.f1(average=None)}, "`metric` with an average"),
        ({"metric": "tp.sum()"}, "to contain only"),
        ({"metric": "tp[0:1]"}, "the index or the label of a class"),
        ({"metric": "exp(tp)"}, "a call of `exp`"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MetricLoss(**arguments)


LOGITS = torch.randn(6, 3)
INDICES = torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("options", "logits", "targets", "weight", "message"),
    [
        ({}, LOGITS, INDICES[:5], None, r"`targets` of shape \(6,\), but got shape \(5,\)"),
        ({}, LOGITS, INDICES + 1, None, r"`targets` in 0..2, but got 3. ignore_index is -100"),
        ({}, LOGITS, INDICES - 1, None, "`targets` in 0..2, but got -1"),
        ({}, LOGITS, INDICES.float(), None, "integer type, but got torch.float32"),
        ({}, LOGITS, torch.rand(6, 3), None, "or task='multiclass' with soft"),
        ({"task": "multiclass"}, LOGITS, torch.rand(6, 3) + 1, None, "`targets` in 0..1"),
        ({"task": "multiclass"}, LOGITS[:, :1], INDICES, None, "d >= 2"),
        ({"task": "multiclass"}, LOGITS[:, 0], INDICES, None, "d >= 2"),
        ({}, LOGITS[:, 0], INDICES, None, "`targets` in 0..1, but got 2"),
        ({}, LOGITS[:, 0], INDICES[:5] % 2, None, "to match binary logits"),
        ({"task": "binary"}, LOGITS, INDICES % 2, None, "to match binary logits"),
        ({"task": "multilabel"}, LOGITS, INDICES, None, "of the logits' shape"),
        ({"task": "multilabel"}, LOGITS, torch.full((6, 3), 2), None, "`targets` in 0..1, but got 2"),
        ({}, LOGITS, F.one_hot(INDICES, 3), None, "Use task='multilabel' for labels"),
        ({}, LOGITS.long(), INDICES, None, "`logits` of a floating type"),
        ({}, torch.tensor(1.0), INDICES, None, "`logits` of a floating type"),
        ({}, LOGITS, INDICES, torch.ones(5), r"`sample_weight` of shape \(6,\), but got shape \(5,\)"),
        ({}, LOGITS, INDICES, -torch.ones(6), "`sample_weight` to be finite numbers >= 0, but got -1.0"),
        ({}, LOGITS, INDICES, torch.full((6,), torch.nan), "`sample_weight` to be finite numbers >= 0"),
        ({}, LOGITS, INDICES.tolist(), None, "`targets` to be a tensor, but got a list"),
        ({}, LOGITS, INDICES, [1.0] * 6, "`sample_weight` to be a tensor, but got a list"),
        ({}, LOGITS, INDICES.to("meta"), None, "`targets` on the device of the logits, cpu, but got meta"),
        ({}, LOGITS, INDICES, torch.ones(6, device="meta"), "`sample_weight` on the device of the logits"),
        ({"class_weight": [1, 2]}, LOGITS, INDICES, None, "`class_weight` with one weight for each of 3"),
        ({"class_weight": [1, 2, 3]}, LOGITS[:, 0], INDICES % 2, None, "two weights"),
        ({"thresholds": 0.3}, LOGITS, INDICES, None, "`thresholds` only for binary or multilabel"),
        ({"metric": "fbeta(beta=[1, 2])"}, LOGITS, INDICES, None, "one value for each of 3 classes"),
        ({"metric": "f1(average='binary')"}, LOGITS, INDICES, None, "other than 'binary'"),
        ({"metric": "recall[3]"}, LOGITS, INDICES, None, "`class` in 0..2, but got 3 in recall"),
    ],
)
def test_bad_batches_are_refused(options, logits, targets, weight, message):
    loss = MetricLoss(**{"metric": "f1", **options})
    with pytest.raises(ValueError, match=message):
        loss(logits, targets, weight)


def test_memory_refuses_another_number_of_classes():
    loss = MetricLoss("f1", memory=0.5)
    loss(*batch(3))
    with pytest.raises(ValueError, match="as before"):
        loss(*batch(4))


def test_the_loss_is_a_drop_in_criterion_in_a_training_loop():
    """On data that two features separate, training brings F1 to 1."""
    torch.manual_seed(0)
    x = torch.randn(400, 2)
    y = (x.sum(1) > 1.2).long()
    model, loss = nn.Linear(2, 2), ev.MetricLoss("f1")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(300):
        loss.temperature = max(0.02, 0.2 * 0.99**step)
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    assert metrics.f1().score(y, model(x).argmax(-1)) > 0.97


class Classifier(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.layer, self.loss = nn.Linear(4, 3), loss


def test_a_model_with_the_loss_is_saved_in_safetensors(tmp_path):
    from safetensors.torch import load_model, save_model

    model = Classifier(MetricLoss("f1", temperature=0.07, memory=0.9, constraints=["precision >= 0.9"]))
    model.loss(model.layer(torch.randn(20, 4)), torch.arange(20) % 3)
    save_model(model, str(tmp_path / "model.safetensors"))
    other = Classifier(MetricLoss("f1", memory=0.9, constraints=["precision >= 0.9"]))
    load_model(other, str(tmp_path / "model.safetensors"))
    assert other.loss.temperature == 0.07
    assert torch.equal(other.loss.running_confusion, model.loss.running_confusion)
    assert torch.equal(other.loss.multipliers, model.loss.multipliers)


def test_a_checkpoint_of_a_model_with_cross_entropy_is_loaded():
    old = Classifier(nn.CrossEntropyLoss()).state_dict()
    model = Classifier(MetricLoss("f1", temperature=0.1, memory=0.5, constraints=["precision >= 0.9"]))
    model.load_state_dict(old)
    assert torch.equal(model.layer.weight, old["layer.weight"])
    assert model.loss.temperature == 0.1
    assert torch.equal(model.loss.multipliers, torch.zeros(1))


def test_missing_weights_are_still_an_error():
    model = Classifier(MetricLoss("f1"))
    with pytest.raises(RuntimeError, match=r"layer\.bias"):
        model.load_state_dict({"layer.weight": torch.zeros(3, 4)})


def test_the_state_of_an_older_version_is_loaded():
    loss = MetricLoss("f1")
    loss.load_state_dict({"_extra_state": {"temperature": 0.05}})
    assert loss.temperature == 0.05


SETTINGS = {
    "class_weight": {"class_weight": [1.0, 5.0]},
    "thresholds": {"metric": "recall", "task": "binary", "thresholds": "btg"},
    "cost": {"metric": "cost([[0, 1], [5, 0]])"},
    "beta": {"metric": "fbeta(beta=[1, 2])"},
    "formula": {"metric": "tp / (tp + fn)"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_loss_of_a_model_that_was_built_on_meta_is_the_same(settings):
    """As `from_pretrained` builds models: parameters on meta until the checkpoint is read."""
    logits, targets = torch.randn(20, 2), torch.arange(20) % 2
    with torch.device("meta"):
        loss = MetricLoss(**{"metric": "f1", **settings}).to_empty(device="cpu")
    assert loss(logits, targets).item() == MetricLoss(**{"metric": "f1", **settings})(logits, targets).item()


@pytest.mark.parametrize("task", ["multiclass", "binary", "multilabel"])
def test_meta_tensors_give_shapes(task):
    logits, targets = batch(4, dtype=torch.float32)
    targets = {"multiclass": targets, "binary": targets % 2, "multilabel": F.one_hot(targets, 4)}[task]
    logits = logits[:, 0] if task == "binary" else logits
    loss = MetricLoss("f1", memory=0.5, anchor=0.1, constraints=["precision >= 0.5"], **named(task)).to(
        "meta"
    )
    value = loss(logits.detach().to("meta").requires_grad_(), targets.to("meta"))
    value.backward()
    assert (value.shape, value.device.type) == ((), "meta")
