"""Read-only operations: status, wait, events, hosts, peek, schema, history, health, logs, query.

Longer than other modules, as it is a table: an entry is data, with what it needs beside it.
"""

# Imports are deferred: `tabletopic status` must respond at once.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.faces.operations import rest_bodies
from tabletopic_kernel.faces.operations.operation import (
    ANY_TOPIC,
    CLI,
    JSON,
    MAGIC,
    REST,
    TOPIC,
    Argument,
    JsonText,
    Kind,
    Message,
    Operation,
    Route,
    limit,
    time_limit,
)
from tabletopic_kernel.model.errors import UsageError

if TYPE_CHECKING:
    from tabletopic_kernel.model.progress.events import ControlEvent
    from tabletopic_kernel.render.grid import Grid
    from tabletopic_kernel.table.health import TableHealth
    from tabletopic_kernel.table.history import TableSnapshot, TopicSchema
    from tabletopic_kernel.workbench.hosts import HostStatus
    from tabletopic_kernel.workbench.peek import PeekedRecord
    from tabletopic_kernel.workbench.status import TopicStatus
    from tabletopic_kernel.workbench.workbench import Workbench

PANEL = "Watching"
Arguments = Mapping[str, Any]
ENGINES = ("duckdb", "spark", "athena")


def _status_grid(statuses: Sequence[TopicStatus], values: Arguments) -> Grid:
    from tabletopic_kernel.render.topics import status_facts, status_table

    return status_facts(statuses[0]) if values.get("topic") else status_table(statuses)


def _events(workbench: Workbench, topic: str | None, limit: int) -> list[ControlEvent]:
    return workbench.newest_events(topic, limit)


def _events_grid(events: Sequence[ControlEvent], values: Arguments) -> Grid:
    from tabletopic_kernel.render.topics import events_table

    return events_table(values["topic"] or "all topics", events)


def _hosts_grid(hosts: Sequence[HostStatus], _: Arguments) -> Grid:
    from tabletopic_kernel.render.topics import hosts_table

    return hosts_table(hosts)


def _records_grid(records: Sequence[PeekedRecord], values: Arguments) -> Grid:
    from tabletopic_kernel.render.topics import records_table

    return records_table(f"{values['topic']}, newest first", records)


def _records_json(records: Sequence[PeekedRecord]) -> JsonText:
    from tabletopic_kernel.render.values import json_text

    return JsonText("[" + ",\n ".join(json_text(asdict(record)) for record in records) + "]")


def _schema(
    workbench: Workbench, topic: str, version: int | None = None, diff: Sequence[int] | None = None
) -> TopicSchema | dict[str, Any]:
    handle = workbench.topic(topic)
    if diff is None:
        return handle.schema(version)
    if version is not None:
        raise UsageError("--version and --diff cannot be combined")
    before, after = diff
    return {"topic": topic, "from": before, "to": after, "changes": handle.schema_diff(before, after)}


def _schema_grid(schema: TopicSchema | dict[str, Any], _: Arguments) -> Grid | list[Message]:
    from tabletopic_kernel.render.topics import schema_table

    if isinstance(schema, dict):
        return [Message("{change}", {"change": change}) for change in schema["changes"] or ["no change"]]
    return schema_table(schema)


def _history_grid(snapshots: Sequence[TableSnapshot], values: Arguments) -> Grid:
    from tabletopic_kernel.render.topics import history_table

    return history_table(values["topic"], snapshots)


def _health_grid(health: TableHealth, _: Arguments) -> Grid:
    from tabletopic_kernel.render.topics import health_facts

    return health_facts(health)


def _jsons(answers: Sequence[Any]) -> list[Any]:
    return [answer.to_json() for answer in answers]


OPERATIONS = (
    Operation(
        "status",
        "Show how far each table is behind its topic, and which host runs it",
        lambda workbench, topic=None: workbench.status(topic),
        (
            ANY_TOPIC,
            Argument("topic", positional=True, required=True, faces=REST),
            Argument(
                "watch", "Refresh each second until Ctrl-C", Kind.FLAG, False, ("--watch", "-w"), faces=CLI
            ),
            Argument("watch", "Update in place until the cell is interrupted", Kind.FLAG, False, faces=MAGIC),
            Argument(
                "timeout", "Stop watching after this long", Kind.SECONDS, metavar="DURATION", faces=MAGIC
            ),
            JSON,
        ),
        render=_status_grid,
        panel=PANEL,
        details="""\
With --json: a list, or with TOPIC one object, of topic, table, state, error,
lag_records, lag_seconds, next_offsets, end_offsets, schema_versions,
snapshot_id, commits, rows_per_second and more. If a running topic is late,
delay and delay_reason explain why.""",
        example="tabletopic status --watch",
        magic="%topic status",
        route=Route(
            "get",
            "topics/{topic}",
            answer=lambda: rest_bodies.Topic,
            notes="The keys of `status TOPIC --json` on the command line, and `run` and `settings`.",
        ),
    ),
    Operation(
        "hosts",
        "Show the live hosts: what each runs, since when, its version and memory",
        lambda workbench: workbench.host_statuses(),
        (JSON,),
        render=_hosts_grid,
        to_json=_jsons,
        returns="list: `host` (its id), `topics`, `started_ms`, `version` and `memory_bytes` (resident, "
        "of the host's process and its children); null if an older version does not report it",
        panel=PANEL,
        details="""\
Memory includes the child processes of the host: Spark's JVM and the Python
workers. Hosts of older versions do not report it.""",
        example="tabletopic hosts",
        magic="%topic hosts",
        route=Route("get", "hosts", answer=lambda: list[rest_bodies.Host], key="hosts"),
    ),
    Operation(
        "wait",
        "Wait until the table contains what the topic contains now",
        lambda workbench, topic, timeout: workbench.topic(topic).wait(timeout),
        (TOPIC, time_limit("5m"), JSON),
        render=lambda status, values: _status_grid([status], values),
        to_json=lambda status: status.to_json(),
        returns="the object of `status TOPIC --json`",
        panel=PANEL,
        details="The exit code is 1 if the topic fails, is paused, or does not catch up in time.",
        example="tabletopic wait clicks --timeout 2m",
        magic="%topic wait",
    ),
    Operation(
        "events",
        "Show events: topics taken over, commits, schema changes, failures",
        _events,
        (
            ANY_TOPIC,
            Argument("topic", positional=True, required=True, faces=REST),
            Argument("follow", "Keep printing until Ctrl-C", Kind.FLAG, False, ("--follow", "-f"), faces=CLI),
            Argument(
                "since",
                "How far back to start, e.g. 10m, 2h, all",
                default="1h",
                metavar="DURATION|all",
                faces=CLI,
            ),
            Argument("everything", "Include heartbeats", Kind.FLAG, False, ("--all",), faces=CLI),
            Argument("limit", "How many events", Kind.NUMBER, 20, ("-n",), metavar="N", least=1, faces=MAGIC),
            Argument("limit", "How many events", Kind.NUMBER, 50, least=1, most=1_000, faces=REST),
            Argument("as_json", "One JSON object per line", Kind.FLAG, False, ("--json",), faces=CLI),
        ),
        render=_events_grid,
        to_json=lambda events: [event.model_dump(mode="json") for event in events],
        returns="the events of the [control topic](reference/control-topic.md)",
        panel=PANEL,
        example="tabletopic events clicks --follow",
        magic="%topic events",
        route=Route(
            "get",
            "topics/{topic}/events",
            answer=lambda: list[dict[str, Any]],
            key="events",
            notes="Events of the control topic, newest first, without heartbeats.",
        ),
    ),
    Operation(
        "peek",
        "Show the newest records of a topic, decoded, whether or not they are in the table",
        lambda workbench, topic, limit: workbench.topic(topic).peek(limit),
        (TOPIC, limit(20, "records")[0], JSON),
        render=_records_grid,
        to_json=_records_json,
        returns="list, newest first: `partition`, `offset`, `timestamp_ms`, `key`, `schema_id`, `value` (its "
        "fields, or null), `error` (why it cannot become a row, or null), `raw`, `key_value` (the key "
        "as decoded by its schema, else null)",
        panel=PANEL,
        details="""\
The topic need not be enabled. A record that cannot become a row is shown
with the reason.""",
        example="tabletopic peek clicks -n 5",
        magic="%topic peek",
    ),
    Operation(
        "schema",
        "Show the table's columns and the versions of the topic's schema",
        _schema,
        (
            TOPIC,
            Argument(
                "version", "Show the columns of this registered version", Kind.NUMBER, metavar="N", least=1
            ),
            Argument("diff", "Show what version V2 changes in the columns of V1", Kind.PAIR, metavar="V1 V2"),
            JSON,
        ),
        render=_schema_grid,
        to_json=lambda schema: schema if isinstance(schema, dict) else schema.to_json(),
        returns="`topic`, `table`, `version`, `columns` (`name`, `type`, `required`, `doc`), `versions` "
        "(`subject`, `version`, `id`, `table_schema_id`: null while the table does not cover it); with "
        "`--diff`: `from`, `to`, `changes`",
        panel=PANEL,
        example="tabletopic schema clicks --diff 1 2",
        magic="%topic schema",
        route=Route("get", "topics/{topic}/schema", answer=lambda: rest_bodies.Schema, checks_topic=True),
    ),
    Operation(
        "history",
        "Show the table's snapshots, newest first, each with the ledger it carries",
        lambda workbench, topic, limit: workbench.topic(topic).history(limit),
        (TOPIC, *limit(20, "snapshots"), JSON),
        render=_history_grid,
        to_json=_jsons,
        returns="list, newest first: `snapshot_id` and `parent_id` as text, `at_ms`, `operation`, "
        "`added_rows`, `added_files`, `added_bytes`, `rows`, `files`, `table_schema_id`, `next_offsets` "
        "and `epoch` of the ledger (null in snapshots of other writers)",
        panel=PANEL,
        example="tabletopic history clicks",
        magic="%topic history",
        route=Route(
            "get",
            "topics/{topic}/history",
            answer=lambda: list[dict[str, Any]],
            key="snapshots",
            checks_topic=True,
        ),
    ),
    Operation(
        "health",
        "Show the table's health: file sizes, deletes, snapshots, metadata",
        lambda workbench, topic: workbench.topic(topic).health(),
        (TOPIC, JSON),
        render=_health_grid,
        to_json=lambda health: health.to_json(),
        returns="`rows`, `files`, `bytes`, `target_bytes`, `small_files` (below a quarter of the target), "
        "`small_share`, `partitions`, `sizes` (a list: `up_to_bytes`, `files`, `bytes`), `delete_files`, "
        "`deleted_rows`, `delete_share`, `snapshots`, `oldest_snapshot_ms`, `reaches_back_to_ms`, `refs`, "
        "`manifests`, `manifest_bytes`, `metadata_bytes`, `metadata_files`, `next_work` (a list: `work`, "
        "`due`, `why`)",
        panel=PANEL,
        details="""\
Reads metadata and manifests, no data files. Many small files and deleted
rows make queries slow; old snapshots keep files that are no longer needed.""",
        example="tabletopic health clicks",
        magic="%topic health",
        route=Route("get", "topics/{topic}/health", answer=lambda: rest_bodies.Health, checks_topic=True),
    ),
    Operation(
        "logs",
        "Show the last lines that hosts on this machine logged",
        lambda workbench, topic, limit: workbench.logs(limit, topic),
        (
            ANY_TOPIC,
            Argument("limit", "How many lines", Kind.NUMBER, 100, ("-n",), metavar="N", least=1),
            JSON,
        ),
        render=lambda lines, _: [Message("{line}", {"line": line}) for line in lines],
        empty="nothing logged yet; `tabletopic info` shows the state folder, which contains the logs",
        returns="list of lines, oldest first",
        panel=PANEL,
        example="tabletopic logs clicks",
        magic="%topic logs",
    ),
)

_AS_OF = "Read the tables as of a snapshot or time (DuckDB)"

QUERY = Operation(
    "query",
    "Query the tables in SQL",
    None,
    (
        Argument(
            "sql",
            "The query; - reads it from standard input",
            positional=True,
            required=True,
            metavar="SQL",
            faces=CLI,
        ),
        Argument(
            "engine",
            "DuckDB is fast and changes no table; Spark does; Athena reads tables of Glue and S3 Tables",
            default="duckdb",
            choices=ENGINES,
            faces=CLI,
        ),
        Argument(
            "engine",
            "DuckDB is fast and changes no table; Spark does; Athena reads tables of Glue and S3 Tables",
            default="duckdb",
            options=("-e", "--engine"),
            choices=ENGINES,
            faces=MAGIC,
        ),
        Argument("at", _AS_OF, metavar="SNAPSHOT|TIME", faces=CLI),
        Argument("at", _AS_OF, metavar="SNAPSHOT|TIME|$NAME", faces=MAGIC),
        Argument(
            "form",
            "Return the rows in this form",
            options=("--as",),
            choices=("df", "arrow", "polars"),
            faces=MAGIC,
        ),
        Argument(
            "limit",
            "Rows to return, 0 for all",
            Kind.NUMBER,
            metavar="N",
            least=0,
            faces=CLI,
            default_text="50; all with --json or --csv",
        ),
        Argument("limit", "Fetch no more rows than this", Kind.NUMBER, metavar="N", least=1, faces=MAGIC),
        JSON,
        Argument(
            "as_csv",
            "CSV on standard output; no value is changed, even if a spreadsheet takes it for a formula",
            Kind.FLAG,
            False,
            ("--csv",),
            faces=CLI,
        ),
    ),
    changes=True,  # Spark can write
    returns="a list of rows as objects; decimals are numbers with all their digits, times ISO 8601, NaN "
    "is null",
    panel="Table topics",
    details="""\
Name a table as table, namespace.table or catalog.namespace.table. Each
query reads the newest snapshots. DuckDB changes no table, but COPY TO writes
files and read_csv reads them; change tables with --engine spark.""",
    example='tabletopic query "SELECT url, count(*) FROM clicks GROUP BY url"',
    magic="%lake",
)
