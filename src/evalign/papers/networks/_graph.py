"""A graph network that predicts which people of a scene are in the same group."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evalign._errors import check_integer, expected, is_integer, show


def graph_network(features: int, hidden: int = 64, *, rounds: int = 2, coordinates: int = 2) -> nn.Module:
    """A message-passing network over the fully connected graph of the people in a frame.

    Each person is a node with features v_i, and each ordered pair an edge whose first feature is the
    distance between the two people over the first `coordinates` features (0: no distances). Each round is

        e_ij = MLP(e_ij, v_i, v_j),   v_i = MLP(v_i, mean of e_ij over the other people j),

    and finally the affinity of a pair is the mean of MLP(e_ij, v_i, v_j) over both directions. Every MLP
    has two layers of `hidden` units with ReLU, except the last, which has one such layer and an output.
    Tsoi et al. take the sizes from Thompson et al.; the sizes here, and the mean over edges as the
    aggregate, are our choice.

    Input: (frames, people, features) and, if people may be absent, a mask (frames, people) that is True for
    those present. Output: symmetric logits (frames, people, people). They are 0 on the diagonal and where
    a person is absent: mark the targets there as ignored.

    >>> network = graph_network(4)
    >>> network(torch.randn(8, 6, 4)).shape
    torch.Size([8, 6, 6])

    References:
        Battaglia et al. (2018), Relational inductive biases, deep learning, and graph networks, section
        3.2; Thompson et al. (2021), Conversational group detection with graph neural networks; Tsoi et al.
        (2022), Bridging the gap, section 5.3.
    """
    check_integer(features=features, hidden=hidden, rounds=rounds)
    if coordinates != 0 and not (is_integer(coordinates) and coordinates <= features):
        raise expected("coordinates", f"in 0..{features}, the number of features", show(coordinates))
    return _GraphNetwork(int(features), int(hidden), int(rounds), int(coordinates))


class _GraphNetwork(nn.Module):
    def __init__(self, features: int, hidden: int, rounds: int, coordinates: int) -> None:
        super().__init__()
        self.features, self.coordinates = features, coordinates
        self.edges, self.nodes = nn.ModuleList(), nn.ModuleList()
        edge, node = min(coordinates, 1), features
        for _ in range(rounds):
            self.edges.append(_two_layers(edge + 2 * node, hidden))
            self.nodes.append(_two_layers(node + hidden, hidden))
            edge = node = hidden
        last = nn.Linear(hidden, 1)
        nn.init.zeros_(last.bias)
        self.affinity = nn.Sequential(_layer(edge + 2 * node, hidden), nn.ReLU(), last)

    def forward(self, people: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the affinities (frames, people, people) as logits."""
        present = self._check_present(people, mask)
        # The features of absent people may be anything, even NaN, and must not affect the others.
        nodes = people.masked_fill(~present.unsqueeze(-1), 0.0)
        others = ~torch.eye(people.shape[1], dtype=torch.bool, device=people.device)
        pairs = present.unsqueeze(1) & present.unsqueeze(2) & others
        share = pairs.to(people.dtype) / pairs.sum(-1, keepdim=True).clamp_min(1)
        edges = self._distances(nodes)
        for of_edges, of_nodes in zip(self.edges, self.nodes, strict=True):
            edges = of_edges(_append_nodes(edges, nodes))
            messages = (share.unsqueeze(-2) @ edges).squeeze(-2)
            nodes = of_nodes(torch.cat([nodes, messages], -1))
        logits: Tensor = self.affinity(_append_nodes(edges, nodes)).squeeze(-1)
        return ((logits + logits.mT) / 2).masked_fill(~pairs, 0.0)

    def _distances(self, nodes: Tensor) -> Tensor:
        """The distance between the people of each pair, (frames, people, people, 1), or no features."""
        places = nodes[..., : self.coordinates]
        offsets = places.unsqueeze(2) - places.unsqueeze(1)
        return torch.linalg.vector_norm(offsets, dim=-1, keepdim=True) if self.coordinates else offsets

    def _check_present(self, people: Tensor, mask: Tensor | None) -> Tensor:
        shape = tuple(people.shape)
        if people.ndim != 3 or shape[-1] != self.features:
            raise expected("people", f"of shape (frames, people, {self.features})", f"shape {shape}")
        if not people.is_floating_point():
            raise expected("people", "of a floating type", people.dtype)
        if mask is None:
            return torch.ones(shape[:2], dtype=torch.bool, device=people.device)
        if mask.shape != shape[:2] or mask.dtype != torch.bool:
            got = f"{mask.dtype} of shape {tuple(mask.shape)}"
            raise expected("mask", f"of type torch.bool and shape {shape[:2]}", got)
        return mask


def _append_nodes(edges: Tensor, nodes: Tensor) -> Tensor:
    """Edges followed by the nodes they connect, (frames, people, people, edge + 2 node)."""
    count = nodes.shape[1]
    senders = nodes.unsqueeze(1).expand(-1, count, -1, -1)
    receivers = nodes.unsqueeze(2).expand(-1, -1, count, -1)
    return torch.cat([edges, receivers, senders], -1)


def _two_layers(inputs: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(_layer(inputs, hidden), nn.ReLU(), _layer(hidden, hidden), nn.ReLU())


def _layer(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    return layer
