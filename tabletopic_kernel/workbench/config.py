"""Settings from file, environment and options, each with its source.

Longer than other modules, as all sources of settings become one list, with one way to report a mistake.

Precedence, low to high: defaults, ``tabletopic.toml``, environment ``TABLETOPIC_…``, options. Every source
becomes a list of values with path and origin; a later source replaces an earlier one path by path, and the
models in ``model/settings/sections.py`` validate the result.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from tabletopic_kernel.local.machine import ROOT, has_other_people, owners, strangers, write_whole
from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.model.redact import HIDDEN, is_secret, learn, mask, mask_property
from tabletopic_kernel.model.settings.code import code_properties
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
from tabletopic_kernel.model.settings.options import reason
from tabletopic_kernel.model.settings.sections import DEFAULT_CATALOG_NAME, Settings, names_registry
from tabletopic_kernel.model.settings.toml_lines import toml_lines, toml_syntax_error

FILE_NAME = "tabletopic.toml"
DEFAULT = "default"
SECTIONS = ("kafka", "registry", "catalog")  # those that name servers
EMBEDDED = "(embedded)"
PREFIX = "TABLETOPIC_"
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
    }
)

# The file that a Jupyter server found, for its kernels in other folders: it needs trust, as nobody named it.
FOUND_VARIABLE = "TABLETOPIC_CONFIG_FOUND"

# Set by a JupyterHub for its users' servers.
_HUB_VARIABLES = ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_USER", "JUPYTERHUB_SERVICE_PREFIX")


@dataclass(frozen=True)
class LoadedSettings:
    """The current settings, with their sources.

    ``origins`` has every dotted key: ``default``, ``tabletopic.toml:<line>``, the name of the environment
    variable, or that of the option with its two hyphens. ``file`` is the settings file that was read, if any.
    """

    settings: Settings
    origins: dict[str, str]
    file: Path | None = None


class Row(NamedTuple):
    """One setting for display, without secrets."""

    key: str
    value: str
    origin: str


def load_settings(
    overrides: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> LoadedSettings:
    """Read and validate all sources, and record where each value came from.

    ``overrides`` are nested or have dotted keys (``{"kafka.bootstrap.servers": "a:9092"}``); None is an
    option that was not given. ``environ`` and ``cwd`` default to the process's. Raises SettingsError with a
    line for each mistake.
    """
    environ = os.environ if environ is None else environ
    cwd = Path(os.path.abspath(cwd or _working_folder()))
    problems: list[str] = []
    file = _find_file(environ, cwd)
    from_file = list(_from_file(file, cwd))
    given: dict[SettingPath, _Given] = {}
    for source in (from_file, _from_environment(environ), _from_overrides(overrides or {})):
        given.update(_accepted(source, problems))
    for item in given.values():  # before anything can fail with an error that quotes them
        learn({item.path[-1]: item.value})
    settings = _checked(given, problems)
    if problems or settings is None:
        raise SettingsError("\n".join(problems))
    if file is not None and not environ.get("TABLETOPIC_CONFIG"):
        _check_trust(file, _code(from_file), environ)
    wanted = settings.state_dir
    state_dir = _absolute(wanted, cwd) if ("state_dir",) in given else _nearest(wanted, cwd)
    settings = settings.model_copy(update={"state_dir": state_dir})
    origins = {
        dotted(path): given[path].origin if path in given else DEFAULT for path, _ in _in_force(settings)
    }
    return LoadedSettings(settings, origins, file)


def trust_file() -> tuple[Path | None, list[str]]:
    """Accept the properties that can run code of the settings file found here; the file, and their names.

    Raises:
        SettingsError: it cannot be read, or others can change it.
    """
    cwd = Path(os.path.abspath(_working_folder()))
    file = _find_file({}, cwd)
    code = _code(_from_file(file, cwd))
    if file is not None and code:
        _trust(file, code, os.environ)
    return file, sorted(code)


def own_servers(settings: Settings) -> list[str]:
    """The sections that name a server, so the embedded one is not needed."""
    named = {
        "kafka": not {"bootstrap.servers", "metadata.broker.list"}.isdisjoint(settings.kafka),
        "registry": names_registry(settings.registry),
        "catalog": not set(settings.catalog) <= {"name"},
    }
    return [section for section in SECTIONS if named[section]]


def embedded_servers(settings: Settings) -> tuple[str, ...]:
    """The local stack's servers that the settings do not name: ``kafka``, ``registry``, both or none."""
    own = own_servers(settings)
    return tuple(name for name in ("kafka", "registry") if name not in own)


def names_all_servers(settings: Settings) -> bool:
    """Whether the settings name broker, registry and catalog, so that no local stack is needed."""
    return len(own_servers(settings)) == len(SECTIONS)


def check_something_to_start(settings: Settings, *, fork: bool = False) -> None:
    """Check that the local stack has servers to start, and may be a copy's; raises UsageError if not.

    It has none if the settings name them all.
    """
    own = own_servers(settings)
    if names_all_servers(settings):
        raise UsageError(
            f"there is nothing to start: the settings name servers for [{'], ['.join(SECTIONS)}]; "
            "`tabletopic doctor` checks them"
        )
    if fork and "kafka" not in own and ("catalog" in own or settings.catalogs):
        raise UsageError(
            "--fork copies topics, but not the tables in a catalog that the settings name: the hosts of both "
            "would write to these. Choose another --state-dir"
        )


def wants_login(settings: Settings, environ: Mapping[str, str] | None = None) -> bool:
    """Whether embedded servers started now require a login."""
    if settings.local.login != "auto":
        return settings.local.login == "on"
    return behind_hub(environ) or has_other_people()


def behind_hub(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a JupyterHub started this process, or its parent."""
    environ = os.environ if environ is None else environ
    return any(environ.get(name) for name in _HUB_VARIABLES)


def describe(loaded: LoadedSettings) -> list[Row]:
    """All current settings with their sources, section by section, secrets hidden."""
    rows: dict[str, list[Row]] = {name: [] for name in Settings.model_fields}
    for path, value in _in_force(loaded.settings):
        key = dotted(path)
        rows[path[0]].append(Row(key, _shown(path[-1], _text(value)), loaded.origins.get(key, DEFAULT)))
    own = own_servers(loaded.settings)
    if "kafka" not in own:
        rows["kafka"].insert(0, Row("kafka.bootstrap.servers", EMBEDDED, DEFAULT))
    if "registry" not in own:
        rows["registry"].insert(0, Row("registry.url", EMBEDDED, DEFAULT))
    if "catalog" not in own:
        rows["catalog"].append(Row("catalog.uri", EMBEDDED, DEFAULT))
    if "name" not in loaded.settings.catalog:
        rows["catalog"].insert(0, Row("catalog.name", DEFAULT_CATALOG_NAME, DEFAULT))
    return [row for section in rows.values() for row in section]


def _shown(name: str, value: str) -> str:
    """Like ``mask_property``; of certificates as text only the number is shown."""
    shown = mask_property(name, value)
    if certificates := shown.count("-----BEGIN CERTIFICATE-----"):
        return f"PEM, {certificates} certificate{'s' if certificates > 1 else ''}"
    return shown


def check_kafka_properties(loaded: LoadedSettings) -> None:
    """Validate the ``[kafka]`` properties with librdkafka, without a connection; raises SettingsError."""
    # Imported here: it loads the Kafka client, 0.1 s that commands without a broker save.
    from tabletopic_kernel.clients.kafka.checks import check_properties  # noqa: PLC0415

    check_properties(loaded.settings.kafka, {k: loaded.origins[f"kafka.{k}"] for k in loaded.settings.kafka})


# --- the sources ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Given:
    """A value as given by its source."""

    path: SettingPath
    value: object
    origin: str


_Source = Iterable[_Given | str]  # a text is an error, with its origin


def _accepted(source: _Source, problems: list[str]) -> dict[SettingPath, _Given]:
    accepted: dict[SettingPath, _Given] = {}
    for item in source:
        if isinstance(item, str):
            problems.append(item)
        elif item.path in accepted and item.value is not None:
            problems.append(f"{item.origin}: {dotted(item.path)} is set twice")
        else:
            accepted[item.path] = item
    return accepted


def _located(found: Iterable[Leaf | Misplaced], origin: Callable[[SettingPath], str]) -> _Source:
    for item in found:
        if isinstance(item, Misplaced):
            yield f"{origin(item.path)}: {item.reason}"
        else:
            yield _Given(item.path, item.value, origin(item.path))


def _find_file(environ: Mapping[str, str], cwd: Path) -> Path | None:
    if named := environ.get("TABLETOPIC_CONFIG"):
        return Path(_absolute(named, cwd))
    if found := environ.get(FOUND_VARIABLE):
        return Path(found) if os.path.isfile(found) and _is_adopted(Path(found)) else None
    files = (file for d in (cwd, *cwd.parents) if os.path.isfile(file := d / FILE_NAME))
    return next(filter(_is_adopted, files), None)


def _code(source: _Source) -> dict[str, str]:
    return code_properties((item.path, item.value) for item in source if isinstance(item, _Given))


def _from_file(file: Path | None, cwd: Path) -> _Source:
    if file is None:
        return
    name = os.path.relpath(file, cwd) if file.parent in (cwd, *cwd.parents) else str(file)
    try:
        text = file.read_text(encoding="utf-8-sig")
        document = tomllib.loads(text)
    except OSError as error:
        hint = "; correct or unset TABLETOPIC_CONFIG" if isinstance(error, FileNotFoundError) else ""
        raise SettingsError(f"cannot read the settings file {name}: {error.strerror}{hint}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(toml_syntax_error(name, str(error), text)) from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name} is not UTF-8 text (see byte {error.start}); save it as UTF-8") from error
    lines = toml_lines(text)

    def origin(path: SettingPath) -> str:
        line = next((n for end in range(len(path), 0, -1) if (n := lines.get(".".join(path[:end])))), None)
        return f"{name}:{line}" if line else name

    for item in _located(leaves(document), origin):
        if isinstance(item, _Given) and item.path == ("state_dir",) and item.value:
            yield _Given(item.path, _absolute(str(item.value), file.parent), item.origin)
        else:
            yield item


def _from_environment(environ: Mapping[str, str]) -> _Source:
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in PROGRAM_VARIABLES:
            continue
        path = variable_path(variable.removeprefix(PREFIX).split("__"))
        yield _Given(path, text, variable) if path else _unknown_variable(variable)


def _unknown_variable(variable: str) -> str:
    name = variable.removeprefix(PREFIX)
    own = sorted(own.removeprefix(PREFIX) for own in PROGRAM_VARIABLES)
    if close := nearest_variables(name.split("__")) + difflib.get_close_matches(name, own):
        hint = f"did you mean {' or '.join(PREFIX + found for found in close)}?"
    else:
        hint = f"known: {', '.join(PREFIX + known for known in [*variable_forms(), *own])}"
    return f"{variable}: unknown setting; {hint}"


def _from_overrides(overrides: Mapping[str, Any]) -> _Source:
    for key, value in overrides.items():
        if value is None:
            continue
        name, *rest = re.split(r"[=\n]", key, maxsplit=1)  # what follows may be a secret
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


# --- trust in a file that was found, not named: opening a folder must run nothing -------------------------

# In the user's configuration folder: the digest of the accepted properties, by the file's path.
_TRUSTED = "tabletopic/trusted.json"


def _is_adopted(file: Path) -> bool:
    """Whether to use a settings file found in some folder upwards: not another's in a folder for everybody.

    Raises:
        SettingsError: others can change it.
    """
    folder = file.parent
    is_shared = bool(folder.stat().st_mode & stat.S_ISVTX)  # like /tmp: each removes only their own
    trusted = {os.geteuid(), ROOT}
    if is_shared and owners(file) - trusted:
        return False
    place, trouble = file, strangers(file, trusted)
    if trouble is None and not is_shared and folder.stat().st_mode & 0o002:
        place, trouble = folder, f"others may write to it: `chmod o-w {folder}`"
    if trouble:
        raise SettingsError(
            f"{place} is not used, as {trouble}. To use the file anyway, name it in TABLETOPIC_CONFIG"
        )
    return True


def _check_trust(file: Path, code: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Raise SettingsError unless the user has accepted these properties of ``file``."""
    if code and _trusted(environ).get(str(file)) != _digest(code):
        raise SettingsError(
            f"{file} has properties that can run code: {', '.join(sorted(code))}. If you trust them, run "
            "`tabletopic trust` in this folder, or name the file in TABLETOPIC_CONFIG"
        )


def _trust(file: Path, code: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Accept these properties of ``file``. Raises OSError."""
    place = _place(environ)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place, json.dumps({**_trusted(environ), str(file): _digest(code)}, indent=1))


def _trusted(environ: Mapping[str, str]) -> dict[str, str]:
    try:
        return dict(json.loads(_place(environ).read_bytes()))
    except (OSError, ValueError, TypeError, RuntimeError):  # the last: this user has no home
        return {}


def _place(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".config") / _TRUSTED


def _digest(code: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(code.items())).encode()).hexdigest()


# --- checks -----------------------------------------------------------------------------------------------


def _checked(given: Mapping[SettingPath, _Given], problems: list[str]) -> Settings | None:
    nested: dict[str, Any] = {}
    for path, item in given.items():
        section = nested
        for part in path[:-1]:
            section = section.setdefault(part, {})
        if item.value is None:
            section.setdefault(path[-1], {})
        else:
            section[path[-1]] = _with_unit(path, item.value)
    try:
        return Settings.model_validate(nested)
    except ValidationError as error:
        for detail in error.errors():
            location = tuple(str(part) for part in detail["loc"])
            path = next((p for n in range(len(location), 0, -1) if (p := location[:n]) in given), ())
            # In a section with a user-chosen name: any setting of it shows where it is.
            below = (p for p in given if len(location) > 1 and p[: len(location) - 1] == location[:-1])
            path = path or next(below, location)
            problems.append(_wrong_value(given.get(path) or _Given(path, None, DEFAULT), dict(detail)))
        return None


def _with_unit(path: SettingPath, value: object) -> object:
    """A bare number is in the unit of the key's name, even if the source has only text."""
    if path[-1].endswith("_ms") and isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return value


def _wrong_value(item: _Given, detail: Mapping[str, Any]) -> str:
    text = _text(item.value)
    visible = HIDDEN if is_secret(item.path[-1]) else mask(text)
    quoted = json.dumps(visible, ensure_ascii=False) if isinstance(item.value, str) else visible
    why = reason(item.path, detail)
    if visible != text:  # a validator's reason quotes the value
        why = why.replace(repr(item.value), repr(visible)).replace(text, visible)
    if item.value is None:
        return f"{item.origin}: [{dotted(item.path)}]: {why}"
    return f"{item.origin}: {dotted(item.path)} = {quoted}: {why}"


# --- shared -----------------------------------------------------------------------------------------------


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise SettingsError(
            "the folder in which this program runs was deleted; start it in another one"
        ) from error


def _absolute(path: str, base: Path) -> str:
    return os.path.abspath(base / os.path.expanduser(path))


def _nearest(folder: str, cwd: Path) -> str:
    """The folder in ``cwd`` or the nearest one upwards, as a notebook may be below the project's folder.

    Upwards only this user's own: anybody may make one in /tmp.
    """
    if os.path.isdir(cwd / folder) or os.path.islink(cwd / folder):
        return str(cwd / folder)
    folders = (candidate for place in cwd.parents if os.path.isdir(candidate := place / folder))
    return str(next((own for own in folders if owners(own) == {os.geteuid()}), cwd / folder))


def _in_force(model: BaseModel, path: SettingPath = ()) -> Iterator[tuple[SettingPath, object]]:
    for name, value in model:
        if isinstance(value, BaseModel):
            yield from _in_force(value, (*path, name))
        elif isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, BaseModel):
                    yield from _in_force(inner, (*path, name, key))
                elif isinstance(inner, dict):
                    yield from (((*path, name, key, one), text) for one, text in inner.items())
                else:
                    yield (*path, name, key), inner
        else:
            yield (*path, name), value


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
