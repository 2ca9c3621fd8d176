"""Events of the control topic, and the progress record that they contain.

They inform people, dashboards and audits; nothing correct depends on them (I6).
Longer than other modules, as each kind of event is declared here once.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic_core import PydanticSerializationError

from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.redact import redact
from tabletopic_kernel.model.settings.desired import Request


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")  # older readers meet newer fields


class SchemaVersion(_Model):
    """A registered schema that the table covers; ``id`` may be a GUID."""

    id: int | str
    subject: str
    version: int


class Progress(_Model):
    """The progress of a table topic, as its host sees it. Times in ms since 1970, offsets next to read."""

    topic: str
    table: str
    state: State = State.STOPPED
    error: str | None = None
    epoch: int = 0
    # The id of the topic that the offsets are of; None while unknown.
    topic_id: str | None = None
    next_offsets: dict[int, int] = Field(default_factory=dict)
    newest_ms: dict[int, int] = Field(default_factory=dict)
    schema_versions: list[SchemaVersion] = Field(default_factory=list)
    snapshot_id: int | None = None
    commits: int = 0
    rows: int = 0
    files: int = 0
    # How often this host's commits found that another program had changed the table.
    foreign_changes: int = 0
    staged_rows: int = 0
    rows_per_second: float = 0.0
    last_commit_ms: int | None = None
    commit_interval_ms: int = 0
    # How long the topic's batch has waited for its turn on the host; None if it does not wait.
    turn_wait_ms: int | None = None
    # Records rejected since the table was created, by reason; and dead letters now in the dead-letter table.
    refused: dict[str, int] = Field(default_factory=dict)
    dead_letters: int = 0
    dead_letter_table: str | None = None
    # Records that describe no row: tombstones of change events, and those that a projection's WHERE excludes.
    passed_over: dict[str, int] = Field(default_factory=dict)
    # Offsets skipped since the table was created, as retention deleted their records, by partition.
    lost: dict[int, int] = Field(default_factory=dict)


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


class Compacted(_Event):
    """Small files of the table were merged; the rows are the same.

    ``dead_letters``: they are files of the dead-letter table. ``rows`` are in the new files; ``deleted_rows``
    had been deleted by others and were dropped; ``delete_files`` were removed, as they no longer name a file
    of the table. ``request_id``: None if the compaction was due; ``error`` says why it ended early.
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
    seconds: float = 0.0
    error: str | None = None


class Expired(_Event):
    """Snapshots older than the settings keep were removed, and the files that only they needed.

    ``dead_letters``: they are those of the dead-letter table. ``files`` and ``bytes`` were removed from the
    storage; ``outside``: files that stay, as they are outside the table's own folders.
    ``reaches_back_to_ms``: the earliest time that time travel reaches now. Other fields as ``Compacted``.
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


class GapDetected(_Event):
    """Records were deleted before they were read (I8): by partition, the next and the first available offset.

    ``skipped``: the topic continues after them, as ``on_gap`` says; otherwise a Failed follows.
    """

    type: Literal["GapDetected"] = "GapDetected"
    missing: dict[int, tuple[int, int]]
    skipped: bool = False


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
    # Resident memory of the host's process and its descendants; None if the system does not report it.
    memory_bytes: int | None = None


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
    | Compacted
    | Expired
    | OrphansRemoved
    | GapDetected
    | Paused
    | Resumed
    | Stopped
    | Failed
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
    orphans_follow = isinstance(event, Expired) and getattr(request, "orphans", False)
    is_part = orphans_follow or getattr(event, "dead_letters", False)
    return request_of(event) == request.id and not is_part


# Written again and again, and not news.
HEARTBEATS = frozenset({"Heartbeat", "HostHeartbeat"})
_MARKS = tuple(f'"type":"{kind}"'.encode() for kind in sorted(HEARTBEATS))

# Fields with text from any program; the others contain names and figures.
_TEXTS = frozenset({"reason", "error", "message", "changes", "refused"})


def event_json(event: ControlEvent) -> str:
    """The JSON of an event, with secrets masked."""
    try:
        text = event.model_dump_json()
    except PydanticSerializationError:  # a text of another program has what UTF-8 cannot encode
        event = EVENT_ADAPTER.validate_python(_encodable(event.model_dump()))
        text = event.model_dump_json()
    return redacted(event, text).model_dump_json()


def _encodable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_encodable(inner) for inner in value]
    return value.encode(errors="replace").decode() if type(value) is str else value


def is_heartbeat(raw: bytes) -> bool:
    """Whether an event's JSON is one of ``HEARTBEATS``: most are, and parsing costs a hundred times as much.

    Quotes inside text are escaped, so nothing else can match.
    """
    return any(mark in raw for mark in _MARKS)


def event_of_json(text: str) -> ControlEvent:
    """The event in a JSON text, masked (its writer may not have). Raises pydantic's ValidationError."""
    return redacted(EVENT_ADAPTER.validate_json(text), text)


def redacted(event: ControlEvent, text: str) -> ControlEvent:
    """The event with JSON ``text``, masked; unchanged if there is nothing to mask, as in most."""
    if redact(text) == text:
        return event
    return EVENT_ADAPTER.validate_python(_redacted(event.model_dump(), is_text=False))


def _redacted(value: Any, *, is_text: bool) -> Any:
    if isinstance(value, dict):
        return {key: _redacted(inner, is_text=is_text or key in _TEXTS) for key, inner in value.items()}
    if isinstance(value, list):
        return [_redacted(inner, is_text=is_text) for inner in value]
    return redact(value) if is_text and isinstance(value, str) else value
