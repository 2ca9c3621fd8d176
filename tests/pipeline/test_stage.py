"""What a task does with good and bad records, with real files and without Spark."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import LongType, StringType

from tabletopic_kernel.clients.catalog.catalog import create_table
from tabletopic_kernel.clients.spark.java_errors import error_of_trouble
from tabletopic_kernel.formats.decoder import make_decoder
from tabletopic_kernel.formats.wire import WriterSchema, prefix
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.dead_letter import SCHEMA as LETTERS
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.fingerprint import fingerprint
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import note_last
from tabletopic_kernel.pipeline.plan import SchemaPlan, StagePlan, StageResult
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.topic_table import TopicTable, base_properties
from tests.pipeline.source import SOURCE

AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "text", "type": "string"},
        {"name": "sizes", "type": {"type": "array", "items": "int"}},
    ],
}
WRITER = WriterSchema(json.dumps(AVRO))


def good(number: int) -> bytes:
    """A framed record."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": number, "text": f"t{number}", "sizes": [number] * 3})
    return prefix(7) + out.getvalue()


def batch(*values: bytes | None, key: bytes | None = b"k", headers: Any = None) -> pa.RecordBatch:
    """What the source gives: partition 2, offsets from 100."""
    rows = [
        {"value": value, "key": key, "headers": headers, "partition": 2, "offset": 100 + at, "timestamp": at}
        for at, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SOURCE)


@pytest.fixture(scope="module")
def plan(catalog: Catalog) -> StagePlan:
    """A plan that knows one schema."""
    schema = table_schema(make_decoder(7, WRITER).iceberg_schema, TopicSettings())
    spec = UNPARTITIONED_PARTITION_SPEC
    table = TopicTable.create(catalog, ("default", "clicks"), schema, spec, "clicks", TopicSettings())
    dead_letters = create_table(catalog, ("default", "letters"), LETTERS, spec, base_properties())
    return StagePlan(
        topic="clicks",
        table=table.plan(),
        dead_letters=TopicTable(dead_letters).plan(),
        epoch=1,
        values=SchemaPlan({7: WRITER}),
        covers_tombstones=False,
        settings=TopicSettings(),
    )


def run(plan: StagePlan, *batches: pa.RecordBatch) -> StageResult:
    """One task's result, as the worker takes it in."""
    result = StageResult()
    for answer in StageTask(plan)(iter(batches)):
        result.add(answer.column("result")[0].as_py())
    return result


def rows(files: list[DataFile]) -> list[dict[str, Any]]:
    """Everything in the files."""
    return [row for file in files for row in pq.read_table(_path(file)).to_pylist()]


def _path(file: DataFile) -> Path:
    return Path(file.file_path.removeprefix("file://"))


def test_good_rows_and_letters_of_a_batch_are_kept_together(plan: StagePlan) -> None:
    """A bad record costs its neighbours nothing, and is kept whole with its reason."""
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": b"\xff"}]
    bad = good(1)[:-1]
    result = run(plan, batch(good(0), bad, good(2), b"no frame", headers=headers))
    assert [row["id"] for row in rows(result.files)] == [0, 2]
    assert [row["_kafka_metadata"]["offset"] for row in rows(result.files)] == [100, 102]
    first, second = sorted(rows(result.dead_letters), key=lambda row: row["offset"])
    assert (first["topic"], first["partition"], first["offset"]) == ("clicks", 2, 101)
    assert (first["key"], first["value"], first["headers"]) == (b"k", bad, headers)
    assert (first["schema_id"], second["schema_id"]) == (7, None)
    assert first["reason"].startswith("avro_")
    assert second["reason"] == "no_schema_id"
    assert result.refused == {first["reason"]: 1, "no_schema_id": 1}
    assert (result.rows, result.records, result.refused_count) == (2, 4, 2)
    assert {(sample.offset, sample.reason) for sample in result.samples} == {
        (101, first["reason"]),
        (103, "no_schema_id"),
    }


def test_unknown_ids_come_back_as_needs_and_cost_no_decoding(plan: StagePlan) -> None:
    """Records of a schema that is not covered are not written, nor anything else of the round."""
    result = run(plan, batch(good(0), prefix(8) + b"x", None, b"bad"))
    assert result.needs.schema_ids == {8, None}
    assert (result.files, result.dead_letters, result.refused) == ([], [], {})


def test_the_dead_letter_table_is_asked_for_when_first_needed(plan: StagePlan) -> None:
    """Without a table for letters nothing is written; without bad records none is asked for."""
    without = replace(plan, dead_letters=None)
    assert not run(without, batch(good(0))).needs
    result = run(without, batch(good(0), b"bad"))
    assert result.needs.dead_letters
    assert (result.files, result.refused) == ([], {"no_schema_id": 1})


def test_all_records_of_a_refused_schema_are_letters(plan: StagePlan) -> None:
    """A schema that the registry lacks, or that does not fit, refuses its records with that reason."""
    refused = {8: ("unknown_schema", "the registry has no schema id 8")}
    refusing = replace(plan, values=SchemaPlan({7: WRITER}, refused))
    result = run(refusing, batch(prefix(8) + b"x", good(1), prefix(8) + b"y"))
    assert [row["id"] for row in rows(result.files)] == [1]
    assert [(row["value"], row["message"]) for row in rows(result.dead_letters)] == [
        (prefix(8) + b"x", "the registry has no schema id 8"),
        (prefix(8) + b"y", "the registry has no schema id 8"),
    ]


def test_a_schema_may_be_named_by_a_header(plan: StagePlan) -> None:
    """By id or GUID; a header that does not fit is a letter, whole; ids larger than a registry's are none."""
    guid = "6da336d8-f1d3-0f98-4c47-d03ee8a14a10"
    body = good(1)[5:]
    knows = replace(
        plan,
        values=SchemaPlan({7: WRITER, guid: WRITER}, {2**32 - 1: ("unknown_schema", "none")}),
    )

    def named(value: bytes, header: bytes) -> pa.RecordBatch:
        return batch(value, headers=[{"key": "__value_schema_id", "value": header}])

    by_guid = b"\1" + bytes.fromhex(guid.replace("-", ""))
    result = run(
        knows, named(body, prefix(7)), named(body, by_guid), batch(good(2)), named(good(3), prefix(7) + b"\0")
    )
    assert sorted(row["id"] for row in rows(result.files)) == [1, 1, 2]
    (letter,) = rows(result.dead_letters)
    assert (letter["reason"], letter["schema_id"], letter["value"]) == ("bad_schema_header", 7, good(3))
    assert letter["headers"] == [{"key": "__value_schema_id", "value": prefix(7) + b"\0"}]
    huge = run(knows, batch(prefix(2**32 - 1) + b"x"))
    assert [(row["reason"], row["schema_id"]) for row in rows(huge.dead_letters)] == [
        ("unknown_schema", None)
    ]
    unknown = run(plan, named(body, by_guid), batch(good(2)))
    assert unknown.needs.schema_ids == {guid}


@pytest.mark.parametrize(("errors", "kept"), [("skip", 1), ("stop", 0)])
def test_skip_counts_and_stop_keeps_nothing(plan: StagePlan, errors: Any, kept: int) -> None:
    """Neither writes letters, even if there is a table for them; the count by reason is there in both."""
    for dead_letters in (None, plan.dead_letters):
        chosen = replace(plan.with_settings(errors=errors), dead_letters=dead_letters)
        result = run(chosen, batch(good(0), b"bad"))
        assert (len(rows(result.files)), result.dead_letters) == (kept, [])
        assert result.refused == {"no_schema_id": 1}
        assert not result.needs


def test_a_key_that_is_no_text_is_a_letter(plan: StagePlan, catalog: Catalog) -> None:
    """Where keys are to be text, a key that is not is refused with its record."""
    chosen = TopicSettings(key_format="string")
    schema = table_schema(make_decoder(7, WRITER).iceberg_schema, chosen)
    name = ("default", "texts")
    table = TopicTable.create(catalog, name, schema, UNPARTITIONED_PARTITION_SPEC, "texts", chosen)
    texts = replace(plan.with_settings(key_format="string"), table=table.plan())
    result = run(
        texts, batch(good(0), key=b"\xff"), batch(good(1), key=b"\xc3\xb6"), batch(good(2), key=None)
    )
    assert [(row["id"], row["_kafka_key"]) for row in rows(result.files)] == [(1, "ö"), (2, None)]
    (letter,) = rows(result.dead_letters)
    assert (letter["reason"], letter["key"], letter["value"]) == ("key_not_text", b"\xff", good(0))


def test_a_value_that_the_column_cannot_hold_is_a_letter(plan: StagePlan, catalog: Catalog) -> None:
    """Nothing is cut off: a long that an int column cannot hold is refused, its neighbours are rows."""
    ints = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
    narrow = make_decoder(1, WriterSchema(json.dumps(ints))).iceberg_schema
    schema = table_schema(narrow, TopicSettings(metadata_columns=("metadata",)))
    name = ("default", "narrow")
    table = TopicTable.create(
        catalog, name, schema, UNPARTITIONED_PARTITION_SPEC, "narrow", TopicSettings(metadata_columns=())
    )
    longs = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    chosen = replace(
        plan.with_settings(metadata_columns=("metadata",)),
        table=table.plan(),
        values=SchemaPlan({7: WriterSchema(json.dumps(longs))}),
    )
    values = [prefix(7) + _zigzag(number) for number in (1, 2**40, 3, -(2**31), 2**31)]
    result = run(chosen, batch(*values))
    assert [row["id"] for row in rows(result.files)] == [1, 3, -(2**31)]
    assert [(row["offset"], row["reason"]) for row in rows(result.dead_letters)] == [
        (101, "does_not_fit"),
        (104, "does_not_fit"),
    ]
    assert (result.rows, result.refused) == (3, {"does_not_fit": 2})


def _zigzag(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


@pytest.mark.parametrize(("kind", "bad"), [("STRING", 1), ("RAW", 0)])
def test_values_without_a_schema(plan: StagePlan, catalog: Catalog, kind: str, bad: int) -> None:
    """Text or bytes fill one column; text that is none is a letter; a tombstone is a row of null."""
    whole = WriterSchema(kind=kind)
    schema = table_schema(make_decoder(-1, whole).iceberg_schema, TopicSettings())
    name = ("default", kind.lower())
    table = TopicTable.create(catalog, name, schema, UNPARTITIONED_PARTITION_SPEC, kind, TopicSettings())
    chosen = replace(
        plan.with_settings(value_format=kind.lower()),
        table=table.plan(),
        values=SchemaPlan({-1: whole}),
        covers_tombstones=True,
        topic=kind,
    )
    result = run(chosen, batch(b"a", b"\xff\xfe", None, "ö".encode()))
    found = {row["_kafka_metadata"]["offset"]: row["_kafka_value"] for row in rows(result.files)}
    expected: dict[int, Any] = {100: b"a", 101: b"\xff\xfe", 102: None, 103: "ö".encode()}
    if kind == "STRING":
        expected = {at: value.decode() if value else None for at, value in expected.items() if at != 101}
    assert found == expected
    assert len(rows(result.dead_letters)) == bad
    assert [row["schema_id"] for row in rows(result.dead_letters)] == [None] * bad


RECORD = st.one_of(
    st.integers(0, 2**40).map(good),
    st.integers(0, 2**40).map(lambda number: good(number)[:-1]),
    st.binary(max_size=12),
    st.binary(max_size=12).map(lambda body: prefix(8) + body),
    st.none(),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(RECORD, max_size=120), st.integers(1, 50))
def test_every_record_is_a_row_or_a_letter_once(
    plan: StagePlan, values: list[bytes | None], size: int
) -> None:
    """However good and bad records mix and are cut into batches, none is lost or doubled (I1)."""
    ids = {int.from_bytes(v[1:5], "big") for v in values if v and len(v) > 4 and v[0] == 0} - {7}
    refused = dict.fromkeys(ids, ("unknown_schema", "none"))
    chosen = replace(plan, values=SchemaPlan({7: WRITER}, refused))
    kept = [value for value in values if value is not None]
    whole = batch(*kept)
    result = run(chosen, *(whole.slice(at, size) for at in range(0, len(kept), size)))
    in_rows = [row["_kafka_metadata"]["offset"] for row in rows(result.files)]
    in_letters = {row["offset"]: row["value"] for row in rows(result.dead_letters)}
    assert sorted([*in_rows, *in_letters]) == list(range(100, 100 + len(kept)))
    assert all(kept[offset - 100] == value for offset, value in in_letters.items())
    assert (result.rows, result.refused_count) == (len(in_rows), len(in_letters))


def _partition(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("reason", IdentityTransform()).add_field("value", BucketTransform(4))


def _partition_twice(table: Table) -> None:
    _partition(table)
    with table.update_spec() as update:
        update.remove_field("reason").add_field("at", DayTransform())


def _sort(table: Table) -> None:
    with table.update_sort_order() as update:
        update.desc("offset", IdentityTransform(), NullOrder.NULLS_LAST)


def _add_columns(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("note", StringType()).add_column(("headers", "note"), StringType())


def _change_columns(table: Table) -> None:
    with table.update_schema() as update:
        update.update_column("partition", LongType()).update_column("reason", required=False).move_first("at")


@pytest.mark.parametrize("alter", [_partition, _partition_twice, _sort, _add_columns, _change_columns])
def test_dead_letters_follow_what_others_make_of_their_table(
    catalog: Catalog, plan: StagePlan, alter: Callable[[Table], None]
) -> None:
    """As long as it keeps their columns, they are committed whole, by the spec that it has."""
    spec, name = UNPARTITIONED_PARTITION_SPEC, ("default", f"altered{alter.__name__}")
    table = TopicTable(create_table(catalog, name, LETTERS, spec, base_properties()))
    alter(table.table)
    table.reload()
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    result = run(
        replace(plan, dead_letters=table.plan()), batch(b"no frame", good(1), good(2)[:-1], headers=headers)
    )
    table.commit(None, appended(Ledger("clicks", "cluster", "id", {0: 0}, 1, "a"), result.dead_letters))
    assert {file.spec_id for file in result.dead_letters} == {table.table.metadata.default_spec_id}
    kept = sorted(table.table.scan().to_arrow().to_pylist(), key=lambda row: row["offset"])
    assert [(row["offset"], row["value"]) for row in kept] == [(100, b"no frame"), (102, good(2)[:-1])]
    assert [[(one["key"], one["value"]) for one in row["headers"]] for row in kept] == [
        [("a", b"1"), ("a", None)]
    ] * 2


@pytest.mark.parametrize("number", [2**60, -(2**62)])
def test_a_record_of_no_date_is_a_row_without_one(plan: StagePlan, number: int) -> None:
    """A producer may take microseconds for milliseconds: rows and letters have no timestamp then."""
    given = batch(good(0), good(1), b"no frame")
    at = given.schema.get_field_index("timestamp")
    times = pa.array([1000, number, number], given.schema.field(at).type)
    result = run(plan, given.set_column(at, given.schema.field(at), times))
    found = [row["_kafka_metadata"]["timestamp"] for row in rows(result.files)]
    assert (found[0].microsecond, found[1]) == (1000, None)
    assert [row["timestamp"] for row in rows(result.dead_letters)] == [None]
    assert result.newest_ms == {2: 1}


def test_a_task_returns_what_the_storage_refuses_as_a_value(
    plan: StagePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would make a text of it, in which neither the section of the settings nor the remedy is known."""

    def fail(*_: Any) -> Any:
        raise OSError(28, "No space left on device: look into [catalog]")

    monkeypatch.setattr(PyArrowFile, "create", fail)
    result = run(plan, batch(good(0)))
    assert (result.error is not None, result.rows, result.files) == (True, 0, [])
    error = error_of_trouble("a batch of clicks could not be staged", result.error or ValueError())
    error.of_catalog("prod")
    assert isinstance(error, RetryableError)
    assert str(error) == (
        "a batch of clicks could not be staged, retrying: could not write a data file: the storage is full "
        "([Errno 28] No space left on device: look into [catalog]); make room on its disk"
    )


def test_the_last_record_of_each_partition_is_noted() -> None:
    """Whatever the order of batches and partitions, and with a null for a key, a value or a time."""

    def batch(*records: tuple[int, int, bytes | None]) -> pa.RecordBatch:
        partitions, offsets, values = zip(*records, strict=True)
        columns = {
            "key": pa.nulls(len(records), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array(
                [None if offset % 2 else offset for offset in offsets], pa.timestamp("us", "UTC")
            ),
        }
        return pa.RecordBatch.from_pydict(columns)

    last: dict[int, tuple[int, str]] = {}
    note_last(batch((1, 7, b"a"), (0, 3, b"b"), (0, 4, None)), last)
    note_last(batch((1, 6, b"c"), (2, 0, b"")), last)
    assert {p: offset for p, (offset, _) in last.items()} == {0: 4, 1: 7, 2: 0}
    assert len({digest for _, digest in last.values()}) == 3
    assert last[2][1] == fingerprint(None, b"", None) != last[0][1] == fingerprint(None, None, None)
