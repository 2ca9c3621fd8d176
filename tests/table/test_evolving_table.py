"""Schemas change, records of all versions mix, hosts come and go: what is read equals what was written."""

from __future__ import annotations

import io
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import fastavro
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.take_over import take_over
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import StagedBatch, StageResult
from tabletopic_kernel.pipeline.stage import StageTask
from tabletopic_kernel.query.duckdb import DuckLake
from tests.pipeline.source import SOURCE
from tests.table.samples import TOPIC, FakeBroker, FakeControl, FakeRegistry

pytestmark = pytest.mark.integration  # no servers, but most take more than a second


class Lane:
    """A table topic without Kafka and Spark: records are staged and committed like in a host."""

    def __init__(self, root: Path, **chosen: Any) -> None:
        self.properties = {
            "name": "lake", "type": "sql", "uri": f"sqlite:///{root}/c.db", "warehouse": f"file://{root}/w",
        }  # fmt: skip
        self.registry = FakeRegistry({})
        self.control = FakeControl()
        self.settings = TopicSettings(**chosen)
        self._catalog = open_catalog(self.properties)
        self._offset = 0
        self._owner: Owner | None = None

    def register(self, schema: dict[str, Any]) -> int:
        """Register a schema; its id."""
        self.registry.schemas[len(self.registry.schemas) + 1] = json.dumps(schema)
        return len(self.registry.schemas)

    def new_host(self) -> None:
        """Continue as a host that knows only the table."""
        self._owner = None

    def send(self, *records: tuple[int, dict[str, Any]]) -> StageResult:
        """Stage and commit records, each a schema id and a value."""
        owner = self._owner = self._owner or take_over(TOPIC, self.settings, self._services(), None)
        batch = self._batch([self.encode(*record) for record in records])
        result = _run(owner.plan(), batch)
        while needs := result.needs:
            owner.files.discard(result.files, result.dead_letters)
            result = _run(owner.satisfy(needs, recheck=False), batch)
        start, self._offset = self._offset, self._offset + len(records)
        offsets = StagedOffsets({0: start}, {0: self._offset}, result.newest_ms)
        staged = StagedBatch(
            offsets, tuple(result.files), result.rows, 0.1, tuple(result.dead_letters), result.refused
        )
        assert owner.plan_commit([staged])
        owner.send()
        owner.done()
        return result

    def changes(self) -> list[str]:
        """All changes of the table that people were told of, but for its making."""
        told = [event for event in self.control.written if event.type == "SchemaEvolved"]
        return [change for event in told for change in event.changes if not change.startswith("create")]

    def rows(self) -> list[dict[str, Any]]:
        """The table by PyIceberg, in the order of offsets; DuckDB must read the same."""
        table = self._catalog.load_table(("default", TOPIC))
        found = sorted(table.scan().to_arrow().to_pylist(), key=_offset)
        lake = DuckLake(open_catalog(self.properties))
        other = sorted(lake.sql(f"FROM {TOPIC}").to_pylist(), key=_offset)
        assert [_plain(row) for row in other] == [_plain(row) for row in found]
        return found

    def _services(self) -> Services:
        return Services(
            catalog=lambda: self._catalog,
            spark=lambda: None,  # type: ignore[arg-type,return-value]
            broker=FakeBroker(),  # type: ignore[arg-type]
            registry=self.registry,  # type: ignore[arg-type]
            control=self.control,  # type: ignore[arg-type]
            host="test",
        )

    def encode(self, schema_id: int, value: dict[str, Any]) -> bytes:
        """A record's value."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, json.loads(self.registry.schemas[schema_id]), value)
        return prefix(schema_id) + out.getvalue()

    def _batch(self, values: list[bytes]) -> pa.RecordBatch:
        rows = [
            {"value": value, "partition": 0, "offset": self._offset + at, "timestamp": at}
            for at, value in enumerate(values)
        ]
        return pa.RecordBatch.from_pylist(rows, schema=SOURCE)


def _run(plan: Any, batch: pa.RecordBatch) -> StageResult:
    result = StageResult()
    for answer in StageTask(plan)(iter([batch])):
        result.add(answer.column("result")[0].as_py())
    return result


def _offset(row: dict[str, Any]) -> int:
    return int(row["_kafka_metadata"]["offset"])


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_kafka")}


def record(*fields: dict[str, Any], name: str = "Row") -> dict[str, Any]:
    """An Avro record."""
    return {"type": "record", "name": name, "fields": list(fields)}


def deep(inner: dict[str, Any]) -> dict[str, Any]:
    """A record of a list in a map."""
    return {"type": "map", "values": {"type": "array", "items": inner}}


def test_a_field_that_was_renamed_keeps_its_column(tmp_path: Path) -> None:
    """An alias renames the column, at depth too; older records come under the old name, to a new host too."""
    lane = Lane(tmp_path, partition_by=("town",))

    def schema(town: dict[str, Any], x: dict[str, Any], u: dict[str, Any]) -> dict[str, Any]:
        inner = {"type": "array", "items": record(x, name="In")}
        return record(
            {**town, "type": "string"},
            {"name": "l", "type": inner},
            {"name": "m", "type": {"type": "map", "values": record({**x, "type": "int"}, name="Value")}},
            {"name": "d", "type": deep(record({**u, "type": "int"}, name="Deep"))},
        )

    old = lane.register(schema({"name": "town"}, {"name": "x", "type": "int"}, {"name": "u"}))

    def older(town: str, x: int) -> tuple[int, dict[str, Any]]:
        return old, {"town": town, "l": [{"x": x}], "m": {"k": {"x": x}}, "d": {"k": [{"u": x}]}}

    lane.send(older("Utrecht", 1))
    city = {"name": "city", "aliases": ["ort", "town"]}
    y = {"name": "y", "type": "long", "aliases": ["x"]}
    new = lane.register(schema(city, y, {"name": "v", "aliases": ["u"]}))

    def newer(town: str, x: int) -> tuple[int, dict[str, Any]]:
        return new, {"city": town, "l": [{"y": x}], "m": {"k": {"y": x}}, "d": {"k": [{"v": x}]}}

    lane.send(newer("Delft", 2), older("Gouda", 3))
    lane.new_host()
    lane.send(older("Leiden", 4), newer("Breda", 5))
    assert lane.changes() == [
        "rename town to city", "rename l.element.x to y", "widen l.element.y int → long",
        "rename m.value.x to y", "relax d.value.element.u to optional", "add d.value.element.v int",
    ]  # fmt: skip
    rows = lane.rows()
    assert [row["city"] for row in rows] == ["Utrecht", "Delft", "Gouda", "Leiden", "Breda"]
    for number, row in enumerate(rows, 1):
        assert row["l"] == [{"y": number}]
        assert dict(row["m"]) == {"k": {"y": number}}
        is_new = number in (2, 5)
        expected = {"u": None if is_new else number, "v": number if is_new else None}
        assert dict(row["d"]) == {"k": [expected]}


def test_a_table_of_the_new_schema_takes_records_of_the_old_one(tmp_path: Path) -> None:
    """The table is made from the newest schema, and the topic begins with records of the one before."""
    lane = Lane(tmp_path, partition_by=("bucket(2, a)",))
    old = lane.register(record({"name": "a", "type": "int"}))
    new = lane.register(record({"name": "b", "type": "int", "aliases": ["a"]}))
    lane.send((old, {"a": 1}), (new, {"b": 2}))
    assert lane.changes() == []
    assert [_plain(row) for row in lane.rows()] == [{"b": 1}, {"b": 2}]


def test_a_column_that_has_room_takes_older_records(tmp_path: Path) -> None:
    """Also of types that Iceberg could not have widened to the column's, as Avro's own rules do."""

    def decimal(precision: int, scale: int) -> dict[str, Any]:
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}

    def schema(number: Any, price: Any, raw: Any) -> dict[str, Any]:
        return record(
            {"name": "n", "type": number},
            {"name": "l", "type": {"type": "array", "items": ["null", number]}},
            {"name": "p", "type": price},
            {"name": "b", "type": raw},
        )

    lane = Lane(tmp_path)
    fixed = {"type": "fixed", "name": "Two", "size": 2}
    old = lane.register(schema("int", decimal(9, 2), fixed))
    new = lane.register(schema("double", decimal(12, 4), "bytes"))
    ints = [2**31 - 1, -(2**31), 0]
    sent = [(old, {"n": n, "l": [n, None], "p": Decimal("-0.05"), "b": b"ab"}) for n in ints]
    sent += [(new, {"n": 0.5, "l": [0.1], "p": Decimal("0.0001"), "b": b""})]
    assert lane.send(*sent * 20).refused == {}
    assert lane.changes() == []
    assert [{name: row[name] for name in "nlpb"} for row in lane.rows()] == [one for _, one in sent * 20]


def test_an_alias_needs_a_column_that_is_free_and_fits(tmp_path: Path) -> None:
    """A field that is still there keeps its own; one that does not fit is refused, or has the name."""
    lane = Lane(tmp_path)
    old = lane.register(record({"name": "a", "type": "int"}))
    lane.send((old, {"a": 1}))
    both = lane.register(record({"name": "a", "type": "int"}, {"name": "b", "type": "int", "aliases": ["a"]}))
    lane.send((both, {"a": 2, "b": 3}))
    assert lane.changes() == ["add b int"]
    assert [_plain(row) for row in lane.rows()] == [{"a": 1, "b": None}, {"a": 2, "b": 3}]
    for on_incompatible, expected in (("dead_letter", [{"a": 1}]), ("new_column", [{"a": 1, "b": None}])):
        root = tmp_path / on_incompatible
        root.mkdir()
        lane = Lane(root, on_incompatible=on_incompatible)
        old = lane.register(record({"name": "a", "type": "int"}))
        lane.send((old, {"a": 1}))
        new = lane.register(record({"name": "b", "type": "string", "aliases": ["a"]}))
        result = lane.send((new, {"b": "x"}))
        if on_incompatible == "new_column":
            assert (result.rows, result.refused) == (1, {})
            expected.append({"a": None, "b": "x"})
        else:
            assert result.refused == {"incompatible_schema": 1}
        assert [_plain(row) for row in lane.rows()] == expected


@pytest.mark.parametrize("transform", ["flatten", "none"])
def test_names_that_engines_cannot_tell_apart(tmp_path: Path, transform: Any) -> None:
    """Fields whose names differ only in case have columns that do not, and are found again by their own."""
    lane = Lane(tmp_path, transform=transform)
    first = lane.register(
        record(
            {"name": "id", "type": "int"},
            {"name": "ID", "type": "string", "doc": "of the shop"},
            {
                "name": "in",
                "type": record({"name": "x", "type": "int"}, {"name": "X", "type": "int"}, name="In"),
            },
        )
    )
    lane.send((first, {"id": 1, "ID": "one", "in": {"x": 1, "X": 2}}))
    second = lane.register(record({"name": "ID", "type": "string"}, {"name": "Id", "type": "int"}))
    lane.new_host()
    lane.send((second, {"ID": "two", "Id": 2}), (first, {"id": 3, "ID": "three", "in": {"x": 3, "X": 4}}))
    rows = [_plain(row) if transform == "flatten" else row["_kafka_value"] for row in lane.rows()]
    assert rows == [
        {"id": 1, "ID_2": "one", "in": {"x": 1, "X_2": 2}, "Id_3": None},
        {"id": None, "ID_2": "two", "in": None, "Id_3": 2},
        {"id": 3, "ID_2": "three", "in": {"x": 3, "X_2": 4}, "Id_3": None},
    ]
    schema = lane._catalog.load_table(("default", TOPIC)).schema()
    within = "" if transform == "flatten" else "_kafka_value."
    assert schema.find_field(f"{within}ID_2").doc == 'of the shop; field "ID"'
    assert schema.find_field(f"{within}in.X_2").doc == 'field "X"'


def test_names_in_lists_and_maps_that_engines_cannot_tell_apart(tmp_path: Path) -> None:
    """The same, in the elements of new lists and maps."""
    lane = Lane(tmp_path)
    pair = record({"name": "x", "type": "int"}, {"name": "X", "type": "int"}, name="Pair")
    lane.send((lane.register(record({"name": "id", "type": "int"})), {"id": 1}))
    values = {"type": "map", "values": "Pair"}
    new = [{"name": "l", "type": {"type": "array", "items": pair}}, {"name": "m", "type": values}]
    lane.send((lane.register(record(*new)), {"l": [{"x": 1, "X": 2}], "m": {"k": {"x": 3, "X": 4}}}))
    assert _plain(lane.rows()[1]) == {"id": None, "l": [{"x": 1, "X_2": 2}], "m": [("k", {"x": 3, "X_2": 4})]}


@pytest.mark.parametrize("transform", ["flatten", "none"])
def test_columns_in_lowercase(tmp_path: Path, transform: Any) -> None:
    """Athena and Glue need it: new columns are, at any depth; two that would be equal are refused."""
    lane = Lane(tmp_path, transform=transform, column_names="lower")
    place = record({"name": "postCode", "type": "string"}, name="Place")
    first = lane.register(record({"name": "userId", "type": "int"}, {"name": "homePlace", "type": place}))
    lane.send((first, {"userId": 1, "homePlace": {"postCode": "a"}}))
    fields = [
        {"name": "userId", "type": "long"},
        {"name": "newIn", "type": {"type": "array", "items": place}},
    ]
    second = lane.register(record(*fields))
    lane.new_host()
    lane.send((second, {"userId": 2, "newIn": [{"postCode": "b"}]}))
    rows = [_plain(row) if transform == "flatten" else row["_kafka_value"] for row in lane.rows()]
    assert rows == [
        {"userid": 1, "homeplace": {"postcode": "a"}, "newin": None},
        {"userid": 2, "homeplace": None, "newin": [{"postcode": "b"}]},
    ]
    both = record({"name": "X", "type": "int"}, {"name": "x", "type": "int"}, name="Both")
    inside = lane.register(record({"name": "userId", "type": "long"}, {"name": "both", "type": both}))
    beside = lane.register(record({"name": "USERID", "type": "long"}))
    result = lane.send((inside, {"userId": 3, "both": {"X": 1, "x": 2}}), (beside, {"USERID": 4}))
    assert (result.rows, result.refused) == (0, {"incompatible_schema": 2})


def test_a_first_schema_whose_names_collide_in_lowercase(tmp_path: Path) -> None:
    """There is no table then, and the error names the fields."""
    lane = Lane(tmp_path, column_names="lower")
    first = lane.register(record({"name": "ID", "type": "int"}, {"name": "id", "type": "int"}))
    with pytest.raises(UsageError, match="column_names = lower: ID and id would have the same name"):
        lane.send((first, {"ID": 1, "id": 2}))


# -- a walk through what teams do to a schema


@dataclass(frozen=True)
class Field:
    """A field of one version; ``column`` is the number of the column in which its values belong."""

    name: str
    column: int
    wide: bool = False
    optional: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def avro(self) -> dict[str, Any]:
        """The field in Avro."""
        kind: Any = "long" if self.wide else "int"
        whole = ["null", kind] if self.optional else kind
        return {"name": self.name, "type": whole, "aliases": list(self.aliases)}


@dataclass
class Struct:
    """The fields of one record, now; and of each column its name, those it had, and whether it is wide."""

    fields: tuple[Field, ...] = ()
    names: dict[int, str] = field(default_factory=dict)
    former: dict[int, set[str]] = field(default_factory=dict)
    wide: dict[int, bool] = field(default_factory=dict)
    made: int = 0
    may_rename: bool = True

    def add(self, name: str) -> None:
        """A field of a name that no field has now: an old column's, if one had the name and is not in use."""
        used = {one.column for one in self.fields}
        free = sorted(set(self.names) - used, reverse=True)
        own = [column for column in self.names if self.names[column] == name]
        column = next(iter(own), None) or next((one for one in free if name in self.former[one]), None)
        if column is None:
            self.made += 1
            column = self.made
            self.names[column], self.former[column], self.wide[column] = name, set(), False
        self.fields += (Field(name, column, self.wide[column]),)

    def change(self, action: str, pick: int, names: Iterator[str]) -> None:
        """One step of a team."""
        if action == "add" or (action == "remove" and len(self.fields) == 1):  # an empty record is JSON text
            gone = sorted({n for names in self.former.values() for n in names} | set(self.names.values()))
            again = [name for name in gone if name not in {one.name for one in self.fields}]
            self.add(again[pick % len(again)] if again and pick % 3 else next(names))
            return
        at = pick % len(self.fields)
        one = self.fields[at]
        if action == "remove":
            self.fields = self.fields[:at] + self.fields[at + 1 :]
            return
        if action == "rename":
            one = self.rename(one, next(names))
        elif action == "widen":
            self.wide[one.column] = True
            one = replace(one, wide=True)
        else:
            one = replace(one, optional=True)
        self.fields = (*self.fields[:at], one, *self.fields[at + 1 :])

    def rename(self, one: Field, new: str) -> Field:
        """The field under another name."""
        aliases = (one.name, *one.aliases)
        column = one.column
        if not self.may_rename:
            self.made += 1
            column = self.made
            self.former[column], self.wide[column] = set(), self.wide[one.column]
        if not self.may_rename or self.names[column] == one.name:
            self.names[column] = new
        self.former[column] |= set(aliases)
        return replace(one, name=new, aliases=aliases, column=column)


# Finding the shortest walk that fails would take minutes; a walk is short.
STEP = st.tuples(
    st.integers(0, 2), st.sampled_from(["add", "remove", "rename", "widen", "relax"]), st.integers(0, 11)
)


@settings(
    max_examples=int(os.environ.get("WALKS", "4")), deadline=None, phases=[Phase.explicit, Phase.generate]
)
@given(steps=st.lists(STEP, min_size=1, max_size=8), hosts=st.integers(1, 3))
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, int]], hosts: int
) -> None:
    """However a schema evolves, at the top and at depth, and whichever version of it is written."""
    lane = Lane(tmp_path_factory.mktemp("walk"))
    parts = (Struct(), Struct(), Struct(may_rename=False))
    names = (f"f{number}" for number in range(100))
    for part in parts:
        part.add(next(names))
        part.add(next(names))
    versions: list[tuple[int, tuple[tuple[Field, ...], ...]]] = []
    written: list[list[dict[int, int]]] = []
    numbers = itertools.count(1)

    def row(version: int) -> tuple[int, dict[str, Any]]:
        schema_id, fields = versions[version]
        held = [{one: next(numbers) + (2**40 if one.wide else 0) for one in part} for part in fields]
        written.append([{one.column: value for one, value in part.items()} for part in held])
        top, item, inner = ({one.name: value for one, value in part.items()} for part in held)
        return schema_id, {**top, "items": [item], "deep": {"k": [inner]}}

    for at, step in enumerate([None, *steps]):
        if step is not None:
            where, action, pick = step
            parts[where].change(action, pick, names)
        top, item, inner = ([one.avro for one in part.fields] for part in parts)
        schema = record(
            *top,
            {"name": "items", "type": {"type": "array", "items": record(*item, name="Item")}},
            {"name": "deep", "type": deep(record(*inner, name="Inner"))},
        )
        versions.append((lane.register(schema), tuple(part.fields for part in parts)))
        if at % hosts == 0:
            lane.new_host()
        newest = len(versions) - 1
        result = lane.send(row(newest), row(max(0, newest - 1)), row(at * 7 % len(versions)), row(newest))
        assert result.refused == {}
    for sent, found in zip(written, lane.rows(), strict=True):
        ((_, [inner_found]),) = found["deep"]
        for part, expected, values in zip(parts, sent, (found, *found["items"], inner_found), strict=True):
            got = {column: values.get(name) for column, name in part.names.items()}
            assert got == {column: expected.get(column) for column in part.names}


def test_latest_stays_where_it_was_until_there_is_a_table(tmp_path: Path) -> None:
    """Records that came after the first start wait for their table, also if the host begins again."""
    lane = Lane(tmp_path, start="latest")
    services = lane._services()
    broker = cast(FakeBroker, services.broker)
    before = take_over(TOPIC, lane.settings, services, None)
    end = {0: 160, 1: 160, 2: 9}
    broker.facts_now = replace(broker.facts_now, first={0: 0, 1: 120, 2: 0}, end=end)
    now = take_over(TOPIC, lane.settings, services, before)
    assert before.table is now.table is None
    assert before.ledger.next_offsets == {0: 100, 1: 100}
    assert now.ledger.next_offsets == {0: 100, 1: 120, 2: 0}
