"""MetricLoss with constraints: the Lagrangian, its multipliers, and that the optimum is reached.

Run as a script it is one of the processes of `test_two_processes_equal_one`:

    python test_constraints.py RANK WORLD_SIZE RENDEZVOUS_FILE RESULT_FILE
"""

import io
import sys

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.metrics import precision_score
from torch import nn

from evalign import metrics
from evalign.losses import MetricLoss
from evalign.training import ExactStep

BOUNDS = ["precision >= 0.9", "specificity <= 0.4"]
TASKS = {"multiclass": 4, "pair": 2, "binary": 1, "multilabel": 3}


def named(task):
    """Multilabel targets have the shape of the logits, so the task must be named."""
    return {"task": "multilabel"} if task == "multilabel" else {}


def batch(task="pair", rows=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, TASKS[task], generator=generator, dtype=torch.float64)
    y = torch.randint(0, max(2, TASKS[task]), (rows,), generator=generator)
    return logits.requires_grad_(), F.one_hot(y, 3) if task == "multilabel" else y


def constrained(constraints=("precision >= 0.9",), **options):
    """A loss in double precision throughout, to compare many digits."""
    return MetricLoss("recall", constraints=constraints, multiplier_learning_rate=0.5, **options).double()


def test_multipliers_by_hand():
    """Rows predicted 1, 1, 0, 1, 0 of true 1, 0, 1, 0, 0: precision 1/3, specificity 1/3."""
    logits = torch.tensor([2.0, 0.1, -1.0, 3.0, -0.2], requires_grad=True)
    targets = torch.tensor([1, 0, 1, 0, 0])
    loss = MetricLoss("recall", constraints=BOUNDS, multiplier_learning_rate=0.3)
    assert loss.multipliers.tolist() == [0, 0]
    loss(logits, targets)
    torch.testing.assert_close(loss.multipliers, torch.tensor([0.3 * (0.9 - 1 / 3), 0.0]))
    loss(-logits, targets)  # predicted 0, 0, 1, 0, 1: precision 1/2, specificity 2/3
    after = [0.3 * (0.9 - 1 / 3) + 0.3 * (0.9 - 1 / 2), 0.3 * (2 / 3 - 0.4)]
    torch.testing.assert_close(loss.multipliers, torch.tensor(after))
    perfect = torch.tensor([9.0, -9.0, 9.0, -9.0, -9.0], requires_grad=True)
    for _ in range(30):
        loss(perfect, targets)
    assert loss.multipliers[0] == 0, "a constraint that is kept by 0.1 loses its multiplier, down to 0"
    assert loss.multipliers[1].item() == pytest.approx(after[1] + 30 * 0.3 * 0.6, rel=1e-5)


@pytest.mark.parametrize(
    ("task", "thresholds"), [*((task, None) for task in TASKS), ("binary", [0.3, 0.6]), ("multilabel", [0.3])]
)
def test_hard_counts_move_the_multipliers(task, thresholds):
    """Against scikit-learn on the predicted classes, weighted."""
    logits, targets = batch(task)
    weight = torch.rand(60, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    loss = constrained(thresholds=thresholds, **named(task))
    loss(logits, targets, weight)
    average = "binary" if task in ("pair", "binary") else "macro"
    if task in ("multiclass", "pair"):
        guesses = [logits.argmax(-1)]
    else:
        guesses = [(logits.sigmoid() >= level).long().squeeze(-1) for level in thresholds or [0.5]]
    values = [precision_score(targets, guess, sample_weight=weight, average=average) for guess in guesses]
    assert loss.multipliers.item() == pytest.approx(0.5 * (0.9 - np.mean(values)))


def test_soft_targets_and_class_weights_are_counted():
    logits, targets = batch("multiclass")
    hard, soft = (constrained(task="multiclass", class_weight=[1, 2, 3, 4]) for _ in range(2))
    hard(logits, targets)
    soft(logits, F.one_hot(targets, 4).double())
    torch.testing.assert_close(soft.multipliers, hard.multipliers)
    weight = targets.double() + 1
    wanted = precision_score(targets, logits.argmax(-1), average="macro", sample_weight=weight)
    assert hard.multipliers.item() == pytest.approx(0.5 * (0.9 - wanted))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("memory", [0.0, 0.7])
def test_value_and_gradient_are_those_of_the_plain_formula(task, memory):
    loss, plain = (
        constrained(BOUNDS, memory=memory, **named(task)),
        MetricLoss("recall", memory=memory, **named(task)),
    )
    bounds = [metrics.as_constraint(text) for text in BOUNDS]
    for seed in range(3):
        logits, targets = batch(task, seed=seed)
        multipliers = loss.multipliers.clone()
        value = loss(logits, targets)
        again = logits.detach().requires_grad_()
        wanted = plain(again, targets)
        matrix = plain.measure(again, targets).confusion
        if memory:
            matrix = plain.running_confusion + matrix - matrix.detach()
        for bound, multiplier in zip(bounds, multipliers, strict=True):
            slack = bound.slack if task in ("multiclass", "pair") else bound.slack_over_labels
            wanted = wanted - multiplier * slack(matrix).mean()
        torch.testing.assert_close(value, wanted)
        torch.testing.assert_close(
            *(torch.autograd.grad(v, z)[0] for v, z in ((value, logits), (wanted, again)))
        )
    assert (loss.multipliers > 0).any()


def test_a_metric_to_be_minimised():
    cost = metrics.cost([[0, 1], [5, 0]])
    loss = MetricLoss(cost, constraints=[cost <= 0.1], multiplier_learning_rate=0.5).double()
    logits, targets = batch()
    loss(logits, targets)
    guess = logits.argmax(-1)
    paid = ((guess == 1) & (targets == 0)).sum() + 5 * ((guess == 0) & (targets == 1)).sum()
    assert loss.multipliers.item() == pytest.approx(0.5 * (paid.item() / 60 - 0.1))


def test_hard_counts_have_the_same_memory():
    loss, running = constrained(memory=0.75), None
    multiplier = 0.0
    for seed, rows in enumerate((30, 10, 60)):
        logits, targets = batch(rows=rows, seed=seed)
        loss(logits, targets)
        share = torch.zeros(2, 2, dtype=torch.float64)
        for y, guess in zip(targets, logits.argmax(-1), strict=True):
            share[y, guess] += 1 / rows
        running = share if running is None else 0.75 * running + 0.25 * share
        torch.testing.assert_close(loss.running_hard, running)
        multiplier = max(0.0, multiplier + 0.5 * (0.9 - (running[1, 1] / running[:, 1].sum()).item()))
        assert loss.multipliers.item() == pytest.approx(multiplier)


def test_multipliers_do_not_change_without_gradients_or_in_eval_mode():
    loss = constrained(memory=0.5)
    logits, targets = batch()
    loss(logits, targets)
    kept, hard = loss.multipliers.clone(), loss.running_hard.clone()
    with torch.no_grad():
        loss(*batch(seed=1))
    loss.eval()(*batch(seed=2))
    torch.testing.assert_close(loss.multipliers, kept)
    torch.testing.assert_close(loss.running_hard, hard)


def test_in_eval_mode_a_violation_counts_once_for_any_multipliers():
    logits, targets = batch()
    loss, plain = constrained(BOUNDS).eval(), MetricLoss("recall")
    matrix = plain.measure(logits, targets).confusion
    slacks = [metrics.as_constraint(text).slack(matrix).item() for text in BOUNDS]
    wanted = plain(logits, targets).item() + sum(max(0.0, -slack) for slack in slacks)
    for multiplier in (0.0, 7.0):
        loss.multipliers.fill_(multiplier)
        assert loss(logits, targets).item() == pytest.approx(wanted)


@pytest.mark.parametrize("memory", [0.0, 0.5])
def test_bad_batches_leave_the_multipliers_finite(memory):
    loss = constrained(memory=memory)
    logits, targets = batch()
    assert loss(torch.full_like(logits, torch.nan).requires_grad_(), targets).isnan()
    assert loss.multipliers.item() == 0
    loss(logits, targets)
    kept = loss.multipliers.clone()
    assert kept > 0
    for bad in (torch.full_like(logits, torch.nan), logits.detach() * torch.inf):
        assert loss(bad.requires_grad_(), targets).isnan()
        torch.testing.assert_close(loss.multipliers, kept)
    assert loss(logits, torch.full_like(targets, -100)).isfinite()
    torch.testing.assert_close(loss.multipliers, kept)
    nothing = torch.stack([torch.full((60,), 9.0), torch.full((60,), -9.0)], 1).double().requires_grad_()
    value = loss(nothing, targets)  # nothing is predicted positive: a miss, as in scikit-learn
    value.backward()
    assert value.isfinite()
    assert nothing.grad.isfinite().all()
    assert kept < loss.multipliers < torch.inf


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_state_dict_round_trip_and_resume(memory):
    """Resumed from the state, the rest of a run is the run that was not interrupted."""
    whole = constrained(BOUNDS, memory=memory)
    for seed in range(3):
        whole(*batch(seed=seed))
    file = io.BytesIO()
    torch.save(whole.state_dict(), file)
    file.seek(0)
    resumed = constrained(BOUNDS, memory=memory)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for seed in range(3, 6):
        assert resumed(*batch(seed=seed)) == whole(*batch(seed=seed))
        assert torch.equal(resumed.multipliers, whole.multipliers)
    assert not torch.equal(whole.multipliers, torch.zeros(2))
    assert (whole.running_hard is None) == (memory == 0)


def test_without_constraints_the_state_has_no_multipliers():
    loss = MetricLoss("f1", memory=0.5)
    loss(*batch())
    assert set(loss.state_dict()) == {"running_confusion", "_extra_state"}
    assert set(MetricLoss("f1").state_dict()) == {"_extra_state"}
    assert loss.measure(*batch()).hard is None
    with pytest.raises(RuntimeError, match="multipliers"):
        loss.load_state_dict(constrained().state_dict())


@pytest.mark.parametrize("task", TASKS)
def test_exact_steps_equal_one_batch(task):
    torch.manual_seed(1)
    model = nn.Linear(6, TASKS[task]).double()
    exact, plain = (
        constrained(BOUNDS, anchor=0.2, **named(task)),
        constrained(BOUNDS, anchor=0.2, **named(task)),
    )
    for seed in range(3):
        _, targets = batch(task, rows=64, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        x, weight = (
            torch.randn(64, 6, generator=generator).double(),
            torch.rand(64, generator=generator).double(),
        )
        found = ExactStep(model, exact, micro_batch=9).backward(x, targets, weight)
        gradient = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        value = plain(model(x), targets, weight)
        value.backward()
        torch.testing.assert_close(found, value.detach())
        torch.testing.assert_close(gradient, [p.grad for p in model.parameters()])
        torch.testing.assert_close(exact.multipliers, plain.multipliers)
        assert exact.multipliers.sum() > 0
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.5 * parameter.grad
        model.zero_grad()


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_compiled_equals_eager(memory):
    torch._dynamo.reset()
    eager, compiled = constrained(BOUNDS, memory=memory), constrained(BOUNDS, memory=memory)
    function = torch.compile(compiled, backend="aot_eager", fullgraph=True)
    for seed in range(3):
        logits, targets = batch("multiclass", seed=seed)
        wanted, value = eager(logits, targets), function(logits, targets)
        torch.testing.assert_close(value, wanted)
        torch.testing.assert_close(*(torch.autograd.grad(v, logits)[0] for v in (value, wanted)))
        torch.testing.assert_close(compiled.multipliers, eager.multipliers)


def overlapping(seed=0):
    """One feature, 60 positives among 400 rows; thresholds on it are all that a linear model can do."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.arange(400) < 60).long()
    x = torch.randn(400, 1, generator=generator, dtype=torch.float64) + 2.0 * y.unsqueeze(1)
    return x, y


def best_by_thresholds(x, y, bound):
    """The highest recall of all thresholds whose precision is at least the bound."""
    found = []
    for level in x.flatten():
        guess = x.flatten() >= level
        hits = int((guess & (y == 1)).sum())
        if hits / int(guess.sum()) >= bound:
            found.append(hits / int(y.sum()))
    return max(found)


def train(loss, x, y, steps=600):
    """Each step's (precision, recall) of the predicted classes, the loss cooled."""
    torch.manual_seed(0)
    model = nn.Linear(1, 1).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    seen = []
    for step in range(steps):
        loss.temperature = max(0.02, 0.2 * 0.995**step)
        optimizer.zero_grad()
        logits = model(x)
        loss(logits, y).backward()
        optimizer.step()
        guess = logits.detach().flatten() >= 0
        hits = int((guess & (y == 1)).sum())
        seen.append((hits / max(1, int(guess.sum())), hits / int(y.sum())))
    return seen


@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_is_reached(seed):
    """The best feasible step has the highest recall that any threshold with precision 0.9 has."""
    x, y = overlapping(seed)
    best = best_by_thresholds(x, y, 0.9)
    assert 0.1 < best < 0.9
    free = train(MetricLoss("recall"), x, y)
    assert free[-1][0] < 0.5, "without the constraint, recall is all"
    assert free[-1][1] > 0.95
    bound = train(MetricLoss("recall", constraints=["precision >= 0.9"]), x, y)
    feasible = [recall for precision, recall in bound if precision >= 0.9]
    assert max(feasible) == pytest.approx(best, abs=1.01 / 60)
    precision, recall = bound[-1]
    assert precision >= 0.9
    assert recall > 0.5 * best, "the end, too, finds positives and is not merely careful"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraints": "precision > 0.9"}, "`constraint` to be a metric"),
        ({"constraints": ["auroc >= 0.9"]}, "`constraint` on a metric that gives one number"),
        ({"constraints": 0.9}, "`constraints` to be a list"),
        ({"multiplier_learning_rate": 0}, "`multiplier_learning_rate` to be a positive number, but got 0"),
        ({"multiplier_learning_rate": float("nan")}, "`multiplier_learning_rate`"),
        ({"multiplier_learning_rate": "fast"}, "`multiplier_learning_rate`"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MetricLoss("recall", **options)


def test_repr_contains_the_constraints():
    assert "constraints=('precision() >= 0.9'), multiplier_learning_rate=0.5" in repr(constrained())
    assert "constraints" not in repr(MetricLoss("f1"))


def run_process(rank, world):
    """Three steps on a part of each batch, the whole if alone: multipliers, memories and gradients."""
    results = {}
    for task in TASKS:
        for exact in (False, True):
            torch.manual_seed(0)
            model = nn.Linear(6, TASKS[task]).double()
            wrapped = nn.parallel.DistributedDataParallel(model) if world > 1 else model
            loss = constrained(BOUNDS, memory=0.0 if exact else 0.8, **named(task))
            for seed, cut in enumerate((30, 11, 59)):
                mine = slice(None) if world == 1 else (slice(0, cut), slice(cut, None))[rank]
                _, y = batch(task, seed=seed)
                x = torch.randn(60, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
                model.zero_grad()
                if exact:
                    ExactStep(wrapped, loss, micro_batch=7).backward(x[mine], y[mine])
                else:
                    loss(wrapped(x[mine]), y[mine]).backward()
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter -= 0.5 * parameter.grad
            found = {"multipliers": loss.multipliers, "gradient": model.weight.grad}
            results[f"{task}-{exact}"] = found if exact else {**found, "hard": loss.running_hard}
    return results


def test_two_processes_equal_one(script, tmp_path):
    def start(rank, world):
        target = tmp_path / f"{world}-{rank}.pt"
        return target, script(__file__, rank, world, tmp_path / "meet", target)

    running = [start(0, 1), start(0, 2), start(1, 2)]
    for _, process in running:
        assert process.wait() == 0, process.errors
    alone, *both = (torch.load(target, weights_only=True) for target, _ in running)
    assert len(alone) == 8
    for part in both:
        for case, wanted in alone.items():
            assert wanted["multipliers"].sum() > 0
            for name, value in wanted.items():
                torch.testing.assert_close(
                    part[case][name], value, rtol=1e-6, atol=1e-9, msg=f"{case} {name}"
                )


if __name__ == "__main__":
    rank, world, rendezvous, result = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    torch.save(run_process(rank, world), result)
    if world > 1:
        dist.destroy_process_group()
