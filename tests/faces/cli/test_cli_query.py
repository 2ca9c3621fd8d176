"""``query``: its request, and rows as a table, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.query.answer import Answer, LiveRead, TableRead
from tabletopic_kernel.render import values


def test_rows_are_a_table_beside_freshness(run: Callable[..., Any], fake: Any, fresh_answer: Answer) -> None:
    """Rows go to stdout; how many they are and how fresh the tables are goes to stderr."""
    fake.answer = fresh_answer
    ended = run("query", "SELECT 1")
    assert [line.split() for line in ended.out.splitlines() if "─" not in line] == [
        ["url", "n"],
        ["/", "3"],
        ["null", "4"],
    ]
    assert "2 rows\n" in ended.err
    assert "default.clicks: snapshot 42 of 2023-11-14" in ended.err
    assert "default.empty: no snapshot yet" in ended.err
    assert fake.asked == [("query", ("SELECT 1", "duckdb", {"at": None, "limit": 50, "live": False}))]


def test_what_was_scanned_is_told_where_it_costs(run: Callable[..., Any], fake: Any) -> None:
    """Athena is paid by the byte that it reads."""
    fake.answer = Answer(pa.table({"n": [1]}), scanned_bytes=12_345_678)
    assert "scanned 11.8 MiB" in run("query", "q", "--engine", "athena").err
    fake.answer = Answer(pa.table({"n": [1]}))
    assert "scanned" not in run("query", "q").err


def test_json_and_csv_have_every_row(run: Callable[..., Any], fake: Any, fresh_answer: Answer) -> None:
    """One array of objects, or a header and a line each, and nothing else; both at once are wrong use."""
    fake.answer = fresh_answer
    assert run("query", "q", "--json").json == [{"url": "/", "n": 3}, {"url": None, "n": 4}]
    assert fake.asked[-1][1][2]["limit"] is None
    fake.answer = Answer(pa.table({"n": pa.array([], pa.int64())}))
    assert run("query", "q", "--json").json == []


_LIVE = LiveRead({0: 3}, {0: 9}, records=6, refused={"no_schema_id": 1}, unread=2, cut_by="bytes")


def test_a_live_answer_says_how_far_it_goes(run: Callable[..., Any], fake: Any) -> None:
    """In words beside the rows, and as fields with --json."""
    fake.answer = Answer(pa.table({"n": [1]}), (TableRead("default.clicks", 42, 5, _LIVE),))
    said = "default.clicks: table to offset 3 of snapshot 42, live to 9, 6 records; refused: 1 no_schema_id"
    assert f"{said}; 2 more are left out by [live] bytes" in run("query", "q", "--live").err
    assert fake.asked[-1][1][2]["live"] is True
    shown = run("query", "q", "--live", "--json").json
    assert shown["rows"] == [{"n": 1}]
    assert shown["tables"][0]["live"]["live_to"] == {"0": 9}
    fake.answer = Answer(
        pa.table({"n": [1]}),
        (TableRead("default.clicks", 42, 5, replace(_LIVE, live_to=dict.fromkeys(range(5), 2))),),
    )
    assert "live to 10 over 5 partitions" in run("query", "q", "--live").err


@pytest.mark.parametrize("options", [[], ["--json"], ["--csv"]])
def test_a_query_that_is_repeated(run: Callable[..., Any], fake: Any, options: list[str]) -> None:
    """An outage does not end it, Ctrl-C does."""
    coming: list[Any] = [fake.answer, RetryableError("the broker is away"), fake.answer, KeyboardInterrupt()]

    def query(*_: Any, **__: Any) -> Answer:
        now = coming.pop(0)
        if isinstance(now, BaseException):
            raise now
        return cast(Answer, now)

    fake.query = query
    ended = run("query", "q", "--every", "100ms", *options)
    assert ended.code == 130
    assert "the broker is away; retrying …" in ended.err
    assert not coming
    assert "--every: at least 100ms" in run("query", "q", "--every", "0s", *options).err


def test_options_reach_the_workbench(run: Callable[..., Any], fake: Any) -> None:
    """A limit cuts and says so, 0 is none; engine and moment; a statement without rows is done."""
    fake.answer = Answer(pa.table({"n": list(range(100))}))
    ended = run("query", "q")
    assert "the first 50 rows; there are more (--limit 0 shows all)" in ended.err
    assert len(run("query", "q", "--limit", "3", "--json").json) == 3
    assert len(run("query", "q", "--limit", "0").out.splitlines()) == 102
    run("query", "q", "--engine", "spark", "--at", "42")
    assert fake.asked[-1] == ("query", ("q", "spark", {"at": "42", "limit": 50, "live": False}))
    fake.answer = Answer(pa.table({"Count": pa.array([], pa.int64())}))
    ended = run("query", "CREATE TABLE t (a INT)")
    assert (ended.out, ended.err) == ("", "done\n")


def test_queries_from_standard_input(
    run: Callable[..., Any], fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`query -` reads it."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"SELECT '\xff'"), "utf-8"))
    assert run("query", "-").err == "error: the query is not UTF-8 text; save it as UTF-8\n"
    assert run("query", "SELECT '\udcff'").code == 2
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 2\n"))
    run("query", "-")
    assert fake.asked[0][1][0] == "SELECT 2\n"


_MOMENT = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text", "as_json"),
    [
        (None, "null", "null"),
        (True, "true", "true"),
        (2**60, str(2**60), str(2**60)),
        (1.5, "1.5", "1.5"),
        (float("nan"), "nan", "null"),
        (Decimal("1.10"), "1.10", "1.10"),
        (Decimal("1E+3"), "1000", "1000"),
        ("é\n", "é\n", '"é\\n"'),
        (b"a\x00\xff\\", "a\\x00\\xFF\\x5C", '"a\\\\x00\\\\xFF\\\\x5C"'),
        (_MOMENT, "2026-01-31 12:00:00.250Z", '"2026-01-31T12:00:00.250Z"'),
        (datetime(2026, 1, 31), "2026-01-31 00:00:00", '"2026-01-31T00:00:00"'),
        (_MOMENT + timedelta(microseconds=7), "2026-01-31 12:00:00.250007Z", '"2026-01-31T12:00:00.250007Z"'),
        (date(2026, 1, 31), "2026-01-31", '"2026-01-31"'),
        ({"a": None, "b": [1, 2]}, "{a: null, b: [1, 2]}", '{"a": null, "b": [1, 2]}'),
        ([("k", {"v": 1}), ("none", None)], "{k: {v: 1}, none: null}", '{"k": {"v": 1}, "none": null}'),
        ([], "[]", "[]"),
    ],
)
def test_values_as_text_and_json(value: Any, text: str, as_json: str) -> None:
    """Structs, maps, bytes, times and decimals are readable, and exact in JSON."""
    assert values.text(value) == text
    assert values.json_text(value) == as_json
    json.loads(values.json_text(value))


_NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=30)
@given(_NESTED)
def test_json_text_is_json(value: Any) -> None:
    """Whatever JSON can hold comes back from our JSON as it was."""
    assert json.loads(values.json_text(value)) == value


def test_csv_cells_hold_nested_values_as_json() -> None:
    """Null is nothing; of columns with one name JSON numbers the later ones."""
    line = io.StringIO()
    csv.writer(line).writerow(map(values.csv_text, [None, {"a": 1}, _MOMENT, Decimal("1.10"), "a,b"]))
    assert line.getvalue() == ',"{""a"": 1}",2026-01-31T12:00:00.250Z,1.10,"a,b"\r\n'
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    assert list(values.rows_of(table)) == [(1, 2)]
    lines = values.json_lines(values.unique_names(table.column_names), values.rows_of(table))
    assert json.loads("".join(lines)) == [{"id": 1, "id_1": 2}]


def test_times_beyond_the_calendar_are_still_shown() -> None:
    """A timestamp with nanoseconds, or of the year 20000, does not end the program."""
    table = pa.table(
        {
            "ns": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")),
            "far": pa.array([568_971_820_800_000_000], pa.timestamp("us")),
        }
    )
    ((nanos, far),) = values.rows_of(table)
    assert values.text(nanos) == "2023-11-14 22:13:20.123456"
    assert values.text(far).startswith("20000-")


def test_an_empty_map_is_no_list() -> None:
    """A program that reads JSON finds the same type in each row, at any depth."""
    kind = pa.map_(pa.string(), pa.int64())
    deep = pa.struct([("m", pa.list_(kind)), ("l", pa.list_(pa.int64()))])
    rows = values.rows_of(
        pa.table(
            {
                "m": pa.array([[("a", 1)], [], None], kind),
                "s": pa.array([{"m": [[]], "l": []}, {"m": [[("b", 2)]], "l": [1]}, None], deep),
            }
        )
    )
    assert json.loads("".join(values.json_lines(["m", "s"], rows))) == [
        {"m": {"a": 1}, "s": {"m": [{}], "l": []}},
        {"m": {}, "s": {"m": [{"b": 2}], "l": [1]}},
        {"m": None, "s": None},
    ]
