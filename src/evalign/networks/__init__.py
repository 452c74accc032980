"""Small networks."""

from evalign.networks._mlp import mlp

__all__ = ["mlp"]
