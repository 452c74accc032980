"""The network for tables: layers, sizes and refusals."""

import numpy as np
import pytest
import torch
from torch import nn

from evalign.estimators import ByteDropout, PiecewiseLinear, mlp
from evalign.papers.networks import btg_net


@pytest.mark.parametrize(("hidden", "count"), [
    ((), 6 * 3 + 3),
    ((4,), 6 * 4 + 4 + 4 * 3 + 3),
    ((5, 2), 6 * 5 + 5 + 5 * 2 + 2 + 2 * 3 + 3),
    ([7, 7, 7], 6 * 7 + 7 + 2 * (7 * 7 + 7) + 7 * 3 + 3),
])  # fmt: skip
def test_number_of_parameters(hidden, count):
    assert sum(p.numel() for p in mlp(6, 3, hidden, dropout=0.5).parameters()) == count


def test_layers_of_the_paper_by_default():
    sizes = [(layer.in_features, layer.out_features) for layer in mlp(10, 4) if isinstance(layer, nn.Linear)]
    assert sizes == [(10, 512), (512, 256), (256, 128), (128, 4)]


@pytest.mark.parametrize("dropout", [0, 0.0])
def test_no_dropout_layer_without_dropout(dropout):
    kinds = [type(layer) for layer in mlp(6, 2, (8, 4), dropout)]
    assert kinds == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]


def test_dropout_follows_every_hidden_layer_but_not_the_output():
    layers = list(mlp(6, 2, (8, 4), dropout=0.3))
    assert [type(layer) for layer in layers] == [nn.Linear, nn.ReLU, ByteDropout] * 2 + [nn.Linear]
    assert [layer.p for layer in layers if isinstance(layer, nn.Dropout)] == [0.3, 0.3]


@pytest.mark.parametrize("p", [0.25, 0.3, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dropout_drops_a_share_and_keeps_the_mean(p, dtype):
    torch.manual_seed(0)
    x = torch.ones(400, 250, dtype=dtype, requires_grad=True)
    dropped = ByteDropout(p)(x)
    assert dropped.dtype == dtype
    kept = dropped.detach() != 0
    assert abs(kept.double().mean().item() - (1 - p)) < 5 * (p * (1 - p) / kept.numel()) ** 0.5
    torch.testing.assert_close(dropped[kept], torch.full_like(dropped[kept], 1 / (1 - p)))
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, dropped.detach())


def test_units_are_dropped_independently():
    """Bytes come from 64-bit words: neighbours, and units at the same place of two words, must not agree."""
    torch.manual_seed(0)
    kept = ByteDropout(0.5)(torch.ones(80_000)) != 0
    for lag in (1, 2, 4, 7, 8, 16):
        agree = (kept[lag:] == kept[:-lag]).double().mean().item()
        assert abs(agree - 0.5) < 5 * 0.5 / 80_000**0.5


@pytest.mark.parametrize("shape", [(), (0, 3), (3,), (5, 7, 3)])
def test_dropout_of_any_shape(shape):
    assert ByteDropout(0.5)(torch.ones(shape)).shape == shape


def test_dropout_of_all_none_and_in_evaluation():
    x = torch.ones(50, 4)
    assert (ByteDropout(1.0)(x) == 0).all()
    assert torch.equal(ByteDropout(0.0)(x), x)
    assert torch.equal(ByteDropout(0.5).eval()(x), x)


def test_dropout_is_compiled_in_one_graph():
    compiled = torch.compile(ByteDropout(0.5), fullgraph=True, backend="aot_eager")
    share = (compiled(torch.ones(1000, 10)) == 0).double().mean().item()
    assert 0.4 < share < 0.6


def test_the_small_network_of_the_paper():
    """32, 16 and 1 units with dropout 0.5: Tsoi et al. (2022); 22 features are CocktailParty's."""
    network = btg_net(22)
    kinds = [nn.Linear, nn.ReLU, ByteDropout] * 2 + [nn.Linear]
    assert [type(layer) for layer in network] == kinds
    sizes = [(layer.in_features, layer.out_features) for layer in network if isinstance(layer, nn.Linear)]
    assert sizes == [(22, 32), (32, 16), (16, 1)]
    assert {layer.p for layer in network if isinstance(layer, nn.Dropout)} == {0.5}
    assert sum(p.numel() for p in network.parameters()) == 22 * 32 + 32 + 32 * 16 + 16 + 16 + 1


def test_bad_number_of_features_of_the_small_network():
    with pytest.raises(ValueError, match="Expected `features` to be an integer >= 1, but got 0."):
        btg_net(0)


def test_value_by_hand():
    network = mlp(1, 2, (2,))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        network[0].bias.copy_(torch.tensor([0.0, 1.0]))
        network[2].weight.copy_(torch.tensor([[2.0, 3.0], [0.0, -1.0]]))
        network[2].bias.copy_(torch.tensor([0.5, 0.0]))
    # relu(2, -2 + 1) = (2, 0) and relu(-1, 1 + 1) = (0, 2); no activation at the end.
    expected = torch.tensor([[4.5, 0.0], [6.5, -2.0]])
    torch.testing.assert_close(network(torch.tensor([[2.0], [-1.0]])), expected)


def test_sizes_may_be_numpy_integers():
    """As they come from a search over `np.arange` or `scipy.stats.randint`."""
    assert mlp(6, 2, np.array([8, 4]))[0].out_features == 8
    assert mlp(np.int64(6), np.int32(2), (np.int64(8),))[2].out_features == 2


@pytest.mark.parametrize("hidden", [
    (0,), (8, -1), (2.5,), ("8",), (True,), (None,), ((8,),), (np.nan,), 8, None, "8", 2.5,
], ids=repr)  # fmt: skip
def test_bad_hidden(hidden):
    with pytest.raises(ValueError, match="Expected `hidden` .*but got"):
        mlp(6, 2, hidden)


@pytest.mark.parametrize("dropout", [-0.1, 1, 1.5, np.nan, np.inf, "0.5", None, True, (0.5,)], ids=repr)
def test_bad_dropout(dropout):
    with pytest.raises(ValueError, match=r"Expected `dropout` in \[0, 1\), but got"):
        mlp(6, 2, (4,), dropout)


@pytest.mark.parametrize("value", [0, -1, 2.5, "6", None, True], ids=repr)
@pytest.mark.parametrize("argument", ["features", "outputs"])
def test_bad_number_of_features_or_outputs(argument, value):
    sizes = {"features": 6, "outputs": 2, argument: value}
    with pytest.raises(ValueError, match=f"Expected `{argument}` .*but got"):
        mlp(**sizes, hidden=(4,))


def test_positions_in_bins_are_those_of_an_interpolation():
    """The sum of the positions of a feature is its rank among the edges, linear in between."""
    x = torch.randn(500, 3, dtype=torch.float64)
    layer = PiecewiseLinear(3, 7).double()
    layer.place_edges(x)
    new = 2 * torch.randn(200, 3, dtype=torch.float64)  # also beyond the edges
    plain, inside = layer(new).split([3, 21], dim=1)
    assert torch.equal(plain, new)
    for place in range(3):
        edges = np.quantile(x[:, place].numpy(), np.linspace(0, 1, 8))
        ranks = np.interp(new[:, place].numpy(), edges, np.arange(8))
        np.testing.assert_allclose(inside[:, 7 * place : 7 * place + 7].sum(1), ranks, atol=1e-6)


def test_a_feature_of_few_values_has_steps():
    x = torch.tensor([0.0] * 50 + [1.0] * 50)[:, None]
    layer = PiecewiseLinear(1, 4)
    layer.place_edges(x)
    inside = layer(torch.tensor([[0.0], [1.0], [2.0]]))[:, 1:]
    assert inside.isfinite().all()
    assert inside[0].sum() < inside[1].sum() <= inside[2].sum()


@pytest.mark.parametrize("n_bins", [-1, 257, 2.0, True, "many"])
def test_wrong_numbers_of_bins(n_bins):
    with pytest.raises(ValueError, match=r"Expected `n_bins` to be an integer in 0\.\.256, but got"):
        mlp(3, 2, n_bins=n_bins)
