"""The bodies that only REST has. Those of operations are what the operations return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from tabletopic_kernel.model.progress.delay import Delay
from tabletopic_kernel.workbench.topics.topic_status import TopicStatus


class Message(TypedDict):
    """What is wrong and what to do next, or what was started."""

    message: str


class Servers(TypedDict):
    """Broker, registry and catalog."""

    state: Literal["ready", "starting", "stopping", "none", "unreachable"]
    detail: Annotated[str, Field(description="The step in progress, or the error and the next step")]
    missing: Annotated[
        list[Literal["kafka", "registry"]],
        Field(
            description="Servers of the local stack that were started but are not running; the detail says "
            "what to do"
        ),
    ]
    bootstrap_servers: str
    registry_url: str
    own: Annotated[bool, Field(description="The settings name all servers, so no local stack is needed")]


class HostState(TypedDict):
    """The host that runs the table topics."""

    state: Literal["none", "starting", "running", "failed"]
    detail: str
    ids: Annotated[list[str], Field(description="Live hosts, here and elsewhere")]


class Sample(TypedDict):
    """Whether click events are being sent."""

    state: Literal["idle", "sending", "failed"]
    detail: str


class Row(TypedDict):
    """A topic in the overview; null means unknown or not applicable."""

    topic: str
    enabled: bool
    partitions: int
    run: Literal["on", "paused"] | None
    table: str | None
    state: Annotated[
        str | None,
        Field(description="As in `status --json`; null if the topic is not enabled or not known yet"),
    ]
    standing: Annotated[
        str | None, Field(description="As in `status --json`: the delay, the state, or its cause")
    ]
    caught_up_s: Annotated[float | None, Field(description="Until it has caught up at its present rate")]
    paused_by: str | None
    error: Annotated[
        str | None,
        Field(
            description="Why it is not running, or why no standing pattern enabled it, and the next step in "
            "the sidebar's words; null if it only lacks a host"
        ),
    ]
    lag_records: int | None
    lag_seconds: float | None
    schema_version: Annotated[
        str | None, Field(description="The newest version that the table covers, such as v2")
    ]
    rows_per_second: float | None
    commits: int | None
    rows: Annotated[int | None, Field(description="Of the table, also if the topic is disabled")]
    snapshot_id: Annotated[
        str | None, Field(description="Text, because JavaScript's numbers cannot hold 64 bits")
    ]
    last_commit_ms: int | None
    dead_letters: Annotated[int | None, Field(description="Dead letters in the dead-letter table")]
    delay: Annotated[
        Delay | None,
        Field(description="Why the table is late though the topic runs; null if it is not"),
    ]
    delay_reason: Annotated[str | None, Field(description="The same in a sentence")]


class Topics(TypedDict):
    """All topics with their sums."""

    topics: Annotated[
        list[Row],
        Field(
            description="Enabled topics first, then others, each by name; as last known while servers are "
            "unreachable"
        ),
    ]
    lag_records: Annotated[int, Field(description="Sum over all topics")]
    lag_seconds: Annotated[float | None, Field(description="Of the topic that is furthest behind")]
    seen_ms: Annotated[
        int | None,
        Field(description="When the topics were read: before `at_ms` while the broker is unreachable"),
    ]


class Overview(Topics):
    """Servers, host and all topics at a glance."""

    profile: Annotated[str, Field(description="The settings in use")]
    profiles: Annotated[list[str], Field(description="All that can be chosen, that one among them")]
    servers: Servers
    host: HostState
    sample: Sample
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class Topic(TopicStatus):
    """An enabled topic: the fields of `status --json`, and the desired state."""

    run: str
    settings: dict[str, Any]


class ReplayId(TypedDict):
    """The id of the `Replayed` event that reports the outcome."""

    replay_id: str


class RequestId(TypedDict):
    """The id of the event that reports the outcome."""

    request_id: str


class Quickstart(TypedDict):
    """Where the notebook is among the server's files."""

    path: str


class Page(TypedDict):
    """A page of the manual."""

    text: Annotated[str, Field(description="Markdown; its links are relative to the page's folder")]
