"""Networks, losses and trials of the tables."""

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch import nn

from evalign.metrics import f1
from evalign.papers.data import Parts, prepare
from evalign.papers.tables import (
    TABLES,
    PaperColumn,
    PaperData,
    PaperRow,
    PaperTable,
    Protocol,
    Scale,
    grid_settings,
)
from evalign.papers.training import Point, _points, is_stackable, multiplies_bfloat16, run_point
from evalign.papers.training._losses import BlockwiseLoss, build_loss
from evalign.papers.training._networks import BlockwiseNetwork, PairLogits, TwoLogits, build_network
from evalign.papers.training._train import TrainingTask, train_networks
from evalign.softsets import LinearStep, soft_confusion
from evalign.training import TrainingData

SETTING = {"learning_rate": 0.01, "batch_size": 64, "max_epochs": 30, "patience": 30}
SOFT_SET = PaperRow(
    "F1*", "metric", {"metric": "f1", "task": "binary", "step": "linear", "thresholds": "btg"}
)


def toy_parts(*shape, label):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    data = TrainingData(x, label(x).long())
    return Parts(data, data, data, ("no", "yes"))


def test_two_logits_are_equivalent_to_one():
    x = torch.randn(5, 3)
    network = nn.Linear(3, 1)
    torch.testing.assert_close(TwoLogits(network)(x).softmax(-1)[:, 1], network(x).sigmoid().squeeze(1))


def test_each_pair_of_people_once():
    logits = PairLogits(lambda people: people @ people.mT)(torch.eye(3).expand(2, 3, 3) + 1)
    assert logits.shape == (2, 2, 3)
    torch.testing.assert_close(logits[:, 1], torch.full((2, 3), 5.0))  # (2, 1, 1) . (1, 2, 1)


def test_blocks_do_not_change_results():
    images = torch.randn(600, 3, 8, 8)
    network = nn.Sequential(nn.Conv2d(3, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    expected = network(images)
    torch.testing.assert_close(BlockwiseNetwork(network).eval()(images), expected)
    torch.testing.assert_close(BlockwiseNetwork(network).train()(images), expected)
    x, network = torch.randn(600, 4), nn.Linear(4, 2)
    y = torch.randint(0, 2, (600,))
    loss = nn.CrossEntropyLoss()
    torch.testing.assert_close(BlockwiseLoss(loss, 25)(network(x), y), loss(network(x), y))


@pytest.fixture
def processor(monkeypatch):
    """Sets what the processor is said to have instructions for."""

    def has(*names):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(names, True), raising=False)

    has("avx512_bf16")
    return has


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize(("name", "least"), [("mlp", 0.999), ("darknet_tiny", 0.8), ("resnet18", 0.8)])
def test_mixed_precision_rounds_only_hidden_layers_in_training(name, least):
    shape = (64, 5) if name == "mlp" else (16, 3, 32, 32)
    parts = toy_parts(*shape, label=lambda x: x.flatten(1).sum(1) > 0)
    x, y = parts.train.x, parts.train.y
    networks, gradients = [], []
    for precision in ({}, {"precision": "mixed"}):
        torch.manual_seed(0)
        networks.append(build_network(name, parts, precision).train())
        logits = networks[-1](x)
        nn.functional.cross_entropy(logits, y).backward()
        assert logits.dtype == torch.float32
        gradients.append(torch.cat([weight.grad.flatten() for weight in networks[-1].parameters()]))
    similarity = torch.cosine_similarity(*gradients, dim=0)
    # Close, but rounded: a change of pixels by as much turns the gradients of deep networks, too (0.95).
    assert least < similarity < 1 - 1e-7
    networks[1].load_state_dict(
        dict(zip(networks[1].state_dict(), networks[0].state_dict().values(), strict=True))
    )
    assert torch.equal(networks[0].eval()(x), networks[1].eval()(x))


@pytest.mark.parametrize(
    ("names", "hidden"),
    [(("amx_bf16",), torch.bfloat16), (("bf16",), torch.bfloat16), (("avx512_f",), torch.float32)],
)
def test_mixed_precision_needs_instructions_and_keeps_the_last_layer(processor, names, hidden):
    processor(*names)
    parts = toy_parts(64, 5, label=lambda x: x.sum(1) > 0)
    network = build_network("mlp", parts, {"precision": "mixed"}).train()
    types = []
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(lambda _, __, output: types.append(output.dtype))
    network(parts.train.x)
    assert types == [hidden] * 3 + [torch.float32]


def test_an_older_torch_trains_in_float32(monkeypatch):
    assert multiplies_bfloat16("cuda")
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not multiplies_bfloat16("cpu")


def test_cross_entropy_that_is_stopped_by_a_metric_has_the_weights_with_the_best():
    noise = torch.randn(400, generator=torch.Generator().manual_seed(1))
    parts = toy_parts(400, 3, label=lambda x: x.sum(1) + noise > 1)
    row, score = PaperRow("CE, stopped by F1", "ce", {"stop": "metric"}), f1()
    setting = {"learning_rate": 0.01, "batch_size": 50, "max_epochs": 20, "patience": 3, "dropout": 0.25}
    (model,) = train_networks(TrainingTask(row, "mlp", score), [parts], setting, (1,))
    labels, y = model.logits(parts.valid.x).argmax(1), parts.valid.y
    assert model.valid_loss == pytest.approx(1 - f1_score(y, labels))
    (usual,) = train_networks(TrainingTask(PaperRow("CE", "ce"), "mlp", score), [parts], setting, (1,))
    logits = usual.logits(parts.valid.x)
    assert usual.valid_loss == pytest.approx(float(nn.functional.cross_entropy(logits, y)), rel=1e-5)
    assert model.valid_loss <= 1 - f1_score(y, logits.argmax(1))


def test_trials_at_once_learn_and_differ():
    parts = toy_parts(400, 3, label=lambda x: x.sum(1) > 1)
    assert is_stackable(SOFT_SET, "btg_net")
    assert not is_stackable(SOFT_SET, "mlp")
    assert not is_stackable(PaperRow("E", "metric", {"metric": "f1"}), "btg_net")  # it is annealed
    task = TrainingTask(SOFT_SET, "btg_net", f1())
    models = train_networks(task, [parts] * 3, SETTING, (1, 2, 3))
    probabilities = [model.logits(parts.test.x).softmax(-1) for model in models]
    scores = [f1().score(parts.test.y, p.argmax(1)) for p in probabilities]
    assert min(scores) > 0.7
    assert not torch.equal(probabilities[0], probabilities[1])
    again = train_networks(task, [parts] * 2, SETTING, (3, 1))
    # Each draws the random numbers it would draw alone, whatever the other trials are.
    torch.testing.assert_close(again[1].logits(parts.test.x).softmax(-1), probabilities[0], atol=1e-4, rtol=0)


def test_each_trial_of_a_stack_is_trained_on_its_own_parts():
    """One of two trials learns from labels that are turned around, and predicts the opposite."""
    parts = toy_parts(400, 3, label=lambda x: x.sum(1) > 0)
    turned = Parts(*[TrainingData(one.x, 1 - one.y) for one in (parts.train,) * 3], parts.class_names)
    task = TrainingTask(PaperRow("BCE", "ce"), "btg_net", f1())
    first, second = train_networks(task, [parts, turned], SETTING, (1, 2))
    for model, one in ((first, parts), (second, turned)):
        assert (model.logits(one.test.x).argmax(1) == one.test.y).double().mean() > 0.9


@pytest.mark.parametrize(("epochs", "patience", "capped"), [(3, 9, True), (400, 2, False)])
@pytest.mark.parametrize("row", [SOFT_SET, PaperRow("BCE", "ce"), PaperRow("E", "metric", {"metric": "f1"})])
def test_training_that_was_cut_off_says_so(row, epochs, patience, capped):
    parts = toy_parts(100, 3, label=lambda x: x.sum(1) > 1)
    setting = {**SETTING, "max_epochs": epochs, "patience": patience, "decay": 0.5}
    models = train_networks(TrainingTask(row, "btg_net", f1()), [parts] * 2, setting, (1, 2))
    assert [model.capped for model in models] == [capped] * 2
    assert all((model.epochs == epochs) == capped for model in models)
    annealed = row.name == "E"
    assert all((model.temperature is not None) == annealed for model in models)
    if annealed and capped:
        assert models[0].temperature == 0.2


@pytest.mark.parametrize("method", ["ce", "aligned"])
def test_graphs_are_scored_pair_by_pair(method):
    pairs = torch.triu_indices(4, 4, 1)
    parts = toy_parts(150, 4, 3, label=lambda x: (x[:, pairs[0], 0] - x[:, pairs[1], 0]).abs() < 0.7)
    task = TrainingTask(PaperRow("r", method), "graph_network", f1())
    (model,) = train_networks(task, [parts], SETTING, (1,))
    p = model.logits(parts.test.x)
    assert p.shape == (150 * 6, 2)
    assert f1().score(parts.test.y.flatten(), p.argmax(1)) > 0.85


@pytest.mark.parametrize("row", TABLES["ablation"].rows, ids=lambda row: row.name)
def test_every_row_of_the_ablation_is_trained(row):
    table = TABLES["ablation"]
    (setting,) = grid_settings(table, "small", table.data[1], row)
    point = Point("trial", "mammography", (row.name,), {**setting, "rows": 300, "max_epochs": 2}, (1,))
    outcome = run_point(table, point, 0)
    assert 0 <= outcome.scores[0][row.name]["F1"] <= 1
    phases = 2 if row.name in ("CE first", "aligned") else 1
    assert outcome.epochs == [2 * phases]


def test_the_fixed_threshold_replaces_the_dynamic_one():
    parts = [
        Parts(*[TrainingData(torch.zeros(4, 1), torch.zeros(4).long())] * 3, tuple("abc"[:d])) for d in (2, 3)
    ]
    fixed = PaperRow("1/d", "metric", {"metric": "f1", "step": "at 1/d"})
    dynamic = PaperRow("T", "metric", {"metric": "f1", "step": "linear"})
    y, z = torch.tensor([0, 1, 1, 0]), torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(build_loss(fixed, parts[0])(z, y), build_loss(dynamic, parts[0])(z, y))
    y, z = torch.tensor([0, 1, 2, 0]), torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    memberships = LinearStep(0.2)(z.softmax(-1), 1 / 3)
    matrix = soft_confusion(memberships / memberships.sum(1, keepdim=True), y, 3)
    torch.testing.assert_close(build_loss(fixed, parts[1])(z, y), 1 - f1(average="macro")(matrix))


def test_an_unknown_network_is_rejected():
    with pytest.raises(ValueError, match="Did you mean 'darknet19'"):
        build_network("darknet91", toy_parts(4, 3, label=lambda x: x[:, 0] > 0), {})


def test_subsamples_preserve_the_shares_of_the_classes():
    (few,) = prepare("mammography", 1100, (0,), Protocol())
    sizes = [len(part) for part in (few.train, few.valid, few.test)]
    assert np.allclose(np.array(sizes) / sum(sizes), [0.64, 0.16, 0.2], atol=0.01)
    assert 22 <= sum(int(part.y.sum()) for part in (few.train, few.valid, few.test)) <= 28  # 2.32 %
    torch.testing.assert_close(few.train.x.mean(0), torch.zeros(6), atol=1e-4, rtol=0)


def test_estimators_are_trained_on_components_of_images(monkeypatch):
    parts = toy_parts(80, 3, 8, 8, label=lambda x: x[:, 0].mean((1, 2)) > 0)
    monkeypatch.setattr(_points, "prepare", lambda *_: (parts,))
    scale = Scale(1, {})
    rows = (PaperRow("RF", "forest", {"n_estimators": 5}), PaperRow("CCS", "ccs"))
    columns = (PaperColumn("F1", "f1"),)
    table = PaperTable("t", "", "", (PaperData("d", "D"),), rows, columns, scale, scale)
    for row in rows:
        outcome = run_point(table, Point("trial", "d", (row.name,), {}, (1,)), 0)
        assert outcome.scores[0][row.name]["F1"] > 0.7
    assert len(_points._build_estimator(rows[0], f1(), "images", 0).steps) == 2


def test_the_best_constant_prediction_of_soft_sets_is_certainty():
    """With 70 % positives, F1 and accuracy of one probability for all rise up to p = 1; BCE stops at 0.7."""
    y = (torch.arange(100) < 70).long()
    parts = Parts(*[TrainingData(torch.zeros(100, 1), y)] * 3, ("no", "yes"))
    guesses = torch.linspace(0.02, 0.98, 49, dtype=torch.float64)
    logits = [torch.stack([torch.zeros(100), g.logit().expand(100)], 1) for g in guesses]
    accuracy = PaperRow("Acc", "metric", {**SOFT_SET.settings, "metric": "accuracy"})
    for row in (SOFT_SET, accuracy):
        values = torch.stack([build_loss(row, parts)(one, y) for one in logits])
        assert (values.diff() < 0).all()
    entropy = torch.stack([build_loss(PaperRow("BCE", "ce"), parts)(one, y) for one in logits])
    assert guesses[entropy.argmin()] == pytest.approx(0.7)


@pytest.mark.parametrize(("network", "collapses"), [("graph_network", True), ("graph_network_normed", False)])
def test_normed_affinities_do_not_collapse(network, collapses):
    pairs = torch.triu_indices(4, 4, 1)
    parts = toy_parts(150, 4, 3, label=lambda x: (x[:, pairs[0], 0] - x[:, pairs[1], 0]).abs() < 1.5)
    share = float(parts.test.y.double().mean())
    assert 0.65 < share < 0.75
    task = TrainingTask(SOFT_SET, network, f1())
    (model,) = train_networks(task, [parts], {**SETTING, "max_epochs": 20}, (1,))
    decisions = model.logits(parts.test.x).argmax(1)
    accuracy = float((decisions == parts.test.y.flatten()).double().mean())
    assert (float(decisions.double().mean()) == 1.0) == collapses
    assert accuracy == pytest.approx(share) if collapses else accuracy > share + 0.1
