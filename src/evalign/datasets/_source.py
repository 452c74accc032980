"""Where files are looked for: the folder `EVALIGN_DATA`, the user's cache, and a public address."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from evalign._errors import expected

INSTALL = "pip install 'evalign[data]'"


@dataclass(frozen=True)
class Source:
    """The files of a dataset: in which folder, in which forms, and where to get them.

    A form is a set of files that is enough; the first form that is there is taken. `remote` gives the
    address and the sha256 of each file that can be downloaded.
    """

    folder: str
    forms: tuple[tuple[str, ...], ...]
    obtain: str
    remote: dict[str, tuple[str, str]] = field(default_factory=dict)


def find(name: str, source: Source, download: bool) -> tuple[Path, ...]:
    """Paths of the files of a dataset, downloaded if they are nowhere and may be."""
    places = _places()
    for place in places:
        for form in source.forms:
            found = [_there(place / source.folder / file) for file in form]
            if all(found):
                return tuple(path for path in found if path is not None)
    if not (download and source.remote):
        raise FileNotFoundError(_missing(name, source, places))
    if not all(map(find_spec, ("platformdirs", "pooch", "tqdm"))):
        raise FileNotFoundError(f"{_missing(name, source, places)} Or let evalign download it: {INSTALL}.")
    return _download(name, source, places)


def cache() -> Path | None:
    """The folder for downloads, if the extra `data` is installed."""
    if find_spec("platformdirs") is None:
        return None
    from platformdirs import user_cache_path

    return user_cache_path("evalign", appauthor=False)


def _places() -> list[Path]:
    """Folders that may hold datasets, the first one first."""
    named, places = os.environ.get("EVALIGN_DATA"), []
    if named:
        places.append(Path(named).expanduser())
        if not places[0].is_dir():
            raise expected("EVALIGN_DATA", "to name a folder", repr(named))
    cached = cache()
    return places if cached is None else [*places, cached]


def _there(path: Path) -> Path | None:
    """The path of a file or folder, or of the file packed with gzip."""
    packed = path.with_name(f"{path.name}.gz")
    return path if path.exists() else packed if packed.exists() else None


def _missing(name: str, source: Source, places: list[Path]) -> str:
    """Say which file to put where."""
    forms = " or ".join(" and ".join(form) for form in source.forms)
    looked = []
    for place in places:
        folder = place / source.folder
        had = sorted({file for form in source.forms for file in form if _there(folder / file)})
        looked.append(f"{folder} ({'only ' + ', '.join(had) if had else 'nothing there'})")
    return (
        f"The data of {name!r} is not on this machine. Put {forms} (or the same files packed as .gz) into a "
        f"folder {source.folder!r}, and set EVALIGN_DATA to the folder that holds {source.folder!r}. "
        f"{source.obtain} Looked in: {', '.join(looked) or 'nowhere, as EVALIGN_DATA is not set'}."
    )


def _download(name: str, source: Source, places: list[Path]) -> tuple[Path, ...]:
    """Fetch all files into the cache; each is put in place only when whole and of the right checksum."""
    import pooch

    folder = places[-1] / source.folder
    paths = []
    for file, (url, sha256) in source.remote.items():
        try:
            path = pooch.retrieve(url, f"sha256:{sha256}", fname=file, path=folder, progressbar=True)
        except ValueError as error:
            wanted = f"Expected {url} to have the sha256 {sha256}"
            raise ValueError(f"{wanted}, but got another file, which was not kept ({error}).") from None
        except OSError as error:
            failed = f"Could not download {url} into {folder} ({error})."
            raise ConnectionError(f"{failed} {_missing(name, source, places)}") from error
        paths.append(Path(path))
    return tuple(paths)
