"""The servers in the settings file, to be shown, tried and changed; secrets go in, and never out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.redact import learn
from tabletopic_kernel.model.settings.names import dotted, variable_name
from tabletopic_kernel.model.settings.servers import check_catalog_name
from tabletopic_kernel.workbench.config import DEFAULT, LoadedSettings, own_servers, shown_property
from tabletopic_kernel.workbench.config.editing import (
    new_secrets,
    properties_in,
    read_settings,
    with_properties,
    write_settings,
)
from tabletopic_kernel.workbench.config.profiles import variables_of
from tabletopic_kernel.workbench.config.servers import check_names, find_servers
from tabletopic_kernel.workbench.config.sources import from_file
from tabletopic_kernel.workbench.config.trust import FILE_NAME, code_of, working_folder
from tabletopic_kernel.workbench.server_questions import SERVERS, Answers, Server, Way, further_catalog

_SAVING = threading.Lock()


@dataclass(frozen=True)
class ServerProperty:
    """A property that is set, or that a way to the server needs.

    ``value``: None if it is a secret, has one inside, or does not fit a line; ``shown`` has no secrets.
    ``origin``: `default` if it is not set, the line of the file, or a variable. ``variable``: sets it, too.
    """

    key: str
    value: str | None
    shown: str
    origin: str
    variable: str


@dataclass(frozen=True)
class ServerSection:
    """A section that names a server, with the ways to reach one as `init` offers them.

    ``way``: the index of the way that fits its properties; ``storage``: of the way that follows from it.
    """

    section: str
    title: str
    ways: tuple[Way, ...]
    way: int | None
    storage: int | None
    properties: list[ServerProperty]


@dataclass(frozen=True)
class NamedServers:
    """The servers in the settings file; ``version`` changes with the file, and is empty without one."""

    file: str
    version: str
    profile: str
    sections: list[ServerSection]


@dataclass(frozen=True)
class SavedServer:
    """A section after it was written; ``variables`` are to be set for secrets that were not written."""

    version: str
    section: ServerSection
    variables: list[str]


Typed = Mapping[str, str | None]  # None leaves a property as the file has it


class ServerSections:
    """The sections of the settings in force. ``load`` reads these, with another text of the file if given."""

    def __init__(self, load: Callable[[str | None], LoadedSettings]) -> None:
        self._load = load
        self._loaded = load(None)
        file = self._loaded.file
        self._file = file or working_folder() / FILE_NAME
        self._version = _version_of(self._file)  # before the text: a change in between is noticed
        self._text = read_settings(file) if file else ""
        self._prefix = variables_of(self._loaded.profile)

    def all(self) -> NamedServers:
        """All sections, the further catalogs last."""
        names = [server.section for server in SERVERS]
        names += [f"catalogs.{name}" for name in self._loaded.settings.catalogs]
        sections = [self.of(name) for name in names]
        return NamedServers(str(self._file), self._version, self._loaded.profile, sections)

    def of(self, section: str) -> ServerSection:
        """One section, also if the settings do not have it; raises UsageError."""
        server = _server(section)
        kind, _, name = section.partition(".")
        settings = self._loaded.settings
        now = settings.catalogs.get(name, {}) if name else getattr(settings, kind)
        keys = dict.fromkeys([*_keys(server.ways), *now])
        way = _way_of(server.ways, now)
        storage = None if way is None else _way_of(server.ways[way].then, now)
        properties = [self._property(section, key, now.get(key, "")) for key in keys]
        return ServerSection(section, server.text, server.ways, way, storage, properties)

    def to_try(self, section: str, typed: Typed) -> dict[str, str]:
        """The properties of a server as they would be in force; raises TableTopicError."""
        server = _server(section)
        settings = self._load(self._changed(server, typed, secrets_too=True)).settings
        kind, _, name = section.partition(".")
        if name:
            return settings.catalogs.get(name, {})
        named = section in own_servers(settings)
        return dict(getattr(settings if named else find_servers(settings), kind))

    def save(self, section: str, typed: Typed, version: str, *, secrets_too: bool) -> SavedServer:
        """Write a section; without ``secrets_too`` new secrets are left out. Raises TableTopicError."""
        server, answers = _server(section), self._answers(section, typed)
        hidden = [] if secrets_too else new_secrets(self._text, section, answers)
        text = self._changed(server, typed, secrets_too=secrets_too)
        check_names(self._load(text).settings)
        has_secrets = secrets_too and bool(new_secrets(self._text, section, answers))
        with _SAVING:
            if _version_of(self._file) != version:
                raise ActionNeededError(f"{self._file} has changed; reload this page, and change it again")
            try:
                write_settings(self._file, text, secrets_too=has_secrets)
            except OSError as error:
                raise UsageError(f"{self._file} cannot be written ({error.strerror})") from error
        now = ServerSections(self._load)
        variables = [self._prefix + variable_name(section, key) for key in hidden]
        return SavedServer(now._version, now.of(section), variables)

    def _answers(self, section: str, typed: Typed) -> Answers:
        now = properties_in(self._text, section)
        answers = {key: now.get(key) if value is None else value for key, value in typed.items()}
        learn(answers)
        return {key: value for key, value in answers.items() if value is not None}

    def _changed(self, server: Server, typed: Typed, *, secrets_too: bool) -> str:
        """The new text; raises UsageError also if it would choose code to run."""
        answers = self._answers(server.section, typed)
        left = [key for key, value in typed.items() if value is None]
        text = with_properties(
            self._text, server, answers, secrets_too=secrets_too, elsewhere=left, prefix=self._prefix
        )
        code, known = (code_of(from_file(self._file, self._file.parent, toml)) for toml in (text, self._text))
        if chosen := [name for name in code if code[name] != known.get(name)]:
            raise UsageError(
                f"{', '.join(chosen)} can run code: write it into {self._file} yourself, and run "
                "`tabletopic trust`"
            )
        return text

    def _property(self, section: str, key: str, value: str) -> ServerProperty:
        shown = shown_property(key, value)
        is_line = shown == value == value.strip() and len(value.splitlines()) < 2 and "=" not in key
        origin = self._loaded.origins.get(dotted((*section.split("."), key)), DEFAULT)
        return ServerProperty(
            key, value if is_line else None, shown, origin, self._prefix + variable_name(section, key)
        )


def _server(section: str) -> Server:
    """The server of a section; raises UsageError for one that names none."""
    for server in SERVERS:
        if server.section == section:
            return server
    kind, _, name = section.partition(".")
    if kind != "catalogs":
        known = ", ".join(server.section for server in SERVERS)
        raise UsageError(f"{section!r} names no server; known: {known}, catalogs.NAME")
    try:
        return further_catalog(check_catalog_name(name))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _keys(ways: Iterable[Way]) -> Iterable[str]:
    for way in ways:
        yield from way.fixed
        for question in way.questions:
            yield question.key
            yield from question.also
        yield from _keys(way.then)


def _way_of(ways: tuple[Way, ...], now: Mapping[str, str]) -> int | None:
    """The way that explains the most of these properties; secrets may be in variables of other machines."""
    named = {key: value for key, value in now.items() if key != "name"}
    fits = {
        at: sum(_likeness(way, named))
        for at, way in enumerate(ways)
        if bool(way.fixed or way.questions) == bool(named)
        and all(named.get(key) == value for key, value in way.fixed.items())
        and all(
            question.key in named for question in way.questions if not (question.optional or question.secret)
        )
    }
    return max(fits, key=lambda at: fits[at], default=None)


def _likeness(way: Way, now: Mapping[str, str]) -> Iterable[int]:
    yield len(way.fixed)
    for question in way.questions:
        value = now.get(question.key, "")
        scheme = "file:" if value.startswith("/") else f"{value.partition('://')[0]}://"
        yield (question.key in now) + (scheme in question.text)


def _version_of(file: Path) -> str:
    """Changes when the file does; says nothing about what it has."""
    try:
        now = file.stat()
    except FileNotFoundError:
        return ""
    return f"{now.st_mtime_ns}-{now.st_ino}-{now.st_size}"
