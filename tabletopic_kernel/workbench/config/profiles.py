"""Profiles: several sets of settings, each in a file beside ``tabletopic.toml``.

The profile ``staging`` is ``tabletopic.staging.toml``. It is whole in itself: neither another profile's file
nor the variables of another one count, and it has a state folder of its own (ADR 0046).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.workbench.config.sources import PREFIX, PROFILE_PREFIX

DEFAULT_PROFILE = "default"  # the file without a name in it
PROFILE_VARIABLE = "TABLETOPIC_PROFILE"
# No underscore, which stands for the hyphen in variables.
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def profile_of(environ: Mapping[str, str]) -> str:
    """The profile that the environment names. Raises SettingsError."""
    return check_profile(environ.get(PROFILE_VARIABLE) or DEFAULT_PROFILE)


def check_profile(name: str) -> str:
    """The name, if a profile may have it; raises SettingsError."""
    if _NAME.fullmatch(name):
        return name
    raise SettingsError(
        f"{name!r} cannot be a profile: write small letters and digits, joined by hyphens, as in eu-west"
    )


def file_of(base: Path, profile: str) -> Path:
    """The file of a profile, from that of the default one."""
    return base if profile == DEFAULT_PROFILE else base.with_name(f"{base.stem}.{profile}{base.suffix}")


def base_of(file: Path, profile: str) -> Path:
    """The file of the default profile, from that of a profile."""
    return file.with_name(file.name.replace(f".{profile}.", ".")) if profile != DEFAULT_PROFILE else file


def variables_of(profile: str) -> str:
    """What the names of a profile's variables begin with."""
    return PREFIX if profile == DEFAULT_PROFILE else f"{PROFILE_PREFIX}{profile.upper().replace('-', '_')}__"


def profiles_beside(base: Path) -> list[str]:
    """The default profile, and those with a file beside that of the default one."""
    names = (file.name[len(base.stem) + 1 : -len(base.suffix)] for file in base.parent.glob(f"{base.stem}.*"))
    there = (name for name in names if _NAME.fullmatch(name) and file_of(base, name).is_file())
    return [DEFAULT_PROFILE, *sorted({*there} - {DEFAULT_PROFILE})]


def missing(profile: str, base: Path) -> SettingsError:
    """The error for a profile without a file."""
    others = ", ".join(profiles_beside(base))
    return SettingsError(
        f"there is no profile {profile}: no {file_of(base, profile).name} in {base.parent} or above; "
        f"`tabletopic init --profile {profile}` writes one. Profiles there: {others}"
    )


def make_profile(base: Path, name: str) -> Path:
    """Write the file of a new profile, which names no server yet. Raises UsageError."""
    file = file_of(base, check_profile(name))
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(f"# The profile {name}: for --profile {name}, or TABLETOPIC_PROFILE={name}\n")
    except FileExistsError:
        raise UsageError(f"{file} exists") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror})") from error
    return file
