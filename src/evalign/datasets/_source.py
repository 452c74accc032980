"""Finding the files of a dataset: in the folder `EVALIGN_DATA`, in the user's cache, or by a download."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from evalign._errors import expected

INSTALL = "pip install 'evalign[data]'"


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from: whom to cite, and which files are needed.

    Attributes:
        citation: The paper that introduced the data.
        licence: The licence of the data.
        folder: The folder that contains the files.
        forms: Alternative sets of files; the first one that is complete is read. None: the data comes
            with the package.
        obtain: How to obtain the files.
        remote: The address and the sha256 of each file that can be downloaded.
    """

    citation: str
    licence: str
    folder: str = ""
    forms: tuple[tuple[str, ...], ...] = ()
    obtain: str = ""
    remote: dict[str, tuple[str, str]] = field(default_factory=dict)


def find_files(name: str, source: Source, download: bool) -> tuple[Path, ...]:
    """Return the paths of a dataset's files; missing ones are downloaded if `download` allows it."""
    places = _places()
    for place in places:
        for form in source.forms:
            paths = [_find(place / source.folder / file) for file in form]
            if all(paths):
                return tuple(path for path in paths if path is not None)
    if not (download and source.remote):
        raise FileNotFoundError(_explain_missing(name, source, places))
    if not all(map(find_spec, ("platformdirs", "pooch", "tqdm"))):
        message = _explain_missing(name, source, places)
        raise FileNotFoundError(f"{message} Or let evalign download it: {INSTALL}.")
    return _download(name, source, places)


def cache_folder() -> Path | None:
    """Return the folder for downloads, or None if the extra `data` is not installed."""
    if find_spec("platformdirs") is None:
        return None
    from platformdirs import user_cache_path  # noqa: PLC0415

    return user_cache_path("evalign", appauthor=False)


def _places() -> list[Path]:
    """The folders that may contain datasets, in the order in which they are searched."""
    variable, places = os.environ.get("EVALIGN_DATA"), []
    if variable:
        places.append(Path(variable).expanduser())
        if not places[0].is_dir():
            raise expected("EVALIGN_DATA", "to name a folder", repr(variable))
    cache = cache_folder()
    return places if cache is None else [*places, cache]


def _find(path: Path) -> Path | None:
    """The path of a file or folder, or of the same file compressed with gzip, if there is one."""
    compressed = path.with_name(f"{path.name}.gz")
    return path if path.exists() else compressed if compressed.exists() else None


def _explain_missing(name: str, source: Source, places: list[Path]) -> str:
    """A message that explains which files to put where."""
    forms = " or ".join(" and ".join(form) for form in source.forms)
    searched = []
    for place in places:
        folder = place / source.folder
        files = sorted({file for form in source.forms for file in form if _find(folder / file)})
        searched.append(f"{folder} ({'only ' + ', '.join(files) if files else 'nothing there'})")
    return (
        f"The data of {name!r} is not on this machine. Put {forms} (or the same files compressed as .gz) "
        f"into a folder {source.folder!r}, and set EVALIGN_DATA to the folder that contains "
        f"{source.folder!r}. {source.obtain} "
        f"Searched: {', '.join(searched) or 'nothing, since EVALIGN_DATA is not set'}."
    )


def _download(name: str, source: Source, places: list[Path]) -> tuple[Path, ...]:
    """Fetch all files into the cache; each appears there only once it is whole and its checksum matches."""
    import pooch  # noqa: PLC0415

    folder = places[-1] / source.folder
    paths = []
    for file, (url, sha256) in source.remote.items():
        try:
            path = pooch.retrieve(url, f"sha256:{sha256}", fname=file, path=folder, progressbar=True)
        except ValueError as error:
            wanted = f"Expected {url} to have the sha256 {sha256}"
            raise ValueError(f"{wanted}, but got another file, which was discarded ({error}).") from None
        except OSError as error:
            message = f"Could not download {url} into {folder} ({error})."
            raise ConnectionError(f"{message} {_explain_missing(name, source, places)}") from error
        paths.append(Path(path))
    return tuple(paths)
