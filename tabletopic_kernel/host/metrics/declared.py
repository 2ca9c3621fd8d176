"""Every metric of a host, declared once: the collector, docs, dashboard and alert rules follow from it.

Names follow Prometheus: they end in a base unit, and those of counters in ``_total``. No label contains text
from a server: labels are names of topics and catalogs, partition numbers, and words from fixed lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, Literal

from tabletopic_kernel.model.commit_cycle import State


class Group(StrEnum):
    """The subject of a metric: a section of the docs, a row of the dashboard."""

    LAG = "Lag"
    WORK = "Work"
    TROUBLE = "Trouble"
    TABLE = "Tables"
    HOST = "Host"


@dataclass(frozen=True)
class Declared:
    """One metric. ``labels`` excludes those of the scrape; ``unit`` is Prometheus' name of a base unit."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    group: Group
    help: str
    labels: tuple[str, ...] = ()
    unit: Literal["", "seconds", "bytes"] = ""

    @cached_property
    def sample(self) -> str:
        """The name as queries use it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


# The states to show: the protocol's own change several times a second.
STATES: Final = {
    State.STARTING: "starting",
    State.RUNNING: "running",
    State.STAGED: "running",
    State.COMMITTING: "running",
    State.SETTLING: "waiting",
    State.WAITING: "waiting",
    State.DRAINING: "stopping",
    State.DROPPING: "stopping",
    State.CLOSING: "stopping",
    State.CLOSING_SETTLING: "stopping",
    State.CLOSED: "stopping",
    State.STOPPED: "stopping",
    State.PAUSED: "paused",
    State.FAILED: "failed",
}
SHOWN_STATES: Final = tuple(dict.fromkeys(STATES.values()))
SERVERS: Final = ("broker", "registry", "catalog")


class Failure(StrEnum):
    """The label ``kind`` of ``tabletopic_failures_total``."""

    WAITS = "waits"  # a server is down; the host retries
    STOPS = "stops"  # the topic stopped, and a person must act
    COMMIT = "commit"  # a commit did not go through
    SCHEMA = "schema"  # a schema does not fit the table
    REPLAY = "replay"  # a replay of dead letters ended early
    MAINTENANCE = "maintenance"  # a compaction, an expiry or a removal of orphans ended early


# Above the last: +Inf. Commits take 50 ms on a disk and seconds on a slow catalog; batches take longer.
COMMIT_BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
BATCH_BUCKETS_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
COMPACTION_BUCKETS_S: Final = (1, 5, 15, 60, 300, 900, 3600)
BUCKETS_S: Final = {
    "tabletopic_commit_duration_seconds": COMMIT_BUCKETS_S,
    "tabletopic_batch_duration_seconds": BATCH_BUCKETS_S,
    "tabletopic_compaction_duration_seconds": COMPACTION_BUCKETS_S,
}

TOPIC: Final = ("topic",)
_D = Declared

METRICS: Final = (
    _D("tabletopic_commit_lag_records", "gauge", Group.LAG,
       "Offsets of the topic that are not in the table: end offsets minus ledger", TOPIC),
    _D("tabletopic_commit_lag_seconds", "gauge", Group.LAG,
       "Age of the oldest record that is not in the table, since the host saw it arrive; 0 without one",
       TOPIC, "seconds"),
    _D("tabletopic_partition_lag_records", "gauge", Group.LAG,
       "Like tabletopic_commit_lag_records, per partition", ("topic", "partition")),
    _D("tabletopic_partition_lag_seconds", "gauge", Group.LAG,
       "Like tabletopic_commit_lag_seconds, per partition", ("topic", "partition"), "seconds"),
    _D("tabletopic_open_transaction_records", "gauge", Group.LAG,
       "Offsets in and behind open transactions, which no reader gets yet: high watermark minus end offset",
       TOPIC),
    _D("tabletopic_open_transaction_seconds", "gauge", Group.LAG,
       "How long the host has seen the oldest of these transactions open; absent without one",
       TOPIC, "seconds"),
    _D("tabletopic_commit_interval_seconds", "gauge", Group.LAG,
       "The setting commit_interval_ms, to compare the lag with", TOPIC, "seconds"),
    _D("tabletopic_last_commit_timestamp_seconds", "gauge", Group.LAG,
       "When this host last committed, in Unix epoch seconds", TOPIC, "seconds"),
    _D("tabletopic_committed_rows", "counter", Group.WORK, "Rows that this host committed", TOPIC),
    _D("tabletopic_committed_bytes", "counter", Group.WORK,
       "Bytes of the data files that this host committed", TOPIC, "bytes"),
    _D("tabletopic_committed_files", "counter", Group.WORK, "Data files that this host committed", TOPIC),
    _D("tabletopic_commits", "counter", Group.WORK, "Commits of this host", TOPIC),
    _D("tabletopic_staged_rows", "gauge", Group.WORK,
       "Rows in files that no snapshot refers to yet", TOPIC),
    _D("tabletopic_batch_duration_seconds", "histogram", Group.WORK,
       "Duration of a Spark batch until it was staged, all topics", (), "seconds"),
    _D("tabletopic_commit_duration_seconds", "histogram", Group.WORK,
       "Duration of a commit, all topics", (), "seconds"),
    _D("tabletopic_state", "gauge", Group.TROUBLE,
       f"1 for the topic's state, 0 for the others: {', '.join(SHOWN_STATES)}",
       ("topic", "state")),
    _D("tabletopic_failures", "counter", Group.TROUBLE,
       f"Failures that this host reported, by kind: {', '.join(Failure)}", ("topic", "kind")),
    _D("tabletopic_dead_letters", "gauge", Group.TROUBLE,
       "Records in the dead-letter table, as of its owner's last commit", TOPIC),
    _D("tabletopic_refused_records", "counter", Group.TROUBLE,
       "Refused records since the table was created, by reason: dead letters or skipped",
       ("topic", "reason")),
    _D("tabletopic_passed_over_records", "counter", Group.TROUBLE,
       "Records ignored since the table was created, by reason", ("topic", "reason")),
    _D("tabletopic_expectation_failures", "counter", Group.TROUBLE,
       "Rows that failed an expectation since the table was created, by its name", ("topic", "rule")),
    _D("tabletopic_lost_records", "counter", Group.TROUBLE,
       "Offsets skipped since the table was created, because retention deleted their records", TOPIC),
    _D("tabletopic_epoch", "gauge", Group.TROUBLE,
       "The epoch of the table; it rises each time a host takes over the topic", TOPIC),
    _D("tabletopic_table_rows", "gauge", Group.TABLE, "Rows of the table", TOPIC),
    _D("tabletopic_table_files", "gauge", Group.TABLE, "Data files of the table", TOPIC),
    _D("tabletopic_changed_rows", "counter", Group.TABLE,
       "Rows of a table kept by key that were inserted, updated and deleted since it was created",
       ("topic", "change")),
    _D("tabletopic_foreign_changes", "counter", Group.TABLE,
       "Changes of the table by other programs that commits of this host found", TOPIC),
    _D("tabletopic_schema_changes", "counter", Group.TABLE,
       "Changes of the table's columns or partitions that this host made", TOPIC),
    _D("tabletopic_maintenance", "counter", Group.TABLE,
       "Successful compactions, expiries and removals of orphans", ("topic", "work")),
    _D("tabletopic_removed_files", "counter", Group.TABLE,
       "Files that maintenance removed or merged, all topics", ("work",)),
    _D("tabletopic_removed_bytes", "counter", Group.TABLE,
       "Bytes that maintenance removed or merged, all topics", ("work",), "bytes"),
    _D("tabletopic_expired_snapshots", "counter", Group.TABLE,
       "Snapshots that maintenance expired, all topics"),
    _D("tabletopic_compaction_duration_seconds", "histogram", Group.TABLE,
       "Duration of a compaction, all topics", (), "seconds"),
    _D("tabletopic_host_info", "gauge", Group.HOST, "1; names the host and its version", ("host", "version")),
    _D("tabletopic_start_timestamp_seconds", "gauge", Group.HOST,
       "When the host started, in Unix epoch seconds", (), "seconds"),
    _D("tabletopic_in_group", "gauge", Group.HOST, "1 if the host is a member of the hosts' group"),
    _D("tabletopic_poll_age_seconds", "gauge", Group.HOST,
       "Time since the host's loop last polled; closing a topic may delay it by 90 s", (), "seconds"),
    _D("tabletopic_topics", "gauge", Group.HOST, "Table topics that this host runs"),
    _D("tabletopic_memory_bytes", "gauge", Group.HOST,
       "Resident memory of the host and all its child processes, including Spark", (), "bytes"),
    _D("tabletopic_server_up", "gauge", Group.HOST,
       f"1 if the server responded to the last check: {', '.join(SERVERS)}; "
       "one for each catalog that topics of the host have, by its name in SQL", ("server", "catalog")),
    _D("tabletopic_end_offsets_age_seconds", "gauge", Group.HOST,
       "Age of the end offsets from which the lag is computed", (), "seconds"),
    _D("tabletopic_hidden_partitions", "gauge", Group.HOST,
       "Partitions without their own lag metrics, because the host has too many"),
    _D("tabletopic_dropped_events", "counter", Group.HOST,
       "Events that could not be written to the control topic"),
)  # fmt: skip
BY_NAME: Final = {metric.name: metric for metric in METRICS}
