"""The clients of the current servers: broker, registry, catalog, Spark, DuckDB, created on first use.

Each client is a few lines that differ, around one cache.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tabletopic_kernel.local.machine import logs_folder, need_limits
from tabletopic_kernel.model.errors import StackError, TableTopicError
from tabletopic_kernel.model.settings.cluster import local_warehouse
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config.servers import Servers

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from tabletopic_kernel.clients.kafka.broker import Broker
    from tabletopic_kernel.clients.registry.registry import Registry
    from tabletopic_kernel.local.progress import Report


T = TypeVar("T")


class Clients:
    """Thread-safe, except for catalog objects, see ``open_catalog``."""

    def __init__(self, settings: Settings, servers: Servers) -> None:
        self.settings = settings
        self.servers = servers
        self.is_host = False  # this process runs table topics and no queries
        self._lock = threading.Lock()  # guards _client_locks
        self._client_locks: dict[str, threading.RLock] = {}
        self._clients: dict[str, Any] = {}
        self._of_thread = threading.local()
        self._probing = threading.Lock()
        # By catalog: the session, when its probe ended, and its error.
        self._probes: dict[str | None, tuple[SparkSession, float, TableTopicError | None]] = {}
        self._jars_error: StackError | None = None  # why the session lacks jars

    @property
    def broker(self) -> Broker:
        """The broker's client, for queries that fail fast: if the embedded one has ended, or is starting."""
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
        """A new catalog object, for one thread alone; SettingsError if it is unknown or misconfigured."""
        from tabletopic_kernel.clients.catalog.catalog import in_section, open_catalog  # noqa: PLC0415

        with in_section(name):
            return open_catalog(self.servers.catalog_of(name))

    def spark(self, report: Report | None = None) -> SparkSession:
        """This process's Spark session with the catalogs; the first call takes 5 to 10 s.

        Raises StackError if jars that a catalog needs could not be downloaded.
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
            archive = jvm.archive_of("spark").find()
            home = str(jvm.spark_java_home(self.servers.state_dir, archive))
            logs = logs_folder(self.servers.state_dir)
            place = SparkPlace(home, tuple(map(str, jars)), logs, self.is_host)
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

        Raises ActionNeededError if they do not run this program, or do not share the catalog's storage.
        """
        session = self.plain_session(report)
        if not self.settings.spark.is_local:
            self._probe(session, catalog)
        return session

    def _probe(self, session: SparkSession, name: str | None) -> None:
        from tabletopic_kernel.clients.catalog.catalog import in_section, warehouse_location  # noqa: PLC0415

        catalog = self.servers.catalog_of(name)
        warehouse = warehouse_location(catalog) or local_warehouse(catalog)
        asked_s, error = time.monotonic(), None
        with self._probing:
            probed, ended, trouble = self._probes.get(name, (None, 0.0, None))
            if probed is session and trouble is None:
                return
            if trouble is not None and ended > asked_s:
                # Another thread's probe has just ended: topics do not wait for probes in turn.
                raise type(trouble)(*trouble.args) from trouble
            try:
                with in_section(name):
                    self.check_cluster(session, catalog, warehouse)
            except TableTopicError as failure:
                error = failure
                raise
            finally:
                self._probes[name] = session, time.monotonic(), error

    def check_cluster(self, session: SparkSession, catalog: dict[str, str], warehouse: str | None) -> None:
        """Check that executors run this program and share the storage; raises as ``host_spark``."""
        from tabletopic_kernel.clients.spark import cluster_probe  # noqa: PLC0415

        cluster_probe.check_executors(session)
        if warehouse is not None:
            cluster_probe.check_shared_storage(session, catalog, warehouse)

    def _once(self, name: str, create: Callable[[], T]) -> T:
        # One lock per client: while Spark starts, the others are available.
        with self._lock:
            client_lock = self._client_locks.setdefault(name, threading.RLock())
        with client_lock:
            if name not in self._clients:
                self._clients[name] = create()
            client: T = self._clients[name]
            return client
