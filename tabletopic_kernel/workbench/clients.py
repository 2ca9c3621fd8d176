"""The current servers and their clients: broker, registry, catalog, Spark, DuckDB, created on first use.

Servers come from the settings, or from the embedded stack if the settings name none. Each client is a few
lines that differ, around one cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tabletopic_kernel.model.errors import (
    RetryableError,
    SettingsError,
    StackError,
    TableTopicError,
)
from tabletopic_kernel.model.redact import learn, mask_property
from tabletopic_kernel.model.settings.sections import DEFAULT_CATALOG_NAME, Settings
from tabletopic_kernel.workbench.config import SECTIONS, embedded_servers, own_servers
from tabletopic_kernel.workbench.tracebacks import hide_secrets

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from tabletopic_kernel.clients.kafka.broker import Broker
    from tabletopic_kernel.clients.registry.registry import Registry
    from tabletopic_kernel.local.progress import Report
    from tabletopic_kernel.query.duckdb import DuckLake


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
            return (
                f"the local stack's {' and '.join(self.ended)} {_has(self.ended)} ended; "
                f"{next_step} {self.state_dir / 'logs'}"
            )
        if self.starting:
            return f"the local stack's {' and '.join(self.starting)} {_is(self.starting)} starting"
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
        """The properties of the catalog in a topic's settings; None for the default one.

        Raises:
            SettingsError: there is no catalog with that name here.
        """
        if name is None:
            return self.catalog
        if name in self.catalogs:
            return self.catalogs[name]
        others = f", only {', '.join(self.catalogs)}" if self.catalogs else ""
        raise SettingsError(
            f"[catalogs.{name}] is not in the settings here{others}. Add it to tabletopic.toml on every "
            "machine that runs hosts or commands, and restart the hosts"
        )

    def away(self) -> MissingServers:
        """The embedded stack's servers that are not running; sends no requests, takes milliseconds.

        Raises:
            StackError: the state folder is damaged.
        """
        from tabletopic_kernel.local.stack import LocalStack  # noqa: PLC0415 - psutil

        stack = LocalStack(self.state_dir, servers=self.local).known() if self.local else None
        if stack is None:  # stopped; its addresses may be another stack's now
            return MissingServers((), (), self.state_dir)
        ended = tuple(name for name in stack.ended if name in self.local)
        starting = tuple(name for name in stack.starting if name in self.local)
        return MissingServers(ended, starting, self.state_dir)

    def __repr__(self) -> str:
        sections = {
            section: {name: mask_property(name, value) for name, value in getattr(self, section).items()}
            for section in ("kafka", "registry", "catalog")
        }
        sections |= {
            f"catalogs.{section}": {name: mask_property(name, value) for name, value in properties.items()}
            for section, properties in self.catalogs.items()
        }
        return (
            f"Servers({', '.join(f'{name}={value!r}' for name, value in sections.items())}, {self.state_dir})"
        )


def find_servers(settings: Settings) -> Servers:
    """Find servers from the settings; missing ones are the embedded stack's.

    A stack with a server that has ended is still the current one: hosts wait for that server, and the others
    respond. ``Servers.away`` names it.

    Raises:
        SettingsError: some are missing and no stack was started, or two catalogs have the same name.
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
    if catalog["name"].lower() in catalogs:
        raise SettingsError(
            f"[catalogs.{catalog['name'].lower()}]: [catalog] has this name in SQL; choose another name, or "
            "set another [catalog] name"
        )
    return Servers(kafka, registry, catalog, state_dir, local, catalogs)


def _has(names: tuple[str, ...]) -> str:
    return "has" if len(names) == 1 else "have"


def _is(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"


T = TypeVar("T")


class Clients:
    """Thread-safe, except for catalog objects, see ``open_catalog``."""

    def __init__(self, settings: Settings, servers: Servers) -> None:
        self.settings = settings
        self.servers = servers
        self._lock = threading.Lock()  # guards _client_locks
        self._client_locks: dict[str, threading.RLock] = {}
        self._clients: dict[str, Any] = {}
        self._of_thread = threading.local()
        self._probing = threading.Lock()
        # By catalog:
        self._probed: dict[str | None, SparkSession] = {}  # sessions whose executors share the storage
        self._probes: dict[str | None, int] = {}  # the number of finished probes
        self._probe_errors: dict[str | None, TableTopicError] = {}  # of the newest probe
        self._jars_error: StackError | None = None  # why the session lacks jars

    @property
    def broker(self) -> Broker:
        """The broker's client, for queries that fail fast.

        Raises:
            StackError: the embedded broker has ended.
            RetryableError: the embedded broker is starting.
        """
        self.servers.away().check("kafka")
        return self.patient_broker

    @property
    def patient_broker(self) -> Broker:
        """The broker's client for callers that wait for the broker."""
        from tabletopic_kernel.clients.kafka.broker import Broker  # noqa: PLC0415

        return self._once("broker", lambda: Broker(self.servers.kafka))

    @property
    def registry(self) -> Registry:
        """The registry's client, for queries that fail fast, like ``broker``."""
        from tabletopic_kernel.clients.registry.registry import Registry  # noqa: PLC0415

        def check() -> None:
            self.servers.away().check("registry")

        return self._once("registry", lambda: Registry(self.servers.registry, check))

    @property
    def patient_registry(self) -> Registry:
        """The registry's client for callers that wait for the registry."""
        from tabletopic_kernel.clients.registry.registry import Registry  # noqa: PLC0415

        return self._once("patient registry", lambda: Registry(self.servers.registry))

    @property
    def catalog(self) -> Catalog:
        """The default catalog, opened by PyIceberg once per thread: threads share no catalog object."""
        return self.catalog_of(None)

    def catalog_of(self, name: str | None) -> Catalog:
        """Like ``catalog``, for the catalog in a topic's settings. Raises like ``open_catalog``."""
        if not hasattr(self._of_thread, "catalogs"):
            self._of_thread.catalogs = {}
        opened: dict[str | None, Catalog] = self._of_thread.catalogs
        if name not in opened:
            opened[name] = self.open_catalog(name)
        return opened[name]

    def open_catalog(self, name: str | None = None) -> Catalog:
        """A new catalog object, for one thread alone; None for the default catalog.

        Raises:
            SettingsError: there is no such catalog, or its properties are wrong.
            RetryableError: it does not respond.
        """
        from tabletopic_kernel.clients.catalog.catalog import in_section, open_catalog  # noqa: PLC0415

        with in_section(name):
            return open_catalog(self.servers.catalog_of(name))

    def spark(self, report: Report | None = None) -> SparkSession:
        """This process's Spark session with the catalogs; started by the first call (5 to 10 s).

        Raises:
            StackError: jars that a catalog needs could not be downloaded.
        """
        session = self.plain_session(report)
        if self._jars_error is not None:
            raise self._jars_error
        return session

    def plain_session(self, report: Report | None) -> SparkSession:
        """Like ``spark``, but jars of catalogs may be missing: only queries need them."""
        from tabletopic_kernel.clients.catalog.engine_properties import spark_extras  # noqa: PLC0415
        from tabletopic_kernel.clients.spark.session import SparkPlace, forget, is_alive, start_spark  # noqa: PLC0415
        from tabletopic_kernel.local.java import jvm  # noqa: PLC0415
        from tabletopic_kernel.local.machine import logs_folder, need_limits  # noqa: PLC0415
        from tabletopic_kernel.local.progress import silent  # noqa: PLC0415

        def start() -> SparkSession:
            need_limits()
            jars = jvm.spark_jars(report or silent)
            self._jars_error = None
            try:
                extras = [extra for catalog in self.servers.all_catalogs for extra in spark_extras(catalog)]
                jars += jvm.spark_extras(tuple(dict.fromkeys(extras)), report or silent)
            except StackError as error:
                self._jars_error = error
            archive = jvm.spark_archive()
            home = str(jvm.spark_java_home(self.servers.state_dir, archive))
            place = SparkPlace(home, tuple(map(str, jars)), logs_folder(self.servers.state_dir))
            return start_spark(self.settings.spark, place, *self.servers.all_catalogs)

        session = self._clients.get("spark")
        if session is not None and not is_alive(session):  # calls the JVM, so not under the lock
            with self._lock:
                is_first = self._clients.get("spark") is session
                if is_first:
                    del self._clients["spark"]
            if is_first:
                forget(session)
        return self._once("spark", start)

    def host_spark(self, report: Report | None = None, catalog: str | None = None) -> SparkSession:
        """Like ``spark``, for table topics: probes that a cluster's executors can run them.

        Raises:
            ActionNeededError: the executors do not run this program, or do not share the catalog's storage.
            RetryableError: the cluster runs nothing.
        """
        session = self.plain_session(report)
        if not self.settings.spark.is_local:
            self._probe(session, catalog)
        return session

    def _probe(self, session: SparkSession, name: str | None) -> None:
        from tabletopic_kernel.clients.catalog.catalog import in_section, warehouse_location  # noqa: PLC0415
        from tabletopic_kernel.model.settings.cluster import local_warehouse  # noqa: PLC0415

        catalog = self.servers.catalog_of(name)
        warehouse = warehouse_location(catalog) or local_warehouse(catalog)
        before = self._probes.get(name, 0)
        with self._probing:
            if self._probed.get(name) is session:
                return
            if self._probes.get(name, 0) != before and (error := self._probe_errors.get(name)) is not None:
                # Another thread's probe has just ended: topics do not wait for probes in turn.
                raise type(error)(*error.args) from error
            try:
                with in_section(name):
                    self.check_cluster(session, catalog, warehouse)
                self._probed[name] = session
                self._probe_errors.pop(name, None)
            except TableTopicError as trouble:
                self._probe_errors[name] = trouble
                raise
            finally:
                self._probes[name] = self._probes.get(name, 0) + 1

    def check_cluster(self, session: SparkSession, catalog: dict[str, str], warehouse: str | None) -> None:
        """Check that executors run this program and share the storage; raises as ``host_spark``."""
        from tabletopic_kernel.clients.spark import cluster_probe  # noqa: PLC0415

        cluster_probe.check_executors(session)
        if warehouse is not None:
            cluster_probe.check_shared_storage(session, catalog, warehouse)

    @property
    def lake(self) -> DuckLake:
        """The tables for SQL with DuckDB, with its own catalog objects."""
        from tabletopic_kernel.query.duckdb import DuckLake  # noqa: PLC0415

        others = {name: partial(self.open_catalog, name) for name in self.servers.catalogs}
        return self._once("lake", lambda: DuckLake(self.open_catalog(), others=others))

    def _once(self, name: str, create: Callable[[], T]) -> T:
        # One lock per client: while Spark starts, the others are available.
        with self._lock:
            client_lock = self._client_locks.setdefault(name, threading.RLock())
        with client_lock:
            if name not in self._clients:
                self._clients[name] = create()
            client: T = self._clients[name]
            return client
