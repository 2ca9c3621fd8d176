"""Periodic polls: broker and settings topic in one thread, tables in another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tabletopic_kernel.clients.kafka.open_transactions import open_transactions
from tabletopic_kernel.clients.kafka.reader import oldest_timestamps
from tabletopic_kernel.faces.live_dashboard.charts import moments_without_ends
from tabletopic_kernel.faces.live_dashboard.view import Known, Retention, TableFacts
from tabletopic_kernel.model.errors import RetryableError, TableTopicError, UsageError
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.table_names import in_sql, table_identifier
from tabletopic_kernel.workbench.status import progress_of_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from tabletopic_kernel.workbench.workbench import Workbench


# By the name of a catalog that failed to respond, or by catalog and topic of a table that failed.
_Errors = dict[str | tuple[str | None, str] | None, Exception]
WINDOWS_MS = {"10 minutes": 600_000, "2 hours": 7_200_000, "7 days": 604_800_000}
_DESIRED_S, _HOSTS_S, _CLUSTER_S, _OLDEST_S, _RETENTION_S = 3.0, 4.0, 10.0, 1.5, 60.0
_UNREPORTED_S = 15.0
_REREAD_S = 30.0
_HEALTH_S = 15.0  # reads all manifests of the head
_METADATA_S = 1.0  # a table with thousands of snapshots takes a while to read
_SHOWN = 50  # snapshots
_SAMPLES = 40  # times per window whose end offsets are looked up by the topic's own timestamps


class _Schedule:
    """Times at which tasks are due again."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def due(self, task: str, seconds: float, now: float) -> bool:
        """Whether the task is due; if so, counts as done."""
        if now < self._next.get(task, 0.0):
            return False
        self._next[task] = now + seconds
        return True


class BrokerPolls:
    """Queries of the broker, for a single thread."""

    def __init__(self, workbench: Workbench, known: Known) -> None:
        self._workbench = workbench
        self._known = known
        self._schedule = _Schedule()
        self._cluster: str | None = None
        self._recalled: set[str] = set()

    def step(self, now: float, now_ms: int) -> bool:
        """Run the queries that are due; False if this is no longer the same cluster."""
        broker, known = self._workbench.broker, self._known
        if self._schedule.due("cluster", _CLUSTER_S, now):
            cluster = broker.cluster_id()
            if self._cluster not in (None, cluster):
                return False
            self._cluster = cluster
        if self._schedule.due("desired state", _DESIRED_S, now):
            known.know(desired_topics=self._workbench.desired_topics())
        desired_topics = dict(known.desired_topics or {})
        facts = broker.ends(desired_topics)
        ends = {topic: topic_facts.end for topic, topic_facts in facts.items()}
        with known.lock:
            known.record.observe_ends(now_ms, ends)
        if self._schedule.due("oldest", _OLDEST_S, now):
            self._poll_oldest(now_ms, ends)
            opened = open_transactions(broker, facts, now_ms)
            with known.lock:
                known.record.observe_open(opened)
        if self._schedule.due("hosts", _HOSTS_S, now):
            known.know(hosts=self._hosts())
        for topic in known.watched_topics():
            if topic in ends:
                self._poll_details(topic, ends[topic], now, now_ms)
        return True

    def _hosts(self) -> tuple[str, ...]:
        try:
            return tuple(self._workbench.hosts())
        except RetryableError:  # a broker that has just started does not know its groups yet
            return self._known.hosts

    def _poll_oldest(self, now_ms: int, ends: Mapping[str, Mapping[int, int]]) -> None:
        behind: dict[str, dict[int, int]] = {}
        with self._known.lock:
            for topic in ends:
                record = self._known.record.topic(topic)
                ledger = record.progress.next_offsets if record.progress else {}
                behind[topic] = {p: ledger.get(p, 0) for p, lag in record.lag_by_partition.items() if lag}
        oldest = oldest_timestamps(self._workbench.broker.properties, behind)
        with self._known.lock:
            self._known.record.observe_oldest(now_ms, {topic: oldest.get(topic) for topic in behind})

    def _poll_details(self, topic: str, ends: Mapping[int, int], now: float, now_ms: int) -> None:
        """Query what only a topic's page shows."""
        if self._schedule.due(f"retention {topic}", _RETENTION_S, now):
            config = self._workbench.broker.topic_config(topic)
            retention = Retention(
                ms=int(config.get("retention.ms", -1)),
                bytes=int(config.get("retention.bytes", -1)),
                cleanup_policy=config.get("cleanup.policy", "delete"),
            )
            with self._known.lock:
                self._known.retention[topic] = retention
        if topic not in self._recalled:
            self._recalled.add(topic)
            self._recall_ends(topic, list(ends), now_ms)

    def _recall_ends(self, topic: str, partitions: list[int], now_ms: int) -> None:
        """Look up end offsets from before this process began, to draw the lag of that time."""
        with self._known.lock:
            history = self._known.record.topic(topic).history
            moments = moments_without_ends(history, list(WINDOWS_MS.values()), now_ms, _SAMPLES)
        samples: dict[int, Mapping[int, int]] = {}
        for at_ms in reversed(moments):
            try:
                samples[at_ms] = self._workbench.broker.offsets_at(topic, partitions, at_ms)
            except UsageError:  # the topic was deleted in the meantime
                return
        with self._known.lock:
            self._known.record.recall_ends(topic, samples)


class TablePolls:
    """Queries of the catalogs, for topics with an open page or without a reporting host."""

    def __init__(self, workbench: Workbench, known: Known) -> None:
        self._workbench = workbench
        self._known = known
        self._schedule = _Schedule()
        self._catalogs: dict[str | None, Catalog] = {}
        self._shown: dict[str, int | None] = {}  # topic → the snapshot whose facts are known

    def step(self, now: float, now_ms: int) -> bool:
        """Run the queries that are due, then raise the first error of a catalog or a table; or True."""
        errors: _Errors = {}
        self._poll_unreported(now, now_ms, errors)
        for topic in self._known.watched_topics():
            with self._known.lock:
                desired = (self._known.desired_topics or {}).get(topic)
            if desired is not None:
                self._poll(desired, errors, partial(self._poll_table, topic, desired, now, now_ms))
            elif self._known.desired_topics is not None:
                self._poll_left(topic, errors, now, now_ms)
        for error in errors.values():
            raise error
        return True

    def _poll(self, desired: DesiredTopic, errors: _Errors, query: Callable[[], None]) -> None:
        """Query a catalog about a topic, unless it has just failed to respond."""
        from tabletopic_kernel.clients.catalog.catalog import in_section  # noqa: PLC0415 - PyIceberg costs half a second

        name = desired.settings.catalog
        if name in errors:
            return
        try:
            with in_section(name):
                query()
        except TableTopicError as error:
            errors[name] = error
        except Exception as error:  # this table may be damaged
            errors[name, desired.topic] = error

    def _catalog(self, name: str | None) -> Catalog:
        """A catalog object of this thread."""
        if name not in self._catalogs:
            self._catalogs[name] = self._workbench.open_catalog(name)
        return self._catalogs[name]

    def _poll_unreported(self, now: float, now_ms: int, errors: _Errors) -> None:
        """Query the tables of topics that no host reports, and at once if nothing is known."""
        known = self._known
        with known.lock:
            if known.history_read < 1.0:
                return  # an event may still report them
            desired_topics = dict(known.desired_topics or {})
            topics = [known.record.topic(name) for name in desired_topics]
            unknown = [record.topic for record in topics if record.progress is None]
            unreported = [record.topic for record in topics if not record.is_reported(now_ms)]
        due = unreported if self._schedule.due("unreported", _UNREPORTED_S, now) else unknown
        for topic in due:
            desired = desired_topics[topic]
            self._poll(desired, errors, partial(self._poll_progress, desired))

    def _poll_left(self, topic: str, errors: _Errors, now: float, now_ms: int) -> None:
        """Query the table that a topic has although it is not enabled."""
        if not self._schedule.due(f"left {topic}", _REREAD_S, now):
            return
        left = DesiredTopic(topic=topic, settings=self._workbench.settings_for(topic))
        self._poll(left, errors, partial(self._poll_table, topic, left, now, now_ms))
        if topic in self._known.tables:
            self._poll(left, errors, partial(self._poll_progress, left))

    def _poll_progress(self, desired: DesiredTopic) -> None:
        progress = progress_of_table(desired, self._catalog(desired.settings.catalog))
        with self._known.lock:
            self._known.record.read_from_table(progress)

    def _poll_table(self, topic: str, desired: DesiredTopic, now: float, now_ms: int) -> None:
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 - PyIceberg costs half a second

        from tabletopic_kernel.clients.catalog.catalog import reachable  # noqa: PLC0415 - the same
        from tabletopic_kernel.table.health import next_work, table_health  # noqa: PLC0415 - the same

        known = self._known
        with known.lock:
            progress = known.record.topic(topic).progress
            newest = progress.snapshot_id if progress else None
        changed = self._shown.get(topic, -1) != newest
        # Others commit too, and no event reports that.
        if not (changed or self._schedule.due(f"again {topic}", _REREAD_S, now)):
            return
        if not self._schedule.due(f"table {topic}", _METADATA_S, now):
            return
        try:
            with reachable("the catalog"):
                catalog = self._catalog(desired.settings.catalog)
                table = catalog.load_table(table_identifier(topic, desired.settings))
        except NoSuchTableError:
            return
        facts = facts_of(table, desired.settings.catalog)
        self._shown[topic] = newest
        health = known.health.get(topic)
        if self._schedule.due(f"health {topic}", _HEALTH_S, now):
            settings = desired.settings
            health = table_health(topic, table, next_work(table, settings, now_ms), settings.catalog)
        with known.lock:
            known.tables[topic] = facts
            if health is not None:
                known.health[topic] = health


def facts_of(table: Table, catalog: str | None = None) -> TableFacts:
    """The table's figures and its newest snapshots, from its metadata."""
    from tabletopic_kernel.table.changes.ledger_history import live_rows, summary  # noqa: PLC0415 - the same
    from tabletopic_kernel.table.history import snapshots  # noqa: PLC0415 - PyIceberg costs half a second

    head = table.metadata.current_snapshot()
    totals = summary(head) if head else {}
    return TableFacts(
        table=in_sql(table.name(), catalog),
        rows=live_rows(totals),
        files=int(totals.get("total-data-files", 0)),
        bytes=int(totals.get("total-files-size", 0)),
        snapshots_in_all=len(table.metadata.snapshots),
        snapshots=tuple(snapshots(table.metadata)[:_SHOWN]),
    )
