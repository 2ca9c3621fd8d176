"""Keys that name their schema, from Confluent's serializers to what PyIceberg and DuckDB read."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

from tabletopic_kernel.clients.catalog.catalog import create_table
from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry.connection import Connection
from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry, UnknownSchemaError
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load
from tabletopic_kernel.formats.wire import KEY_HEADER, prefix
from tabletopic_kernel.host.replay.letters import stage_dead_letters
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.host.topics.control_topic import ControlLog
from tabletopic_kernel.model.dead_letter import SCHEMA as LETTERS
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.ledger import Ledger, StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tabletopic_kernel.table.topic_table import TopicTable, base_properties
from tests.pipeline.source import SOURCE
from tests.table.samples import IDENTIFIER, TOPIC, FakeBroker, FakeControl

VALUE = '{"type":"record","name":"V","fields":[{"name":"n","type":"int"}]}'


def key_schema(*fields: Any) -> str:
    """A record of a key in Avro."""
    return json.dumps({"type": "record", "name": "K", "fields": [{"name": a, "type": b} for a, b in fields]})


K1 = key_schema(("id", "int"))
K2 = key_schema(("id", "long"), ("region", ["null", "string"]))
K_TEXT = key_schema(("id", "string"))


class InProcess(Connection):
    """To Confluent's stand-in for tests, whose only error is an unknown schema."""

    def __init__(self, client: SchemaRegistryClient) -> None:
        super().__init__({"url": "http://in-memory"}, lambda: None)
        self.client = client

    def ask(self, what: str, call: Any) -> Any:
        """The response."""
        try:
            return call()
        except SchemaRegistryError as error:
            raise UnknownSchemaError(f"there is no {what}") from error


class InMemory(Registry):
    """An in-process registry."""

    def __init__(self, client: SchemaRegistryClient) -> None:
        super().__init__({"url": "http://in-memory"})
        self._connection = InProcess(client)
        self._client, self._ask = client, self._connection.ask

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """The stand-in does not report where a schema is registered."""
        schema = self._ask(f"schema id {schema_id}", lambda: self._client.get_schema(schema_id))
        return self._resolved(schema_id, schema, f"{TOPIC}-any", schema_id)


@dataclass
class Topic:
    """A topic's table, and what worker and coordinator do for it, without Spark and Kafka."""

    catalog: Catalog
    settings: TopicSettings
    client: SchemaRegistryClient = field(
        default_factory=lambda: SchemaRegistryClient.new_client({"url": f"mock://{uuid.uuid4()}"})
    )

    def __post_init__(self) -> None:
        self.control = FakeControl()
        self._services = Services(
            catalog=lambda: self.catalog,
            spark=lambda: pytest.fail("no Spark here"),
            broker=cast(Broker, FakeBroker()),
            registry=InMemory(self.client),
            control=cast(ControlLog, self.control),
            host="here",
        )
        self._ledger = Ledger(TOPIC, "cluster", "topic-id", {0: 0}, 1, "claim")
        spec = UNPARTITIONED_PARTITION_SPEC
        dead_letters = create_table(self.catalog, ("default", "letters"), LETTERS, spec, base_properties())
        self._letters = TopicTable(dead_letters)
        self._sent = 0
        self.take_over()

    def take_over(self) -> None:
        """As a new host: nothing is known but what the table and the registry say."""
        self.keeper = SchemaKeeper(self.catalog, IDENTIFIER, TOPIC, self.settings, self._services)
        table = TopicTable.load(self.catalog, IDENTIFIER, TOPIC)
        if table is None and (table := self.keeper.create()) is not None:
            table.claim(self._ledger, None)
        self.keeper.adopt(table, self._ledger)

    def avro(self, schema: str, value: Any, place: str, headers: Any = None, **conf: Any) -> bytes | None:
        """What Confluent's serializer writes for the key or the value of a record."""
        context = SerializationContext(TOPIC, place, headers)
        return AvroSerializer(self.client, schema, conf=conf)(value, context)

    def key(self, schema: str, value: Any) -> bytes | None:
        """A key with its schema's id in front."""
        return self.avro(schema, value, MessageField.KEY)

    def send(self, *keys: bytes | None, headers: Any = None, values: Any = None) -> StageResult:
        """Records with these keys become rows or letters: value n is the offset, or ``values``."""
        rows = []
        for at, key in enumerate(keys):
            value = self.avro(VALUE, {"n": self._sent}, MessageField.VALUE) if values is None else values[at]
            rows.append(
                {
                    "value": value, "key": key, "headers": headers and headers[at], "partition": 0,
                    "offset": self._sent, "timestamp": self._sent,
                }
            )  # fmt: skip
            self._sent += 1
        batch = pa.RecordBatch.from_pylist(rows, schema=SOURCE)
        while True:
            plan = replace(self.keeper.plan(), dead_letters=self._letters.plan())
            result = StageResult()
            for answer in StageTask(plan)(iter([batch])):
                result.add(answer.column("result")[0].as_py())
            if not result.needs:
                break
            needs = result.needs
            self.keeper.cover(needs)
        start = self._ledger.next_offsets[0]
        offsets = StagedOffsets({0: start}, {0: self._sent}, {0: 0})
        after = self._ledger.advanced(offsets, str(uuid.uuid4()))
        self.table.commit(self._ledger, appended(after, result.files))
        self._letters.table.refresh()
        if result.dead_letters:
            with self._letters.table.transaction() as change:
                append = change.update_snapshot().fast_append()
                for file in result.dead_letters:
                    append.append_data_file(file)
                append.commit()
        self._ledger = after
        return result

    @property
    def table(self) -> TopicTable:
        """The table."""
        return self.keeper.needed_table()

    def rows(self) -> dict[int, Any]:
        """The keys by offset, as PyIceberg and DuckDB read them, which must be the same."""
        found = self.catalog.load_table(IDENTIFIER).scan().to_arrow().to_pylist()
        lake = DuckLake(self.catalog)
        again = lake.sql(f"SELECT * FROM {IDENTIFIER[1]}").to_pylist()
        lake.close()

        def by_offset(rows: list[dict[str, Any]]) -> dict[int, Any]:
            for row in rows:
                if isinstance(row.get("_kafka_key"), uuid.UUID):
                    row["_kafka_key"] = str(row["_kafka_key"])  # as DuckDB gives them
                # PyIceberg reads a null list of structs as an empty one.
                row["_kafka_header"] = row.get("_kafka_header") or None
            return {row["_kafka_metadata"]["offset"]: row for row in rows}

        assert by_offset(found) == by_offset(again)
        assert len(found) == len(by_offset(found))
        return by_offset(found)

    def keys(self) -> dict[int, Any]:
        """The column of keys, by offset."""
        return {offset: row["_kafka_key"] for offset, row in self.rows().items()}

    def dead_letters(self) -> dict[int, dict[str, Any]]:
        """Letters by offset."""
        return {one["offset"]: one for one in self.letters_table().to_pylist()}

    def letters_table(self) -> pa.Table:
        """All letters."""
        self._letters.table.refresh()
        return self._letters.table.scan().to_arrow()

    def type_of_key(self) -> str:
        """The column's type."""
        self.table.reload()
        return str(self.table.table.schema().find_type("_kafka_key"))


@pytest.fixture
def topic(catalog: Catalog) -> Topic:
    """A topic whose value has a schema, and no key has one yet."""
    return Topic(catalog, TopicSettings(key_format="by_schema_id"))


def test_a_key_is_a_struct_that_grows(topic: Topic) -> None:
    """The column comes with the first key; fields are added and widened; null keys and old ones stay."""
    topic.send(None)
    assert "_kafka_key" not in topic.table.table.schema().column_names
    topic.send(topic.key(K1, {"id": 1}), None)
    assert topic.keys() == {0: None, 1: {"id": 1}, 2: None}
    mixed = [topic.key(K2, {"id": 2**40, "region": "eu"}), topic.key(K1, {"id": 7}), None] * 30
    topic.send(*mixed)
    expected = [{"id": 2**40, "region": "eu"}, {"id": 7, "region": None}, None] * 30
    assert topic.keys() == {
        0: None, 1: {"id": 1, "region": None}, 2: None, **{3 + at: key for at, key in enumerate(expected)},
    }  # fmt: skip
    assert len(topic.table.registered_key_schemas()) == 2


def test_the_newest_key_schema_makes_the_column(catalog: Catalog) -> None:
    """If one is registered before the table is made, the column is there from the beginning."""
    client = SchemaRegistryClient.new_client({"url": f"mock://{uuid.uuid4()}"})
    client.register_schema(f"{TOPIC}-value", Registered(VALUE, "AVRO"))
    client.register_schema(f"{TOPIC}-key", Registered('"string"', "AVRO"))
    topic = Topic(catalog, TopicSettings(key_format="by_schema_id"), client)
    assert topic.type_of_key() == "string"
    names = [column.name for column in topic.table.table.schema().fields]
    assert names == ["n", "_kafka_key", "_kafka_header", "_kafka_metadata"]
    topic.send(topic.key('"string"', "a"), topic.key('"string"', "ö"))
    assert topic.keys() == {0: "a", 1: "ö"}


def test_a_key_that_gets_another_field_stops_a_table_that_is_kept_by_it(catalog: Catalog) -> None:
    """Its rows lack that, so a key would have two; wider types are no matter, and the table stays."""
    client = SchemaRegistryClient.new_client({"url": f"mock://{uuid.uuid4()}"})
    client.register_schema(f"{TOPIC}-value", Registered(VALUE, "AVRO"))
    client.register_schema(f"{TOPIC}-key", Registered(K1, "AVRO"))
    topic = Topic(catalog, TopicSettings(key_format="by_schema_id", mode="upsert"), client)
    topic.send(topic.key(K1.replace("int", "long"), {"id": 1}))
    with pytest.raises(ActionNeededError, match=r"another field, _kafka_key\.region, .* --table"):
        topic.send(topic.key(K2, {"id": 1, "region": "eu"}))
    assert topic.type_of_key() == "struct<5: id: required long>"


@pytest.mark.parametrize(
    ("schema", "kind", "value"),
    [
        ('"long"', "long", 2**60),
        ('"bytes"', "binary", b"\0\xff"),
        ('["null", "int"]', "int", 5),
        ('{"type":"string","logicalType":"uuid"}', "uuid", uuid.UUID(int=7)),
        ('{"type":"array","items":"int"}', "list<int>", [1, 2]),
    ],
)
def test_a_key_that_is_no_record(topic: Topic, schema: str, kind: str, value: Any) -> None:
    """The column has the type of the schema itself."""
    topic.send(topic.key(schema, value), None)
    assert topic.type_of_key() == kind
    assert topic.keys() == {0: str(value) if kind == "uuid" else value, 1: None}


def test_keys_in_json_and_protobuf(topic: Topic) -> None:
    """All formats in one column, as far as their types go together."""
    schema = json.dumps(
        {
            "title": "K",
            "type": "object",
            "properties": {"id": {"type": "integer"}},
            "additionalProperties": False,
        }
    )
    files, name = compile_schema('syntax = "proto3"; message K { int64 id = 1; }', {})
    message = GetMessageClass(load(files).FindFileByName(name).message_types_by_name["K"])
    in_json = JSONSerializer(schema, topic.client)
    in_protobuf = ProtobufSerializer(message, topic.client, {"use.deprecated.format": False})

    def context(subject: str) -> SerializationContext:
        return SerializationContext(subject, MessageField.KEY)

    topic.send(
        topic.key(K1, {"id": 1}),
        in_json({"id": 2}, context("json")),
        in_protobuf(message(id=3), context("protobuf")),
    )
    assert topic.keys() == {0: {"id": 1}, 1: {"id": 2}, 2: {"id": 3}}


def test_tombstones_have_keys_and_headers_name_schemas_of_keys(topic: Topic) -> None:
    """A record without a value keeps its key; an id or GUID in a header is the key's own."""
    headers: list[Any] = [[], []]
    guid = {"schema.id.serializer": header_schema_id_serializer}
    bare = topic.avro(K1, {"id": 5}, MessageField.KEY, headers[1], **guid)
    assert bare == b"\x0a"
    rows = [[{"key": key, "value": value} for key, value in one] for one in headers]
    value = topic.avro(VALUE, {"n": 9}, MessageField.VALUE)
    topic.send(topic.key(K1, {"id": 4}), bare, headers=rows, values=[value, None])
    found = topic.rows()
    assert {at: (row["n"], row["_kafka_key"]) for at, row in found.items()} == {
        0: (9, {"id": 4}),
        1: (None, {"id": 5}),
    }
    assert [header[0] for header in headers[1]] == [KEY_HEADER]


def test_keys_that_cannot_be_read_are_letters(topic: Topic) -> None:
    """Their reasons say that it is the key, and the records beside them are rows."""
    good = topic.key(K1, {"id": 1})
    first = topic.send(good, good[:-1], b"bare", prefix(99) + b"x", good)
    assert sorted(topic.keys()) == [0, 4]
    dead_letters = topic.dead_letters()
    assert {at: one["reason"] for at, one in dead_letters.items()} == {
        1: "key_avro_truncated",
        2: "key_no_schema_id",
        3: "key_unknown_schema",
    }
    assert all("key" in letter["message"] for letter in dead_letters.values())
    assert dead_letters[1]["key"] == good[:-1]
    assert first.refused_count == 3
    assert [sample.schema_id for sample in first.samples] == [dead_letters[1]["schema_id"]] * 3
    header = [{"key": KEY_HEADER, "value": b"\0\0"}]
    topic.send(good, headers=[header])
    assert topic.dead_letters()[5]["reason"] == "key_bad_schema_header"


def test_a_key_schema_that_does_not_fit_makes_letters(topic: Topic) -> None:
    """As for values: its keys are refused, the others go on."""
    topic.send(topic.key(K1, {"id": 1}), topic.key(K_TEXT, {"id": "one"}), topic.key(K2, {"id": 3}))
    assert topic.keys() == {0: {"id": 1, "region": None}, 2: {"id": 3, "region": None}}
    assert topic.dead_letters()[1]["reason"] == "key_incompatible_schema"
    assert "SchemaRefused" in topic.control.types()


def test_a_key_of_an_unrelated_schema_changes_nothing(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a letter, though the schema would fit; the column stays, and the records beside it are rows."""
    topic.send(topic.key(K1, {"id": 1}))
    before, own, by_id = topic.type_of_key(), topic.key(K1, {"id": 2}), InMemory.by_id

    def told(registry: InMemory, schema_id: int, subject: str) -> RegisteredSchema:
        found = by_id(registry, schema_id)
        return replace(found, subjects=("others-key",) if "region" in found.text else (f"{TOPIC}-key",))

    monkeypatch.setattr(InMemory, "by_id", told)
    topic.send(own, topic.key(K2, {"id": 3, "region": "eu"}), own)
    assert (topic.type_of_key(), sorted(topic.keys())) == (before, [0, 1, 3])
    letter = topic.dead_letters()[2]
    assert letter["reason"] == "key_bad_schema"
    assert "others-key" in letter["message"]
    assert 'subjects = "any"' in letter["message"]


def test_on_incompatible_holds_for_keys(catalog: Catalog) -> None:
    """A column beside, for a field or for the whole key; a new host knows of it."""
    topic = Topic(catalog, TopicSettings(key_format="by_schema_id", on_incompatible="new_column"))
    topic.send(topic.key(K1, {"id": 1}))
    topic.send(topic.key(K_TEXT, {"id": "one"}), topic.key('"string"', "all"))
    topic.take_over()
    topic.send(topic.key('"string"', "more"))
    found = topic.rows()
    assert {at: (row["_kafka_key"], row["_kafka_key_string"]) for at, row in found.items()} == {
        0: ({"id": 1, "id_string": None}, None),
        1: ({"id": None, "id_string": "one"}, None),
        2: (None, "all"),
        3: (None, "more"),
    }


def test_a_refused_key_schema_may_stop_the_topic(catalog: Catalog) -> None:
    """As ``on_incompatible`` says."""
    topic = Topic(catalog, TopicSettings(key_format="by_schema_id", on_incompatible="stop"))
    with pytest.raises(ActionNeededError, match="key's schema"):
        topic.send(topic.key(K1, {"id": 1}), topic.key(K_TEXT, {"id": "one"}))


def test_no_column_no_decoding(catalog: Catalog) -> None:
    """Keys that no column wants are not read, so bad ones harm nobody."""
    settings = TopicSettings(key_format="by_schema_id", metadata_columns=("metadata",))
    topic = Topic(catalog, settings)
    topic.send(b"bad", None)
    assert sorted(topic.rows()) == [0, 1]


def test_a_new_host_knows_the_schemas_of_keys(topic: Topic) -> None:
    """The table says which it covers, so records need nothing new."""
    topic.send(topic.key(K1, {"id": 1}), topic.key(K2, {"id": 2, "region": "eu"}))
    topic.take_over()
    plan = topic.keeper.plan()
    assert len(plan.keys.schemas) == 2
    evolved = topic.control.types().count("SchemaEvolved")
    topic.send(topic.key(K1, {"id": 3}))
    assert topic.keys()[2] == {"id": 3, "region": None}
    assert topic.control.types().count("SchemaEvolved") == evolved


def test_values_that_are_bytes_alone(catalog: Catalog) -> None:
    """Confluent's serializers write these without Avro's length; they are read so."""
    topic = Topic(catalog, TopicSettings())
    values = [topic.avro('"bytes"', value, MessageField.VALUE) for value in (b"\0\xff", b"", b"a")]
    topic.send(None, None, None, values=values)
    assert [row["_kafka_value"] for _, row in sorted(topic.rows().items())] == [b"\0\xff", b"", b"a"]


def test_letters_of_bare_records_are_replayed(topic: Topic) -> None:
    """A letter keeps the headers that name its schemas, so it is read again as the record was."""
    topic.send(topic.key(K1, {"id": 1}))
    headers: list[Any] = []
    guid = {"schema.id.serializer": header_schema_id_serializer}
    key = topic.avro(K_TEXT, {"id": "one"}, MessageField.KEY, headers, **guid)
    value = topic.avro(VALUE, {"n": 9}, MessageField.VALUE, headers, **guid)
    topic.send(key, headers=[[{"key": name, "value": text} for name, text in headers]], values=[value])
    dead_letters = topic.letters_table()
    assert dead_letters["reason"].to_pylist() == ["key_incompatible_schema"]
    topic.settings = TopicSettings(key_format="by_schema_id", on_incompatible="new_column")
    topic.take_over()
    while (staged := stage_dead_letters(dead_letters, topic.keeper.plan()))[0].needs:
        topic.keeper.cover(staged[0].needs)
    result, stayed = staged
    assert (result.rows, stayed) == (1, {})
    (file,) = result.files
    (row,) = pq.read_table(file.file_path.removeprefix("file://")).to_pylist()
    assert (row["n"], row["_kafka_key"]) == (9, {"id": None, "id_string": "one"})
