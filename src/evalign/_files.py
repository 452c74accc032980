"""Files that are there whole or not at all, and hold nothing that could be executed."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as unpack
from safetensors.torch import save as pack
from torch import Tensor

from evalign._errors import expected


def write_bundle(folder: Path, name: str, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write facts as `name`.json and tensors as safetensors beside it.

    The JSON names its tensor file and is put in place by one rename: whenever a write is killed, the
    folder holds either the old bundle or the new one.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise expected("folder", "to be a folder", f"the file {folder}") from None
    packed = pack({key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()})
    digest = hashlib.sha256(packed).hexdigest()
    file = f"{name}-{digest[:16]}.safetensors"
    _write(folder / file, packed)
    _write(
        folder / f"{name}.json", json.dumps({**facts, "tensors": file, "sha256": digest}, indent=1).encode()
    )
    for other in folder.iterdir():
        if other.name != file and _is_tensor_file(other.name, name):
            other.unlink()


def read_bundle(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write_bundle` wrote, or say what is wrong with it."""
    try:
        try:
            facts = json.loads((folder / f"{name}.json").read_text())
        except json.JSONDecodeError as error:
            raise expected("folder", f"with a readable {name}.json", f"{folder} ({error})") from None
        file = str(facts["tensors"])
        if not _is_tensor_file(file, name):
            raise expected("folder", "with its files inside", repr(file[:100]))
        packed = (folder / file).read_bytes()
        if hashlib.sha256(packed).hexdigest() != facts["sha256"]:
            raise expected("folder", "with the tensors that were saved", f"{file} with another checksum")
        return facts, unpack(packed)
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise expected("folder", f"with {name}.json and its tensors", f"{folder} without {missing}") from None
    except (OSError, RecursionError, UnicodeDecodeError, KeyError, TypeError, SafetensorError) as error:
        raise expected("folder", f"with a readable {name}.json", f"{folder} ({error!r})") from None


def _is_tensor_file(file: str, name: str) -> bool:
    return re.fullmatch(rf"{name}-[0-9a-f]{{16}}\.safetensors", file) is not None


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
