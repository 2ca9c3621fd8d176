"""The workbench: all table topics of a cluster, and the one object that all faces use."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.model.redact import mask
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC, check_topic_name, internal_owner, kafka_topic
from tabletopic_kernel.workbench.clients import Clients
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.config.servers import Servers, find_servers
from tabletopic_kernel.workbench.topics.topic import TableTopic

if TYPE_CHECKING:  # loaded on first use: each takes a good part of a second
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tabletopic_kernel.host.host import Host
    from tabletopic_kernel.host.metrics.server import Address
    from tabletopic_kernel.host.metrics.watch import HostWatch
    from tabletopic_kernel.model.progress.events import ControlEvent
    from tabletopic_kernel.model.settings.sections import TopicSettings
    from tabletopic_kernel.query.answer import Answer, Tail
    from tabletopic_kernel.query.duckdb import DuckLake
    from tabletopic_kernel.workbench.catalog.tables import Tables
    from tabletopic_kernel.workbench.hosts import HostStatus
    from tabletopic_kernel.workbench.topics.topic_status import TopicStatus

__all__ = ["Servers", "TableTopic", "Workbench", "find_servers"]

P = ParamSpec("P")
T = TypeVar("T")


def _by_name(
    method: Callable[Concatenate[TableTopic, P], T],
) -> Callable[Concatenate[Workbench, str, P], T]:
    """The topic's method, with the topic's name as an additional first argument."""

    @functools.wraps(method)
    def order(self: Workbench, topic: str, /, *args: P.args, **named: P.kwargs) -> T:
        return method(self.topic(topic), *args, **named)

    return order


class Workbench(Clients):
    """Table topics of one cluster: enable and disable them, query their status, run them.

    Cheap to create; its clients are created on first use. Without ``settings`` those of a ``profile``, by
    default TABLETOPIC_PROFILE. Raises SettingsError as ``find_servers``.
    """

    def __init__(self, settings: Settings | None = None, *, profile: str | None = None) -> None:
        settings = settings if settings is not None else load_settings(profile=profile).settings
        super().__init__(settings, find_servers(settings))

    def __repr__(self) -> str:
        address = mask(self.servers.kafka.get("bootstrap.servers", ""))
        return f"<Workbench at {address}, state in {self.servers.state_dir}>"

    def topic(self, name: str) -> TableTopic:
        """A handle of one topic, enabled or not; queries nothing yet. UsageError: Kafka forbids the name."""
        check_topic_name(name)
        return TableTopic(name, self)

    def kafka_topics(self) -> dict[str, int]:
        """All regular topics, enabled or not: their numbers of partitions, by name."""
        counts = self.broker.partition_counts()
        return {
            name: count
            for name, count in counts.items()
            if not name.startswith("__") and internal_owner(name) is None
        }

    # Orders and questions by the topic's name: ``workbench.pause("clicks")``.
    settings_for = _by_name(TableTopic.settings_for)
    desired_topic = _by_name(TableTopic.desired_state)
    table_of = _by_name(TableTopic.table_name)
    plan = _by_name(TableTopic.plan)
    enable = _by_name(TableTopic.enable)
    alter = _by_name(TableTopic.alter)
    disable = _by_name(TableTopic.disable)
    pause = _by_name(TableTopic.pause)
    resume = _by_name(TableTopic.resume)
    commit = _by_name(TableTopic.commit)
    replay = _by_name(TableTopic.replay)
    compact = _by_name(TableTopic.compact)
    expire = _by_name(TableTopic.expire)
    plan_replay = _by_name(TableTopic.plan_replay)
    plan_compaction = _by_name(TableTopic.plan_compaction)
    plan_expiry = _by_name(TableTopic.plan_expiry)
    ask_for_replay = _by_name(TableTopic.ask_for_replay)
    ask_for_compaction = _by_name(TableTopic.ask_for_compaction)
    ask_for_maintenance = _by_name(TableTopic.ask_for_maintenance)

    def desired_topics(self) -> dict[str, DesiredTopic]:
        """The enabled topics."""
        from tabletopic_kernel.host.topics.settings_topic import read_desired  # noqa: PLC0415

        return read_desired(self.broker)

    def status(self, topic: str | None = None) -> list[TopicStatus]:
        """The status of all table topics, or of one; raises UsageError if it is not enabled."""
        return self.statuses(self.desired_topics() if topic is None else {topic: self.desired_topic(topic)})

    def statuses(self, desired_topics: Mapping[str, DesiredTopic]) -> list[TopicStatus]:
        """The status of these topics."""
        from tabletopic_kernel.workbench.status import statuses  # noqa: PLC0415

        return statuses(self.broker, desired_topics, self.catalog_of)

    def events(
        self, topic: str | None = None, since_ms: int | None = None, follow: Callable[[], bool] | None = None
    ) -> Iterator[ControlEvent]:
        """Events of the control topic, oldest first; with ``follow`` continues while it is true."""
        from tabletopic_kernel.host.topics.control_topic import read_events  # noqa: PLC0415

        while CONTROL_TOPIC not in self.broker.topics():  # no host has ever run here
            if follow is None or not follow():
                return
            time.sleep(0.3)
        events = read_events(self.broker.properties, since_ms, follow=follow)
        yield from (event for event in events if topic is None or event.topic == topic)

    def newest_events(self, topic: str | None = None, limit: int = 50) -> list[ControlEvent]:
        """The last events, newest first, without heartbeats; UsageError if there is no such topic."""
        from tabletopic_kernel.host.topics.control_topic import newest_events  # noqa: PLC0415

        exists = CONTROL_TOPIC in self.broker.topics()
        events = newest_events(self.broker.properties, topic, limit) if exists else []
        if not events:
            self.check_known(topic)
        return events

    def logs(self, lines: int = 100, topic: str | None = None) -> list[str]:
        """The last lines that hosts here logged (about ``topic``), oldest first; or UsageError."""
        from tabletopic_kernel.workbench.logs import read_logs  # noqa: PLC0415

        if not (log_lines := read_logs(self.servers.state_dir, lines, topic)):
            self.check_known(topic)
        return log_lines

    def check_known(self, topic: str | None) -> None:
        """Raise UsageError, which names topics, if a topic is neither enabled nor in Kafka."""
        if topic is not None and kafka_topic(topic) not in self.kafka_topics():
            self.desired_topic(topic)

    def hosts(self) -> list[str]:
        """Ids of the live hosts."""
        from tabletopic_kernel.workbench.hosts import live_hosts  # noqa: PLC0415

        return live_hosts(self.broker)

    def host_statuses(self) -> list[HostStatus]:
        """The live hosts: what each runs, since when, its version and memory; see ``HostStatus``."""
        from tabletopic_kernel.workbench.hosts import host_statuses  # noqa: PLC0415

        return host_statuses(self.broker)

    @property
    def tables(self) -> Tables:
        """All tables of all catalogs, table topics or not, by their metadata."""
        from tabletopic_kernel.workbench.catalog.tables import Tables  # noqa: PLC0415

        return Tables(self)

    @property
    def lake(self) -> DuckLake:
        """The tables for SQL with DuckDB, with its own catalog objects."""
        return self._once("lake", self._make_lake)

    @property
    def sealed_lake(self) -> DuckLake:
        """The same for SQL that nobody has read; see ``query/statements/sealed.py``."""
        return self._once("sealed lake", lambda: self._make_lake(sealed=True))

    def _make_lake(self, *, sealed: bool = False) -> DuckLake:
        from tabletopic_kernel.query.duckdb import DuckLake  # noqa: PLC0415

        others = {name: functools.partial(self.open_catalog, name) for name in self.servers.catalogs}
        return DuckLake(self.open_catalog(), others=others, tails=self.tails, sealed=sealed)

    def tails(self, tables: Sequence[Table]) -> list[Tail | None]:
        """What topics have behind tables that were loaded; see ``LiveReads.tails``."""
        from tabletopic_kernel.workbench.topics.live import LiveReads  # noqa: PLC0415

        def settings_of(topics: Sequence[str]) -> dict[str, tuple[TopicSettings, bool]]:
            desired = self.desired_topics()
            return {
                name: (desired[name].settings, True) if name in desired else (self.settings_for(name), False)
                for name in topics
            }

        def made() -> LiveReads:
            return LiveReads(self.broker, self.registry, settings_of, self.settings.live)

        self.servers.away().check("kafka")
        return self._once("live reads", made).tails(tables)

    def query(
        self,
        sql: str,
        engine: Literal["duckdb", "spark", "athena"] = "duckdb",
        *,
        at: int | str | date | None = None,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        limit: int | None = None,
        live: bool = False,
        frames: Mapping[str, Any] | None = None,
        most_bytes: int | None = None,
    ) -> Answer:
        """Query the tables, named ``table``, ``namespace.table`` or ``catalog.namespace.table``.

        ``engine``: DuckDB responds faster; Spark can also write; Athena reads tables in Glue and S3 Tables.
        ``at``: a snapshot id or a time to travel to; for Spark and Athena it is part of the SQL. ``params``:
        values for ``$name``; for DuckDB also a sequence, for ``?``. ``limit``: of rows. ``live``: read the
        records behind the tables, too, with DuckDB; so does the name ``table$live`` in the SQL. ``frames``:
        DataFrames and Arrow tables that the SQL may read by name, with DuckDB; a table of the catalog wins.
        ``most_bytes``: with DuckDB, stop once the rows take as much. Raises UsageError (wrong SQL, no such
        table).
        """
        if engine == "duckdb":
            return self.lake.query(sql, at, params, limit, live=live, frames=frames, most_bytes=most_bytes)
        if live:
            raise UsageError(f"{engine} reads what is committed; live reads need the engine duckdb")
        if at is not None:
            raise UsageError(f"with {engine}, write FOR TIMESTAMP AS OF or VERSION AS OF in the SQL")
        if params is not None and not isinstance(params, Mapping):
            raise UsageError(f"{engine} takes values by name: write $name, and params as a dictionary")
        if engine == "athena":
            from tabletopic_kernel.query.athena import AthenaLake  # noqa: PLC0415

            others = self.servers.catalogs
            athena = AthenaLake(self.servers.catalog, self.lake.tables, self.settings.athena, others=others)
            return athena.query(sql, params, limit)
        from tabletopic_kernel.query.spark import SparkLake, check_catalogs  # noqa: PLC0415

        check_catalogs(sql, self.servers.catalog, self.servers.catalogs)
        self.lake.check_spark_writes(sql)
        return SparkLake(self.spark(), self.servers.catalog["name"]).query(sql, params, limit)

    def host(self) -> Host:
        """A host in this process; the caller starts and stops it. SettingsError: executors lack something."""
        from tabletopic_kernel.host.host import Host  # noqa: PLC0415
        from tabletopic_kernel.host.metrics.lineage import trace_to  # noqa: PLC0415
        from tabletopic_kernel.host.metrics.notifier import attach_notifier  # noqa: PLC0415
        from tabletopic_kernel.host.report import new_host_id  # noqa: PLC0415
        from tabletopic_kernel.host.services import Services  # noqa: PLC0415
        from tabletopic_kernel.host.topics.control_topic import ControlLog  # noqa: PLC0415

        def check_reach(catalog: str | None = None) -> None:
            if reasons := self.servers.out_of_reach(self.settings.spark, catalog):
                raise SettingsError("; ".join(reasons))

        def spark_of(catalog: str) -> SparkSession:
            check_reach(catalog)
            return self.host_spark(catalog=catalog)

        check_reach()
        services = Services(
            catalog=self.open_catalog,
            spark=self.host_spark,
            broker=self.patient_broker,
            registry=self.patient_registry,
            control=ControlLog(self.servers.kafka),
            host=new_host_id(),
            other_catalog=self.open_catalog,
            other_spark=spark_of,
            enable=lambda topic, kept: self.topic(topic).enable(
                kept.settings.model_dump(exclude_unset=True), pattern=kept.pattern
            ),
        )
        host = Host(services)
        attach_notifier(host, self.settings.notify)
        trace_to(host, self.settings.lineage, self.servers.kafka, self.servers.catalog)
        return host

    def watch(self, host: Host, address: Address) -> HostWatch:
        """Metrics, health and readiness of a host over HTTP; the caller starts it before the host."""
        from tabletopic_kernel.clients.catalog.catalog import in_section, reachable  # noqa: PLC0415
        from tabletopic_kernel.host.metrics.watch import HostWatch  # noqa: PLC0415

        def ask_catalog(catalog: str | None, namespace: str) -> None:
            with in_section(catalog), reachable("the catalog"):
                self.catalog_of(catalog).namespace_exists(namespace)

        names: dict[str | None, str] = {None: self.servers.catalog["name"]}
        names |= {name: name for name in self.servers.catalogs}
        registry = self.patient_registry.check
        return HostWatch(host, self.patient_broker, registry, ask_catalog, names, address)
