"""Protobuf's fields are numbers: a name with another number is another field, a number may be renamed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from tabletopic_kernel.clients.registry.registry import RegisteredSchema
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load, message_named
from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.table.schemas.covered import SCHEMAS_PROPERTY
from tabletopic_kernel.table.schemas.numbers import NUMBERS_PROPERTY
from tests.table.samples import TOPIC, FakeRegistry
from tests.table.test_evolving_table import Lane

pytestmark = pytest.mark.integration  # no servers, but protoc takes a tenth of a second for each schema


@dataclass
class ProtoRegistry(FakeRegistry):
    """One whose schemas are Protobuf."""

    schemas: dict[int, str] = field(default_factory=dict)

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """A schema by id."""
        text = self.schemas[schema_id]
        return RegisteredSchema(schema_id, "PROTOBUF", text, (), f"{TOPIC}-value", schema_id)


class ProtoLane(Lane):
    """A lane of Protobuf records: ``add`` registers a message, by its body, and those it needs."""

    def __init__(self, root: Path, **chosen: Any) -> None:
        super().__init__(root, **chosen)
        self.registry = ProtoRegistry()

    def add(self, body: str, others: str = "", name: str = "Row") -> int:
        """Register a schema; its id."""
        text = f'syntax = "proto3"; message {name} {{ {body} }} {others}'
        self.registry.schemas[len(self.registry.schemas) + 1] = text
        return len(self.registry.schemas)

    def encode(self, schema_id: int, value: dict[str, Any]) -> bytes:
        """A record's value."""
        files, name = compile_schema(self.registry.schemas[schema_id])
        row = GetMessageClass(message_named(load(files).FindFileByName(name), None))
        return prefix(schema_id) + b"\0" + bytes(ParseDict(value, row()).SerializeToString())

    def values(self) -> list[dict[str, Any]]:
        """The rows without the columns of Kafka."""
        return [
            {name: value for name, value in row.items() if not name.startswith("_kafka")}
            for row in self.rows()
        ]

    def properties_of_table(self) -> dict[str, str]:
        """The table's properties."""
        return dict(self._catalog.load_table(("default", TOPIC)).properties)


def why(column: str, before: int, after: int) -> str:
    """The reason of a refusal."""
    return (
        f"{column} has the number {before} in the table and {after} in the new schema: in Protobuf, it is "
        "another field"
    )


def test_a_name_with_another_number_is_refused(tmp_path: Path) -> None:
    """At depth, too, by a new host and under a projection; a name that moved with its message is the same."""
    lane = ProtoLane(tmp_path)
    old = lane.add("string name = 1; Place place = 2;", "message Place { int32 x = 1; }")
    lane.send((old, {"name": "a", "place": {"x": 1}}))
    lane.new_host()
    top = lane.add("string name = 3; Place place = 2;", "message Place { int32 x = 1; }")
    assert lane.send((top, {"name": "b"})).refused == {"incompatible_schema": 1}
    deep = lane.add("string name = 1; Place place = 2;", "message Place { int32 x = 2; }")
    assert lane.send((deep, {"name": "c", "place": {"x": 2}})).refused == {"incompatible_schema": 1}
    assert lane.send((old, {"name": "d"})).refused == {}
    refused = [event.refused for event in lane.control.written if event.type == "SchemaRefused"]
    assert [f"{column} {text}" for each in refused for column, text in each.items()] == [
        why("name", 1, 3), why("place.x", 1, 2),
    ]  # fmt: skip
    assert [row["name"] for row in lane.values()] == ["a", "d"]


def test_under_a_projection(tmp_path: Path) -> None:
    """A statement names fields: one with another number is another there, too."""
    lane = ProtoLane(tmp_path, projection="SELECT name || '!' AS n FROM batch")
    old = lane.add("string name = 1;")
    lane.send((old, {"name": "a"}))
    new = lane.add("string name = 2;")
    assert lane.send((new, {"name": "b"}), (old, {"name": "c"})).refused == {"incompatible_schema": 1}
    assert [row["n"] for row in lane.values()] == ["a!", "c!"]


def test_a_name_with_another_number_gets_its_own_column(tmp_path: Path) -> None:
    """With ``new_column``; later schemas find both, and a third number gets a third column."""
    lane = ProtoLane(tmp_path, on_incompatible="new_column")
    first = lane.add("string name = 1;")
    lane.send((first, {"name": "a"}))
    third = lane.add("string name = 3;")
    lane.send((third, {"name": "b"}), (first, {"name": "c"}))
    lane.new_host()
    both = lane.add("string name = 3; int32 more = 4;")
    lane.send((both, {"name": "d", "more": 1}))
    lane.send((lane.add("string name = 1; int32 more = 4;"), {"name": "e"}))
    lane.send((lane.add("int64 name = 7;"), {"name": 7}))
    assert lane.changes() == [
        "relax name to optional", "add name_3 string", "add more int", "add name_7 long",
    ]  # fmt: skip
    assert [(row["name"], row["name_3"], row["name_7"]) for row in lane.values()] == [
        ("a", None, None), (None, "b", None), ("c", None, None), (None, "d", None), ("e", None, None),
        (None, None, 7),
    ]  # fmt: skip


def test_a_number_with_another_name_renames_the_column(tmp_path: Path) -> None:
    """If the settings say so, at depth, in lists and repeatedly; old records go to the renamed column."""
    lane = ProtoLane(tmp_path, rename="by_number", partition_by=("town",))
    inner = "message Line {{ int32 {} = 1; }}"
    old = lane.add("string town = 1; repeated Line lines = 2;", inner.format("n"))
    lane.send((old, {"town": "a", "lines": [{"n": 1}]}))
    city = lane.add("string city = 1; repeated Line rows = 2;", inner.format("count"))
    lane.send((city, {"city": "b", "rows": [{"count": 2}]}), (old, {"town": "c", "lines": [{"n": 3}]}))
    lane.new_host()
    text = "string town = 1; repeated Line lines = 2; int32 more = 3;"
    other = lane.add(text, inner.format("n"))  # the old names, in a schema not seen before
    lane.send((other, {"town": "d"}))
    place = lane.add("string place = 1; repeated Line rows = 2;", inner.format("count"))
    lane.send((place, {"place": "e"}), (city, {"city": "f"}), (old, {"town": "g"}))
    assert lane.changes() == [
        "rename town to city", "rename lines to rows", "rename rows.element.n to count",
        "add more int", "rename city to place",
    ]  # fmt: skip
    rows = lane.values()
    assert [row["place"] for row in rows] == list("abcdefg")
    assert [row["rows"] for row in rows[:3]] == [[{"count": 1}], [{"count": 2}], [{"count": 3}]]


def test_messages_have_numbers_of_their_own(tmp_path: Path) -> None:
    """Those of one topic share columns by name, and none renames a column of another; each keeps its own."""
    for rename in ("by_alias", "by_number"):
        (tmp_path / rename).mkdir()
        lane = ProtoLane(tmp_path / rename, rename=rename)
        placed = lane.add("string order_id = 1;", name="OrderPlaced")
        lane.send((placed, {"order_id": "a"}))
        paid = lane.add("string event_id = 1; string order_id = 2;", name="OrderPaid")
        assert lane.send((paid, {"event_id": "x", "order_id": "b"})).refused == {}
        assert lane.values() == [
            {"order_id": "a", "event_id": None},
            {"order_id": "b", "event_id": "x"},
        ]
        lane.new_host()
        other = lane.add("string event_id = 3; string order_id = 2;", name="OrderPaid")
        assert lane.send((other, {"event_id": "y"})).refused == {"incompatible_schema": 1}


def test_a_number_with_another_name_and_type(tmp_path: Path) -> None:
    """It is a question for ``on_incompatible``: numbers that were given again are no rename."""
    lane = ProtoLane(tmp_path, rename="by_number")
    lane.send((lane.add("string name = 1;"), {"name": "a"}))
    new = lane.add("int64 total = 1;")
    assert lane.send((new, {"total": 1})).refused == {"incompatible_schema": 1}
    assert lane.values() == [{"name": "a"}]


def test_swapped_names_are_refused(tmp_path: Path) -> None:
    """Two names that exchange their numbers are no renames."""
    for rename in ("by_alias", "by_number"):
        (tmp_path / rename).mkdir()
        lane = ProtoLane(tmp_path / rename, rename=rename)
        lane.send((lane.add("string a = 1; string b = 2;"), {"a": "1", "b": "2"}))
        swapped = lane.add("string a = 2; string b = 1;")
        assert lane.send((swapped, {"a": "2", "b": "1"})).refused == {"incompatible_schema": 1}
        assert lane.values() == [{"a": "1", "b": "2"}]


def test_a_name_that_was_renamed_away_may_come_again(tmp_path: Path) -> None:
    """With another number it is a new field, and gets a column."""
    lane = ProtoLane(tmp_path, rename="by_number")
    lane.send((lane.add("string name = 1;"), {"name": "a"}))
    lane.send((lane.add("string title = 1;"), {"title": "b"}))
    both = lane.add("string title = 1; string name = 2;")
    assert lane.send((both, {"title": "c", "name": "x"})).refused == {}
    assert lane.values() == [
        {"title": "a", "name": None},
        {"title": "b", "name": None},
        {"title": "c", "name": "x"},
    ]


def test_older_tables_learn_the_numbers(tmp_path: Path) -> None:
    """What such a table covers stays covered, also two numbers of one name; other schemas are asked."""
    lane = ProtoLane(tmp_path)
    first = lane.add("string name = 1;")
    lane.send((first, {"name": "a"}))
    second = lane.add("string name = 2;")
    table = lane._catalog.load_table(("default", TOPIC))
    covered = json.loads(table.properties[SCHEMAS_PROPERTY])
    both = json.dumps(covered | {str(second): [*covered["1"][:1], 2, 0]})
    with table.transaction() as change:
        change.remove_properties(NUMBERS_PROPERTY)
        change.set_properties({SCHEMAS_PROPERTY: both})
    lane.new_host()
    lane.send((first, {"name": "b"}), (second, {"name": "c"}))
    assert json.loads(lane.properties_of_table()[NUMBERS_PROPERTY]) == {
        "Row.1": ["name"],
        "Row.2": ["name"],
    }
    more = lane.add("string name = 2; int32 more = 3;")
    assert lane.send((more, {"name": "d"})).refused == {}
    other = lane.add("string name = 4;")
    assert lane.send((other, {"name": "e"})).refused == {"incompatible_schema": 1}
    assert [row["name"] for row in lane.values()] == ["a", "b", "c", "d"]
