"""Networks of the tables by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from evalign._errors import expected, show, suggest
from evalign.estimators import mlp
from evalign.papers import networks
from evalign.papers.data import Parts

#: Images per block in evaluation: the first layers of a network take far more memory than its input.
BLOCK = 256

#: The hidden layers of feed-forward networks; "mlp" is that of EAST.
_HIDDEN: dict[str, tuple[int, ...]] = {
    "linear": (), "mlp 8": (8,), "mlp 32-16": (32, 16), "mlp": (512, 256, 128),
}  # fmt: skip

_IMAGE_NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "darknet19": networks.darknet19, "darknet_tiny": networks.darknet_tiny,
    "resnet18": networks.resnet18, "resnet34": networks.resnet34,
}  # fmt: skip


def build_network(name: str, parts: Parts, setting: Mapping[str, Any]) -> nn.Module:
    """Build a new network by name; its outputs are logits (rows, classes, ...)."""
    network = _build_by_name(name, parts, setting)
    return MixedPrecision(network) if setting.get("precision") == "mixed" else network


def _build_by_name(name: str, parts: Parts, setting: Mapping[str, Any]) -> nn.Module:
    x, classes = parts.train.x, len(parts.class_names)
    if name == "btg_net":
        return TwoLogits(networks.btg_net(x.shape[-1]))
    if name in _HIDDEN:
        return mlp(x.shape[-1], classes, _HIDDEN[name], dropout=setting.get("dropout", 0.0))
    if name in ("graph_network", "graph_network_normed"):
        return PairLogits(networks.graph_network(x.shape[-1]), normed=name.endswith("normed"))
    if name in _IMAGE_NETWORKS:
        return BlockwiseNetwork(_IMAGE_NETWORKS[name](classes, channels=x.shape[1]))
    known = ("btg_net", "graph_network", "graph_network_normed", *_HIDDEN, *_IMAGE_NETWORKS)
    raise expected("network", "to be a known one", show(name), suggest(name, known))


class TwoLogits(nn.Module):
    """A network of one logit as one of two classes: logits 0 and z, since softmax(0, z)_1 = sigmoid(z)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Tensor) -> Tensor:
        """Return logits (n, 2)."""
        logit = self.network(rows)
        return torch.cat([torch.zeros_like(logit), logit], -1)


class PairLogits(nn.Module):
    """The affinities of people as two logits per unordered pair: (frames, 2, pairs).

    With `normed`, batch normalisation gives the affinities a learnt mean and deviation in every batch, so
    that the common part of all pairs cannot diverge before the network separates them.
    """

    def __init__(self, network: nn.Module, normed: bool = False) -> None:
        super().__init__()
        self.network = network
        self.norm = nn.BatchNorm1d(1) if normed else nn.Identity()

    def forward(self, people: Tensor) -> Tensor:
        """Return logits (frames, 2, pairs)."""
        affinities = self.network(people)
        first, second = torch.triu_indices(people.shape[1], people.shape[1], 1)
        logit = affinities[:, first, second]
        logit = self.norm(logit.reshape(-1, 1)).reshape(logit.shape)
        return torch.stack([torch.zeros_like(logit), logit], 1)


class BlockwiseNetwork(nn.Module):
    """A network that evaluates images block by block to limit memory.

    Images are stored with channels last, which reduces the time of training on a CPU by a third.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, d)."""
        blocks = (images,) if self.training else torch.split(images, BLOCK)
        logits = [self.network(block.contiguous(memory_format=torch.channels_last)) for block in blocks]
        return torch.cat(logits) if len(logits) > 1 else logits[0]


class MixedPrecision(nn.Module):
    """A network whose hidden layers are computed in bfloat16 while it is trained.

    Weights, the last layer, and everything in evaluation are in float32. A step takes about half of the time
    on processors with instructions for bfloat16. Others would take up to twice as long as in float32, which
    they use instead.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        weighted = (nn.Linear, nn.Conv2d)
        path, last = [pair for pair in network.named_modules() if isinstance(pair[1], weighted)][-1]
        parent, _, name = path.rpartition(".")
        setattr(network.get_submodule(parent), name, _FullPrecision(last))
        self.network = network

    def forward(self, rows: Tensor) -> Tensor:
        """Return logits (n, d)."""
        reduced = self.training and multiplies_bfloat16(rows.device.type)
        with torch.autocast(rows.device.type, torch.bfloat16, enabled=reduced):
            logits: Tensor = self.network(rows)
        return logits


def multiplies_bfloat16(device: str) -> bool:
    """Whether a device has instructions for bfloat16; a processor that PyTorch cannot describe has none."""
    if device != "cpu":
        return True
    describe: Callable[[], Mapping[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)
    known = describe()
    return any(known.get(name) for name in ("amx_bf16", "avx512_bf16", "bf16"))


class _FullPrecision(nn.Module):
    """A layer that is computed in the precision of its weights."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, rows: Tensor) -> Tensor:
        with torch.autocast(rows.device.type, enabled=False):
            outputs: Tensor = self.layer(rows.to(next(self.layer.parameters()).dtype))
        return outputs
