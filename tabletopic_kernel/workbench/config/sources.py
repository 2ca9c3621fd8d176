"""Settings as file, environment and options give them, each with its origin."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.settings.names import (
    Leaf,
    Misplaced,
    SettingPath,
    dotted,
    leaves,
    nearest_variables,
    variable_forms,
    variable_path,
)
from tabletopic_kernel.model.settings.toml_lines import toml_lines, toml_syntax_error

PREFIX = "TABLETOPIC_"
PROFILE_PREFIX = f"{PREFIX}PROFILE_"  # of the variables of a profile, before its name
# Variables with this prefix that the program reads directly, before it has settings. The Jupyter server's
# extension sets the base URL for its kernels.
PROGRAM_VARIABLES = frozenset(
    {
        "TABLETOPIC_BASE_URL",
        "TABLETOPIC_CACHE",
        "TABLETOPIC_CONFIG",
        "TABLETOPIC_CONFIG_FOUND",
        "TABLETOPIC_DEBUG",
        "TABLETOPIC_DRILL",
        "TABLETOPIC_JAVA_HOME",
        "TABLETOPIC_PROFILE",
    }
)


@dataclass(frozen=True)
class Given:
    """A value as given by its source."""

    path: SettingPath
    value: object
    origin: str


Source = Iterable[Given | str]  # a str is an error, with its origin


def accepted(source: Source, problems: list[str]) -> dict[SettingPath, Given]:
    """The values of a source by their paths; what is wrong goes to ``problems``."""
    values: dict[SettingPath, Given] = {}
    for item in source:
        if isinstance(item, str):
            problems.append(item)
        elif item.path in values and item.value is not None:
            problems.append(f"{item.origin}: {dotted(item.path)} is set twice")
        else:
            values[item.path] = item
    return values


def _located(items: Iterable[Leaf | Misplaced], origin: Callable[[SettingPath], str]) -> Source:
    for item in items:
        if isinstance(item, Misplaced):
            yield f"{origin(item.path)}: {item.reason}"
        else:
            yield Given(item.path, item.value, origin(item.path))


def from_file(file: Path | None, cwd: Path, text: str | None = None) -> Source:
    """The settings of a file, or of ``text`` in its place; origins have its lines.

    Raises SettingsError if it cannot be read.
    """
    if file is None:
        return
    name = os.path.relpath(file, cwd) if file.parent in (cwd, *cwd.parents) else str(file)
    try:
        text = file.read_text(encoding="utf-8-sig") if text is None else text.replace("\r\n", "\n")
        document = tomllib.loads(text)
    except OSError as error:
        hint = "; correct or unset TABLETOPIC_CONFIG" if isinstance(error, FileNotFoundError) else ""
        raise SettingsError(f"cannot read the settings file {name}: {error.strerror}{hint}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(toml_syntax_error(name, str(error), text or "")) from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name} is not UTF-8 text (see byte {error.start}); save it as UTF-8") from error
    lines = toml_lines(text)

    def origin(path: SettingPath) -> str:
        line = next((n for end in range(len(path), 0, -1) if (n := lines.get(".".join(path[:end])))), None)
        return f"{name}:{line}" if line else name

    for item in _located(leaves(document), origin):
        if isinstance(item, Given) and item.path == ("state_dir",) and item.value:
            yield Given(item.path, absolute(str(item.value), file.parent), item.origin)
        else:
            yield item


def from_environment(environ: Mapping[str, str], prefix: str = PREFIX) -> Source:
    """The settings among the variables of a profile; their origins are the variables' names."""
    for variable, text in sorted(environ.items()):
        is_foreign = prefix == PREFIX and variable.startswith(PROFILE_PREFIX)
        if not variable.startswith(prefix) or variable in PROGRAM_VARIABLES or is_foreign:
            continue
        path = variable_path(variable.removeprefix(prefix))
        yield Given(path, text, variable) if path else _unknown_variable(variable, prefix)


def _unknown_variable(variable: str, prefix: str) -> str:
    name = variable.removeprefix(prefix)
    own = sorted(variable.removeprefix(PREFIX) for variable in PROGRAM_VARIABLES)
    if close := nearest_variables(name) + difflib.get_close_matches(name, own):
        hint = f"did you mean {' or '.join((PREFIX if name in own else prefix) + name for name in close)}?"
    else:
        known = [*(prefix + form for form in variable_forms()), *(PREFIX + name for name in own)]
        hint = f"known: {', '.join(known)}"
    return f"{variable}: unknown setting; {hint}"


def from_overrides(overrides: Mapping[str, Any]) -> Source:
    """The settings of options, nested or with dotted keys."""
    for key, value in overrides.items():
        if value is None:
            continue
        name, *rest = re.split(r"[=\n]", key, maxsplit=1)  # what follows `=` may be a secret
        try:
            nested = _nested(key, value) if not rest else None
        except tomllib.TOMLDecodeError:
            nested = None
        if nested is None:
            yield f"--{name}: not the name of a setting; write for example kafka.client.id"
        else:
            yield from _located(leaves(nested), _option)


def _option(path: SettingPath) -> str:
    return f"--{path[0].replace('_', '-')}" if len(path) == 1 else f"--{dotted(path)}"


def _nested(key: str, value: object) -> dict[str, Any]:
    """``topics."web.clicks".start`` as TOML nests it, with the value at its end."""
    nested: dict[str, Any] = tomllib.loads(f"{key} = 0")
    section = nested
    while isinstance(inner := next(iter(section.values())), dict):
        section = inner
    section[next(iter(section))] = value
    return nested


def absolute(path: str, base: Path) -> str:
    """A path as a setting has it, relative to ``base``; ``~`` is the home."""
    return os.path.abspath(base / os.path.expanduser(path))
