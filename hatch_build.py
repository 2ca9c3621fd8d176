"""What building the package adds to it: JupyterLab's sidebar, and the C function that copies Kafka's records.

The C function is compiled by the system's ``cc``, else by the C compiler of the wheel ``ziglang``. It links
only C's own library, so one file serves each Python and each librdkafka of a platform. The checksum of its
source is in its name, so no program runs one of another source. By hand: ``python hatch_build.py``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import warnings
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "tabletopic_kernel" / "clients" / "kafka" / "ranges" / "copy.c"
FLAGS = ("-O2", "-shared", "-fPIC")


class Hook(BuildHookInterface[Any]):
    """Hatchling's side of it."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._sidebar = _sidebar_hook()(*args, **more)

    def dependencies(self) -> list[str]:
        """What an isolated build has to bring; a C compiler only to those who have none."""
        needs_zig = self.target_name == "wheel" and not shutil.which("cc")
        return [*self._sidebar.dependencies(), *(["ziglang>=0.14"] if needs_zig else [])]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before files are packed; an editable install does without what it cannot build."""
        self._sidebar.initialize(version, build_data)
        if self.target_name != "wheel":
            return
        try:
            file = build()
        except (OSError, subprocess.CalledProcessError) as error:
            if version != "editable":
                raise
            warnings.warn(f"installed without the C function, reads Kafka slower: {error}", stacklevel=1)
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data |= {"pure_python": False, "tag": f"py3-none-{platform}"}
        build_data["artifacts"].append(file.relative_to(HERE).as_posix())


def _sidebar_hook() -> type[BuildHookInterface[Any]]:
    path = HERE / "labextension" / "hatch_build.py"
    spec = importlib.util.spec_from_file_location("labextension_hatch_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook: type[BuildHookInterface[Any]] = module.SidebarHook
    return hook


def build() -> Path:
    """Compile the C function, unless that is done already; returns the file.

    Raises:
        FileNotFoundError: there is no compiler.
        subprocess.CalledProcessError: it fails; its output is on stderr.
    """
    # Python takes a file that ends with .so for a module.
    file = SOURCE.with_name(f"_copy_{zlib.crc32(SOURCE.read_bytes()):08x}.so.1")
    with contextlib.suppress(OSError):  # there is none, or it is another platform's
        ctypes.CDLL(str(file))
        return file
    for old in SOURCE.parent.glob("_copy_*.so*"):
        old.unlink()
    unfinished = file.with_suffix(".tmp")
    subprocess.run([*compiler(), *FLAGS, "-o", unfinished, SOURCE], check=True, stdout=sys.stderr)
    return unfinished.rename(file)


def compiler() -> list[str]:
    """The command of a C compiler."""
    if cc := shutil.which("cc"):
        return [cc]
    if importlib.util.find_spec("ziglang") is None:
        raise FileNotFoundError("no C compiler: install one as cc, or pip install ziglang")
    return [sys.executable, "-m", "ziglang", "cc"]


if __name__ == "__main__":
    build()
