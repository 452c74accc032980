"""`evalign serve`: a model behind HTTP, and a page to try it."""

from evalign.cli.serving._application import Limits
from evalign.cli.serving._run import ServeOptions, run

__all__ = ["Limits", "ServeOptions", "run"]
