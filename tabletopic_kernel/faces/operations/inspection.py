"""Read-only operations: status, hosts, wait, events, schema, history, health, logs."""

# Imports are deferred: `tabletopic status` must respond at once.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tabletopic_kernel.faces.operations.operation import (
    AnyTopic,
    Arguments,
    Message,
    Option,
    Route,
    Timeout,
    Topic,
    drawn,
    draws,
    line,
    operation,
)
from tabletopic_kernel.model.errors import UsageError

if TYPE_CHECKING:
    from tabletopic_kernel.model.progress.events import ControlEvent
    from tabletopic_kernel.render.grid import Grid
    from tabletopic_kernel.table.health import TableHealth
    from tabletopic_kernel.table.history import TableSnapshot, TopicSchema
    from tabletopic_kernel.workbench.hosts import HostStatus
    from tabletopic_kernel.workbench.topics.topic_status import TopicStatus
    from tabletopic_kernel.workbench.workbench import Workbench

PANEL = "Watching"


def _status_grid(statuses: Sequence[TopicStatus], values: Arguments) -> Grid:
    return drawn("status_facts", statuses[0]) if values.get("topic") else drawn("status_table", statuses)


@operation(PANEL, _status_grid)
def status(workbench: Workbench, topic: AnyTopic = None) -> list[TopicStatus]:
    """Show how far each table is behind its topic, and which host runs it.

    With --json: a list, or with TOPIC one object, of topic, table, state, error,
    lag_records, lag_seconds, next_offsets, end_offsets, schema_versions,
    snapshot_id, commits, rows_per_second and more. If a running topic is late,
    delay and delay_reason explain why.

    Example:  tabletopic status --watch
    """
    return workbench.status(topic)


@operation(PANEL, draws("hosts_table"), route=Route("get", "hosts", key="hosts"))
def hosts(workbench: Workbench) -> list[HostStatus]:
    """Show the live hosts: what each runs, since when, its version and memory.

    Memory includes the child processes of the host: Spark's JVM and the Python
    workers. Hosts of older versions do not report it.

    Example:  tabletopic hosts
    """
    return workbench.host_statuses()


@operation(PANEL, draws("status_facts"))
def wait(workbench: Workbench, topic: Topic, timeout: Timeout = 300.0) -> TopicStatus:
    """Wait until the table contains what the topic contains now.

    The exit code is 1 if the topic fails, is paused, or does not catch up in time.

    Example:  tabletopic wait clicks --timeout 2m
    """
    return workbench.topic(topic).wait(timeout)


@operation(PANEL, lambda events, values: drawn("events_table", values["topic"] or "all topics", events))
def events(
    workbench: Workbench,
    topic: AnyTopic = None,
    limit: Annotated[int, Option("How many events", ("-n",), metavar="N", least=1)] = 20,
) -> list[ControlEvent]:
    """Show events: topics taken over, commits, schema changes, failures.

    Example:  tabletopic events clicks --follow
    """
    return workbench.newest_events(topic, limit)


@dataclass(frozen=True)
class SchemaDiff:
    """What one registered version changes in the columns of another."""

    topic: str
    before: int
    after: int
    changes: list[str]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {"topic": self.topic, "from": self.before, "to": self.after, "changes": self.changes}


@dataclass(frozen=True)
class AcceptedSchema:
    """The schema that records of an id are read with from now on; the registry has it as ``registry_id``."""

    topic: str
    id: int
    registry_id: int
    subject: str
    version: int


def _schema_text(schema: TopicSchema | SchemaDiff | AcceptedSchema, _: Arguments) -> Grid | list[Message]:
    if isinstance(schema, AcceptedSchema):
        text = "{topic} reads records of schema id {id} as version {version} of {subject}, from its ledger on"
        return [Message(text, {name: str(value) for name, value in asdict(schema).items()})]
    if isinstance(schema, SchemaDiff):
        return [line(change) for change in schema.changes or ["no change"]]
    return drawn("schema_table", schema)


@operation(PANEL, _schema_text, route=Route("get", "topics/{topic}/schema", checks_topic=True))
def schema(
    workbench: Workbench,
    topic: Topic,
    version: Annotated[
        int | None, Option("Show the columns of this registered version", metavar="N", least=1)
    ] = None,
    diff: Annotated[
        tuple[int, int] | None,
        Option("Show what version V2 changes in the columns of V1", metavar="V1 V2"),
    ] = None,
    accept: Annotated[
        int | None, Option("Say that records mean the registry's text by this id", metavar="ID", least=1)
    ] = None,
    accept_as: Annotated[
        int | None,
        Option("With --accept: the text that the registry has as ID", ("--as",), metavar="ID", least=1),
    ] = None,
) -> TopicSchema | SchemaDiff | AcceptedSchema:
    """Show the table's columns and the versions of the topic's schema.

    If the registry gave an id a second time, records of that id wait. Both texts
    are shown here and by --diff; --accept says which one the records mean.

    Example:  tabletopic schema clicks --diff 1 2
    """
    handle = workbench.topic(topic)
    if accept is not None:
        schema = handle.accept_schema(accept, accept_as)
        return AcceptedSchema(topic, accept, int(schema.id), schema.subject, schema.version)
    if accept_as is not None:
        raise UsageError("--as requires --accept")
    if diff is None:
        return handle.schema(version)
    if version is not None:
        raise UsageError("--version and --diff cannot be combined")
    return SchemaDiff(topic, *diff, handle.schema_diff(*diff))


@operation(PANEL, lambda snapshots, values: drawn("history_table", values["topic"], snapshots))
def history(
    workbench: Workbench,
    topic: Topic,
    limit: Annotated[int, Option("How many snapshots", ("-n",), metavar="N", least=1)] = 20,
) -> list[TableSnapshot]:
    """Show the table's snapshots, newest first, each with the ledger it carries.

    Example:  tabletopic history clicks
    """
    return workbench.topic(topic).history(limit)


@operation(PANEL, draws("health_facts"), route=Route("get", "topics/{topic}/health", checks_topic=True))
def health(workbench: Workbench, topic: Topic) -> TableHealth:
    """Show the table's health: file sizes, deletes, snapshots, metadata.

    Reads metadata and manifests, no data files. Many small files and deleted
    rows make queries slow; old snapshots keep files that are no longer needed.

    Example:  tabletopic health clicks
    """
    return workbench.topic(topic).health()


@operation(
    PANEL,
    lambda lines, _: list(map(line, lines)),
    empty="nothing logged yet; `tabletopic info` shows the state folder, which contains the logs",
)
def logs(
    workbench: Workbench,
    topic: AnyTopic = None,
    limit: Annotated[int, Option("How many lines", ("-n",), metavar="N", least=1)] = 100,
) -> list[str]:
    """Show the last lines that hosts on this machine logged.

    Example:  tabletopic logs clicks
    """
    return workbench.logs(limit, topic)
