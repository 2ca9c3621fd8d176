"""A stream's rows as in the table, compared and rendered like in the demo."""

from __future__ import annotations

import io
from typing import Any

import duckdb
import pyarrow as pa

from tabletopic_kernel._datasets.clickstream.generator import Clickstream, Tallies
from tabletopic_kernel._datasets.clickstream.questions import Row
from tabletopic_kernel.demo import proof
from tabletopic_kernel.demo.report import Outcome
from tabletopic_kernel.demo.screen import Screen

EVENTS = 2_000
PARTITIONS = 4
ENDS = dict.fromkeys(range(PARTITIONS), EVENTS // PARTITIONS)
METADATA = pa.struct(
    [("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))]
)


def rows_of_events() -> tuple[list[dict[str, Any]], Tallies]:
    """Events as in the table, distributed over partitions, one record per millisecond."""
    stream = Clickstream()
    events = [event.value for event in stream.events(EVENTS // 2)]
    stream.switch_schema("v2")
    events += [event.value for event in stream.events(EVENTS - EVENTS // 2)]
    rows = [
        {
            **event, "event_time": event["event_time"] * 1000,
            "_kafka_metadata": {
                "partition": number % PARTITIONS, "offset": number // PARTITIONS, "timestamp": number * 1000,
            },
        }
        for number, event in enumerate(events)
    ]  # fmt: skip
    return rows, stream.tallies


def _asker(rows: list[dict[str, Any]]) -> proof.Ask:
    viewport = pa.struct([("width", pa.int32()), ("height", pa.int32())])
    texts = ("event_id", "user_id", "session_id", "event_type", "url", "product_id")
    schema = pa.schema(
        [
            *((name, pa.string()) for name in texts),
            ("event_time", pa.timestamp("us", tz="UTC")),
            ("price", pa.decimal128(9, 2)),
            ("quantity", pa.int32()),
            ("device", pa.struct([("type", pa.string()), ("viewport", viewport)])),
            ("_kafka_metadata", METADATA),
        ]
    )
    connection = duckdb.connect()
    connection.register("clicks", pa.Table.from_pylist(rows, schema=schema))
    return lambda sql: connection.execute(sql).fetchall()


def compare(rows: list[dict[str, Any]], tallies: Tallies, **changed: Any) -> Outcome:
    """Everything the demo compares, over these rows."""
    ask = _asker(rows)
    found = {"ends": ENDS, "ledger": ENDS, "files_of_table": 3, "files_on_disk": 3, **changed}
    parts = proof.partitions(ask, "clicks", found["ends"], found["ledger"])
    files = (found["files_of_table"], found["files_on_disk"])
    return Outcome(
        EVENTS,
        sent=tallies.events,
        answers=proof.answers(ask, "clicks", tallies),
        partitions=parts,
        checks=proof.checks(ask, "clicks", tallies.events, parts, *files),
    )


def wrong(outcome: Outcome) -> set[str]:
    """Names of the comparisons that fail."""
    return {comparison.name for comparison in outcome.comparisons if not comparison.ok}


def answer(found: list[Row], expected: list[Row]) -> proof.Answer:
    """An answer with its expected rows."""
    return proof.Answer("top_pages", "Which pages?", ("url", "views"), found, expected, 0.1)


def text_of(page: Any) -> str:
    """A page as in a log."""
    stream = io.StringIO()
    Screen(stream).show(page)
    return stream.getvalue()
