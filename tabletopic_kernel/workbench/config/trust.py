"""Finds the settings file, and decides what it may run: opening a folder must run nothing.

A file that the user names needs no trust; a file that was found does.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from tabletopic_kernel.local.machine import ROOT, owners, strangers, write_whole
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.settings.code import code_properties
from tabletopic_kernel.workbench.config.profiles import (
    DEFAULT_PROFILE,
    PROFILE_VARIABLE,
    file_of,
    missing,
    profile_of,
)
from tabletopic_kernel.workbench.config.sources import Given, Source, absolute, from_file

FILE_NAME = "tabletopic.toml"
# The file that a Jupyter server found, for its kernels in other folders: nobody named it, so it needs trust.
FOUND_VARIABLE = "TABLETOPIC_CONFIG_FOUND"
# In the user's configuration folder: the digest of the accepted properties, by the file's path.
_TRUSTED = "tabletopic/trusted.json"


def find_file(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The profile's settings file: the named file, else the nearest upwards. Raises SettingsError."""
    profile = profile_of(environ)
    if named := environ.get("TABLETOPIC_CONFIG"):
        file = file_of(base := Path(absolute(named, cwd)), profile)
        if profile != DEFAULT_PROFILE and not file.is_file():
            raise missing(profile, base)
        return file
    found = environ.get(FOUND_VARIABLE)
    base = Path(found) if found else cwd / FILE_NAME
    folders = (base.parent,) if found and profile == DEFAULT_PROFILE else (base.parent, *base.parents[1:])
    files = (file for folder in folders if os.path.isfile(file := file_of(folder / base.name, profile)))
    if (adopted := next(filter(_is_adopted, files), None)) is None and profile != DEFAULT_PROFILE:
        raise missing(profile, base)
    return adopted


def trust_file(profile: str = DEFAULT_PROFILE) -> tuple[Path | None, list[str]]:
    """Accept what can run code in the settings file found here; returns the file and those properties."""
    cwd = Path(os.path.abspath(working_folder()))
    file = find_file({PROFILE_VARIABLE: profile}, cwd)
    code = code_of(from_file(file, cwd))
    if file is not None and code:
        record = _record_file(os.environ)
        record.parent.mkdir(parents=True, exist_ok=True)
        write_whole(record, json.dumps({**_trusted(os.environ), str(file): _digest(code)}, indent=1))
    return file, sorted(code)


def code_of(source: Source) -> dict[str, str]:
    """The properties among the settings that decide what code runs."""
    return code_properties((item.path, item.value) for item in source if isinstance(item, Given))


def _is_adopted(file: Path) -> bool:
    """Whether to use a file found upwards: not another user's in /tmp; SettingsError if others can write."""
    folder = file.parent
    is_shared = bool(folder.stat().st_mode & stat.S_ISVTX)  # like /tmp: users remove only their own files
    trusted = {os.geteuid(), ROOT}
    if is_shared and owners(file) - trusted:
        return False
    path, problem = file, strangers(file, trusted)
    if problem is None and not is_shared and folder.stat().st_mode & 0o002:
        path, problem = folder, f"others may write to it: `chmod o-w {folder}`"
    if problem:
        raise SettingsError(
            f"{path} is not used, as {problem}. To use the file anyway, name it in TABLETOPIC_CONFIG"
        )
    return True


def check_trust(file: Path, code: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Raise SettingsError unless the user has accepted these properties of ``file``."""
    if code and _trusted(environ).get(str(file)) != _digest(code):
        option = "" if (profile := profile_of(environ)) == DEFAULT_PROFILE else f" with --profile {profile}"
        raise SettingsError(
            f"{file} has properties that can run code: {', '.join(sorted(code))}. If you trust them, run "
            f"`tabletopic trust` in this folder{option}, or name the file in TABLETOPIC_CONFIG"
        )


def _trusted(environ: Mapping[str, str]) -> dict[str, str]:
    try:
        return dict(json.loads(_record_file(environ).read_bytes()))
    except (OSError, ValueError, TypeError, RuntimeError):  # RuntimeError: this user has no home
        return {}


def _record_file(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".config") / _TRUSTED


def _digest(code: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(code.items())).encode()).hexdigest()


def working_folder() -> Path:
    """The current folder; raises SettingsError if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise SettingsError(
            "the folder in which this program runs was deleted; start it in another one"
        ) from error
