"""A SQL projection: what it may say, what it makes of rows, and what becomes of those it fails on."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import uuid
from datetime import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema

from tabletopic_kernel.formats.decoder import make_decoder
from tabletopic_kernel.formats.wire import WriterSchema
from tabletopic_kernel.model.errors import ActionNeededError, ProjectionError, RetryableError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.transform.projection import projection as sql_projection
from tabletopic_kernel.pipeline.transform.projection.child import ChildProjection, planned_columns
from tabletopic_kernel.pipeline.transform.projection.projection import SqlProjection
from tabletopic_kernel.pipeline.transform.projection.statement import connect
from tests.pipeline.test_debezium import EVENTS, plain
from tests.pipeline.whole_path import Path, avro_values
from tests.table.samples import FakeRegistry


def columns(*fields: dict[str, Any]) -> Schema:
    """The columns that an Avro record is decoded to."""
    return make_decoder(1, WriterSchema(json.dumps(record(*fields)))).iceberg_schema


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    """An Avro record."""
    return {"type": "record", "name": "Row", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
TEXT = {"name": "text", "type": ["null", "string"], "default": None}
BATCH = columns(ID, TEXT)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT id FROM batch WHERE", "syntax error"),
        ("DROP TABLE batch", "one SELECT"),
        ("SELECT id FROM batch; SELECT id FROM batch", "one SELECT"),
        ("COPY batch TO 'x.csv'", "one SELECT"),
        ("SET threads = 4", "one SELECT"),
        ("SELECT id FROM batch UNION ALL SELECT id FROM batch", "one SELECT"),
        ("VALUES (1)", "reads from batch alone"),
        ("SELECT 1 AS x", "reads from batch alone"),
        ("SELECT id FROM other", "reads from batch alone"),
        ("SELECT id FROM main.batch", "reads from batch alone"),
        ("SELECT id FROM 'x.parquet'", "reads from batch alone"),
        ("SELECT * FROM read_text('/etc/passwd')", "reads from batch alone"),
        ("SELECT a.id FROM batch a, batch b", "reads from batch alone"),
        ("SELECT id FROM batch JOIN batch b USING (id)", "reads from batch alone"),
        ("SELECT id FROM batch TABLESAMPLE 10%", "reads from batch alone"),
        ("SELECT id FROM batch ORDER BY id LIMIT 3", "ORDER BY, LIMIT"),
        ("SELECT DISTINCT id FROM batch", "DISTINCT"),
        ("WITH x AS (SELECT 1) SELECT id FROM batch", "WITH"),
        ("SELECT id FROM batch GROUP BY ALL", "GROUP BY"),
        ("SELECT id FROM batch QUALIFY id > 1", "QUALIFY"),
        ("SELECT ? AS x FROM batch", "a parameter"),
        ("SELECT count(*) AS n FROM batch", "combines rows"),
        ("SELECT max(id) AS n FROM batch", "combines rows"),
        ("SELECT geomean(id) AS n FROM batch", "combines rows"),
        ("SELECT sum(id) OVER () AS n FROM batch", "a window function"),
        ("SELECT (SELECT 1) AS n FROM batch", "a subquery"),
        ("SELECT id FROM batch WHERE EXISTS (FROM batch)", "a subquery"),
        ("SELECT unnest([id, id]) AS n FROM batch", "several rows"),
        ("SELECT random() AS n FROM batch", "varies"),
        ("SELECT id FROM batch WHERE now() > TIMESTAMPTZ '2026-01-01'", "varies"),
        ("SELECT current_timestamp AS n FROM batch", "varies"),
        ("SELECT id + 1 FROM batch", "with AS"),
        ("SELECT COLUMNS(*) FROM batch", "COLUMNS"),
        ("SELECT struct_pack(*COLUMNS(*)) AS s FROM batch", "COLUMNS"),
        ("SELECT to_json(batch) AS j FROM batch", "is the table"),
        ("SELECT b AS row FROM batch AS b", "is the table"),
        ("SELECT nothing AS x FROM batch", '"nothing" not found'),
        ("SELECT frob(id) AS x FROM batch", "frob does not exist"),
        ("SELECT 1 AS id, id FROM batch", "occurs twice"),
        ("SELECT getvariable('x') AS x FROM batch", "outside the record"),
        ("SELECT current_setting('temp_directory') AS x FROM batch", "outside the record"),
        ("SELECT age(TIMESTAMP '2026-01-01')::VARCHAR AS x FROM batch", "counts from today"),
        ("SELECT ago(INTERVAL 1 DAY) AS x FROM batch", "varies"),
        ("SELECT pg_postmaster_start_time() AS x FROM batch", "varies"),
        ("SELECT id, text AS ID FROM batch", "occurs twice"),
        ("SELECT id::HUGEINT AS x FROM batch", "x is HUGEINT, which a table cannot hold; CAST it to BIGINT"),
        ("SELECT {'a': [INTERVAL 1 DAY]} AS x FROM batch", "x.a is INTERVAL"),
        ("SELECT TIME WITH TIME ZONE '12:00:00+01' AS x FROM batch", "CAST it to TIME"),
        ("SELECT TIMESTAMP_NS '2026-01-01' AS x FROM batch", "CAST it to TIMESTAMP"),
    ],
)
def test_what_is_not_allowed_says_why(text: str, why: str) -> None:
    """Whatever is no row for a record, or reaches beyond the batch, is refused before a record is read."""
    with pytest.raises(ProjectionError, match="cannot be used") as told:
        SqlProjection(text, BATCH)
    assert why in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM glob('/etc/*')",
        "COPY (SELECT 1) TO '/tmp/tabletopic-projection.csv'",
        "ATTACH '/tmp/tabletopic-projection.db'",
        "LOAD httpfs",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET threads = 4",
    ],
)
def test_the_engine_itself_reaches_nothing(text: str) -> None:
    """Even a statement that no projection may be finds no file, network or extension."""
    import duckdb

    with pytest.raises(duckdb.Error, match=r"disabled|locked"):
        connect().execute(text)


EVERY_TYPE: list[tuple[dict[str, Any], str, Any]] = [
    ({"name": "l", "type": "long"}, "long", 2**63 - 1),
    ({"name": "i", "type": "int"}, "int", -(2**31)),
    ({"name": "d", "type": "double"}, "double", 0.1),
    ({"name": "f", "type": "float"}, "float", 1.5),
    ({"name": "b", "type": "boolean"}, "boolean", True),
    ({"name": "s", "type": "string"}, "string", "\U0001f980\x00'"),
    ({"name": "y", "type": "bytes"}, "binary", b"\xff\x00"),
    ({"name": "x", "type": {"type": "fixed", "name": "F", "size": 2}}, "binary", b"\x00\xff"),
    (
        {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}},
        "decimal(38, 9)",
        Decimal("12345678901234567890123456789.123456789"),
    ),
    (
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
        "uuid",
        uuid.UUID("6da336d8-f1d3-0f98-4c47-d03ee8a14a10"),
    ),
    ({"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}}, "timestamptz", -1),
    ({"name": "lt", "type": {"type": "long", "logicalType": "local-timestamp-micros"}}, "timestamp", 10**15),
    ({"name": "dy", "type": {"type": "int", "logicalType": "date"}}, "date", -1),
    ({"name": "tm", "type": {"type": "long", "logicalType": "time-micros"}}, "time", 86_399_999_999),
    ({"name": "m", "type": {"type": "map", "values": ["null", "long"]}}, "map<string, long>", [("k", None)]),
    (
        {"name": "a", "type": {"type": "array", "items": {**record(ID, TEXT), "name": "In"}}},
        "list<struct>",
        [{"id": 1, "text": None}],
    ),
]


def test_every_type_comes_through_as_it_is() -> None:
    """Types and values of * are those that were decoded, also nulls; fixed bytes are bytes."""
    batch = columns(*(field for field, _, _ in EVERY_TYPE))
    projection = SqlProjection("SELECT * FROM batch", batch)
    kinds = {one.name: str(one.field_type) for one in projection.iceberg_schema.fields}
    assert kinds["n"] == "decimal(38, 9)"
    told = {field["name"]: kind for field, kind, _ in EVERY_TYPE}
    assert {name: kind for name, kind in kinds.items() if name != "a"} == {
        name: kind for name, kind in told.items() if name != "a"
    }
    arrays = {}
    for one, (_, _, value) in zip(
        make_decoder(1, WriterSchema(json.dumps(record(*(f for f, _, _ in EVERY_TYPE))))).arrow_schema,
        EVERY_TYPE,
        strict=True,
    ):
        storage = one.type.storage_type if isinstance(one.type, pa.BaseExtensionType) else one.type
        held = pa.array([value.bytes if isinstance(value, uuid.UUID) else value, None], storage)
        arrays[one.name] = pa.ExtensionArray.from_storage(one.type, held) if storage != one.type else held
    found = projection.rows(arrays, 2)
    rows = conform(found.columns, 2, file_schema(projection.iceberg_schema))
    for name, array in arrays.items():
        assert rows.column(name).to_pylist() == array.to_pylist(), name


def rows_of(projection: SqlProjection | ChildProjection, *rows: dict[str, Any]) -> tuple[list[Any], Any]:
    """Output rows with their positions, and what else became of the rows."""
    arrays = {
        "id": pa.array([row.get("id") for row in rows], pa.int64()),
        "text": pa.array([row.get("text") for row in rows], pa.large_string()),
    }
    found = projection.rows(arrays, len(rows))
    out = pa.RecordBatch.from_pydict(found.columns).to_pylist() if found.columns else []
    return list(zip(found.kept.tolist(), out, strict=True)), found


def test_a_row_fails_alone() -> None:
    """Rows on which an expression or the condition fails are refused with their reason, and no others."""
    text = "SELECT id, 10 // (id - 3) AS q, CAST(text AS INT) AS n FROM batch WHERE ln(id) >= 0 AND id <> 6"
    texts = ["1", "2", "3", "4", "x", "y", "99999999999"]
    kept, found = rows_of(
        SqlProjection(text, BATCH), *({"id": at, "text": one} for at, one in enumerate(texts, 0))
    )
    assert [(at, row["n"]) for at, row in kept] == [(1, 2), (2, 3), (3, 4)]
    assert [(bad.index, bad.reason) for bad in found.refused] == [
        (0, "projection_failed"),
        (4, "projection_failed"),
        (5, "projection_failed"),
    ]
    told = [bad.message for bad in found.refused]
    assert told[0].startswith("WHERE: Out of Range Error: cannot take logarithm of zero")
    assert told[1].startswith("n: Conversion Error: Could not convert string 'x' to INT32")
    assert found.passed_over == {"filtered": 1}


def test_outputs_may_be_made_of_others() -> None:
    """Outputs and the condition may use other outputs; what fails is refused alone there too."""
    text = (
        "SELECT id * 2 AS twice, CAST(text AS INT) + twice AS n, n + 1 AS more FROM batch WHERE twice < 100"
    )
    rows = [{"id": 1, "text": "5"}, {"id": 2, "text": "x"}, {"id": 3, "text": "7"}, {"id": 90, "text": "1"}]
    kept, found = rows_of(SqlProjection(text, BATCH), *rows)
    assert kept == [(0, {"twice": 2, "n": 7, "more": 8}), (2, {"twice": 6, "n": 13, "more": 14})]
    assert [(bad.index, bad.reason) for bad in found.refused] == [(1, "projection_failed")]
    assert "Could not convert string 'x'" in found.refused[0].message
    assert found.passed_over == {"filtered": 1}


@pytest.mark.integration
@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, len(range(250000000)) AS n FROM batch",
        "SELECT id, repeat('x', 2000000000) AS n FROM batch",
        "SELECT id, len(list_transform(range(200000000), x -> x)) AS n FROM batch",
    ],
)
def test_a_statement_that_takes_too_much_is_refused_as_it_is_planned(text: str) -> None:
    """Its child ends or gives up; this process keeps its memory, and the message says why."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ProjectionError, match="more than 512 MB of memory, whatever the records are"):
        planned_columns(text, BATCH)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100_000  # KiB
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def test_a_child_gives_the_same_rows() -> None:
    """Columns and rows are those of the process itself, errors too; a broken child is told."""
    text = "SELECT CAST(text AS INT) + id AS n, TIME '10:00' AS at FROM batch WHERE id <> 2"
    rows = [{"id": 1, "text": "1"}, {"id": 2}, {"id": 3, "text": "x"}]
    here, child = SqlProjection(text, BATCH), ChildProjection(text, BATCH)
    assert child.iceberg_schema == here.iceberg_schema == planned_columns(text, BATCH)
    for _ in range(2):
        (kept, found), (expected, same) = rows_of(child, *rows), rows_of(here, *rows)
        assert (kept, found.refused, found.passed_over) == (expected, same.refused, same.passed_over)
    child._process.send_signal(signal.SIGSEGV)
    with pytest.raises(ProjectionError, match="exit code -11"):
        rows_of(child, *rows)
    child.close()
    with pytest.raises(ProjectionError, match="no_such") as told:
        planned_columns("SELECT no_such AS n FROM batch", BATCH)
    assert str(told.value).count("the projection cannot be used") == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_that_is_killed_from_outside_is_no_fault_of_the_projection(number: int) -> None:
    """By the system where memory is short, or as the machine goes down: the records are no letters."""
    child = ChildProjection("SELECT id FROM batch", BATCH)
    child._process.send_signal(number)
    with pytest.raises(RetryableError, match=f"killed by signal {number:d}"):
        rows_of(child, {"id": 1})
    child.close()


@pytest.mark.integration
def test_a_record_that_takes_too_much_is_refused_and_its_neighbours_are_rows() -> None:
    """Whether it is a list that memory does not hold, or one that its type does not."""
    projection = SqlProjection("SELECT id, len(range(id)) AS n FROM batch", BATCH)
    kept, found = rows_of(projection, *({"id": one} for one in (5, 900_000_000, 7, 10**18, 9)))
    assert kept == [(0, {"id": 5, "n": 5}), (2, {"id": 7, "n": 7}), (4, {"id": 9, "n": 9})]
    assert {bad.index: bad.reason for bad in found.refused} == dict.fromkeys((1, 3), "projection_failed")
    assert "512 MB" in found.refused[0].message


@pytest.mark.integration
def test_a_statement_that_takes_too_much_of_all_records_ends_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is no record's fault then, and no letter."""
    monkeypatch.setattr(sql_projection, "_WASTED_S", 0.5)
    projection = SqlProjection("SELECT id, len(range(id * 1000000000)) AS n FROM batch", BATCH)
    with pytest.raises(ProjectionError, match="with many of the newest records"):
        rows_of(projection, *({"id": 1 + one % 4} for one in range(2_000)))


_STUCK = """
from tabletopic_kernel.model.errors import ProjectionError
from tabletopic_kernel.pipeline.transform.projection import guard
from tabletopic_kernel.pipeline.transform.projection.statement import connect
guard.RECORD_S = guard._LOOK_S = guard._GRACE_S = guard._HANDED_OVER_S = 0.2
def ask(query):
    connection = connect()
    return guard.run(connection, lambda: connection.execute(query).fetchall(), 1)
try:
    ask("SELECT count(*) FROM range(100000000000)")
except guard.LimitError as error:
    print(error)
print(ask("SELECT 1"))
try:
    ask("SELECT levenshtein(repeat('ab', 1000000) || x, repeat('ba', 1000000)) FROM (SELECT 'x' AS x)")
except ProjectionError as error:
    print(error, flush=True)
while True:
    pass
"""


@pytest.mark.integration
def test_a_statement_without_end_is_interrupted_or_ends_its_process() -> None:
    """Between vectors it heeds an interrupt; within a function nothing helps but the end of the process."""
    done = subprocess.run([sys.executable, "-c", _STUCK], capture_output=True, text=True, check=False)
    first, second, third = done.stdout.splitlines()
    assert first == "it takes more than 0 s of processor time"
    assert second == "[(1,)]"
    assert "cannot be interrupted" in third
    assert done.returncode == 1


@pytest.mark.integration
def test_too_much_memory_is_the_fault_of_a_record() -> None:
    """A record that asks for more than a projection may have is refused; its neighbours are rows."""
    projection = SqlProjection("SELECT id, repeat(lpad('x', 10000, 'x'), id) AS text FROM batch", BATCH)
    kept, found = rows_of(projection, {"id": 1}, {"id": 60_000}, {"id": 3})
    assert [at for at, _ in kept] == [0, 2]
    assert [(bad.index, bad.reason) for bad in found.refused] == [(1, "projection_failed")]
    assert "more than 512 MB of memory" in found.refused[0].message


def test_dates_that_tables_do_not_have_are_refused() -> None:
    """DuckDB's infinities and far years never come into a table, at whatever depth."""
    text = (
        "SELECT id, CASE WHEN id = 1 THEN TIMESTAMP 'infinity' END AS t, "
        "[CASE WHEN id = 2 THEN DATE '12000-01-01' ELSE DATE '2026-01-01' END] AS l, "
        "MAP {'k': {'d': CASE WHEN id = 3 THEN DATE '-infinity' END}} AS m, "
        "CASE WHEN id = 4 THEN TIME '24:00:00' ELSE TIME '23:59:59.999999' END AS c, "
        "[{'t': CASE WHEN id = 5 THEN TIME '24:00:00' END}] AS n FROM batch"
    )
    kept, found = rows_of(SqlProjection(text, BATCH), *({"id": at} for at in range(7)))
    assert [at for at, _ in kept] == [0, 6]
    refused = [(bad.index, bad.reason) for bad in found.refused]
    assert refused == [(at, "does_not_fit") for at in (1, 2, 3, 4, 5)]
    assert kept[0][1]["c"] == time(23, 59, 59, 999_999)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(-3, 12), st.sampled_from(["1", "20", "x", None])), max_size=60))
def test_outputs_stay_with_their_records(rows: list[tuple[int, str | None]]) -> None:
    """Each row is an output, a refusal or filtered, as it would be alone (I1)."""
    projection = SqlProjection("SELECT id, CAST(text AS INT) + id AS n FROM batch WHERE id % 3 <> 0", BATCH)
    kept, found = rows_of(projection, *({"id": number, "text": text} for number, text in rows))
    expected = [
        (at, {"id": number, "n": None if text is None else int(text) + number})
        for at, (number, text) in enumerate(rows)
        if number % 3 and text != "x"
    ]
    assert kept == expected
    assert [bad.index for bad in found.refused] == [
        at for at, (number, text) in enumerate(rows) if number % 3 and text == "x"
    ]
    assert sum(found.passed_over.values()) == sum(number % 3 == 0 for number, _ in rows)


def of_avro(catalog: Catalog, text: str, *schemas: dict[str, Any], **more: Any) -> Path:
    """A topic with a projection; schemas have the ids 1, 2…"""
    texts = {at: json.dumps(schema) for at, schema in enumerate(schemas, 1)}
    return Path(catalog, TopicSettings(projection=text, **more), FakeRegistry(texts))


def test_schemas_evolve_under_a_projection(catalog: Catalog) -> None:
    """A new field reaches the outputs that take it; records of the old schema are read with null there."""
    old = record({"name": "id", "type": "int"}, TEXT)
    new = record(ID, TEXT, {"name": "price", "type": ["null", "double"], "default": None})
    path = of_avro(catalog, "SELECT id * 2 AS twice, * EXCLUDE (id, text) FROM batch WHERE id > 0", old)
    assert path.send(*avro_values(1, old, {"id": 1}, {"id": 0})) == [{"twice": 2, "@": 0}]
    assert (path.columns(), path.result.passed_over) == ({"twice": "int"}, {"filtered": 1})
    path.registry.schemas[2] = json.dumps(new)
    big = 2**40
    values = [*avro_values(2, new, {"id": big, "price": 1.5}), *avro_values(1, old, {"id": 3})]
    expected = [{"twice": 2 * big, "price": 1.5, "@": 2}, {"twice": 6, "price": None, "@": 3}]
    assert path.send(*values) == expected
    assert path.columns() == {"twice": "long", "price": "double"}
    path.restart()
    again = path.send(*avro_values(1, old, {"id": 3}))
    assert again == [{"twice": 6, "price": None, "@": 4}]
    assert path.control.types() == ["SchemaEvolved", "SchemaEvolved"]


def test_a_tombstone_is_a_row_of_nulls_to_a_projection(catalog: Catalog) -> None:
    """It becomes what the expressions make of nulls, or is filtered."""
    schema = record(ID, TEXT)
    path = of_avro(catalog, "SELECT id, coalesce(text, 'gone') AS text FROM batch", schema)
    assert path.send(None) == [{"id": None, "text": "gone", "@": 0}]
    path = of_avro(catalog, "SELECT id FROM batch WHERE id >= 0", schema)
    assert path.send(None, *avro_values(1, schema, {"id": 1})) == [{"id": 1, "@": 1}]
    assert path.result.passed_over == {"filtered": 1}


def test_failures_are_letters_and_neighbours_are_rows(catalog: Catalog) -> None:
    """The letter has the record's own place and reason."""
    schema = record(ID, TEXT)
    path = of_avro(catalog, "SELECT CAST(text AS DATE) AS day FROM batch", schema)
    texts = ["2026-01-01", "never", "2026-01-03"]
    found = path.send(*avro_values(1, schema, *({"id": 1, "text": text} for text in texts)))
    assert [row["@"] for row in found] == [0, 2]
    assert path.dead_letters == {1: "projection_failed"}
    assert "never" in path.messages[1]


def test_a_schema_without_the_columns_is_refused(catalog: Catalog) -> None:
    """While no schema has had a column, its records are letters that name it."""
    path = of_avro(catalog, "SELECT id, price FROM batch", record(ID))
    assert path.send(*avro_values(1, record(ID), {"id": 1})) == []
    assert path.dead_letters == {0: "projection_failed"}
    assert "price" in path.messages[0]


def test_json_without_a_schema_under_a_projection(catalog: Catalog) -> None:
    """Its columns are inferred before the projection, and known again after a restart."""
    text = "SELECT id, CAST(sent AS TIMESTAMPTZ) AS sent, tags[1] AS tag FROM batch WHERE id > 0"
    path = Path(catalog, TopicSettings(projection=text, value_format="json"))
    first = plain({"id": 1, "sent": "2026-01-01T00:00:00Z", "tags": ["a", "b"], "more": {"x": 1}})
    (row,) = path.send(first)
    assert (row["id"], row["sent"].isoformat(), row["tag"]) == (1, "2026-01-01T00:00:00+00:00", "a")
    assert path.columns() == {"id": "long", "sent": "timestamptz", "tag": "string"}
    path.restart()
    found = path.send(plain({"id": 2}), plain({"more": {"y": "z"}}), plain({"id": 3, "sent": "soon"}))
    assert [row["id"] for row in found] == [2]
    assert path.result.passed_over == {"filtered": 1}
    assert path.dead_letters == {3: "projection_failed"}


def test_json_that_has_not_shown_a_column_stops_the_topic(catalog: Catalog) -> None:
    """Nobody can say its type."""
    path = Path(catalog, TopicSettings(projection="SELECT b FROM batch", value_format="json"))
    with pytest.raises((ProjectionError, ActionNeededError), match='"b" not found'):
        path.send(plain({"a": 1}))


def test_change_events_under_a_projection(catalog: Catalog) -> None:
    """The projection reads what the unwrapping gives."""
    text = "SELECT id, upper(first_name) AS name, _cdc.op AS op FROM batch WHERE _cdc.op <> 'D'"
    chosen = TopicSettings(projection=text, transform="flatten_debezium", value_format="json")
    path = Path(catalog, chosen)
    expected = [(0, "SALLY", "I"), (1, "ANNE", "I"), (1, "ANNE MARIE", "U")]
    for _ in range(2):
        found = path.send(*map(plain, EVENTS), None)
        assert [(row["id"], row["name"], row["op"]) for row in found] == expected
        assert path.result.passed_over == {"filtered": 1, "tombstone": 1}
        path.restart()


def test_the_whole_value_and_text_under_a_projection(catalog: Catalog) -> None:
    """With transform none the fields are inside _kafka_value; text is in it as it is."""
    schema = record(ID, TEXT)
    path = of_avro(catalog, "SELECT _kafka_value.id AS id FROM batch", schema, transform="none")
    assert path.send(*avro_values(1, schema, {"id": 7})) == [{"id": 7, "@": 0}]
    text = "SELECT split_part(_kafka_value, ' ', 1) AS word FROM batch"
    path = Path(catalog, TopicSettings(projection=text, value_format="string"))
    assert path.send(b"hello world", b"\xff") == [{"word": "hello", "@": 0}]
    path.restart()
    assert path.send(b"again") == [{"word": "again", "@": 2}]


def test_a_projection_may_come_to_a_table_that_had_none(catalog: Catalog) -> None:
    """Its outputs fit the columns there are, or the schema is refused."""
    schema = record(ID, TEXT)
    registry = FakeRegistry({1: json.dumps(schema)})
    path = Path(catalog, TopicSettings(), registry)
    path.send(*avro_values(1, schema, {"id": 1, "text": "a"}))
    for text, told in (
        ("SELECT id, text || '!' AS text, length(text) AS size FROM batch", {}),
        ("SELECT 'x' AS id FROM batch", "incompatible_schema"),
    ):
        path.settings = TopicSettings(projection=text)
        path.restart()
        found = path.send(*avro_values(1, schema, {"id": 1, "text": "ab"}))
        assert [row["size"] for row in found] == ([2] if not told else [])
        assert set(path.dead_letters.values()) == ({told} if told else set())


def test_outputs_have_no_more_levels_than_readers_take(catalog: Catalog) -> None:
    """One record of such a column would make the table unreadable."""
    path = of_avro(catalog, f"SELECT {'[' * 31}id{']' * 31} AS deep FROM batch", record(ID))
    assert len(path.send(*avro_values(1, record(ID), {"id": 1}))) == 1
    path = of_avro(catalog, f"SELECT {'[' * 32}id{']' * 32} AS deep FROM batch", record(ID))
    assert path.send(*avro_values(1, record(ID), {"id": 1})) == []
    assert "its columns have 66 levels in Parquet" in path.messages[0]


def test_outputs_may_not_take_the_place_of_metadata(catalog: Catalog) -> None:
    """_kafka_metadata stays what it is."""
    path = of_avro(catalog, "SELECT id AS _kafka_metadata FROM batch", record(ID))
    assert path.send(*avro_values(1, record(ID), {"id": 1})) == []
    assert "_kafka_metadata is the name of a metadata column" in path.messages[0]
