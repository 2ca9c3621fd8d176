"""The workbench: all table topics of a cluster, and the one object that all faces use.

Longer than other modules, as it is the API: a method for each operation, which does little itself.
"""

from __future__ import annotations

import difflib
import getpass
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.errors import SettingsError, UnknownTopicError, UsageError
from tabletopic_kernel.model.redact import mask
from tabletopic_kernel.model.settings.cluster import out_of_reach
from tabletopic_kernel.model.settings.desired import DesiredTopic, MaintenanceRequest, ReplayRequest, Request
from tabletopic_kernel.model.settings.options import altered, validated
from tabletopic_kernel.model.settings.sections import Settings, TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier, table_name
from tabletopic_kernel.model.topic_names import (
    CONTROL_TOPIC,
    check_table_topic,
    check_topic_name,
    internal_owner,
)
from tabletopic_kernel.workbench.clients import Clients, Servers, find_servers
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.topic import TableTopic

if TYPE_CHECKING:  # loaded on first use: each takes a good part of a second
    from pyspark.sql import SparkSession

    from tabletopic_kernel.host.host import Host
    from tabletopic_kernel.host.metrics.server import Address
    from tabletopic_kernel.host.metrics.watch import HostWatch
    from tabletopic_kernel.host.replay.dry_run import ReplayPlan
    from tabletopic_kernel.model.progress.events import (
        Compacted,
        ControlEvent,
        Expired,
        OrphansRemoved,
        Replayed,
    )
    from tabletopic_kernel.query.answer import Answer
    from tabletopic_kernel.table.compaction.plan import CompactionPlan
    from tabletopic_kernel.table.expiry import ExpiryPlan
    from tabletopic_kernel.table.schemas.registered import Candidate
    from tabletopic_kernel.table.topic_table import TopicTable
    from tabletopic_kernel.workbench.hosts import HostStatus
    from tabletopic_kernel.workbench.plan import Plan
    from tabletopic_kernel.workbench.status import TopicStatus

__all__ = ["Servers", "TableTopic", "Workbench", "find_servers"]


_RESUME_S = 5.0  # until a host has reported that it resumed a topic


class Workbench(Clients):
    """Table topics of one cluster: enable and disable them, query their status, run them.

    Cheap to create; the broker, registry, catalog and Spark clients are created on first use.

    Raises:
        SettingsError: see ``find_servers``.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        settings = settings if settings is not None else load_settings().settings
        super().__init__(settings, find_servers(settings))

    def __repr__(self) -> str:
        return f"<Workbench at {mask(self.servers.kafka.get('bootstrap.servers', ''))}>"

    # -- enabling and disabling topics

    def settings_for(self, topic: str, given: Mapping[str, Any] | None = None) -> TopicSettings:
        """The settings of ``[topics.<topic>]``, overridden by those given.

        Raises:
            SettingsError: a value is wrong, and the message names the key; or there is no such catalog.
        """
        base = self.settings.topics.get(topic)
        settings = validated(
            self._without_default({**(base.model_dump(exclude_unset=True) if base else {}), **(given or {})})
        )
        self.servers.catalog_of(settings.catalog)
        return settings

    def _without_default(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings without the default catalog's name: they mean the same table."""
        return {**given, "catalog": None} if given.get("catalog") == self.servers.catalog["name"] else given

    def topic(self, name: str) -> TableTopic:
        """A handle of one topic, enabled or not; queries nothing yet.

        Raises:
            UsageError: Kafka does not allow this name.
        """
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

    def plan(
        self,
        topic: str,
        given: Mapping[str, Any] | None = None,
        *,
        schema: str | Path | None = None,
        schema_type: str | None = None,
    ) -> Plan:
        """What ``enable`` would do with these settings, and why it would not; changes nothing.

        Args:
            topic: an existing Kafka topic.
            given: as for ``enable``.
            schema: file with an unregistered schema (.avsc, .proto, .json): what would it change? The
                settings are then the enabled topic's current ones, if it is enabled.
            schema_type: ``avro``, ``protobuf`` or ``json``, for a file with another extension.

        Raises:
            UsageError: no such topic, an unknown setting, an unreadable file.
            RetryableError: broker, registry or catalog do not respond.
        """
        from tabletopic_kernel.table.schemas.registered import read_candidate  # noqa: PLC0415

        check_table_topic(topic)
        if schema is None and schema_type is not None:
            raise UsageError("--schema-type requires --schema")
        candidate = read_candidate(schema, schema_type) if schema is not None else None
        desired_topics = self.desired_topics()
        desired = desired_topics.get(topic) if candidate else None
        if desired is not None:
            settings = altered(topic, desired.settings, self._without_default(given or {}))
        else:
            settings = self.settings_for(topic, given)
        return self._plan(topic, settings, desired_topics, candidate)

    def enable(self, topic: str, given: Mapping[str, Any] | None = None) -> DesiredTopic:
        """Enable a topic: check everything, then write one message.

        Catalog and storage are tested with a change and a file, which are undone.

        Args:
            topic: an existing Kafka topic.
            given: fields of ``TopicSettings`` that differ from the settings file's.

        Raises:
            UsageError: no such topic, an invalid setting or partition expression, a foreign table.
            ActionNeededError: catalog or storage do not permit what a table topic does there.
            RetryableError: broker, registry, catalog or storage do not respond.
        """
        from tabletopic_kernel.clients.catalog.catalog import in_section  # noqa: PLC0415
        from tabletopic_kernel.clients.storage.probe import try_table  # noqa: PLC0415
        from tabletopic_kernel.host.topics.settings_topic import write_desired  # noqa: PLC0415

        check_table_topic(topic)
        settings = self.settings_for(topic, given)
        self.broker.facts(topic)
        properties = self.servers.catalog_of(settings.catalog)
        with in_section(settings.catalog):
            try_table(properties, table_identifier(topic, settings), settings.table_properties)
        self._plan(topic, settings, self.desired_topics()).check()
        desired = self._make_desired(topic, settings, "on")
        write_desired(self.broker, topic, desired)
        return desired

    def alter(self, topic: str, given: Mapping[str, Any]) -> DesiredTopic:
        """Change settings of an enabled topic; other settings stay as they are.

        Within seconds its host commits what is staged and continues from the ledger with the new settings.

        Args:
            topic: a table topic.
            given: fields of ``TopicSettings``; table properties are added to the existing ones. None or empty
                text unsets an optional one.

        Raises:
            UsageError: the topic is not enabled, a setting is invalid or, as it defines the table, fixed.
            RetryableError: broker, registry or catalog do not respond.
        """
        if not given:
            raise UsageError("nothing to change: name a setting")
        desired_topics = self.desired_topics()
        before = self._desired_of(topic, desired_topics).settings
        given = self._without_default(given)
        settings = altered(topic, before, given)
        if settings == before:
            return desired_topics[topic]
        self._plan(topic, settings, desired_topics).check()

        def change(now: DesiredTopic) -> DesiredTopic:
            found = altered(topic, now.settings, given)
            if found != settings:  # somebody else changed others meanwhile
                self._plan(topic, found, desired_topics).check()
            return self._make_desired(topic, found, now.run)

        return self._change(topic, change)

    def disable(self, topic: str) -> None:
        """Disable a topic: its host commits staged files and releases it. The table stays."""
        from tabletopic_kernel.host.topics.settings_topic import write_desired  # noqa: PLC0415

        self.desired_topic(topic)
        write_desired(self.broker, topic, None)

    def pause(self, topic: str) -> DesiredTopic:
        """Pause reading; the topic stays enabled."""
        return self._rewrite(topic, "paused")

    def resume(self, topic: str) -> DesiredTopic:
        """Resume after a pause or a failure."""
        return self._rewrite(topic, "on")

    def commit(self, topic: str) -> None:
        """Ask the topic's host to commit what the topic contains now, before it is due.

        Raises:
            UsageError: the topic is not enabled.
        """
        self._request(topic, {"commit_asked_ms": now_ms()})

    def replay(self, topic: str, where: str | None = None, *, timeout_s: float = 120) -> Replayed | None:
        """Replay a topic's dead letters with the current settings; waits for its host to do it.

        Args:
            topic: a table topic that a host runs.
            where: a condition on the columns of the dead-letter table; None selects all letters.
            timeout_s: how long to wait for the outcome.

        Returns:
            The outcome; None if the replay has not ended yet.

        Raises:
            UsageError: the topic is not enabled, paused or failed, no host runs, or ``where`` cannot be
                parsed.
        """
        answers = self._answers(self.ask_for_replay(topic, where), timeout_s)
        return answers[-1] if answers else None

    def _answers(self, asked: Request, timeout_s: float) -> list[Any] | None:
        """The events that answer a request, of which the last is its outcome; None if that takes longer."""
        from tabletopic_kernel.host.topics.control_topic import read_events  # noqa: PLC0415
        from tabletopic_kernel.model.progress.events import is_outcome, request_of  # noqa: PLC0415

        deadline, answers = time.monotonic() + timeout_s, []
        since, follow = asked.events_from, lambda: time.monotonic() < deadline
        for event in read_events(self.broker.properties, None, since=since, follow=follow):
            if request_of(event) == asked.id:
                answers.append(event)
                if is_outcome(event, asked):
                    return answers
        return None

    def _stamp(self) -> dict[str, Any]:
        """Id and time of a request; see ``events_from`` of one."""
        end = self.broker.end_offsets([CONTROL_TOPIC]).get(CONTROL_TOPIC, {}).get(0, 0)
        return {"id": f"{uuid.uuid4().hex}@{end}", "asked_ms": now_ms()}

    def ask_for_replay(self, topic: str, where: str | None = None) -> ReplayRequest:
        """Request a replay without waiting: a ``Replayed`` event with its ``id`` reports the outcome.

        Arguments and errors as for ``replay``.
        """
        from tabletopic_kernel.host.replay.letters import dead_letters_where  # noqa: PLC0415

        desired = self.desired_topic(topic)
        dead_letters_where(where)
        self._check_acts(desired)
        asked = ReplayRequest(**self._stamp(), where=where)
        self._request(topic, {"replay": asked})
        return asked

    def plan_replay(self, topic: str, where: str | None = None) -> ReplayPlan:
        """What a replay would do; changes nothing. Arguments and errors as for ``replay``."""
        from tabletopic_kernel.host.replay.dry_run import plan_replay  # noqa: PLC0415

        settings = self.desired_topic(topic).settings
        return plan_replay(topic, settings, where, self.registry, self.open_catalog(settings.catalog))

    def compact(self, topic: str, where: str | None = None, *, timeout_s: float = 600) -> Compacted | None:
        """Compact small files of a topic's table; waits for its host to do it.

        Args:
            topic: a table topic that a host runs.
            where: a condition on the columns of the table, for files that may have such rows; None for all.
            timeout_s: how long to wait for the outcome.

        Returns:
            The outcome; None if the compaction has not ended yet.

        Raises:
            UsageError: the topic is not enabled, paused or failed, has no table, no host runs, or ``where``
                cannot be parsed.
        """
        answers = self._answers(self.ask_for_compaction(topic, where), timeout_s)
        return answers[-1] if answers else None

    def ask_for_compaction(self, topic: str, where: str | None = None) -> MaintenanceRequest:
        """Request a compaction without waiting: a ``Compacted`` event with the ``id`` reports the outcome.

        Arguments and errors as for ``compact``.
        """
        from tabletopic_kernel.table.compaction.plan import rows_where  # noqa: PLC0415

        if where is not None:
            rows_where(where, self._topic_table(topic).table.schema())
        return self.ask_for_maintenance(topic, "compact", where)

    def plan_compaction(self, topic: str, where: str | None = None) -> CompactionPlan:
        """What a compaction would merge; changes nothing. Arguments and errors as for ``compact``."""
        from tabletopic_kernel.table.compaction.plan import plan_compaction, rows_where  # noqa: PLC0415

        table = self._topic_table(topic).table
        return plan_compaction(table, where=rows_where(where, table.schema()), due_only=False)

    def _topic_table(self, topic: str) -> TopicTable:
        from tabletopic_kernel.table.topic_table import TopicTable  # noqa: PLC0415

        settings = self.desired_topic(topic).settings
        catalog = self.open_catalog(settings.catalog)
        table = TopicTable.load(catalog, table_identifier(topic, settings), topic)
        if table is None:
            raise UsageError(f"{topic} has no table yet")
        return table

    def expire(
        self, topic: str, *, orphans: bool = False, timeout_s: float = 600
    ) -> list[Expired | OrphansRemoved] | None:
        """Expire old snapshots of a topic's tables now; waits for its host to do it.

        Args:
            topic: a table topic that a host runs.
            orphans: also remove files that no snapshot needs; other writers' only when older than three days.
            timeout_s: how long to wait for the outcome.

        Returns:
            The outcome for the dead-letter table, if there is one, for the topic's own table, and for
            orphans; None if the expiry has not ended yet.

        Raises:
            UsageError: the topic is not enabled, paused or failed, or no host runs.
        """
        return self._answers(self.ask_for_maintenance(topic, "expire", orphans=orphans), timeout_s)

    def plan_expiry(self, topic: str, *, orphans: bool = False) -> list[ExpiryPlan]:
        """What an expiry would remove from each table; changes nothing. Arguments as for ``expire``.

        Raises:
            UsageError: the topic is not enabled.
            RetryableError, ActionNeededError: catalog or storage do not respond, or deny access.
        """
        from tabletopic_kernel.model.dead_letter import dead_letter_identifier  # noqa: PLC0415
        from tabletopic_kernel.table.expiry import plan_expiry  # noqa: PLC0415

        settings = self.desired_topic(topic).settings
        catalog = self.open_catalog(settings.catalog)
        own = table_identifier(topic, settings)
        both = (
            plan_expiry(catalog, identifier, settings, now_ms(), orphans=orphans)
            for identifier in (own, dead_letter_identifier(own))
        )
        return [plan for plan in both if plan is not None]

    def ask_for_maintenance(
        self,
        topic: str,
        work: Literal["compact", "expire"],
        where: str | None = None,
        *,
        orphans: bool = False,
    ) -> MaintenanceRequest:
        """Request maintenance before it is due without waiting: an event with its ``id`` follows.

        Raises:
            UsageError: the topic is not enabled, paused or failed, or no host runs.
        """
        self._check_acts(self.desired_topic(topic))
        asked = MaintenanceRequest(**self._stamp(), work=work, where=where, orphans=orphans)
        self._request(topic, {"maintenance": asked})
        return asked

    def _check_acts(self, desired: DesiredTopic) -> None:
        """Check that a host will act on a request for a topic: it would wait until the topic is resumed.

        Raises:
            UsageError: no host runs, or the topic is paused or failed.
        """
        if not self.hosts():
            raise UsageError("no host is running to do it; start one with `tabletopic serve`")
        topic, deadline = desired.topic, time.monotonic() + _RESUME_S
        while (status := self.status(topic)[0]).state in (State.PAUSED, State.FAILED):
            if desired.run == "paused" or time.monotonic() > deadline:
                why = f" ({status.error})" if status.error else ""
                raise UsageError(
                    f"{topic} is {status.state}{why}: its host does this once it runs; "
                    f"`tabletopic resume {topic}` comes first"
                )
            time.sleep(0.5)

    def desired_topics(self) -> dict[str, DesiredTopic]:
        """The enabled topics."""
        from tabletopic_kernel.host.topics.settings_topic import read_desired  # noqa: PLC0415

        return read_desired(self.broker)

    def desired_topic(self, topic: str) -> DesiredTopic:
        """The desired state of one topic; raises UsageError if it is not enabled."""
        return self._desired_of(topic, self.desired_topics())

    # -- questions

    def status(self, topic: str | None = None) -> list[TopicStatus]:
        """The status of all table topics, or of one; raises UsageError if it is not enabled."""
        from tabletopic_kernel.workbench.status import statuses  # noqa: PLC0415

        desired_topics = self.desired_topics() if topic is None else {topic: self.desired_topic(topic)}
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
        for event in read_events(self.broker.properties, since_ms, follow=follow):
            if topic is None or event.topic == topic:
                yield event

    def newest_events(self, topic: str | None = None, limit: int = 50) -> list[ControlEvent]:
        """The last events, newest first, without heartbeats; empty if no host has ever run.

        Raises:
            UsageError: there are none, and no such topic.
        """
        from tabletopic_kernel.host.topics.control_topic import newest_events  # noqa: PLC0415

        is_there = CONTROL_TOPIC in self.broker.topics()
        found = newest_events(self.broker.properties, topic, limit) if is_there else []
        if not found:
            self.check_known(topic)
        return found

    def logs(self, lines: int = 100, topic: str | None = None) -> list[str]:
        """The last lines that hosts on this machine logged, oldest first; with ``topic`` those about it.

        Raises:
            UsageError: there are none, and no such topic.
        """
        from tabletopic_kernel.workbench.logs import read_logs  # noqa: PLC0415

        found = read_logs(self.servers.state_dir, lines, topic)
        if not found:
            self.check_known(topic)
        return found

    def check_known(self, topic: str | None) -> None:
        """Raise UsageError, which names topics, if a topic is neither enabled nor in Kafka."""
        if topic is not None and topic not in self.kafka_topics():
            self.desired_topic(topic)

    def hosts(self) -> list[str]:
        """Ids of the live hosts."""
        from tabletopic_kernel.workbench.hosts import live_hosts  # noqa: PLC0415

        return live_hosts(self.broker)

    def host_statuses(self) -> list[HostStatus]:
        """The live hosts: what each runs, since when, its version and memory; see ``HostStatus``.

        Raises:
            RetryableError: the broker does not respond.
        """
        from tabletopic_kernel.workbench.hosts import host_statuses  # noqa: PLC0415

        return host_statuses(self.broker)

    def table_of(self, topic: str) -> str:
        """The dotted name of a topic's table, with its catalog unless that is the default one."""
        return table_name(topic, self.desired_topic(topic).settings)

    def query(
        self,
        sql: str,
        engine: Literal["duckdb", "spark", "athena"] = "duckdb",
        *,
        at: int | str | date | None = None,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Answer:
        """Query the tables, named ``table``, ``namespace.table`` or ``catalog.namespace.table``.

        Args:
            sql: in the engine's dialect; ``$name`` is a placeholder for a value of ``params``.
            engine: DuckDB responds faster; Spark can also write and supports Iceberg's procedures; Athena
                reads tables in Glue and S3 Tables.
            at: a snapshot id or a time to travel to; for Spark and Athena it is part of the SQL.
            params: values for ``$name``; DuckDB also accepts a sequence, for ``?``.
            limit: the maximum number of rows to fetch.

        Raises:
            UsageError: invalid SQL, no such table or snapshot.
            RetryableError: catalog or storage do not respond.
        """
        if engine == "duckdb":
            return self.lake.query(sql, at, params, limit)
        if at is not None:
            raise UsageError(f"with {engine}, write FOR TIMESTAMP AS OF or VERSION AS OF in the SQL")
        if params is not None and not isinstance(params, Mapping):
            raise UsageError(f"{engine} takes values by name: write $name, and params as a dictionary")
        if engine == "athena":
            from tabletopic_kernel.query.athena import AthenaLake  # noqa: PLC0415

            others = self.servers.catalogs
            athena = AthenaLake(self.servers.catalog, self.lake.tables, self.settings.athena, others=others)
            return athena.query(sql, params, limit)
        from tabletopic_kernel.query.spark import SparkLake  # noqa: PLC0415

        self._check_spark_reads(sql)
        self.lake.check_spark_writes(sql)
        return SparkLake(self.spark(), self.servers.catalog["name"]).query(sql, params, limit)

    def _check_spark_reads(self, sql: str) -> None:
        """Check that Spark can use the default catalog and those in the SQL."""
        from tabletopic_kernel.clients.catalog.catalog import in_section  # noqa: PLC0415
        from tabletopic_kernel.clients.catalog.engine_properties import spark_catalog  # noqa: PLC0415
        from tabletopic_kernel.query.sql import with_catalogs  # noqa: PLC0415

        spark_catalog(self.servers.catalog)
        _, named = with_catalogs(sql, dict.fromkeys(self.servers.catalogs))
        for at, (name, properties) in enumerate(self.servers.catalogs.items(), 1):
            if name in named:
                with in_section(name):
                    spark_catalog(properties, self.servers.all_catalogs[:at])

    # -- running

    def host(self) -> Host:
        """A host in this process; the caller starts and stops it.

        Raises:
            SettingsError: executors would not reach the warehouse or the broker.
        """
        from tabletopic_kernel.host.host import Host  # noqa: PLC0415
        from tabletopic_kernel.host.report import new_host_id  # noqa: PLC0415
        from tabletopic_kernel.host.services import Services  # noqa: PLC0415
        from tabletopic_kernel.host.topics.control_topic import ControlLog  # noqa: PLC0415

        if reasons := self.out_of_reach():
            raise SettingsError("; ".join(reasons))
        services = Services(
            catalog=self.open_catalog,
            spark=self.host_spark,
            broker=self.patient_broker,
            registry=self.patient_registry,
            control=ControlLog(self.servers.kafka),
            host=new_host_id(),
            other_catalog=self.open_catalog,
            other_spark=self._spark_of,
        )
        return Host(services)

    def _spark_of(self, catalog: str) -> SparkSession:
        if reasons := self.out_of_reach(catalog):
            raise SettingsError("; ".join(reasons))
        return self.host_spark(catalog=catalog)

    def watch(self, host: Host, address: Address) -> HostWatch:
        """Metrics, health and readiness of a host over HTTP; the caller starts it before the host.

        Raises:
            UsageError: nothing can listen at the address.
        """
        from tabletopic_kernel.clients.catalog.catalog import in_section, reachable  # noqa: PLC0415
        from tabletopic_kernel.host.metrics.watch import HostWatch  # noqa: PLC0415

        def ask_catalog(catalog: str | None, namespace: str) -> None:
            with in_section(catalog), reachable("the catalog"):
                self.catalog_of(catalog).namespace_exists(namespace)

        names: dict[str | None, str] = {None: self.servers.catalog["name"]}
        names |= {name: name for name in self.servers.catalogs}
        registry = self.patient_registry.check
        return HostWatch(host, self.patient_broker, registry, ask_catalog, names, address)

    def _desired_of(self, topic: str, desired_topics: Mapping[str, DesiredTopic]) -> DesiredTopic:
        if topic in desired_topics:
            return desired_topics[topic]
        check_topic_name(topic)
        enabled = sorted(desired_topics)
        known = f"; enabled: {', '.join(enabled[:10])}{', …' * (len(enabled) > 10)}" if enabled else ""
        topics = self.kafka_topics()
        if topic in topics:
            raise UnknownTopicError(
                f"{topic} is not enabled{known}. Enable it with `tabletopic enable {topic}`"
            )
        near = difflib.get_close_matches(topic, topics, n=3)
        meant = f"; did you mean {' or '.join(near)}?" if near else known
        raise UnknownTopicError(f"{topic} is not enabled, and Kafka has no such topic{meant}")

    def _plan(
        self,
        topic: str,
        settings: TopicSettings,
        desired_topics: Mapping[str, DesiredTopic],
        candidate: Candidate | None = None,
    ) -> Plan:
        from tabletopic_kernel.clients.catalog.catalog import in_section  # noqa: PLC0415
        from tabletopic_kernel.workbench.plan import plan_enable  # noqa: PLC0415

        others = {
            table_identifier(other, desired.settings): other
            for other, desired in desired_topics.items()
            if other != topic and desired.settings.catalog == settings.catalog
        }
        with in_section(settings.catalog):
            catalog = self.catalog_of(settings.catalog)
            plan = plan_enable(topic, settings, self.broker, self.registry, catalog, others, candidate)
        plan.refused.extend(self.out_of_reach(settings.catalog))
        return plan

    def out_of_reach(self, catalog: str | None = None) -> list[str]:
        """Why the executors of a Spark cluster could not run topics of a catalog; empty if they can."""
        return out_of_reach(self.settings.spark, self.servers.kafka, self.servers.catalog_of(catalog))

    def _rewrite(self, topic: str, run: str) -> DesiredTopic:
        return self._change(topic, lambda now: self._make_desired(topic, now.settings, run))

    def _request(self, topic: str, request: Mapping[str, Any]) -> None:
        self._change(topic, lambda now: now.model_copy(update=request))

    def _change(self, topic: str, change: Callable[[DesiredTopic], DesiredTopic]) -> DesiredTopic:
        """Change the desired state, whatever others make of it meanwhile; UsageError if they disabled it."""
        from tabletopic_kernel.host.topics.settings_topic import change_desired  # noqa: PLC0415

        def of(now: DesiredTopic | None) -> DesiredTopic:
            if now is None:  # whatever the topic's newest message says: it may be ours, and not count
                others = self.desired_topics()
                others.pop(topic, None)
                return self._desired_of(topic, others)
            return change(now)

        return change_desired(self.broker, topic, of)

    def _make_desired(self, topic: str, settings: TopicSettings, run: str) -> DesiredTopic:
        return DesiredTopic.model_validate(
            {
                "topic": topic,
                "run": run,
                "settings": settings,
                "requested_by": _user(),
                "requested_at_ms": now_ms(),
            }
        )


def _user() -> str:
    """The user's name; in a container whose user has none, the number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
