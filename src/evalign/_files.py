"""Files that are written completely or not at all, and that are read without executing anything."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as numpy_safetensors
from safetensors.torch import load as read_safetensors
from safetensors.torch import save as write_safetensors
from torch import Tensor

from evalign._errors import expected, show

try:
    import fcntl
except ImportError:  # on Windows, drafts of killed processes stay
    fcntl = None  # type: ignore[assignment]

#: The format of everything evalign writes: rules, classifiers, table models, trials and checkpoints.
#:
#: 1. Classifiers without constraints and rules; rules with `missed`; table models.
#: 2. Classifiers with constraints and rules.
#: 3. One number for all files, trials and checkpoints included; settings and `violations` under their
#:    present names; tensors among the other parts of a bundle.
#: 4. Rules that calibrate probabilities first; ensembles, which contain classifiers; fold models in place of
#:    trials for `AutoClassifier`.
#: 5. Forests, linear models of scikit-learn and the preparation of tables as arrays; codes of many
#:    categories, and texts.
FORMAT = 5

#: Settings that were renamed in format 3.
_RENAMED_SETTINGS = {"lr": "learning_rate", "bags": "n_bags"}

#: The largest file of JSON, which takes up to 25 times as much memory, and the largest other part.
MAX_JSON, MAX_PART = 16 << 20, 4 << 30

#: The names of a bundle's parts, which are made of their content.
_PART = r"{name}-[0-9a-f]{{16}}\.(safetensors|skops|txt)"


def check_format(version: Any, argument: str) -> None:
    """Reject a format number that is not one, or that only a newer version can read.

    >>> check_format(99, "folder")
    Traceback (most recent call last):
    ValueError: Expected `folder` of format 5 or older, but got 99. Upgrade evalign.
    """
    if type(version) is not int or version < 1:
        raise expected(argument, "with a format number", show(version)[:80])
    if version > FORMAT:
        raise expected(argument, f"of format {FORMAT} or older", show(version)[:40], "Upgrade evalign.")


def upgrade(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a rule or classifier of an older format as this version writes them.

    >>> upgrade({"format": 1, "missed": {}})
    {'format': 5, 'violations': {}, 'scaling': None, 'gain': None}
    """
    version = facts["format"]
    facts = {**facts, "format": FORMAT}
    if version >= 4:  # facts that were added since are optional
        return facts
    if "missed" in facts:
        facts["violations"] = facts.pop("missed")
    if "violations" in facts:  # a rule
        facts = {**facts, "scaling": None, "gain": None}
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
    folder: Path, name: str, facts: dict[str, Any], parts: dict[str, bytes], suffix: str | dict[str, str]
) -> None:
    """Write facts as `name`.json and each part as a file with the suffix, or its own, beside it.

    The JSON names its parts and is put in place by one rename: whenever a write is killed, the folder
    contains either the old bundle or the new one.
    """
    listing = {}
    for key, content in parts.items():
        digest = hashlib.sha256(content).hexdigest()
        own = suffix if isinstance(suffix, str) else suffix[key]
        listing[key] = {"file": f"{name}-{digest[:16]}{own}", "sha256": digest}
    index = json.dumps({"format": FORMAT, **facts, "parts": listing}, indent=1).encode()
    for content, limit in ((index, MAX_JSON), *((part, MAX_PART) for part in parts.values())):
        check_size(len(content), limit, f"{name} to be saved")
    _make_folder(folder)
    for key, content in parts.items():
        write_file(folder / listing[key]["file"], content)
    write_file(folder / f"{name}.json", index)
    current = {part["file"] for part in listing.values()}
    for other in folder.iterdir():
        if other.name not in current and _is_part(other.name, name):
            other.unlink()


def read_bundle(
    folder: Path, name: str, suffix: str, kind: str | None = None
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read the facts and parts that `write_bundle` wrote, in this format or an older one.

    Facts of another `kind` are rejected, and so is whatever is missing, damaged, newer or outside the folder.
    The suffix "" accepts parts of every kind.
    """
    with _explain_errors(folder, name):
        try:
            facts = json.loads(read_file(folder / f"{name}.json", MAX_JSON))
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


def pack_arrays(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Pack arrays by name in the form of safetensors."""
    return bytes(numpy_safetensors.save({name: np.ascontiguousarray(one) for name, one in arrays.items()}))


def unpack_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """Unpack what `pack_arrays` wrote.

    >>> unpack_arrays(pack_arrays({"a": np.arange(2)}))["a"].tolist()
    [0, 1]
    """
    try:
        return dict(numpy_safetensors.load(content))
    except (SafetensorError, TypeError, ValueError, KeyError) as error:
        raise expected("folder", "with readable arrays", repr(error)[:200]) from None


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
    content = read_file(folder / file, MAX_PART)
    if hashlib.sha256(content).hexdigest() != digest:
        raise expected("folder", "with the parts that were saved", f"{file} with another checksum")
    return content


def _is_part(file: str, name: str) -> bool:
    return re.fullmatch(_PART.format(name=name), file) is not None


def read_file(path: Path, limit: int) -> bytes:
    """Read a regular file that is not larger than a limit; a link, a pipe or a device is an error.

    >>> read_file(Path("/dev/zero"), 10)
    Traceback (most recent call last):
    ValueError: Expected `folder` with regular files only, but got zero.
    """
    # A pipe without a writer would block otherwise.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    if path.is_symlink():
        raise expected("folder", "with its files inside", f"the link {path.name}")
    with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise expected("folder", "with regular files only", path.name)
        check_size(status.st_size, limit, path.name)
        return file.read(status.st_size)


def check_size(size: int, limit: int, name: str) -> None:
    """Reject a file that is larger than what is read.

    >>> check_size(5 << 30, 1 << 19, "SHA256SUMS")
    Traceback (most recent call last):
    ValueError: Expected `folder` with SHA256SUMS below 512 kB, but got 5242880 kB.
    """
    if size > limit:
        unit, shift = ("MB", 20) if limit >= 1 << 20 else ("kB", 10)
        raise expected("folder", f"with {name} below {limit >> shift} {unit}", f"{size >> shift} {unit}")


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
    with guard():
        _remove_dead_drafts(path)
        draft, file = _open_draft(path)
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
    _remove_dead_drafts(target)
    draft = _name_beside(target, "draft")
    try:
        draft.mkdir()
        with _hold(draft):
            yield draft
            _replace_folder(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _replace_folder(draft: Path, target: Path) -> None:
    if not target.exists():
        draft.rename(target)
        return
    old = _name_beside(target, "old")
    with _hold(target):
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


def _name_beside(path: Path, kind: str) -> Path:
    """A hidden name beside a path that nobody can guess."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.{kind}")


def _open_draft(path: Path) -> tuple[Path, BinaryIO]:
    """Create a draft and lock it."""
    while True:
        draft = _name_beside(path, "draft")
        # Exclusive: a link that somebody put at this name is not followed.
        file = draft.open("xb")
        _lock(file.fileno(), wait=True)
        if draft.exists():  # another run may have taken it for a dead one before it was locked
            return draft, file
        file.close()


def _remove_dead_drafts(path: Path) -> None:
    """Remove what killed processes left beside a path: drafts that nobody has locked.

    A folder that was being replaced is put back if its successor is not in place.
    """
    if fcntl is None:
        return
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}\.(draft|old)")
    with suppress(OSError):
        for other in path.parent.iterdir():
            match = name.fullmatch(other.name)
            if match and not other.is_symlink():
                _remove_if_dead(other, path if match[1] == "old" else None)


def _remove_if_dead(draft: Path, origin: Path | None) -> None:
    with suppress(OSError), _hold(draft) as is_dead:
        if is_dead and origin is not None and not origin.exists():
            draft.rename(origin)
        elif is_dead and draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        elif is_dead:
            draft.unlink()


@contextmanager
def _hold(path: Path) -> Iterator[bool]:
    """Lock a file or a folder, which the system unlocks when the process dies; False if another has it."""
    if fcntl is None:  # Windows cannot open a folder
        yield False
        return
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        yield _lock(number)
    finally:
        os.close(number)


def _lock(number: int, wait: bool = False) -> bool:
    """Lock an open file; whether that was possible."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (OSError, AttributeError):  # another process has it, or there are no locks here
        return False
    return True
