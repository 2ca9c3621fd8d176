"""Whether the executors of a cluster have the host's versions.

The host puts its own into an environment variable of the executors, and each executor's Python daemon
compares them at startup, even if the executor joins later. Imports nothing from this package, as another
version of it may be installed there.
"""

from __future__ import annotations

import hashlib
import platform
import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pyspark import version as pyspark_version

VARIABLE = "TABLETOPIC_VERSIONS"
_PACKAGES = ("pyarrow", "pyiceberg", "tabletopic")
# The code that an executor runs; a checkout has the same version from one release to the next.
FOLDERS = ("clients", "formats", "model", "pipeline")
OTHER_VERSIONS = "has other versions than this host"


def own_versions() -> str:
    """The versions of this process, without spaces, so that Java and shells pass them on unchanged.

    >>> own_versions().startswith("python:3.")
    True
    """
    python = ".".join(platform.python_version_tuple()[:2])
    # Spark puts its own pyspark on its workers' path, not the installed package.
    packages = {name: _version(name) for name in _PACKAGES}
    versions = {"python": python, "pyspark": pyspark_version.__version__, **packages, "code": _digest()}
    return ",".join(f"{name}:{text}" for name, text in versions.items())


def differences(wanted: str, present: str) -> list[str]:
    """The versions in ``present`` that differ from ``wanted``; both are texts of ``own_versions``.

    >>> differences("python:3.11,pyarrow:26.0", "python:3.11,pyarrow:25.0")
    ['pyarrow 25.0 instead of 26.0']
    >>> differences("tabletopic:1.0,code:ab", "tabletopic:1.0,code:cd")
    ['other code of tabletopic 1.0']
    """
    ours, theirs = _parsed(wanted), _parsed(present)
    other = [name for name, text in ours.items() if theirs.get(name) != text]
    if other == ["code"]:
        return [f"other code of tabletopic {ours['tabletopic']}"]
    return [f"{name} {theirs.get(name)} instead of {ours[name]}" for name in other if name != "code"]


def check_versions(wanted: str) -> None:
    """End this process, with a reason on standard error, unless its versions are as ``wanted``."""
    if other := differences(wanted, own_versions()):
        sys.exit(f"the executor on {socket.gethostname()} {OTHER_VERSIONS}: {', '.join(other)}")


def _parsed(text: str) -> dict[str, str]:
    return dict(item.split(":", 1) for item in text.split(",") if ":" in item)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # run from a checkout
        return "unknown"


def _digest() -> str:
    """A short hash of the modules that executors run."""
    package, digest = Path(__file__).parents[2], hashlib.sha256()
    for folder in FOLDERS:
        for file in sorted((package / folder).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
