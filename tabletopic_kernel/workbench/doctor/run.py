"""Check whether this machine has what the workbench needs, with a remedy for each failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config import SECTIONS, LoadedSettings, embedded_servers, own_servers
from tabletopic_kernel.workbench.doctor import machine
from tabletopic_kernel.workbench.doctor import servers as of_servers
from tabletopic_kernel.workbench.doctor.check import Check, checked, first_line
from tabletopic_kernel.workbench.workbench import Servers, find_servers

_START = "start the local stack with `tabletopic up`, or name your servers in tabletopic.toml"


def run_checks(loaded: LoadedSettings) -> Iterator[Check]:
    """Run all checks in order; never raises."""
    return map(Check.with_page, _checks(loaded))


def _checks(loaded: LoadedSettings) -> Iterator[Check]:
    state_dir = Path(loaded.settings.state_dir)
    yield Check("settings", "ok", f"profile {loaded.profile}, {loaded.file or 'no settings file'}")
    yield checked("Python", machine.python)
    yield checked("Kafka reader", machine.kafka_reader)
    yield checked("JDK", machine.jdk)
    yield checked("Java libraries", machine.jars)
    yield checked("query extensions", machine.extensions)
    yield checked("limits", machine.limits)
    yield checked("disk space", lambda: machine.disk(state_dir))
    yield checked("state folder", lambda: machine.state_folder(state_dir))
    yield checked("ports", lambda: machine.ports(state_dir, embedded_servers(loaded.settings)))
    try:
        servers = find_servers(loaded.settings)
        away = servers.away()
    except TableTopicError as error:
        yield Check("servers", "warn", first_line(error))
        yield from _check_servers(_named(loaded.settings))
        return
    if servers.local and machine.stack(state_dir, servers.local) is not None:
        yield checked("login", lambda: machine.login(loaded.settings))
    if away.names:
        yield Check("servers", "warn", str(away), _START)
    yield from _check_servers(servers)
    yield checked("Spark", lambda: of_servers.spark(loaded, servers))
    yield checked("hosts", lambda: of_servers.hosts(servers))
    yield checked("logs", lambda: of_servers.logs(servers))


def _named(settings: Settings) -> Servers:
    """The servers that the settings name, when there is no local stack."""
    own = own_servers(settings)
    kafka, registry, catalog = (
        dict(getattr(settings, section)) if section in own else {} for section in SECTIONS
    )
    catalogs = {name: {**properties, "name": name} for name, properties in settings.catalogs.items()}
    return Servers(kafka, registry, catalog, Path(settings.state_dir), catalogs=catalogs)


def _check_servers(servers: Servers) -> Iterator[Check]:
    if servers.kafka:
        yield checked("broker", lambda: of_servers.broker(servers.kafka))
        yield checked("rights", lambda: of_servers.rights(servers.kafka))
    if servers.registry:
        yield checked("registry", lambda: of_servers.registry(servers.registry))
    for name in (*((None,) if servers.catalog else ()), *servers.catalogs):
        suffix = f" {name}" if name else ""
        yield checked(f"catalog{suffix}", partial(of_servers.catalog, servers, name))
        yield checked(f"storage{suffix}", partial(of_servers.storage, servers, name))


def check_server(section: str, properties: Mapping[str, str]) -> Iterator[Check]:
    """Check a user's server; ``section`` is ``kafka``, ``registry``, ``catalog`` or ``catalogs.<name>``."""
    section, _, name = section.partition(".")
    sections = {section: dict(properties)}
    kafka, registry, catalog = (sections.get(key, {}) for key in SECTIONS)
    servers = Servers(kafka, registry, catalog, Path())
    if name:
        servers.catalogs[name] = {**properties, "name": name}
    for check in _check_servers(servers):
        yield replace(check.with_page(), name=check.name.partition(" ")[0])
        if check.status == "fail":  # later checks would fail in the same way
            return
