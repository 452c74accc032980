"""The command `evalign`; its parts are imported when they are needed, so that it starts fast."""

from evalign.cli._main import main

__all__ = ["main"]
