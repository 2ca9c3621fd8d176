"""What enable would do, over a small catalog; broker and registry respond from memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.kafka.broker import Broker, TopicFacts
from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry
from tabletopic_kernel.formats.avro.schema import parse
from tabletopic_kernel.formats.avro.types import iceberg_schema_of
from tabletopic_kernel.formats.decoder import make_decoder
from tabletopic_kernel.formats.wire import WriterSchema, prefix
from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.columns.table_columns import table_schema
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.source import SOURCE_SCHEMA
from tabletopic_kernel.table.schemas.columns import writer_columns
from tabletopic_kernel.table.schemas.numbers import names_property
from tabletopic_kernel.table.schemas.registered import read_candidate
from tabletopic_kernel.table.topic_table import TopicTable
from tabletopic_kernel.workbench.peek import PeekedRecord
from tabletopic_kernel.workbench.peek import newest as peek_newest
from tabletopic_kernel.workbench.plan import Plan
from tabletopic_kernel.workbench.topics import backlog
from tabletopic_kernel.workbench.topics.planning import plan_enable
from tests.table.samples import sqlite_catalog

# The table that another topic, which is enabled too, will have.
TAKEN = {("default", "a_b"): "a.b"}
V1 = '{"type":"record","name":"C","fields":[{"name":"id","type":"int"},{"name":"url","type":"string"}]}'
V2 = (
    '{"type":"record","name":"C","fields":[{"name":"id","type":"long"},'
    '{"name":"url","type":["null","string"]},{"name":"at","type":"long"}]}'
)
BAD = '{"type":"record","name":"C","fields":[{"name":"id","type":"string"},{"name":"url","type":"string"}]}'


class Answers:
    """A broker with one topic of 10 records, and a registry with one schema or none."""

    def __init__(self, text: str | None, kind: str = "AVRO", internal: bool = False) -> None:
        self.text = text
        self.kind = kind
        self.internal = internal

    properties: Mapping[str, str] = {}

    def facts(self, topic: str) -> TopicFacts:
        """As the broker."""
        return TopicFacts(topic, "cluster", "topic-id", {0: 0}, {0: 10}, self.internal)

    def latest(self, subject: str) -> RegisteredSchema | None:
        """As the registry."""
        return None if self.text is None else RegisteredSchema(7, self.kind, self.text, (), subject, 2)

    def by_id(self, schema_id: int, subject: str) -> RegisteredSchema:
        """As the registry."""
        assert self.text is not None
        return RegisteredSchema(schema_id, self.kind, self.text, (), subject, 2)

    def verdict(self, subject: str, kind: str, text: str) -> str:
        """As the registry."""
        return f"verdict on {subject}"


@pytest.fixture(autouse=True)
def newest(monkeypatch: pytest.MonkeyPatch) -> list[PeekedRecord]:
    """The broker's newest records: none, unless a test has some."""
    records: list[PeekedRecord] = []
    monkeypatch.setattr(peek_newest, "newest_records", lambda *_: records)
    return records


@pytest.fixture(autouse=True)
def values(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The values of all records of the topic, as a sample reads them: none, unless a test has some."""
    values: list[bytes] = []

    def read(_: object) -> list[pa.RecordBatch]:
        rows = [
            {"value": value, "key": None, "headers": None, "partition": 0, "offset": n, "timestamp": n}
            for n, value in enumerate(values)
        ]
        return [pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)] if rows else []

    monkeypatch.setattr(backlog, "KafkaRanges", lambda *_, **__: SimpleNamespace(read=read))
    return values


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """An empty catalog."""
    return sqlite_catalog(tmp_path)


def columns_of(text: str) -> Schema:
    """A value's columns and the metadata columns."""
    return table_schema(iceberg_schema_of(parse(text)), TopicSettings())


def planned(catalog: Catalog, text: str | None, **settings: Any) -> Plan:
    """The plan of the topic ``clicks``."""
    answers = Answers(text)
    made = TopicSettings(**settings)
    return plan_enable("clicks", made, cast(Broker, answers), cast(Registry, answers), catalog, TAKEN)


def make_table(catalog: Catalog, by: tuple[str, ...] = ()) -> None:
    """A table of V1, as created by a coordinator."""
    schema = columns_of(V1)
    spec = partition_spec(by, schema)
    TopicTable.create(catalog, ("default", "clicks"), schema, spec, "clicks", TopicSettings())


def test_a_new_table_with_partitions_says_what_its_backlog_makes(
    catalog: Catalog, values: list[bytes], tmp_path: Path
) -> None:
    """Before anything is made; a bad record makes no file."""
    values += [b"a1", b"a2", b"b1", b"\xff"]
    columns = {"value_format": "string", "table_properties": {"write.data.path": f"file://{tmp_path}/w/data"}}
    plan = planned(catalog, None, partition_by=("truncate(1, _kafka_value)",), **columns)
    assert asdict(plan)["backlog"] == {"records": 10, "partitions": 2, "files": 2, "exact": True}
    assert plan.notes[-1] == "this backlog of 10 records has 2 partitions, 2 files"
    assert planned(catalog, None, **columns).backlog is None
    latest = planned(catalog, None, partition_by=("truncate(1, _kafka_value)",), start="latest", **columns)
    assert latest.backlog is None
    assert not (tmp_path / "w").exists()


def test_a_new_table_has_new_columns(catalog: Catalog) -> None:
    """The plan names the table, its columns and how far the topic reaches; nothing is made."""
    plan = planned(catalog, V1, partition_by=("bucket(4, url)",))
    assert plan.creates
    assert plan.table == "default.clicks"
    assert [(column.name, column.type, column.required, column.change) for column in plan.columns][:2] == [
        ("id", "int", True, "new"),
        ("url", "string", True, "new"),
    ]
    assert plan.partition_by == ["bucket(4, url)"]
    assert not plan.refused
    assert any("10 records" in note for note in plan.notes)
    assert catalog.list_namespaces() == []


def test_what_aws_hides_is_planned(tmp_path: Path) -> None:
    """A table with capital letters is not there for Athena; in lowercase it is."""
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = open_catalog({"name": "lake", "type": "sql", "rest.signing-name": "s3tables", **place})
    field = '{"name":"hash","type":{"type":"fixed","name":"Sha","size":20}}'
    text = f'{{"type":"record","name":"C","fields":[{{"name":"userId","type":"int"}},{field}]}}'
    hidden, never = [note for note in planned(catalog, text).notes if "AWS" in note or "S3 Tables" in note]
    assert "from Athena: userId; set column_names = lower" in hidden
    assert never == "S3 Tables never compact tables with columns of type fixed: hash"
    plan = planned(catalog, text, column_names="lower")
    assert [column.name for column in plan.columns][:2] == ["userid", "hash"]
    assert not any("Athena" in note for note in plan.notes)


def test_without_a_schema_there_are_no_columns_yet(catalog: Catalog) -> None:
    """A note, no refusal, in plain JSON; a topic that the broker calls internal is refused."""
    plan = planned(catalog, None)
    assert plan.columns == []
    assert any("clicks-value" in note for note in plan.notes)
    assert not plan.refused
    plain = asdict(planned(catalog, V1))
    assert plain["columns"][0] == {
        "name": "id", "type": "int", "required": True, "doc": None, "change": "new",
    }  # fmt: skip
    answers = cast(Any, Answers(V1, internal=True))
    with pytest.raises(UsageError, match="cannot be a table topic"):
        plan_enable("__new_in_kafka_9", TopicSettings(), answers, answers, catalog, {})


def test_a_table_that_is_there_says_what_changes(catalog: Catalog) -> None:
    """Widened, relaxed, new and kept columns are told apart."""
    make_table(catalog)
    plan = planned(catalog, V2)
    changes = {column.name: (column.type, column.change) for column in plan.columns}
    assert not plan.creates
    assert changes["id"] == ("long", "widened")
    assert changes["url"] == ("string", "relaxed")
    assert changes["at"] == ("long", "new")
    assert changes["_kafka_key"] == ("binary", "kept")


@pytest.mark.parametrize(
    ("text", "settings", "reason"),
    [
        (V1, {"partition_by": ("hour(url)",)}, "cannot take url"),
        (V1, {"partition_by": ("day_of(url)",)}, "cannot be parsed"),
        ('{"type":"nonsense"}', {}, "nonsense"),
        (V1, {"table": "a_b"}, "the table default.a_b belongs to the topic 'a.b'"),
        (BAD, {"on_incompatible": "stop", "table": None}, ""),
    ],
)
def test_reasons_against_it_are_in_the_plan_and_end_enable(
    catalog: Catalog, text: str, settings: dict[str, Any], reason: str
) -> None:
    """A plan always comes; enable raises the same reasons."""
    if text == BAD:
        make_table(catalog)
        reason = "does not fit the table"
    plan = planned(catalog, text, **settings)
    assert reason in "; ".join(plan.refused)
    with pytest.raises(UsageError, match=reason):
        plan.check()


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"value_format": "string"}, "value_format string with transform flatten"),
        ({"transform": "none"}, "value_format by_schema_id with transform none"),
    ],
)
def test_settings_that_do_not_match_are_named(catalog: Catalog, settings: dict[str, Any], names: str) -> None:
    """A changed value format is not reported as another transform."""
    make_table(catalog)
    plan = planned(catalog, V1, **settings)
    assert plan.refused == [
        f"the table has a column for each field, which does not match {names}; keep those that it was "
        "created with, or choose another --table"
    ]


def test_another_partitioning_of_a_table_is_planned(catalog: Catalog) -> None:
    """Both are told; without a wish, or with the same one, a table keeps its partitions."""
    make_table(catalog, ("url",))
    plan = planned(catalog, V1, partition_by=("bucket(4, id)",))
    assert not plan.refused
    assert (plan.partition_by_before, plan.partition_by) == (["url"], ["bucket(4, id)"])
    assert any("partition by bucket(4, id), before by url" in note for note in plan.notes)
    assert planned(catalog, V1, partition_by=("none",)).partition_by == []
    for same in ((), ("url",)):
        plan = planned(catalog, V1, partition_by=same)
        assert not any("partition" in note for note in plan.notes)
    assert planned(catalog, V1).partition_by == ["url"]


def test_another_order_of_a_table_is_planned(catalog: Catalog) -> None:
    """New files have it; what cannot be an order is a reason against the plan, also of a new table."""
    assert planned(catalog, V1, sort_by=("url desc", "id")).sort_by == ["url desc", "id"]
    assert "no column 'nope'" in planned(catalog, V1, sort_by=("nope",)).refused[0]
    make_table(catalog)
    plan = planned(catalog, V1, sort_by=("url desc", "id"))
    assert (plan.sort_by_before, plan.sort_by) == ([], ["url desc", "id"])
    assert any("sort by url desc, id, before by nothing" in note for note in plan.notes)
    assert planned(catalog, V1, sort_by=("none",)).sort_by == []
    assert "sort_by 'week(id)'" in planned(catalog, V1, sort_by=("week(id)",)).refused[0]


def candidate(catalog: Catalog, tmp_path: Path, text: str, **more: Any) -> Plan:
    """The plan of a schema in a file, for a topic whose subject has V1."""
    file = tmp_path / more.pop("file", "next.avsc")
    file.write_text(text)
    answers = Answers(V1)
    return plan_enable(
        "clicks",
        TopicSettings(**more),
        cast(Broker, answers),
        cast(Registry, answers),
        catalog,
        TAKEN,
        read_candidate(file),
    )


def test_a_schema_of_a_file_says_what_it_would_change(catalog: Catalog, tmp_path: Path) -> None:
    """Every kind of change, in words and by column, the partitions with them; nothing is changed."""
    make_table(catalog, ("url",))
    text = """{"type":"record","name":"C","fields":[{"name":"id","type":["null","long"]},
        {"name":"link","type":"string","aliases":["url"]},{"name":"at","type":"long"}]}"""
    plan = candidate(catalog, tmp_path, text)
    assert plan.changes == [
        "relax id to optional", "widen id int → long", "rename url to link", "add at long",
    ]  # fmt: skip
    changes = {column.name: column.change for column in plan.columns}
    assert (changes["id"], changes["link"], changes["at"]) == ("widened", "renamed", "new")
    assert plan.partition_by == ["link"]
    assert plan.registry == "verdict on clicks-value"
    assert catalog.load_table(("default", "clicks")).schema().column_names[:2] == ["id", "url"]


def test_a_schema_of_a_file_that_does_not_fit(catalog: Catalog, tmp_path: Path) -> None:
    """The plan says why, and what ``on_incompatible`` would then do."""
    make_table(catalog)
    plan = candidate(catalog, tmp_path, BAD)
    assert plan.incompatible == {"id": "is int in the table and string in the new schema"}
    assert any("become dead letters" in note for note in plan.notes)
    plan = candidate(catalog, tmp_path, BAD, on_incompatible="stop")
    assert "stop the topic" in plan.refused[0]
    assert plan.incompatible
    plan = candidate(catalog, tmp_path, BAD, on_incompatible="new_column")
    assert plan.changes == ["relax id to optional", "add id_string string"]
    assert not plan.incompatible


def test_a_schema_of_a_file_for_a_new_table(catalog: Catalog, tmp_path: Path) -> None:
    """Protobuf and JSON Schema are told by the file's suffix."""
    proto = 'syntax = "proto3"; message Click { int64 id = 1; string url = 2; }'
    plan = candidate(catalog, tmp_path, proto, file="next.proto")
    assert [column.name for column in plan.columns][:2] == ["id", "url"]
    schema = '{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'
    plan = candidate(catalog, tmp_path, schema, file="next.json")
    assert plan.columns[0].name == "id"
    assert candidate(catalog, tmp_path, "nonsense").refused


def test_a_schema_of_a_file_with_other_numbers(catalog: Catalog, tmp_path: Path) -> None:
    """A name with another number does not fit; a number with another name is offered as a rename."""

    def proto(body: str) -> str:
        return f'syntax = "proto3"; message Click {{ {body} }}'

    first = WriterSchema(proto("int64 id = 1; string url = 2;"), kind="PROTOBUF")
    columns = writer_columns(1, first, TopicSettings())
    schema = table_schema(columns.schema, TopicSettings())
    spec = partition_spec((), schema)
    table = TopicTable.create(catalog, ("default", "clicks"), schema, spec, "clicks", TopicSettings())
    table.evolve(None, names_property(columns.evolution(table, TopicSettings()).numbers), epoch=1)
    other = proto("int64 id = 3; string url = 2;")
    plan = candidate(catalog, tmp_path, other, file="next.proto")
    assert list(plan.incompatible) == ["id"]
    assert "has the number 1 in the table and 3" in plan.incompatible["id"]
    plan = candidate(catalog, tmp_path, other, file="next.proto", on_incompatible="new_column")
    assert plan.changes == ["relax id to optional", "add id_3 long"]
    other = proto("int64 id = 1; string link = 2;")
    plan = candidate(catalog, tmp_path, other, file="next.proto")
    assert plan.changes == ["relax url to optional", "add link string"]
    offer = "link has the number that url had: `tabletopic alter clicks --rename by_number`"
    assert any(offer in note for note in plan.notes)
    plan = candidate(catalog, tmp_path, other, file="next.proto", rename="by_number")
    assert plan.changes == ["rename url to link"]
    assert not any("alter clicks" in note for note in plan.notes)


def test_a_schema_of_a_file_that_is_none(catalog: Catalog, tmp_path: Path) -> None:
    """It is refused with what is wrong, or with what to do where it cannot be read."""
    make_table(catalog)
    plan = candidate(catalog, tmp_path, "{not json")
    assert "not JSON" in plan.refused[0]
    assert not plan.creates
    with pytest.raises(UsageError, match="cannot read"):
        read_candidate(tmp_path / "nowhere.avsc")
    with pytest.raises(UsageError, match="--schema-type"):
        read_candidate(tmp_path / "schema.txt")
    with pytest.raises(UsageError, match="not a schema type"):
        read_candidate(tmp_path / "schema.txt", "thrift")
    assert "value_format is json" in candidate(catalog, tmp_path, V1, value_format="json").refused[0]


def test_the_type_of_keys_is_planned(catalog: Catalog) -> None:
    """Keys that name their schema have its type; a table whose keys are something else is left alone."""
    typed = planned(catalog, V1, key_format="by_schema_id")
    (key,) = [column for column in typed.columns if column.name == "_kafka_key"]
    assert (key.type, key.change) == ("struct<id: int, url: string>", "new")
    nothing = planned(catalog, None, key_format="by_schema_id")
    assert any("clicks-key" in note for note in nothing.notes)
    make_table(catalog)
    (reason,) = planned(catalog, V1, key_format="by_schema_id").refused
    assert "_kafka_key is binary in the table" in reason


def test_a_schema_that_does_not_fit_is_a_note_where_its_records_may_be_refused(catalog: Catalog) -> None:
    """Unless the topic is to stop, the table is still there for all other records."""
    make_table(catalog)
    plan = planned(catalog, BAD, on_incompatible="dead_letter")
    assert not plan.refused
    assert any("does not fit the table" in note for note in plan.notes)
    plan = planned(catalog, BAD, on_incompatible="new_column")
    assert {"id", "id_string"} <= {column.name for column in plan.columns}


def test_records_of_another_message_are_seen_in_time(catalog: Catalog, newest: list[PeekedRecord]) -> None:
    """Without value_message the first message of a Protobuf file counts, if the newest record agrees."""
    text = 'syntax = "proto3"; message Part { int32 a = 1; } message Order { repeated Part parts = 1; }'
    raw = {"Order": b"\0\0\0\0\7\2\2", "Part": b"\0\0\0\0\7\0"}

    def send(message: str) -> None:
        decoder = make_decoder(7, WriterSchema(text, kind="PROTOBUF"))
        _, refused = decoder.decode(pa.array([raw[message]], pa.binary()))
        error = f"{refused[0].reason}: {refused[0].message}" if refused else None
        newest[:] = [PeekedRecord(0, 9, 0, None, 7, None, error, raw[message])]

    send("Order")
    answers = Answers(text, "PROTOBUF")

    def columns(**settings: Any) -> list[str]:
        made = TopicSettings(**settings)
        plan = plan_enable("clicks", made, cast(Broker, answers), cast(Registry, answers), catalog, TAKEN)
        if plan.refused:
            raise UsageError(*plan.refused)
        return [column.name for column in plan.columns if not column.name.startswith("_kafka")]

    with pytest.raises(
        UsageError, match=r"the record is a Order, .* columns of Part; the setting value_message"
    ):
        columns()
    assert columns(value_message="Order") == ["parts"]
    send("Part")
    assert columns() == ["a"]


@pytest.mark.parametrize(
    ("value_format", "raw", "error", "told"),
    [
        ("by_schema_id", b'{"a": 1}', "no_schema_id: x", "value_format = json"),
        ("by_schema_id", b"hello", "no_schema_id: x", "value_format = string"),
        ("by_schema_id", b"\xff\xfe", "no_schema_id: x", "by_latest_schema"),
        ("by_schema_id", b"\0\0\0\0\7\1", "avro_trailing_bytes: x", "avro_trailing_bytes"),
        ("json", b"\0\0\0\0\7\1", "json_syntax: x", "schema id 7"),
        ("json", b"oops", "json_syntax: x", "cannot become a row: json_syntax"),
        ("string", b"\0\0\0\0\7\1", None, "by_schema_id"),
        ("by_latest_schema", b"\0\0\0\0\7\1", "avro_out_of_range: x", "by_schema_id"),
    ],
)
def test_a_newest_record_that_speaks_against_the_settings_is_told(
    catalog: Catalog, newest: list[PeekedRecord], value_format: str, raw: bytes, error: str | None, told: str
) -> None:
    """With the setting that fits better; a record without a value behind it says nothing."""
    empty = PeekedRecord(0, 10, 1, None, None, None, None, None)
    newest += [empty, PeekedRecord(0, 9, 0, None, None, None, error, raw)]
    plan = planned(catalog, V1, value_format=value_format)
    assert not plan.refused
    (note,) = [one for one in plan.notes if "newest record" in one]
    assert told in note
    assert "offset 9" in note
    make_table(catalog)
    if value_format == "by_schema_id":
        assert not any("newest record" in one for one in planned(catalog, V1).notes)


@pytest.mark.parametrize(
    ("value_format", "raw"),
    [("by_schema_id", b"\0\0\0\0\7\1"), ("json", b'{"a": 1}'), ("string", b"x"), ("raw", b"\0\0\0\0\7\1")],
)
def test_a_newest_record_that_becomes_a_row_is_no_news(
    catalog: Catalog, newest: list[PeekedRecord], value_format: str, raw: bytes
) -> None:
    """Nothing is said where the settings fit; bytes may be anything."""
    newest.append(PeekedRecord(0, 9, 0, None, None, {"a": 1}, None, raw))
    assert not any("newest record" in note for note in planned(catalog, V1, value_format=value_format).notes)


def test_expectations_are_tried(catalog: Catalog, values: list[bytes]) -> None:
    """The plan says how many of the sampled records fail each rule, of a new table and of one that exists."""
    values += [prefix(7) + bytes([2 * number, 4]) + b"/%d" % number for number in range(10)]
    rules = ("few: id < 7: warn", "home: url = '/0': dead_letter")
    tried = [
        "expectation few: 3 of 10 records fail (warn)",
        "expectation home: 9 of 10 records fail (dead_letter)",
    ]
    assert planned(catalog, V1, expectations=rules).notes[-2:] == tried
    make_table(catalog)
    assert planned(catalog, V1, expectations=rules).notes[-2:] == tried


def test_a_wrong_expectation_is_refused(catalog: Catalog) -> None:
    """The plan refuses a rule on a column that the table lacks, with the columns."""
    plan = planned(catalog, V1, expectations=("a: amount > 0: warn",))
    assert plan.refused[0].startswith("the expectation a cannot be used: ")
