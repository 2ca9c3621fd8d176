"""The settings in force, each with its source.

Precedence, low to high: defaults, the profile's ``tabletopic.toml``, its variables ``TABLETOPIC_…``, options.
Every source becomes a list of values with path and origin; later sources replace earlier ones path by path,
and the models in ``model/settings/sections.py`` validate the result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from tabletopic_kernel.local.machine import has_other_people, owners
from tabletopic_kernel.local.progress import Report, silent
from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.model.redact import HIDDEN, is_secret, learn, mask, mask_property
from tabletopic_kernel.model.settings.names import SettingPath, dotted
from tabletopic_kernel.model.settings.options import reason
from tabletopic_kernel.model.settings.sections import DEFAULT_CATALOG_NAME, Settings
from tabletopic_kernel.model.settings.servers import names_registry
from tabletopic_kernel.workbench.config.profiles import (
    DEFAULT_PROFILE,
    PROFILE_VARIABLE,
    profile_of,
    variables_of,
)
from tabletopic_kernel.workbench.config.sources import (
    Given,
    absolute,
    accepted,
    from_environment,
    from_file,
    from_overrides,
)
from tabletopic_kernel.workbench.config.trust import (
    FILE_NAME,
    check_trust,
    code_of,
    find_file,
    working_folder,
)

if TYPE_CHECKING:
    from tabletopic_kernel.local.stack import LocalStack

DEFAULT = "default"
SECTIONS = ("kafka", "registry", "catalog")  # the sections that name servers
EMBEDDED = "(embedded)"
# Set by a JupyterHub for its users' servers.
_HUB_VARIABLES = ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_USER", "JUPYTERHUB_SERVICE_PREFIX")


@dataclass(frozen=True)
class LoadedSettings:
    """The current settings, with their sources.

    ``origins`` by dotted key: ``default``, ``tabletopic.toml:<line>``, the environment variable, or the
    option with its two hyphens. ``file`` is the settings file that was read, if any, that of ``profile``.
    """

    settings: Settings
    origins: dict[str, str]
    file: Path | None = None
    profile: str = DEFAULT_PROFILE


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
    file_text: str | None = None,
    profile: str | None = None,
) -> LoadedSettings:
    """Read and validate all sources, and record where each value came from.

    ``overrides`` are nested or have dotted keys (``{"kafka.bootstrap.servers": "a:9092"}``); None is an
    option that was not given. ``environ`` and ``cwd`` default to the process's. ``file_text`` counts instead
    of what the settings file has, ``profile`` instead of the environment's. Raises SettingsError with a line
    for each mistake.
    """
    environ = os.environ if environ is None else environ
    cwd = Path(os.path.abspath(cwd or working_folder()))
    problems: list[str] = []
    if profile is not None:
        environ = {**environ, PROFILE_VARIABLE: profile}
    profile = profile_of(environ)
    file = find_file(environ, cwd)
    if file is None and file_text is not None:
        file = cwd / FILE_NAME
    of_file = list(from_file(file, cwd, file_text))
    given: dict[SettingPath, Given] = {}
    for source in (
        of_file,
        from_environment(environ, variables_of(profile)),
        from_overrides(overrides or {}),
    ):
        given.update(accepted(source, problems))
    for item in given.values():  # before anything can fail with an error that quotes them
        learn({item.path[-1]: item.value})
    settings = _checked(given, problems)
    if problems or settings is None:
        raise SettingsError("\n".join(problems))
    if file is not None and not environ.get("TABLETOPIC_CONFIG"):
        check_trust(file, code_of(of_file), environ)
    wanted = settings.state_dir
    if ("state_dir",) in given:
        state_dir = absolute(wanted, cwd)
    elif file is None or profile == DEFAULT_PROFILE:
        state_dir = _nearest(wanted, cwd)
    else:  # profiles share no folder: `down`, hosts and caches of one must not meet another's
        state_dir = str(file.parent / f"{wanted}.{profile}")
    settings = settings.model_copy(update={"state_dir": state_dir})
    origins = {
        dotted(path): given[path].origin if path in given else DEFAULT
        for path, _ in _in_force(settings.model_dump())
    }
    return LoadedSettings(settings, origins, file, profile)


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
    """Raise UsageError if the settings name all servers, so none is to start, or a ``fork`` must not."""
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


def wants_login(
    settings: Settings,
    environ: Mapping[str, str] | None = None,
    has_others: Callable[[], bool] = has_other_people,
) -> bool:
    """Whether embedded servers started now require a login."""
    if settings.local.login != "auto":
        return settings.local.login == "on"
    return behind_hub(environ) or has_others()


def local_stack(settings: Settings, report: Report = silent, **options: Any) -> LocalStack:
    """The local stack of these settings, with the servers that they do not name."""
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415 - psutil

    login, servers = wants_login(settings), embedded_servers(settings)
    return LocalStack(Path(settings.state_dir), report, wants_login=login, servers=servers, **options)


def behind_hub(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a JupyterHub started this process, or its parent."""
    environ = os.environ if environ is None else environ
    return any(environ.get(name) for name in _HUB_VARIABLES)


def describe(loaded: LoadedSettings) -> list[Row]:
    """All current settings with their sources, section by section, secrets hidden."""
    rows: dict[str, list[Row]] = {name: [] for name in Settings.model_fields}
    for path, value in _in_force(loaded.settings.model_dump()):
        key = dotted(path)
        rows[path[0]].append(
            Row(key, shown_property(path[-1], _text(value)), loaded.origins.get(key, DEFAULT))
        )
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


def shown_property(name: str, value: str) -> str:
    """Like ``mask_property``, but of PEM certificates only their number."""
    shown = mask_property(name, value)
    if certificates := shown.count("-----BEGIN CERTIFICATE-----"):
        return f"PEM, {certificates} certificate{'s' if certificates > 1 else ''}"
    return shown


def check_kafka_properties(loaded: LoadedSettings) -> None:
    """Validate the ``[kafka]`` properties with librdkafka, without a connection; raises SettingsError."""
    # Imported here: it loads the Kafka client, 0.1 s that commands without a broker save.
    from tabletopic_kernel.clients.kafka.checks import check_properties  # noqa: PLC0415

    check_properties(loaded.settings.kafka, {k: loaded.origins[f"kafka.{k}"] for k in loaded.settings.kafka})


# --- checks -----------------------------------------------------------------------------------------------


def _checked(given: Mapping[SettingPath, Given], problems: list[str]) -> Settings | None:
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
            # In a section with a user-chosen name, any of its settings shows the origin.
            below = (p for p in given if len(location) > 1 and p[: len(location) - 1] == location[:-1])
            path = path or next(below, location)
            problems.append(_wrong_value(given.get(path) or Given(path, None, DEFAULT), dict(detail)))
        return None


def _with_unit(path: SettingPath, value: object) -> object:
    """Turn a number that a source gives as text into a number: its unit is the key's."""
    if path[-1].endswith("_ms") and isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return value


def _wrong_value(item: Given, detail: Mapping[str, Any]) -> str:
    text = _text(item.value)
    visible = HIDDEN if is_secret(item.path[-1]) else mask(text)
    quoted = json.dumps(visible, ensure_ascii=False) if isinstance(item.value, str) else visible
    problem = reason(item.path, detail)
    if visible != text:  # a validator's reason quotes the value
        problem = problem.replace(repr(item.value), repr(visible)).replace(text, visible)
    if item.value is None:
        return f"{item.origin}: [{dotted(item.path)}]: {problem}"
    return f"{item.origin}: {dotted(item.path)} = {quoted}: {problem}"


# --- shared -----------------------------------------------------------------------------------------------


def _nearest(folder: str, cwd: Path) -> str:
    """The folder in ``cwd``, else the nearest of this user's upwards: anybody may create one in /tmp."""
    if os.path.isdir(cwd / folder) or os.path.islink(cwd / folder):
        return str(cwd / folder)
    candidates = (candidate for parent in cwd.parents if os.path.isdir(candidate := parent / folder))
    return str(next((own for own in candidates if owners(own) == {os.geteuid()}), cwd / folder))


def _in_force(value: object, path: SettingPath = ()) -> Iterator[tuple[SettingPath, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _in_force(inner, (*path, key))
    else:
        yield path, value


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
