"""Files that are written completely or not at all, and that are read without executing anything."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError
from safetensors.torch import load as read_safetensors
from safetensors.torch import save as write_safetensors
from torch import Tensor

from evalign._errors import expected, show

#: The format of everything evalign writes: rules, classifiers, table models, trials and checkpoints.
#:
#: 1. Classifiers without constraints and rules; rules with `missed`; table models.
#: 2. Classifiers with constraints and rules.
#: 3. One number for all files, trials and checkpoints included; settings and `violations` under their
#:    present names; tensors among the other parts of a bundle.
FORMAT = 3

#: Settings that were renamed in format 3.
_RENAMED_SETTINGS = {"lr": "learning_rate", "bags": "n_bags"}

#: The names of a bundle's parts, which are made of their content.
_PART = r"{name}-[0-9a-f]{{16}}\.(safetensors|skops|txt)"


def check_format(version: Any, argument: str) -> None:
    """Reject a format number that is not one, or that only a newer version can read.

    >>> check_format(99, "folder")
    Traceback (most recent call last):
    ValueError: Expected `folder` of format 3 or older, but got 99. Upgrade evalign.
    """
    if type(version) is not int or version < 1:
        raise expected(argument, "with a format number", show(version)[:80])
    if version > FORMAT:
        raise expected(argument, f"of format {FORMAT} or older", show(version)[:40], "Upgrade evalign.")


def upgrade(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a rule or classifier of an older format as this version writes them.

    >>> upgrade({"format": 1, "missed": {}})
    {'format': 3, 'violations': {}}
    """
    version = facts["format"]
    if version == FORMAT:
        return facts
    facts = {**facts, "format": FORMAT}
    if "missed" in facts:
        facts["violations"] = facts.pop("missed")
    if isinstance(facts.get("settings"), dict):
        settings = _rename(facts["settings"], _RENAMED_SETTINGS)
        if version == 1:
            settings = {"rule": False, **settings, "constraints": []}
            facts |= {"rule": None, "satisfaction": {}}
        facts["settings"] = settings
    if isinstance(facts.get("history"), list):
        facts["history"] = [_rename(row, {"valid_miss": "valid_violation"}) for row in facts["history"]]
    if "tensors" in facts:
        facts["parts"] = {"tensors": {"file": facts.pop("tensors"), "sha256": facts.pop("sha256")}}
    return facts


def _rename(facts: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in facts.items()}


def write_bundle(
    folder: Path, name: str, facts: dict[str, Any], parts: dict[str, bytes], suffix: str
) -> None:
    """Write facts as `name`.json and each part as a file with the suffix beside it.

    The JSON names its parts and is put in place by one rename: whenever a write is killed, the folder
    contains either the old bundle or the new one.
    """
    listing = {}
    for key, content in parts.items():
        digest = hashlib.sha256(content).hexdigest()
        listing[key] = {"file": f"{name}-{digest[:16]}{suffix}", "sha256": digest}
    _make_folder(folder)
    for key, content in parts.items():
        write_file(folder / listing[key]["file"], content)
    facts = {"format": FORMAT, **facts, "parts": listing}
    write_file(folder / f"{name}.json", json.dumps(facts, indent=1).encode())
    current = {part["file"] for part in listing.values()}
    for other in folder.iterdir():
        if other.name not in current and _is_part(other.name, name):
            other.unlink()


def read_bundle(
    folder: Path, name: str, suffix: str, kind: str | None = None
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read the facts and parts that `write_bundle` wrote, in this format or an older one.

    Facts of another `kind` are rejected, and so is whatever is missing, damaged, newer or outside the folder.
    """
    with _explain_errors(folder, name):
        try:
            facts = json.loads((folder / f"{name}.json").read_text())
        except ValueError as error:
            raise expected("folder", f"with a readable {name}.json", f"{folder} ({error})") from None
        if "format" not in facts:
            hint = "It may be of an older version of evalign: delete it or choose another folder."
            raise expected("folder", "with a format number", f"{folder} without one", hint)
        check_format(facts["format"], "folder")
        facts = upgrade(facts)
        if kind is not None and facts.get("kind") != kind:
            raise expected("folder", f"with a {kind}", str(facts.get("kind"))[:80])
        listing = facts.pop("parts").items()
        parts = {key: _read_part(folder, name, suffix, part["file"], part["sha256"]) for key, part in listing}
    return facts, parts


def pack_tensors(tensors: dict[str, Tensor]) -> bytes:
    """Pack tensors by name in the form of safetensors."""
    return write_safetensors(
        {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
    )


def unpack_tensors(content: bytes) -> dict[str, Tensor]:
    """Unpack what `pack_tensors` wrote."""
    try:
        return read_safetensors(content)
    except SafetensorError as error:
        raise expected("folder", "with readable tensors", repr(error)[:200]) from None


def import_skops() -> Any:
    """Import the library that writes parts of scikit-learn without pickle."""
    try:
        return importlib.import_module("skops.io")
    except ImportError:
        raise ImportError("Saving and loading needs skops: pip install 'evalign[cli]'.") from None


def pack_skops(value: Any, level: int | None = None) -> bytes:
    """Pack an object of scikit-learn in the form of skops, compressed at a level of zlib."""
    content: bytes = import_skops().dumps(value, compression=zipfile.ZIP_DEFLATED, compresslevel=level)
    return content


def find_untrusted(content: bytes, trusted: Sequence[str]) -> list[str]:
    """The types in a skops archive that are trusted neither by skops nor by us."""
    return sorted(set(import_skops().get_untrusted_types(data=content)) - set(trusted))


def unpack_skops(content: bytes, trusted: Sequence[str]) -> Any:
    """Unpack what `pack_skops` wrote if it contains only types that are trusted."""
    skops = import_skops()
    try:
        untrusted = find_untrusted(content, trusted)
        if not untrusted:
            return skops.loads(content, trusted=list(trusted))
    except Exception as error:  # a forged archive may fail anywhere in zip, JSON or constructors
        raise expected("folder", "with complete parts", f"one that skops cannot read ({error!r})") from None
    raise expected("folder", "with trusted types only", ", ".join(untrusted))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise expected("folder", "to be a folder", f"the file {folder}") from None


@contextmanager
def _explain_errors(folder: Path, name: str) -> Iterator[None]:
    """Turn whatever a missing, damaged or forged file causes into one clear error."""
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise expected("folder", f"with {name}.json and its parts", f"{folder} without {missing}") from None
    except (OSError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise expected("folder", f"with a readable {name}.json", f"{folder} ({error!r})") from None


def _read_part(folder: Path, name: str, suffix: str, file: Any, digest: Any) -> bytes:
    if not isinstance(file, str) or not _is_part(file, name) or not file.endswith(suffix):
        raise expected("folder", "with its files inside", repr(file)[:100])
    content = (folder / file).read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise expected("folder", "with the parts that were saved", f"{file} with another checksum")
    return content


def _is_part(file: str, name: str) -> bool:
    return re.fullmatch(_PART.format(name=name), file) is not None


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
