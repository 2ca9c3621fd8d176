"""The response bodies of REST, as types: OpenAPI and the tests of the routes are made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Open(BaseModel):
    """Fields may be added to it. Built when it is first used, which no command is."""

    model_config = ConfigDict(defer_build=True)


class _Closed(BaseModel):
    """It has these fields and no others."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


def _says(text: str) -> Any:
    return Field(description=text)


class Message(_Open):
    """What is wrong and what to do next, or what was started."""

    message: str


class Servers(_Closed):
    """Broker, registry and catalog."""

    state: Literal["ready", "starting", "stopping", "none", "unreachable"]
    detail: Annotated[str, _says("The step in progress, or the error and the next step")]
    missing: Annotated[
        list[Literal["kafka", "registry"]],
        _says("Servers of the local stack that were started but are not running; the detail says what to do"),
    ]
    bootstrap_servers: str
    registry_url: str
    own: Annotated[bool, _says("The settings name all servers, so no local stack is needed")]


class HostState(_Closed):
    """The host that runs the table topics."""

    state: Literal["none", "starting", "running", "failed"]
    detail: str
    ids: Annotated[list[str], _says("Live hosts, here and elsewhere")]


class Sample(_Closed):
    """Whether click events are being sent."""

    state: Literal["idle", "sending", "failed"]
    detail: str


class Row(_Closed):
    """A topic in the overview; null means unknown or not applicable."""

    topic: str
    enabled: bool
    partitions: int
    run: Literal["on", "paused"] | None
    table: str | None
    state: Annotated[
        str | None,
        _says("As in `status --json`; null if the topic is not enabled or not known yet"),
    ]
    error: Annotated[
        str | None,
        _says(
            "Why it is not running, and the next step in the sidebar's words; null if it only lacks a host"
        ),
    ]
    lag_records: int | None
    lag_seconds: float | None
    schema_version: Annotated[str | None, _says("The newest version that the table covers, such as v2")]
    rows_per_second: float | None
    commits: int | None
    snapshot_id: Annotated[str | None, _says("Text, because JavaScript's numbers cannot hold 64 bits")]
    last_commit_ms: int | None
    dead_letters: Annotated[int | None, _says("Dead letters in the dead-letter table")]
    delay: Annotated[
        Literal["waiting_for_turn", "behind"] | None,
        _says("Why the table is late though the topic runs; null if it is not"),
    ]
    delay_reason: Annotated[str | None, _says("The same in a sentence")]


class Overview(_Closed):
    """Servers, host and all topics at a glance."""

    servers: Servers
    host: HostState
    sample: Sample
    topics: Annotated[
        list[Row],
        _says("Enabled topics first, then others, each by name; as last known while servers are unreachable"),
    ]
    lag_records: Annotated[int, _says("Sum over all topics")]
    lag_seconds: Annotated[float | None, _says("Of the topic that is furthest behind")]
    at_ms: int


class Topic(_Open):
    """An enabled topic: the fields of `status --json`, and the desired state."""

    topic: str
    table: str
    state: str
    error: str | None
    run: str
    settings: dict[str, Any]
    lag_records: int | None
    lag_seconds: float | None
    next_offsets: dict[str, int]
    end_offsets: dict[str, int]
    schema_versions: list[dict[str, Any]]
    snapshot_id: str | None


class Host(_Closed):
    """A live host; null if an older version does not report it."""

    host: str
    topics: Annotated[list[str], _says("The table topics that it runs")]
    started_ms: int | None
    version: str | None
    memory_bytes: Annotated[int | None, _says("Resident memory of its process and the child processes")]


class Column(_Open):
    """A column; its type as text, such as `struct<width: int>`."""

    name: str
    type: str
    required: bool
    doc: str | None


class PlanColumn(Column):
    """A column that the table will have."""

    change: Literal["new", "kept", "relaxed", "widened", "renamed"]


class PlanAnswer(_Open):
    """What enable would do; it would be refused if `refused` contains a reason."""

    topic: str
    table: str
    creates: bool
    columns: list[PlanColumn]
    partition_by: list[str]
    sort_by: list[str]
    start: str | int
    notes: list[str]
    refused: list[str]


class ReplayPlanAnswer(_Open):
    """What a replay of the dead letters would do."""

    topic: str
    letters: int
    rows: Annotated[int, _says("Dead letters that would become rows")]
    stayed: Annotated[dict[str, int], _says("Dead letters that would stay, by reason")]
    changes: Annotated[list[str], _says("Changes of the table that the replay would make")]


class ReplayId(_Open):
    """The id of the `Replayed` event that reports the outcome."""

    replay_id: str


class CompactionGroup(_Open):
    """Files of one partition that would be merged."""

    partition: Annotated[str, _says("Such as `day=2026-01-01`; empty in a table without partitions")]
    files: int
    rows: Annotated[int, _says("Including deleted rows")]
    deleted_rows: Annotated[int, _says("Deleted rows that would be dropped; an upper bound")]
    bytes: int


class CompactionPlanAnswer(_Open):
    """What a compaction would merge."""

    files: Annotated[int, _says("Data files of the table")]
    delete_files: Annotated[int, _says("Delete files of the table")]
    groups: list[CompactionGroup]
    left: Annotated[dict[str, int], _says("Files that would stay as they are, by reason")]
    refused: Annotated[str | None, _says("Why none of the table's files may be compacted")]


class RequestId(_Open):
    """The id of the event that reports the outcome."""

    request_id: str


class ExpiryOfTable(_Open):
    """What an expiry would remove from a table."""

    table: str
    snapshots: Annotated[
        dict[str, int], _says("Id of each snapshot that would expire → its time, in ms since 1970")
    ]
    kept: Annotated[int, _says("Snapshots that stay")]
    reaches_back_to_ms: Annotated[int | None, _says("How far back time travel would reach afterwards")]
    files: Annotated[dict[str, int], _says("Bytes by location")]
    outside: Annotated[int, _says("Files that stay because they are outside the table's own folders")]
    orphans: Annotated[dict[str, int], _says("Bytes by location; empty unless requested")]


class ExpiryPlanAnswer(_Open):
    """What an expiry would remove, from the topic's table and from its dead letters."""

    tables: list[ExpiryOfTable]


class Schema(_Open):
    """Columns of the table, and the registered versions of the topic's schema."""

    topic: str
    table: str
    version: int | None
    columns: list[Column]
    versions: list[dict[str, Any]]


class Health(_Open):
    """The table's health; the keys of `health TOPIC --json`."""

    topic: str
    table: str
    rows: int
    files: int
    bytes: int
    small_files: int
    small_share: float
    snapshots: int
    next_work: list[dict[str, Any]]


class Quickstart(_Open):
    """Where the notebook is among the server's files."""

    path: str
