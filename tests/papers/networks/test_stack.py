"""Stacked networks: values, gradients, masks and training of each trial are those of a single network."""

import copy

import pytest
import torch
from torch import nn

from evalign.estimators import ByteDropout, mlp
from evalign.papers.networks import NetworkStack, btg_net, stack_networks

SEEDS = (3, 1, 7)


def small(dropout=0.0, dtype=torch.float64):
    return mlp(4, 2, (5, 3), dropout).to(dtype)


def rows(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def alone(make):
    """The networks, created one by one."""
    networks = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        networks.append(make())
    return networks


KINDS = {
    "relu": lambda: mlp(4, 2, (5, 3)),
    "linear": lambda: mlp(4, 2, ()),
    "without bias": lambda: nn.Sequential(nn.Linear(4, 3, bias=False), nn.Tanh(), nn.Linear(3, 1)),
    "activations": lambda: nn.Sequential(
        nn.Identity(), nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3),
        nn.SiLU(), nn.Linear(3, 3), nn.ELU(), nn.Sigmoid(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("own", [False, True])
def test_values_and_gradients(kind, own):
    networks = [network.double() for network in alone(KINDS[kind])]
    network = stack_networks(networks)
    x = rows(3, 6, 4) if own else rows(6, 4)
    outputs = network(x)
    outputs.pow(2).sum().backward()
    for k, single in enumerate(networks):
        wanted = single(x[k] if own else x)
        torch.testing.assert_close(outputs[k], wanted)
        wanted.pow(2).sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in single.parameters()])
        torch.testing.assert_close(network.weights.grad[k], gradient)


def test_trials_are_independent():
    network = stack_networks(small, SEEDS)
    network(rows(6, 4))[1].sum().backward()
    assert (network.weights.grad[1] != 0).any()
    assert (network.weights.grad[[0, 2]] == 0).all()


@pytest.mark.parametrize("kind", [ByteDropout, nn.Dropout])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.5, 0.3])
def test_masks_are_those_of_dropout_of_a_single_network(kind, dtype, p):
    def small():
        return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), kind(p), nn.Linear(5, 2)).to(dtype)

    network = stack_networks(small, SEEDS)
    x = rows(9, 4, dtype=dtype)
    first, second = network(x), network(x)
    assert not torch.equal(first, second)
    for k, seed in enumerate(SEEDS):
        torch.manual_seed(seed)
        single = small()
        torch.testing.assert_close(first[k], single(x))
        torch.testing.assert_close(second[k], single(x))


def test_masks_without_seeds_come_from_the_global_generator():
    network = stack_networks([small(0.5), small(0.5)])
    outputs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        outputs.append(network(rows(9, 4)))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_evaluation_draws_no_masks():
    network = stack_networks(lambda: small(0.5), SEEDS).eval()
    states = [generator.get_state() for generator in network.generators]
    assert torch.equal(network(rows(9, 4)), network(rows(9, 4)))
    assert all(map(torch.equal, states, [generator.get_state() for generator in network.generators]))


OPTIMIZERS = {
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "adam": lambda weights: torch.optim.Adam(weights, lr=0.02, weight_decay=1e-2),
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=0.02, weight_decay=0.1, amsgrad=True),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_one_optimizer_is_one_for_each_trial(optimizer, dropout):
    """The whole training: first weights, orders of rows, masks and steps, from nothing but the seed."""
    x, y = rows(20, 4), rows(20, 2, seed=1)
    network = stack_networks(lambda: small(dropout), SEEDS)
    steps = OPTIMIZERS[optimizer](network.parameters())
    for _ in range(4):
        for batch in network.draw_orders(20).split(8, dim=1):
            steps.zero_grad()
            (network(x[batch]) - y[batch]).pow(2).mean((1, 2)).sum().backward()
            steps.step()
    for seed, trained in zip(SEEDS, network.unstack(), strict=True):
        torch.manual_seed(seed)
        single = small(dropout)
        steps = OPTIMIZERS[optimizer](single.parameters())
        for _ in range(4):
            for batch in torch.randperm(20).split(8):
                steps.zero_grad()
                (single(x[batch]) - y[batch]).pow(2).mean().backward()
                steps.step()
        for p, q in zip(trained.parameters(), single.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-12)


def test_a_trial_does_not_depend_on_its_neighbours():
    many, one = stack_networks(lambda: small(0.5), SEEDS), stack_networks(lambda: small(0.5), SEEDS[1:2])
    x = rows(9, 4)
    torch.testing.assert_close(many(x)[1], one(x)[0])
    assert torch.equal(many.draw_orders(30)[1], one.draw_orders(30)[0])


def test_orders():
    network = stack_networks(small, SEEDS)
    orders = network.draw_orders(50)
    assert torch.equal(orders.sort(1).values, torch.arange(50).expand(3, 50))
    assert not torch.equal(orders[0], orders[1])
    torch.manual_seed(0)
    first = stack_networks([small(), small()]).draw_orders(50)
    assert torch.equal(first.sort(1).values, torch.arange(50).expand(2, 50))


def test_the_state_of_the_global_generator_is_preserved():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    network = stack_networks(lambda: small(0.5), SEEDS)
    network(rows(9, 4))
    network.draw_orders(10)
    network.unstack()
    assert torch.equal(torch.get_rng_state(), state)


def test_unstack_returns_the_networks():
    networks = alone(lambda: small(0.5))
    network = stack_networks(networks)
    back = network.unstack()
    for mine, yours in zip(back, networks, strict=True):
        assert repr(mine) == repr(yours)
        assert all(map(torch.equal, mine.parameters(), yours.parameters()))
    assert all(single.training for single in back)
    assert not any(part.training for single in network.eval().unstack() for part in single.modules())
    with torch.no_grad():
        back[0][0].weight.zero_()
    assert torch.equal(network.unstack()[0][0].weight, networks[0][0].weight)


def test_stacking_copies_the_weights():
    networks = alone(small)
    network = stack_networks(networks)
    before = network.weights.clone()
    with torch.no_grad():
        networks[0][0].weight.zero_()
    assert torch.equal(network.weights, before)


def test_state_dict_and_deepcopy():
    network, other = (
        stack_networks(lambda: small(0.5), SEEDS),
        stack_networks(lambda: small(0.5), (10, 11, 12)),
    )
    other.load_state_dict(network.state_dict())
    assert torch.equal(other.eval()(rows(9, 4)), copy.deepcopy(network).eval()(rows(9, 4)))
    twin = copy.deepcopy(network)
    assert torch.equal(twin(rows(9, 4)), network(rows(9, 4)))  # the generators are copied too


def test_one_parameter_contains_all_weights():
    network = stack_networks(lambda: btg_net(6), range(10))
    assert [tuple(p.shape) for p in network.parameters()] == [(10, 769)]


def test_autocast():
    network = stack_networks(lambda: small(dtype=torch.float32), SEEDS)
    x = rows(9, 4, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = network(x)
    torch.testing.assert_close(outputs.float(), network(x), rtol=0.05, atol=0.05)


@pytest.mark.parametrize(("networks", "words"), [
    ([], "with at least one network, but got none"),
    ([nn.Linear(2, 1)], "to be nn.Sequential, but got Linear"),
    ([nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))], "with linear layers, .*but got BatchNorm1d"),
    ([nn.Sequential(nn.Sequential(nn.Linear(2, 1)))], "with linear layers, .*but got Sequential"),
    ([nn.Sequential(nn.ReLU())], "with at least one linear layer, but got"),
    ([mlp(2, 1, (3,)), mlp(2, 1, (4,))], "with the same layers, .*but got"),
    ([mlp(2, 1, (3,), 0.5), mlp(2, 1, (3,), 0.4)], "with the same layers, .*but got"),
    ([mlp(2, 1, (3,)), mlp(2, 1, (3,)).double()], "with the same layers, .*but got"),
])  # fmt: skip
def test_invalid_networks(networks, words):
    with pytest.raises(ValueError, match=f"Expected `networks` {words}"):
        stack_networks(networks)


def test_invalid_seeds():
    with pytest.raises(ValueError, match="Expected `seeds` with one seed per trial if .*, but got None"):
        stack_networks(small)
    with pytest.raises(ValueError, match="Expected `seeds` with one seed for each of 2 trials, but got 3"):
        stack_networks([small(), small()], SEEDS)
    with pytest.raises(ValueError, match="Expected `networks` with at least one network, but got none"):
        stack_networks(small, [])


@pytest.mark.parametrize("shape", [(4,), (9, 5), (2, 9, 4), (3, 9, 5), (1, 3, 9, 4)])
def test_invalid_shape_of_rows(shape):
    network = stack_networks(small, SEEDS)
    assert isinstance(network, NetworkStack)
    with pytest.raises(ValueError, match=r"Expected `rows` of shape \(N, 4\) or \(3, N, 4\), but got shape"):
        network(rows(*shape))


def test_invalid_type_of_rows():
    with pytest.raises(ValueError, match=r"Expected `rows` of type torch.float64, but got torch.float32"):
        stack_networks(small, SEEDS)(rows(9, 4, dtype=torch.float32))
