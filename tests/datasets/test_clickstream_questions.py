"""The questions' SQL on DuckDB, compared with the generator's answers."""

from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from tabletopic_kernel._datasets.clickstream.generator import Clickstream, Event, Tallies
from tabletopic_kernel._datasets.clickstream.questions import QUESTIONS, Question

EVENTS = 12_000


def _table(events: list[Event], evolved: bool) -> pa.Table:
    """The events as in the Iceberg table before and after it has version 2."""
    device: list[tuple[str, pa.DataType]] = [
        ("type", pa.string()),
        ("os", pa.string()),
        ("browser", pa.string()),
    ]
    if evolved:
        device.append(("viewport", pa.struct([("width", pa.int32()), ("height", pa.int32())])))
    schema = pa.schema(
        [
            ("event_id", pa.string()),
            ("event_time", pa.timestamp("us", tz="UTC")),
            ("user_id", pa.string()),
            ("session_id", pa.string()),
            ("event_type", pa.string()),
            ("url", pa.string()),
            ("referrer", pa.string()),
            ("product_id", pa.string()),
            ("price", pa.decimal128(9, 2)),
            ("quantity", pa.int32()),
            ("device", pa.struct(device)),
            ("country", pa.string()),
            ("duration_ms", pa.int64() if evolved else pa.int32()),
        ]
    )
    rows = [{**event.value, "event_time": event.value["event_time"] * 1000} for event in events]
    return pa.Table.from_pylist(rows, schema=schema)


def _v1_only() -> tuple[list[Event], Tallies]:
    stream = Clickstream()
    return list(stream.events(EVENTS)), stream.tallies


def _v1_then_v2() -> tuple[list[Event], Tallies]:
    stream = Clickstream()
    events = list(stream.events(EVENTS // 3))
    stream.switch_schema("v2")
    return events + list(stream.events(EVENTS - EVENTS // 3)), stream.tallies


@pytest.fixture(scope="module", params=["v1", "v1_then_v2"])
def loaded(request: pytest.FixtureRequest) -> tuple[pa.Table, Tallies]:
    """A table of events and the tallies of the generator."""
    evolved = request.param == "v1_then_v2"
    events, tallies = _v1_then_v2() if evolved else _v1_only()
    return _table(events, evolved), tallies


def _asked(question: Question, table: pa.Table, zone: str = "UTC") -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{zone}'")
    connection.register("clicks", table)
    return connection.execute(question.on("clicks"))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_sql_gives_the_expected_rows(question: Question, loaded: tuple[pa.Table, Tallies]) -> None:
    """Each question's rows, order and columns are those the generator tallied."""
    table, tallies = loaded
    result = _asked(question, table)
    columns: list[Any] = [column[0] for column in result.description or ()]
    assert tuple(columns) == question.columns
    rows = result.fetchall()
    assert rows == question.expected(tallies)
    assert rows


def test_hours_do_not_depend_on_the_session_zone(loaded: tuple[pa.Table, Tallies]) -> None:
    """Revenue falls into UTC hours, also where the session's zone is half an hour off."""
    table, tallies = loaded
    (revenue,) = (question for question in QUESTIONS if question.name == "revenue_by_hour")
    assert _asked(revenue, table, "Asia/Kolkata").fetchall() == revenue.expected(tallies)
