"""The graph network: its formula, its symmetries, absent people, and that it learns."""

import pytest
import torch

from evalign.losses import MetricLoss
from evalign.papers.networks import graph_network


def make(features=4, hidden=8, seed=0, **options):
    torch.manual_seed(seed)
    return graph_network(features, hidden, **options).double()


def frames(count=3, people=5, features=4, seed=1):
    return torch.randn(count, people, features, dtype=torch.float64, generator=torch.manual_seed(seed))


def naive(network, people):
    """One frame, person by person and pair by pair, from the formula in the docstring."""
    count = len(people)
    nodes = list(people)
    edges = {(i, j): (people[i, :2] - people[j, :2]).pow(2).sum().sqrt().view(1)
             for i in range(count) for j in range(count)}  # fmt: skip
    for of_edges, of_nodes in zip(network.edges, network.nodes, strict=True):
        edges = {(i, j): of_edges(torch.cat([e, nodes[i], nodes[j]])) for (i, j), e in edges.items()}
        messages = [sum(edges[i, j] for j in range(count) if j != i) / (count - 1) for i in range(count)]
        nodes = [of_nodes(torch.cat([nodes[i], messages[i]])) for i in range(count)]
    one_way = {pair: network.affinity(torch.cat([e, *(nodes[k] for k in pair)])) for pair, e in edges.items()}
    logits = torch.zeros(count, count, dtype=people.dtype)
    for i in range(count):
        for j in range(count):
            if i != j:
                logits[i, j] = (one_way[i, j] + one_way[j, i]) / 2
    return logits


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_equals_a_loop_over_pairs(rounds):
    network, people = make(rounds=rounds), frames()
    expected = torch.stack([naive(network, frame) for frame in people])
    torch.testing.assert_close(network(people), expected)


def test_symmetric_with_a_diagonal_of_zeros():
    logits = make()(frames())
    assert torch.equal(logits, logits.mT)
    assert (logits.diagonal(dim1=1, dim2=2) == 0).all()
    assert (logits.flatten().unique().numel()) == 3 * 10 + 1


@pytest.mark.parametrize("masked", [False, True])
def test_the_order_of_people_does_not_matter(masked):
    network, people = make(), frames()
    mask = torch.ones(3, 5, dtype=torch.bool)
    if masked:
        mask[0, 1] = mask[2, 3] = mask[2, 4] = False
    order = torch.tensor([3, 0, 4, 2, 1])
    logits, moved = network(people, mask), network(people[:, order], mask[:, order])
    torch.testing.assert_close(moved, logits[:, order][:, :, order])


def test_absent_people_have_no_effect():
    network, people = make(), frames(count=2, people=6)
    mask = torch.tensor([[1, 0, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1]], dtype=torch.bool)
    people = people.masked_fill(~mask.unsqueeze(-1), torch.nan)  # as a tracker may record them
    logits = network(people, mask)
    present = mask[0].nonzero().squeeze(-1)
    torch.testing.assert_close(logits[0][present][:, present], network(people[:1, present])[0])
    torch.testing.assert_close(logits[1], network(people[1:])[0])
    assert (logits[0][~mask[0]] == 0).all()
    assert (logits[0][:, ~mask[0]] == 0).all()


@pytest.mark.parametrize("present", [0, 1])
def test_at_most_one_person_has_no_pairs(present):
    network, people = make(), frames().requires_grad_()
    mask = torch.zeros(3, 5, dtype=torch.bool)
    mask[:, :present] = True
    logits = network(people, mask)
    assert (logits == 0).all()
    logits.sum().backward()
    assert people.grad.isfinite().all()


def test_the_gradient_is_finite_for_people_at_the_same_place():
    people = torch.zeros(1, 3, 4, dtype=torch.float64, requires_grad=True)
    make()(people).sum().backward()
    assert people.grad.isfinite().all()


def test_gradient():
    network = make(features=2, hidden=3)
    assert torch.autograd.gradcheck(network, frames(1, 3, 2).requires_grad_())


@pytest.mark.parametrize(("coordinates", "edge"), [(2, 1), (4, 1), (0, 0)])
def test_number_of_parameters(coordinates, edge):
    """By hand, with 4 features, 8 units and two rounds."""

    def linear(i, o):
        return i * o + o

    first = linear(edge + 2 * 4, 8) + linear(8, 8) + linear(4 + 8, 8) + linear(8, 8)
    second = linear(8 + 2 * 8, 8) + linear(8, 8) + linear(8 + 8, 8) + linear(8, 8)
    last = linear(8 + 2 * 8, 8) + linear(8, 1)
    network = make(coordinates=coordinates)
    assert sum(p.numel() for p in network.parameters()) == first + second + last
    assert network(frames()).shape == (3, 5, 5)


def test_seeded_by_the_global_generator():
    people = frames()
    assert torch.equal(make(seed=3)(people), make(seed=3)(people))
    assert not torch.equal(make(seed=3)(people), make(seed=4)(people))


def test_learns_to_find_groups():
    """Two groups of three around random centres; the metric loss ignores the diagonal."""
    generator = torch.manual_seed(0)
    group = torch.tensor([0, 0, 0, 1, 1, 1])
    centres = 2 * torch.randn(64, 2, 2, generator=generator)
    people = centres[:, group] + 0.3 * torch.randn(64, 6, 2, generator=generator)
    targets = (group.unsqueeze(0) == group.unsqueeze(1)).long().fill_diagonal_(-100).expand(64, 6, 6)
    network, loss = graph_network(2, 16), MetricLoss("f1", task="binary")
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss(network(people[:48]), targets[:48]).backward()
        optimizer.step()
    counts = targets[48:] >= 0
    correct = (network(people[48:]) > 0)[counts] == (targets[48:] == 1)[counts]
    assert correct.double().mean() > 0.9


@pytest.mark.parametrize(("people", "words"), [
    (torch.zeros(5, 4), r"of shape \(frames, people, 4\), but got shape \(5, 4\)"),
    (torch.zeros(3, 5, 3), r"of shape \(frames, people, 4\), but got shape \(3, 5, 3\)"),
    (torch.zeros(3, 5, 4, dtype=torch.long), "of a floating type, but got torch.int64"),
])  # fmt: skip
def test_invalid_people(people, words):
    with pytest.raises(ValueError, match=f"Expected `people` {words}"):
        make()(people)


@pytest.mark.parametrize("mask", [torch.ones(3, 5), torch.ones(5, dtype=torch.bool)])
def test_invalid_mask(mask):
    with pytest.raises(ValueError, match=r"Expected `mask` of type torch.bool and shape \(3, 5\), but got"):
        make()(frames(), mask)


@pytest.mark.parametrize("argument", ["features", "hidden", "rounds"])
@pytest.mark.parametrize("value", [0, 1.5, "4", None, True], ids=repr)
def test_invalid_sizes(argument, value):
    with pytest.raises(ValueError, match=f"Expected `{argument}` to be an integer >= 1, but got"):
        graph_network(**{"features": 4, argument: value})


@pytest.mark.parametrize("value", [-1, 5, 1.5, "2", None], ids=repr)
def test_invalid_coordinates(value):
    with pytest.raises(ValueError, match=r"Expected `coordinates` in 0..4, .*but got"):
        graph_network(4, coordinates=value)
