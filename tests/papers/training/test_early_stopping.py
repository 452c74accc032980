"""Early stopping of stacked trials, each on its own."""

import copy

import pytest
import torch

from evalign.estimators import mlp
from evalign.losses import MetricLoss
from evalign.papers.networks import stack_networks, trial_losses
from evalign.papers.training._early_stopping import BestTrials


def curve(losses, patience):
    """The epoch and value of the best loss of one trial that stops on its own."""
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


@pytest.mark.parametrize("drops", [False, True])
def test_early_stopping_equals_training_alone(drops):
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
        kept = best.drop_finished(optimizer) if drops else None
        assert kept is None or len(kept) == network.trials == len(best.trials) < len(seeds)
    assert drops == (network.trials < len(seeds))
    best.restore()
    assert network.trials == len(seeds)
    for seed, trained in zip(seeds, network.unstack(), strict=True):
        torch.manual_seed(seed)
        single = make()
        optimizer, lowest, waited, best_single = (
            torch.optim.Adam(single.parameters(), lr=0.1), float("inf"), 0, None,
        )  # fmt: skip
        while waited < patience:
            optimizer.zero_grad()
            loss(single.train()(x[:40]), y[:40]).backward()
            optimizer.step()
            value = loss(single.eval()(x[40:]), y[40:]).item()
            waited += 1
            if value < lowest:
                lowest, waited, best_single = value, 0, copy.deepcopy(single)
        assert best.losses[seed].item() == pytest.approx(lowest, abs=1e-10)
        for p, q in zip(trained.parameters(), best_single.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-8, atol=1e-10)
    assert len(set(best.epochs.tolist())) > 1


def test_nan_does_not_count_as_an_improvement():
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
def test_invalid_patience(patience):
    with pytest.raises(ValueError, match="Expected `patience` to be an integer >= 1, but got"):
        BestTrials(stack_networks(lambda: mlp(2, 1, ()), range(2)), patience)


def test_invalid_losses():
    best = BestTrials(stack_networks(lambda: mlp(2, 1, ()), range(2)), 3)
    with pytest.raises(ValueError, match=r"Expected `losses` of shape \(2,\), but got shape \(\)"):
        best.step(torch.tensor(0.5))
