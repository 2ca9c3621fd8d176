"""The current servers: those that the settings name, and the embedded stack's in place of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabletopic_kernel.model.errors import RetryableError, SettingsError, StackError
from tabletopic_kernel.model.redact import learn, mask_property
from tabletopic_kernel.model.settings.cluster import SparkSettings, out_of_reach
from tabletopic_kernel.model.settings.sections import DEFAULT_CATALOG_NAME, Settings
from tabletopic_kernel.workbench.config import SECTIONS, embedded_servers, own_servers
from tabletopic_kernel.workbench.config.tracebacks import hide_secrets


@dataclass(frozen=True)
class MissingServers:
    """Servers of the embedded stack that exited unexpectedly, and those that are not ready yet."""

    ended: tuple[str, ...]
    starting: tuple[str, ...]
    state_dir: Path

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all missing servers."""
        return (*self.ended, *self.starting)

    def __str__(self) -> str:
        """What is unavailable, and what to do; empty if nothing is."""
        return self.message("`tabletopic up` starts what is missing; the logs are in")

    def message(self, next_step: str = "the logs are in") -> str:
        """What is unavailable, for faces with a button next to it; empty if nothing is."""
        if self.ended:
            verb = "has" if len(self.ended) == 1 else "have"
            ended = f"the local stack's {' and '.join(self.ended)} {verb} ended"
            return f"{ended}; {next_step} {self.state_dir / 'logs'}"
        if self.starting:
            verb = "is" if len(self.starting) == 1 else "are"
            return f"the local stack's {' and '.join(self.starting)} {verb} starting"
        return ""

    def check(self, name: str) -> None:
        """Raise StackError if the server ``name`` has ended, RetryableError if it is starting."""
        if name in self.ended:
            raise StackError(str(self))
        if name in self.starting:
            raise RetryableError(f"{self}: try again in a moment")


@dataclass(frozen=True)
class Servers:
    """The current servers: properties of librdkafka, the registry client and PyIceberg.

    ``local`` names the servers of the embedded stack. ``catalogs`` has the catalogs besides ``catalog``, by
    name. Every catalog has a property ``name``.
    """

    kafka: dict[str, str]
    registry: dict[str, str]
    catalog: dict[str, str]
    state_dir: Path
    local: tuple[str, ...] = ()
    catalogs: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def all_catalogs(self) -> tuple[dict[str, str], ...]:
        """The default catalog, then the others."""
        return (self.catalog, *self.catalogs.values())

    def catalog_of(self, name: str | None) -> dict[str, str]:
        """The properties of a topic's catalog; None for the default one. Raises SettingsError."""
        if name is None:
            return self.catalog
        if name in self.catalogs:
            return self.catalogs[name]
        others = f", only {', '.join(self.catalogs)}" if self.catalogs else ""
        raise SettingsError(
            f"[catalogs.{name}] is not in the settings here{others}. Add it to tabletopic.toml on every "
            "machine that runs hosts or commands, and restart the hosts"
        )

    def in_default_catalog(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings of a topic without the default catalog's name: they mean the same table."""
        return {**given, "catalog": None} if given.get("catalog") == self.catalog["name"] else given

    def out_of_reach(self, spark: SparkSettings, catalog: str | None = None) -> list[str]:
        """Why the executors of a Spark cluster could not run topics of a catalog; empty if they can."""
        return out_of_reach(spark, self.kafka, self.catalog_of(catalog))

    def away(self) -> MissingServers:
        """The embedded stack's servers that are not running; sends no requests, takes milliseconds."""
        from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415 - psutil

        stack = LocalStack(self.state_dir, servers=self.local).known() if self.local else None
        if stack is None:  # stopped; its addresses may be another stack's now
            return MissingServers((), (), self.state_dir)
        ended = tuple(name for name in stack.ended if name in self.local)
        starting = tuple(name for name in stack.starting if name in self.local)
        return MissingServers(ended, starting, self.state_dir)

    def __repr__(self) -> str:
        catalogs = {f"catalogs.{name}": properties for name, properties in self.catalogs.items()}
        sections = {"kafka": self.kafka, "registry": self.registry, "catalog": self.catalog, **catalogs}
        shown = (
            f"{section}={ {name: mask_property(name, value) for name, value in properties.items()} }"
            for section, properties in sections.items()
        )
        return f"Servers({', '.join(shown)}, {self.state_dir})"


def find_servers(settings: Settings) -> Servers:
    """Find servers from the settings; missing ones are the embedded stack's, also one that has ended.

    ``Servers.away`` names those: hosts wait for them. Raises SettingsError if servers are missing and no
    stack was started, or two catalogs have the same name.
    """
    from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415 - psutil and pyiceberg's settings

    named = settings.catalogs.values()
    for properties in (settings.kafka, settings.registry, settings.catalog, *named, settings.spark.conf):
        learn(properties)
    hide_secrets()
    state_dir = Path(settings.state_dir).expanduser().absolute()
    kafka, registry, catalog = dict(settings.kafka), dict(settings.registry), dict(settings.catalog)
    own, local = own_servers(settings), embedded_servers(settings)
    own_kafka, own_registry, own_catalog = (name in own for name in SECTIONS)
    if missing := [name for name in SECTIONS if name not in own]:
        stack = LocalStack(state_dir, servers=local).known()
        if stack is None:
            raise SettingsError(
                f"no servers for [{'], ['.join(missing)}]: start the local stack with `tabletopic up`, "
                "or name yours in tabletopic.toml"
            )
        learn({**stack.kafka_login, **stack.registry_login})
        if not own_kafka:
            kafka = {**kafka, "bootstrap.servers": stack.bootstrap_servers, **stack.kafka_login}
        if not own_registry:
            registry = {**registry, "url": stack.registry_url, **stack.registry_login}
        catalog = catalog if own_catalog else {**stack.catalog, **catalog}
    catalog = {"name": DEFAULT_CATALOG_NAME, **catalog}
    catalogs = {name: {**properties, "name": name} for name, properties in settings.catalogs.items()}
    check_names(settings)
    return Servers(kafka, registry, catalog, state_dir, local, catalogs)


def check_names(settings: Settings) -> None:
    """Raise SettingsError if two catalogs have the same name in SQL."""
    name = settings.catalog.get("name", DEFAULT_CATALOG_NAME).lower()
    if name in settings.catalogs:
        raise SettingsError(
            f"[catalogs.{name}]: [catalog] has this name in SQL; choose another name, or set another "
            "[catalog] name"
        )
