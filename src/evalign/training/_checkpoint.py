"""The complete state of a training run, from which a killed run resumes as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from evalign._errors import expected
from evalign._files import pack_tensors, read_bundle, unpack_tensors, write_bundle

NAME, SUFFIX = "checkpoint", ".safetensors"


class Checkpoint:
    """A folder that always contains the state after the last complete epoch.

    `identity` names the run that the folder belongs to, its settings and data; the state of another run is
    rejected.
    """

    def __init__(self, folder: str | Path, identity: str) -> None:
        self.folder, self.identity = Path(folder), identity

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """Return the stored facts and tensors, or None if there are none yet."""
        if not (self.folder / f"{NAME}.json").exists():
            return None
        facts, parts = read_bundle(self.folder, NAME, SUFFIX)
        if facts.get("identity") != self.identity:
            hint = "Choose another folder, or empty this one."
            raise expected(
                "checkpoint", "of the same settings and data", f"{self.folder} of another run", hint
            )
        return facts, unpack_tensors(parts["tensors"])

    def save(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Store the state in place of the previous one."""
        facts = {**facts, "identity": self.identity}
        write_bundle(self.folder, NAME, facts, {"tensors": pack_tensors(tensors)}, SUFFIX)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer as a flat dictionary of tensors."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{index}.{key}": torch.as_tensor(value)
        for index, values in state.items()
        for key, value in values.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def take_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors under a prefix, with the prefix removed from their names.

    >>> take_prefix({"a.x": torch.ones(1), "b.x": torch.zeros(1)}, "a")
    {'x': tensor([1.])}
    """
    return {
        name.removeprefix(prefix + "."): v for name, v in tensors.items() if name.startswith(prefix + ".")
    }


def module_tensors(module: nn.Module, prefix: str) -> dict[str, Tensor]:
    """Return the parameters and buffers of a module, with a prefix added to their names."""
    values = module.state_dict().items()
    return {f"{prefix}.{name}": value for name, value in values if isinstance(value, Tensor)}
