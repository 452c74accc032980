"""What evalign needs to know of PyTorch's modes."""

from __future__ import annotations

import torch


def plain_only() -> bool:
    """Whether hand-written gradients must give way to plain formulas.

    `torch.compile` fuses those better, and `torch.func` (vmap, jvp, hessian) sees through them.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
