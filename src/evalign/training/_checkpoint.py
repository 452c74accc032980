"""The whole state of a training run, so that a killed one goes on as if it had not been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from evalign._errors import expected
from evalign._files import read_bundle, write_bundle

NAME = "checkpoint"


class Checkpoint:
    """A folder that always holds the state after the last finished epoch.

    `identity` says which run it belongs to (settings and data); a checkpoint of another run is refused.
    """

    def __init__(self, folder: str | Path, identity: str) -> None:
        self.folder, self.identity = Path(folder), identity

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """The stored state, or None if there is none yet."""
        if not (self.folder / f"{NAME}.json").exists():
            return None
        facts, tensors = read_bundle(self.folder, NAME)
        if facts.get("identity") != self.identity:
            hint = "Give another folder, or empty this one."
            raise expected(
                "checkpoint", "of the same settings and data", f"{self.folder} of another run", hint
            )
        return facts, tensors

    def save(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Store the state, in place of the one before."""
        write_bundle(self.folder, NAME, {**facts, "identity": self.identity}, tensors)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer, flat."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{index}.{key}": torch.as_tensor(value)
        for index, values in state.items()
        for key, value in values.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put the state of `optimizer_tensors` back."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def take_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors under a prefix, without it.

    >>> take_prefix({"a.x": torch.ones(1), "b.x": torch.zeros(1)}, "a")
    {'x': tensor([1.])}
    """
    return {
        name.removeprefix(prefix + "."): v for name, v in tensors.items() if name.startswith(prefix + ".")
    }


def module_tensors(module: nn.Module, prefix: str) -> dict[str, Tensor]:
    """The parameters and buffers of a module under a prefix."""
    values = module.state_dict().items()
    return {f"{prefix}.{name}": value for name, value in values if isinstance(value, Tensor)}
