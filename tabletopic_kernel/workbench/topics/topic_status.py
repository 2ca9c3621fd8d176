"""The status of one table topic, as all faces show it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tabletopic_kernel.model.ledger import Outliers
from tabletopic_kernel.model.progress.delay import Delay
from tabletopic_kernel.model.progress.events import ErrorKind
from tabletopic_kernel.model.progress.open_transaction import OpenTransaction
from tabletopic_kernel.render.states import standing_of


@dataclass(frozen=True)
class TopicStatus:
    """The status of one table topic; the fields are the contract of ``status --json``.

    Offsets are next to read, by partition. ``lag_records`` is end offset minus ledger, ``lag_seconds`` the
    age of the oldest record that is not in the table yet (0 if there is none).
    """

    topic: str
    table: str
    state: str
    error: str | None
    lag_records: int | None
    lag_seconds: float | None
    next_offsets: dict[int, int]
    end_offsets: dict[int, int]
    schema_versions: list[dict[str, Any]]
    snapshot_id: int | None
    commits: int
    rows_per_second: float
    rows: int
    files: int
    staged_rows: int
    epoch: int
    last_commit_ms: int | None
    commit_interval_ms: int
    host: str | None
    # Records rejected since the table was created, by reason, and the number of dead letters.
    refused: dict[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    dead_letter_table: str | None = None
    # Records that describe no row, by reason.
    passed_over: dict[str, int] = field(default_factory=dict)
    # Rows that failed an expectation, by its name, since the table was created.
    expectation_failures: dict[str, int] = field(default_factory=dict)
    # Rows of an upsert table that were inserted, updated and deleted since it was created.
    changes: dict[str, int] = field(default_factory=dict)
    # Offsets skipped because retention deleted their records (`on_gap`), by partition.
    lost: dict[int, int] = field(default_factory=dict)
    staging_records: int = 0  # of the batch that is being staged: they are in no file yet
    # Records more than an hour ahead of the clock that read them, by partition: no watermark has their times.
    outliers: dict[int, Outliers] = field(default_factory=dict)
    # Why the table is late although the topic runs, as a word and a sentence: ``model/progress/delay``.
    delay: Delay | None = None
    delay_reason: str | None = None
    # In a word of docs/reference/states.md: the delay, the state, or what a waiting or failed topic lacks.
    standing: str = ""
    # Until a late topic has caught up at its present rate, if no more records come.
    caught_up_s: float | None = None
    paused_by: str | None = None
    # Offsets between the last stable offset and the high watermark, and transactions open for long.
    waiting_records: int = 0
    open_transactions: list[OpenTransaction] = field(default_factory=list)
    # What the error is about, and who acts: `wait` and it is tried again, `act` as the message says, `bug`.
    error_kind: ErrorKind | None = None

    def __post_init__(self) -> None:
        standing = standing_of(self.state, self.delay, self.error_kind)
        lag, rate = self.lag_records, self.rows_per_second
        object.__setattr__(self, "standing", standing)
        object.__setattr__(self, "caught_up_s", round(lag / rate) if self.delay and lag and rate else None)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; partitions become text, as JSON requires of keys."""
        plain = asdict(self)
        for name in ("next_offsets", "end_offsets", "lost", "outliers"):
            plain[name] = {str(partition): offset for partition, offset in plain[name].items()}
        plain["error_kind"] = self.error_kind and self.error_kind.model_dump()
        plain["outliers"] = {p: Outliers(*fields)._asdict() for p, fields in plain["outliers"].items()}
        return plain
