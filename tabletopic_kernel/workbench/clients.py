"""The clients of a workbench: broker, registry, catalog, Spark, DuckDB, each made when first used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.servers import Servers

if TYPE_CHECKING:  # loaded when first used: each costs a good part of a second
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from tabletopic_kernel.clients.kafka.broker import Broker
    from tabletopic_kernel.clients.registry import Registry
    from tabletopic_kernel.local.progress import Report
    from tabletopic_kernel.query.duckdb import DuckLake

T = TypeVar("T")


class Clients:
    """May be used by several threads; the catalog object is for one at a time, see ``open_catalog``."""

    def __init__(self, settings: Settings, servers: Servers) -> None:
        self.settings = settings
        self.servers = servers
        self._lock = threading.Lock()  # guards _making
        self._making: dict[str, threading.RLock] = {}
        self._made: dict[str, Any] = {}
        self._own = threading.local()
        self._probing = threading.Lock()
        self._probed: SparkSession | None = None  # whose executors share the storage
        self._probes = 0  # that have ended
        self._probe_error: TableTopicError | None = None  # of the newest

    @property
    def broker(self) -> Broker:
        """The broker's client, for questions.

        Raises:
            StackError: it is the embedded one, and has ended: waiting for an answer would say less, later.
            RetryableError: the same, and it is just starting.
        """
        self.servers.away().check("kafka")
        return self.patient_broker

    @property
    def patient_broker(self) -> Broker:
        """The broker's client for those who wait until it is there."""
        from tabletopic_kernel.clients.kafka.broker import Broker  # noqa: PLC0415

        return self._once("broker", lambda: Broker(self.servers.kafka))

    @property
    def registry(self) -> Registry:
        """The registry's client, for questions; they raise as ``broker`` where the embedded one is away."""
        from tabletopic_kernel.clients.registry import Registry  # noqa: PLC0415

        def check() -> None:
            self.servers.away().check("registry")

        return self._once("registry", lambda: Registry(self.servers.registry, check))

    @property
    def patient_registry(self) -> Registry:
        """The registry's client for those who wait until it is there."""
        from tabletopic_kernel.clients.registry import Registry  # noqa: PLC0415

        return self._once("patient registry", lambda: Registry(self.servers.registry))

    @property
    def catalog(self) -> Catalog:
        """The catalog, opened by PyIceberg: one for each thread, as they are not shared."""
        if not hasattr(self._own, "catalog"):
            self._own.catalog = self.open_catalog()
        found: Catalog = self._own.catalog
        return found

    def open_catalog(self) -> Catalog:
        """A catalog object of one's own: they are not shared between threads."""
        from tabletopic_kernel.clients.catalog import open_catalog  # noqa: PLC0415

        return open_catalog(self.servers.catalog)

    def spark(self, report: Report | None = None) -> SparkSession:
        """This process's Spark session with the catalog; started on the first call (5 to 10 s)."""
        from tabletopic_kernel.clients.spark import SparkPlace, forget, is_alive, start_spark  # noqa: PLC0415
        from tabletopic_kernel.local.java import jvm  # noqa: PLC0415
        from tabletopic_kernel.local.machine import logs_folder  # noqa: PLC0415
        from tabletopic_kernel.local.progress import silent  # noqa: PLC0415

        def start() -> SparkSession:
            jars = tuple(str(path) for path in jvm.spark_jars(report or silent))
            archive = jvm.spark_archive()
            home = str(jvm.spark_java_home(self.servers.state_dir, archive))
            place = SparkPlace(home, jars, logs_folder(self.servers.state_dir))
            return start_spark(self.settings.spark, place, self.servers.catalog)

        made = self._made.get("spark")
        if made is not None and not is_alive(made):  # asks the JVM, so without the lock
            with self._lock:
                is_ours = self._made.get("spark") is made
                if is_ours:
                    del self._made["spark"]
            if is_ours:
                forget(made)
        return self._once("spark", start)

    def host_spark(self, report: Report | None = None) -> SparkSession:
        """As ``spark``, for table topics: the executors of a cluster have shown that they share the storage.

        Raises:
            ActionNeededError: they do not.
            RetryableError: the cluster runs nothing.
        """
        session = self.spark(report)
        if not self.settings.spark.is_local:
            self._probe(session)
        return session

    def _probe(self, session: SparkSession) -> None:
        from tabletopic_kernel.clients.catalog import warehouse_location  # noqa: PLC0415
        from tabletopic_kernel.clients.cluster_probe import check_shared_storage  # noqa: PLC0415
        from tabletopic_kernel.model.settings.cluster import local_warehouse  # noqa: PLC0415

        catalog = self.servers.catalog
        warehouse = warehouse_location(catalog) or local_warehouse(catalog)
        if warehouse is None:
            return
        before = self._probes
        with self._probing:
            if self._probed is session:
                return
            if self._probes != before and (error := self._probe_error) is not None:
                # Of a trial that ended meanwhile: topics do not wait one after the other.
                raise type(error)(*error.args) from error
            try:
                check_shared_storage(session, catalog, warehouse)
                self._probed, self._probe_error = session, None
            except TableTopicError as trouble:
                self._probe_error = trouble
                raise
            finally:
                self._probes += 1

    @property
    def lake(self) -> DuckLake:
        """The tables for SQL by DuckDB, with a catalog object of its own."""
        from tabletopic_kernel.query.duckdb import DuckLake  # noqa: PLC0415

        return self._once("lake", lambda: DuckLake(self.open_catalog()))

    def _once(self, name: str, make: Callable[[], T]) -> T:
        # A lock for each: while Spark starts, the others can be had.
        with self._lock:
            making = self._making.setdefault(name, threading.RLock())
        with making:
            if name not in self._made:
                self._made[name] = make()
            made: T = self._made[name]
            return made
