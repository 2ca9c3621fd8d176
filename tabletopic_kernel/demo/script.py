"""The demo's schedule, numbers and texts, without any actions."""

from __future__ import annotations

from dataclasses import dataclass

from tabletopic_kernel.model.errors import UsageError

TOPIC = "clicks"
PARTITIONS = 4
COMMIT_INTERVAL_MS = 2_000
SEED = 7
COMMITS_BEFORE_KILL = 3
RESTART_AFTER_S = 1.0
# Minimum and maximum sending time: long enough for a dozen commits and for a host to come back.
_SEND_S = 36.0
_SEND_AT_LEAST_S = 10.0
USUAL_EVENTS = 100_000
_FEWEST_EVENTS = 1_000
# How long a wait may take before it fails: a busy machine may take ten times longer than usual.
OWNED_LIMIT_S = 300.0
CAUGHT_UP_LIMIT_S = 300.0


@dataclass(frozen=True)
class Script:
    """The scenes by number of events sent."""

    events: int

    def __post_init__(self) -> None:
        if self.events < _FEWEST_EVENTS:
            raise UsageError(f"{self.events} events are too few for a demo; use {_FEWEST_EVENTS:,} or more")

    @property
    def hold_at(self) -> int:
        """Later events wait for the first commit: otherwise a slow machine would send them all before it."""
        return self.events // 10

    @property
    def switch_at(self) -> int:
        """Half of the events have version 1 of the schema, the others version 2."""
        return self.events // 2

    @property
    def kill_at(self) -> int:
        """The host is killed in the second half, while it commits records of both versions."""
        return self.events * 6 // 10

    @property
    def seconds(self) -> float:
        """The duration of sending."""
        return max(_SEND_AT_LEAST_S, min(1.0, self.events / USUAL_EVENTS) * _SEND_S)

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.seconds


TITLE = "Table Topic demo: {events} click events become an Iceberg table while they arrive"

INTRODUCTION = """
Everything runs on this machine, in a temporary folder that is removed at the end: a Kafka broker, a schema
registry, Spark, a catalog. Meanwhile the events' schema changes, and the process that writes the table is
killed. At the end DuckDB counts the rows of the table.
"""

SERVERS = "A Kafka broker and a schema registry; the Iceberg catalog is a SQLite file."

ENABLE = """
Enabling is one message. A host (`tabletopic serve`) reads it, creates the table from the registered
schema, and owns the table under an epoch: a host with an older epoch can never write again.
"""

STREAM = """
Spark stages the events as Parquet files; a coordinator commits them every two seconds, each time as one
Iceberg snapshot with the ledger. That is the next offset to read of every partition. The commit lag counts
the records that are in the topic but not in the table yet.
"""

COMMITS = """
From the snapshots' own summaries. Rows and ledger (here the sum of its offsets) arrive together, so the
table alone determines where to resume after the kill. Highlighted: a host takes over under a new epoch.
The last column is the time from sending a row to its commit, fastest and slowest.
"""

SCHEMAS = """
A new schema version in the registry changes the table when its first record arrives. Older rows stay
as they are, with null in new columns.
"""

ANSWERS = """
The generator counted its events as it made them. A tick means that DuckDB gets the same result from the
table, row by row.
"""

PROOF = """
Counted by DuckDB in the Iceberg table and compared with what the broker acknowledged, after a host was
killed without warning.
"""

KEPT = "Topic and table are kept in {folder}."
