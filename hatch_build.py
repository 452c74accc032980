"""Compile `softsets/native.c` into the package while it is built or installed, if there is a compiler."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/evalign/softsets/native.c")
OPTIONS = [
    "-std=gnu11", "-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-pthread",
    "-fPIC", "-shared",
]  # fmt: skip


class NativeBuildHook(BuildHookInterface):
    """A wheel with the kernel is for one platform, but for any Python: only `ctypes` loads it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the kernel to the wheel; an editable install finds it beside its source."""
        source = Path(self.root, SOURCE)
        library = source.with_name("libnative.so")
        if compile_kernel(source, library):
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["artifacts"].append(library.relative_to(self.root).as_posix())
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"


def compile_kernel(source: Path, library: Path) -> bool:
    """Compile with $CC, or else `cc`; without a working compiler, remove what is there and return False."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    checksum = f"-DCHECKSUM={zlib.crc32(source.read_bytes())}u"
    draft = library.with_suffix(f".{os.getpid()}")  # a running process may have the old library open
    try:
        command = [*compiler, *OPTIONS, checksum, "-o", draft, source]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
        draft.replace(library)
    except (OSError, subprocess.CalledProcessError):
        draft.unlink(missing_ok=True)
        library.unlink(missing_ok=True)
        return False
    return True


if __name__ == "__main__":
    print(compile_kernel(SOURCE, SOURCE.with_name("libnative.so")))
