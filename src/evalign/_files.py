"""Files that are there whole or not at all, and hold nothing that could be executed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

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
    packed = pack({key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()})
    file = _put(folder, name, ".safetensors", packed)
    _finish(folder, name, {**facts, "tensors": file, "sha256": hashlib.sha256(packed).hexdigest()}, {file})


def read_bundle(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write_bundle` wrote, or say what is wrong with it."""
    with _readable(folder, name):
        facts = _facts(folder, name)
        return facts, unpack(_get(folder, name, ".safetensors", facts["tensors"], facts["sha256"]))


def write_parts(
    folder: Path, name: str, facts: dict[str, Any], parts: dict[str, bytes], suffix: str = ".txt"
) -> None:
    """Write facts as `name`.json and each part as a file beside it, whole or not at all."""
    files = {key: _put(folder, name, suffix, content) for key, content in parts.items()}
    sums = {key: hashlib.sha256(content).hexdigest() for key, content in parts.items()}
    listed = {key: {"file": files[key], "sha256": sums[key]} for key in parts}
    _finish(folder, name, {**facts, "parts": listed}, set(files.values()))


def read_parts(folder: Path, name: str, suffix: str = ".txt") -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read what `write_parts` wrote, or say what is wrong with it."""
    with _readable(folder, name):
        facts = _facts(folder, name)
        listed = facts["parts"].items()
        return facts, {key: _get(folder, name, suffix, one["file"], one["sha256"]) for key, one in listed}


def _facts(folder: Path, name: str) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    except json.JSONDecodeError as error:
        raise expected("folder", f"with a readable {name}.json", f"{folder} ({error})") from None
    return facts


@contextmanager
def _readable(folder: Path, name: str) -> Iterator[None]:
    """Turn what can go wrong with files into one error that says what is wrong."""
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise expected("folder", f"with {name}.json and its parts", f"{folder} without {missing}") from None
    except (
        OSError, RecursionError, UnicodeDecodeError, KeyError, TypeError, AttributeError, SafetensorError,
    ) as error:  # fmt: skip
        raise expected("folder", f"with a readable {name}.json", f"{folder} ({error!r})") from None


def _put(folder: Path, name: str, suffix: str, content: bytes) -> str:
    """Write a part under a name made of its content, so that it never replaces another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise expected("folder", "to be a folder", f"the file {folder}") from None
    file = f"{name}-{hashlib.sha256(content).hexdigest()[:16]}{suffix}"
    write_file(folder / file, content)
    return file


def _get(folder: Path, name: str, suffix: str, file: Any, digest: Any) -> bytes:
    if not isinstance(file, str) or not _is_part(file, name) or not file.endswith(suffix):
        raise expected("folder", "with its files inside", repr(file)[:100])
    content = (folder / file).read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise expected("folder", "with the parts that were saved", f"{file} with another checksum")
    return content


def _finish(folder: Path, name: str, facts: dict[str, Any], parts: set[str]) -> None:
    """Put the facts in place and remove the parts of an older bundle."""
    write_file(folder / f"{name}.json", json.dumps(facts, indent=1).encode())
    for other in folder.iterdir():
        if other.name not in parts and _is_part(other.name, name):
            other.unlink()


def _is_part(file: str, name: str) -> bool:
    return re.fullmatch(rf"{name}-[0-9a-f]{{16}}\.(safetensors|skops|txt)", file) is not None


def write_file(path: Path, content: bytes) -> None:
    """Write a file, completely or not at all."""
    with draft_file(path) as file:
        file.write(content)


@contextmanager
def draft_file(
    path: Path, guard: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Iterator[BinaryIO]:
    """Open a draft beside the path that replaces it when the block ends, or is removed if it fails.

    `guard` makes a context for opening and replacing, such as one that explains their errors; it does not
    see errors of the block itself.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with guard():
        file = draft.open("wb")
    try:
        yield file
        with guard():
            file.flush()
            os.fsync(file.fileno())
            draft.replace(path)
    finally:
        with suppress(OSError):  # on a full disk, closing flushes the rest and fails again
            file.close()
        with suppress(OSError):
            draft.unlink(missing_ok=True)


@contextmanager
def draft_folder(target: Path) -> Iterator[Path]:
    """Make a draft folder beside the target that replaces it when the block ends, or is removed."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)  # left by a killed process with the same number
    try:
        draft.mkdir()
        yield draft
        _replace_folder(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _replace_folder(draft: Path, target: Path) -> None:
    if not target.exists():
        draft.rename(target)
        return
    old = target.with_name(f".{target.name}.old.{os.getpid()}")
    try:
        target.rename(old)
        draft.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    finally:
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
