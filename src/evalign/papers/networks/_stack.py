"""Several networks with the same layers as one, so that trials with different weights are trained at once.

A small network spends its time on launching operations, not on arithmetic. Stacking K networks along a
leading dimension of trials launches a Kth as many: a linear layer is one batched matrix product.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from evalign._errors import expected, show
from evalign.estimators import ByteDropout

#: Elementwise layers without parameters, which need no stacking.
_ELEMENTWISE = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Identity)


def stack_networks(
    networks: Sequence[nn.Sequential] | Callable[[], nn.Sequential], seeds: Sequence[int] | None = None
) -> NetworkStack:
    """Stack networks of linear layers, activations and dropout along a leading dimension of trials.

    Args:
        networks: Networks with the same layers, or a function that creates one. The function is called
            once per seed, after `torch.manual_seed(seed)`; the state of the global generator is preserved.
        seeds: One per trial. With seeds, each trial draws its own random numbers for dropout and
            `NetworkStack.draw_orders`: those it would draw if it were trained alone after
            `torch.manual_seed(seed)`, whatever the other trials are. Without seeds, all trials draw from
            the global generator.

    >>> from evalign.papers.networks import btg_net
    >>> network = stack_networks(lambda: btg_net(6), seeds=range(10))
    >>> network(torch.zeros(256, 6)).shape
    torch.Size([10, 256, 1])
    >>> _ = torch.manual_seed(3)
    >>> torch.equal(network.unstack()[3][0].weight, btg_net(6)[0].weight)
    True
    """
    generators = None if seeds is None else [torch.Generator().manual_seed(int(seed)) for seed in seeds]
    if not callable(networks):
        return NetworkStack(networks, generators)
    if generators is None:
        raise expected("seeds", "with one seed per trial if `networks` is a function", "None")
    copies = []
    with torch.random.fork_rng(devices=[]):
        for generator in generators:
            torch.set_rng_state(generator.get_state())
            copies.append(networks())
            generator.set_state(torch.get_rng_state())
    return NetworkStack(copies, generators)


class NetworkStack(nn.Module):
    """K networks as one; see `stack_networks`.

    All weights are in one parameter, (K, weights of a network), so that an optimizer updates one tensor.
    The gradient of a sum over trials contains the gradient of each, and SGD, Adam and AdamW work
    elementwise: one optimizer of the stack is equivalent to K optimizers. This does not hold for operations
    that combine elements, such as clipping by the norm of all gradients.

    >>> from evalign.papers.networks import btg_net
    >>> network = stack_networks(lambda: btg_net(6), seeds=range(10))
    >>> network.weights.shape, network.draw_orders(1000).shape
    (torch.Size([10, 769]), torch.Size([10, 1000]))
    """

    def __init__(
        self, networks: Sequence[nn.Sequential], generators: Sequence[torch.Generator] | None = None
    ) -> None:
        super().__init__()
        networks = list(networks)
        _check_same_layers(networks)
        self.trials = len(networks)
        if generators is not None and len(generators) != self.trials:
            raise expected("seeds", f"with one seed for each of {self.trials} trials", len(generators))
        self.generators = None if generators is None else list(generators)
        rows = [nn.utils.parameters_to_vector(network.parameters()) for network in networks]
        self.weights = nn.Parameter(torch.stack(rows).detach())
        self.layers = nn.ModuleList(self._layer(layer) for layer in networks[0])
        linear = [layer for layer in self.layers if isinstance(layer, _Linear)]
        self.features = linear[0].inputs
        self._sizes = [size for layer in linear for size in layer.sizes]

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows (N, features), shared by all trials, or (K, N, features) to outputs (K, N, outputs)."""
        shape = tuple(rows.shape)
        if rows.ndim < 2 or shape[-1] != self.features or shape[:-2] not in ((), (self.trials,)):
            wanted = f"of shape (N, {self.features}) or ({self.trials}, N, {self.features})"
            raise expected("rows", wanted, f"shape {shape}")
        if rows.dtype != self.weights.dtype and not torch.is_autocast_enabled(rows.device.type):
            raise expected("rows", f"of type {self.weights.dtype}", rows.dtype)
        rows = rows.expand(self.trials, *shape[-2:])
        pieces = iter(torch.split(self.weights, self._sizes, dim=1))
        for layer in self.layers:
            rows = layer(rows, pieces) if isinstance(layer, _Linear) else layer(rows)
        return rows

    def draw_orders(self, count: int) -> Tensor:
        """Draw a random order of `count` rows for each trial, (K, count)."""
        if self.generators is None:
            return torch.stack([torch.randperm(count) for _ in range(self.trials)])
        return torch.stack([torch.randperm(count, generator=generator) for generator in self.generators])

    def keep_trials(self, kept: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Keep the trials at these positions, in the optimizer too; the others are forgotten."""
        old = self.weights
        self.set_weights(old.detach()[kept])
        if self.generators is not None:
            self.generators[:] = [self.generators[position] for position in kept.tolist()]
        state = optimizer.state.pop(old)
        optimizer.state[self.weights] = {
            name: value[kept] if isinstance(value, Tensor) and value.shape == old.shape else value
            for name, value in state.items()
        }
        for group in optimizer.param_groups:
            group["params"] = [self.weights if weights is old else weights for weights in group["params"]]

    def set_weights(self, weights: Tensor) -> None:
        """Replace the weights of all trials by a copy of `weights`, (K, weights of a network)."""
        self.weights = nn.Parameter(weights.detach().clone())
        self.trials = len(weights)

    def unstack(self) -> list[nn.Sequential]:
        """Return the K networks, with copies of their weights.

        >>> from evalign.estimators import mlp
        >>> stack_networks([mlp(3, 2, (4,)), mlp(3, 2, (4,))]).unstack()[1]
        Sequential(
          (0): Linear(in_features=3, out_features=4, bias=True)
          (1): ReLU()
          (2): Linear(in_features=4, out_features=2, bias=True)
        )
        """
        return [self._single(row) for row in self.weights.detach()]

    def _layer(self, layer: nn.Module) -> nn.Module:
        if isinstance(layer, nn.Linear):
            return _Linear(layer.in_features, layer.out_features, layer.bias is not None)
        if isinstance(layer, nn.Dropout):
            return _Dropout(layer, self.generators)
        return copy.deepcopy(layer)

    def _single(self, weights: Tensor) -> nn.Sequential:
        layers = (
            # On the meta device, so that no random weights are drawn only to be overwritten.
            nn.Linear(layer.inputs, layer.outputs, layer.bias, device="meta", dtype=weights.dtype)
            if isinstance(layer, _Linear)
            else copy.deepcopy(layer.single if isinstance(layer, _Dropout) else layer)
            for layer in self.layers
        )  # fmt: skip
        network = nn.Sequential(*layers).to_empty(device=weights.device)
        nn.utils.vector_to_parameters(weights.clone(), network.parameters())
        return network.train(self.training)


class _Linear(nn.Module):
    """A linear layer of all trials as one batched matrix product; the weights come from the stack."""

    def __init__(self, inputs: int, outputs: int, bias: bool) -> None:
        super().__init__()
        self.inputs, self.outputs, self.bias = inputs, outputs, bias
        self.sizes = (inputs * outputs, outputs) if bias else (inputs * outputs,)

    def forward(self, rows: Tensor, pieces: Iterator[Tensor]) -> Tensor:
        weight = next(pieces).view(-1, self.outputs, self.inputs).mT
        return torch.baddbmm(next(pieces).unsqueeze(1), rows, weight) if self.bias else rows @ weight


class _Dropout(nn.Module):
    """Dropout with the masks that the layer of a single network would draw for each trial on its own."""

    def __init__(self, single: nn.Dropout, generators: Sequence[torch.Generator] | None) -> None:
        super().__init__()
        self.single = single
        self.generators = generators

    def forward(self, rows: Tensor) -> Tensor:
        p = self.single.p
        if not self.training or p in (0, 1) or self.generators is None:
            return self.single.forward(rows)
        masks = torch.stack([self._draw(rows.shape[1:], generator) for generator in self.generators])
        return rows * masks.to(rows).div_(1 - p)

    def _draw(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        if isinstance(self.single, ByteDropout):
            return self.single.draw_kept(shape, generator)
        return torch.empty(shape).bernoulli_(1 - self.single.p, generator=generator)


def _check_same_layers(networks: Sequence[nn.Sequential]) -> None:
    if not networks:
        raise expected("networks", "with at least one network", "none")
    for network in networks:
        if type(network) is not nn.Sequential:
            raise expected("networks", "to be nn.Sequential", type(network).__name__)
        for layer in network:
            if type(layer) not in (nn.Linear, nn.Dropout, ByteDropout, *_ELEMENTWISE):
                wanted = "with linear layers, activations and dropout only"
                raise expected("networks", wanted, type(layer).__name__)
    first = _describe(networks[0])
    if "Linear" not in first:
        raise expected("networks", "with at least one linear layer", show(first))
    for network in networks[1:]:
        if _describe(network) != first:
            raise expected("networks", f"with the same layers, {first}", _describe(network))


def _describe(network: nn.Sequential) -> str:
    """The layers and data types of a network as text."""
    types = sorted({str(weight.dtype) for weight in network.parameters()})
    return ", ".join([*map(repr, network), *types])
