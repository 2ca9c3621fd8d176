"""Events of the control topic, and the progress record that they contain.

They inform people, dashboards and audits; nothing correct depends on them (I6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.ledger import Ledger, Outliers
from tabletopic_kernel.model.settings.desired import Request


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")  # older readers meet newer fields


class SchemaVersion(_Model):
    """A registered schema that the table covers; ``id`` may be a GUID."""

    id: int | str
    subject: str
    version: int


class ErrorKind(_Model):
    """What an error is about (a system of ``model.errors``), the section of its settings, and who acts."""

    system: str = ""
    section: str = ""
    verdict: str = ""  # one of ``errors.Verdict``, unless the host is newer

    @classmethod
    def of(cls, error: TableTopicError) -> ErrorKind:
        trouble = error.trouble
        return cls(system=trouble.system, section=trouble.section, verdict=trouble.verdict)


class Progress(_Model):
    """The progress of a table topic, as its host sees it. Times in ms since 1970, offsets next to read."""

    topic: str
    table: str
    state: State = State.STOPPED
    error: str | None = None
    error_kind: ErrorKind | None = None  # None: the error stops nothing, or the host is older
    epoch: int = 0
    topic_id: str | None = None  # the topic that the offsets are of; None while unknown
    next_offsets: dict[int, int] = Field(default_factory=dict)
    newest_ms: dict[int, int] = Field(default_factory=dict)
    schema_versions: list[SchemaVersion] = Field(default_factory=list)
    snapshot_id: int | None = None
    commits: int = 0
    rows: int = 0
    files: int = 0
    foreign_changes: int = 0  # by other programs, which commits of this host found
    staged_rows: int = 0
    staging_records: int = 0  # offsets of the batch that is being staged
    rows_per_second: float = 0.0
    last_commit_ms: int | None = None
    commit_interval_ms: int = 0
    turn_wait_ms: int | None = None  # of a batch that waits for its turn on the host
    refused: dict[str, int] = Field(default_factory=dict)  # since the table was created, by reason
    dead_letters: int = 0  # in their table now
    dead_letter_table: str | None = None
    passed_over: dict[str, int] = Field(default_factory=dict)  # tombstones, and what a WHERE excludes
    expectation_failures: dict[str, int] = Field(default_factory=dict)  # rows by the rule that they fail
    changes: dict[str, int] = Field(default_factory=dict)  # of rows kept by key: insert, update, delete
    lost: dict[int, int] = Field(default_factory=dict)  # by partition: offsets of records deleted unread
    outliers: dict[int, Outliers] = Field(default_factory=dict)


_OF_LEDGER = tuple(Progress.model_fields.keys() & {field.name for field in fields(Ledger)} - {"topic"})


def ledger_figures(ledger: Ledger) -> dict[str, object]:
    """What the progress record says about a ledger."""
    values = {name: getattr(ledger, name) for name in _OF_LEDGER}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}


class _Event(_Model):
    topic: str
    at_ms: int
    host: str = ""


class Enabled(_Event):
    """A host took over the topic: it owns the table under ``epoch``."""

    type: Literal["Enabled"] = "Enabled"
    epoch: int
    next_offsets: dict[int, int]


class CommitRequested(_Event):
    """A user requested a commit before it was due."""

    type: Literal["CommitRequested"] = "CommitRequested"


class FilesStaged(_Event):
    """The worker staged a batch."""

    type: Literal["FilesStaged"] = "FilesStaged"
    rows: int
    files: int
    bytes: int
    seconds: float


class Committed(_Event):
    """A snapshot with rows was committed to the table."""

    type: Literal["Committed"] = "Committed"
    snapshot_id: int | None
    rows: int
    files: int
    bytes: int
    seconds: float
    progress: Progress


class CommitFailed(_Event):
    """A commit failed; it is retried unless a Failed follows."""

    type: Literal["CommitFailed"] = "CommitFailed"
    reason: str


class SchemaEvolved(_Event):
    """The table's columns or partitions changed: each change in words, and the schema that caused it."""

    type: Literal["SchemaEvolved"] = "SchemaEvolved"
    changes: list[str]
    cause: SchemaVersion | None
    table_schema_id: int


class SchemaRefused(_Event):
    """A schema cannot be fitted to the table without loss."""

    type: Literal["SchemaRefused"] = "SchemaRefused"
    refused: dict[str, str]
    cause: SchemaVersion | None


class RefusedSample(_Model):
    """One rejected record."""

    partition: int
    offset: int
    schema_id: int | None
    reason: str
    message: str


class DeadLettered(_Event):
    """Records went to the dead-letter table, counted by reason; ``table`` None: they were skipped."""

    type: Literal["DeadLettered"] = "DeadLettered"
    counts: dict[str, int]
    table: str | None = None
    samples: list[RefusedSample] = Field(default_factory=list)


class Replayed(_Event):
    """A replay ended: dead letters that became rows, and those that stayed, by reason.

    ``error`` says why it ended before all letters were tried; None when it went through.
    """

    type: Literal["Replayed"] = "Replayed"
    replay_id: str
    rows: int
    stayed: dict[str, int] = Field(default_factory=dict)
    error: str | None = None


class LettersDropped(_Event):
    """Dead letters were dropped for good, counted by reason: those that matched ``where``.

    ``note`` says why, and ``by`` who asked for it; ``error``: why the rest were not.
    """

    type: Literal["LettersDropped"] = "LettersDropped"
    request_id: str
    letters: dict[str, int] = Field(default_factory=dict)
    where: str | None = None
    note: str = ""
    by: str = ""
    error: str | None = None


class Compacted(_Event):
    """Small files of the table, or (``dead_letters``) of the dead-letter table, were merged.

    ``rows`` are in the new files, and ``deleted_rows`` are not. ``delete_files`` were removed, and their
    positions in other files are in ``new_delete_files``, with those that others deleted meanwhile.
    ``request_id``: None if it was due; ``error`` says why it ended early.
    """

    type: Literal["Compacted"] = "Compacted"
    request_id: str | None = None
    dead_letters: bool = False
    files_before: int = 0
    files: int = 0
    bytes_before: int = 0
    bytes: int = 0
    rows: int = 0
    deleted_rows: int = 0
    delete_files: int = 0
    new_delete_files: int = 0
    seconds: float = 0.0
    error: str | None = None


class Expired(_Event):
    """Snapshots older than the settings keep were removed, and the files that only they needed.

    ``files`` and ``bytes`` were removed from the storage; ``outside``: files that stay, as they are outside
    the table's own folders. ``reaches_back_to_ms``: how far time travel goes. Others as ``Compacted``.
    """

    type: Literal["Expired"] = "Expired"
    request_id: str | None = None
    dead_letters: bool = False
    snapshots: int = 0
    kept: int = 0
    reaches_back_to_ms: int | None = None
    files: int = 0
    bytes: int = 0
    outside: int = 0
    error: str | None = None


class OrphansRemoved(_Event):
    """Orphan files, which no snapshot or commit needs, were removed; fields as ``Expired``."""

    type: Literal["OrphansRemoved"] = "OrphansRemoved"
    request_id: str | None = None
    files: int = 0
    bytes: int = 0
    error: str | None = None


class RowsDeleted(_Event):
    """Rows whose time in ``column`` is before ``before_ms`` were deleted, as ``keep_ms`` says.

    ``files`` had no others and were removed, ``rewritten`` were rewritten without them; ``error``: why the
    rest were not deleted.
    """

    type: Literal["RowsDeleted"] = "RowsDeleted"
    rows: int = 0
    column: str = ""
    before_ms: int = 0
    files: int = 0
    rewritten: int = 0
    error: str | None = None


class Erased(_Event):
    """Rows and dead letters that matched a user's condition, which is not kept, were erased with their files.

    ``letters`` by reason; ``files`` and ``rewritten`` as ``RowsDeleted``. ``gone``: names of files with such
    rows that were removed, some of many; ``left``: what still has such rows; empty if nothing has.
    """

    type: Literal["Erased"] = "Erased"
    request_id: str
    by: str = ""
    rows: int = 0
    letters: dict[str, int] = Field(default_factory=dict)
    files: int = 0
    rewritten: int = 0
    gone: list[str] = Field(default_factory=list)
    left: list[str] = Field(default_factory=list)
    error: str | None = None


class GapDetected(_Event):
    """Records were deleted before they were read (I8): by partition, the next and the first available offset.

    ``skipped``: the topic continues after them; otherwise a Failed follows. ``on_truncation``: the log lost
    them after they were committed, and is read from the next offset on; what became of their rows.
    """

    type: Literal["GapDetected"] = "GapDetected"
    missing: dict[int, tuple[int, int]]
    skipped: bool = False
    on_truncation: Literal["mark", "rewind"] | None = None


class Paused(_Event):
    """The topic is paused; staged files are committed."""

    type: Literal["Paused"] = "Paused"


class Resumed(_Event):
    """The topic was resumed."""

    type: Literal["Resumed"] = "Resumed"


class Stopped(_Event):
    """This host released the topic; staged files are committed."""

    type: Literal["Stopped"] = "Stopped"


class Failed(_Event):
    """The topic stopped and the user must act, or it waits for a dependency."""

    type: Literal["Failed"] = "Failed"
    reason: str
    waits: bool


class EnableRefused(_Event):
    """A standing pattern matches a new topic that cannot be enabled; it is not tried again."""

    type: Literal["EnableRefused"] = "EnableRefused"
    pattern: str
    reason: str


class Heartbeat(_Event):
    """The topic's progress, every few seconds."""

    type: Literal["Heartbeat"] = "Heartbeat"
    progress: Progress


class HostHeartbeat(_Event):
    """A host's heartbeat, every few seconds, also while it runs no topic; `topic` is empty."""

    type: Literal["HostHeartbeat"] = "HostHeartbeat"
    topic: str = ""
    topics: list[str]
    started_ms: int
    version: str
    memory_bytes: int | None = None  # of the host's process and its descendants, where it is reported


ControlEvent = Annotated[
    Enabled
    | CommitRequested
    | FilesStaged
    | Committed
    | CommitFailed
    | SchemaEvolved
    | SchemaRefused
    | DeadLettered
    | Replayed
    | LettersDropped
    | Compacted
    | Expired
    | OrphansRemoved
    | RowsDeleted
    | Erased
    | GapDetected
    | Paused
    | Resumed
    | Stopped
    | Failed
    | EnableRefused
    | Heartbeat
    | HostHeartbeat,
    Field(discriminator="type"),
]
EVENT_ADAPTER: TypeAdapter[ControlEvent] = TypeAdapter(ControlEvent)


def request_of(event: ControlEvent) -> str | None:
    """The id of the request that an event answers; None if nobody asked."""
    return getattr(event, "request_id", None) or getattr(event, "replay_id", None)


def is_outcome(event: ControlEvent, request: Request) -> bool:
    """Whether an event is a request's last answer: dead letters and orphans have events of their own."""
    more_follows = getattr(request, "orphans", False) or getattr(request, "work", "") == "erase"
    is_part = (isinstance(event, Expired) and more_follows) or getattr(event, "dead_letters", False)
    return request_of(event) == request.id and not is_part


HEARTBEATS = frozenset({"Heartbeat", "HostHeartbeat"})  # written again and again, and not news
