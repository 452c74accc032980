"""The checksums of a model folder, and their signature."""

from __future__ import annotations

import hashlib
import importlib
import re
from os import PathLike
from pathlib import Path
from typing import Any

from evalign._errors import expected
from evalign._files import read_file

#: The files with the checksums, in the form of the command `sha256sum`, and with their signature.
CHECKSUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"

#: The largest file of checksums.
_MAX_BYTES = 1 << 16


def write_checksums(folder: Path, names: list[str], key: Any = None) -> None:
    """Write the checksums of files, and sign them if there is a key that `read_private_key` returned."""
    lines = [f"{digest(folder / name)}  {name}\n" for name in sorted(names)]
    content = "".join(lines).encode()
    (folder / CHECKSUMS).write_bytes(content)
    if key is not None:
        (folder / SIGNATURE).write_bytes(key.sign(content))


def read_checksums(folder: Path) -> dict[str, str]:
    """Read the checksums of files by name."""
    try:
        lines = read_file(folder / CHECKSUMS, _MAX_BYTES).decode().splitlines()
    except FileNotFoundError:
        raise expected("model", "with all its files", f"{folder} without {CHECKSUMS}") from None
    except ValueError as error:
        raise expected("model", f"with a readable {CHECKSUMS}", f"{folder} ({error})"[:300]) from None
    matches = [re.fullmatch(r"([0-9a-f]{64})  ([\w./-]+)", line) for line in lines]
    sums = {match[2]: match[1] for match in matches if match}
    if len(sums) < len(lines):
        raise expected("model", f"with a readable {CHECKSUMS}", f"{folder} with another one")
    return sums


def digest(path: Path) -> str:
    """The SHA-256 sum of a file."""
    with path.open("rb") as file:
        sha256 = hashlib.sha256()
        while block := file.read(1 << 20):
            sha256.update(block)
    return sha256.hexdigest()


def read_private_key(path: str | PathLike[str]) -> Any:
    """Read the private Ed25519 key in a PEM file, such as one of `openssl genpkey -algorithm ed25519`."""
    return _read_key(Path(path), "sign", "private", lambda pem, load: load.load_pem_private_key(pem, None))


def check_signature(folder: Path, path: str | PathLike[str]) -> None:
    """Reject a folder whose checksums were not signed by the owner of a public Ed25519 key, a PEM file."""
    key = _read_key(Path(path), "verify", "public", lambda pem, load: load.load_pem_public_key(pem))
    try:
        content, signature = (read_file(folder / name, _MAX_BYTES) for name in (CHECKSUMS, SIGNATURE))
    except (FileNotFoundError, NotADirectoryError):
        raise expected("model", "with a signature", f"{folder} without one", "Fit it with --sign.") from None
    try:
        key.verify(signature, content)
    except _import_cryptography("exceptions").InvalidSignature:
        raise expected("model", f"signed by the owner of {path}", f"{folder}, which is not") from None


def _read_key(path: Path, argument: str, kind: str, load: Any) -> Any:
    serialization = _import_cryptography("hazmat.primitives.serialization")
    ed25519 = _import_cryptography("hazmat.primitives.asymmetric.ed25519")
    wanted = ed25519.Ed25519PrivateKey if kind == "private" else ed25519.Ed25519PublicKey
    try:
        key = load(path.read_bytes(), serialization)
    except OSError as error:
        raise expected(argument, "to be a file that can be read", f"{path} ({error.strerror})") from None
    except (TypeError, ValueError, _import_cryptography("exceptions").UnsupportedAlgorithm) as error:
        reason = str(error).splitlines()[0][:100]
        raise expected(argument, f"to be a {kind} Ed25519 key in a PEM file", f"{path} ({reason})") from None
    if not isinstance(key, wanted):
        raise expected(argument, f"to be a {kind} Ed25519 key in a PEM file", f"{path} with another kind")
    return key


def _import_cryptography(module: str) -> Any:
    try:
        return importlib.import_module(f"cryptography.{module}")
    except ImportError:
        raise ImportError("Signatures need cryptography: pip install 'evalign[sign]'.") from None
