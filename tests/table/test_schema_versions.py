"""Columns and aliases of a writer's schema, by transform."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tabletopic_kernel.formats.wire import WriterSchema
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.schemas.columns import writer_columns

INNER = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int", "aliases": ["y"]}]}
DEEP = {"type": "map", "values": {"type": "array", "items": INNER}}
ROW = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "city", "type": "string", "aliases": ["town"]},
        {"name": "deep", "type": ["null", DEEP]},
        {"name": "either", "type": ["null", "In", "string"]},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "Row"]},
        {"name": "op", "type": "string", "aliases": ["operation"]},
    ],
}
ALIASES = {"city": ("town",), "deep.value.element.x": ("y",), "either.In.x": ("y",)}


@pytest.mark.parametrize(
    ("schema", "transform", "aliases"),
    [
        (ROW, "flatten", ALIASES),
        (ROW, "none", {f"_kafka_value.{path}": names for path, names in ALIASES.items()}),
        (ENVELOPE, "flatten_debezium", ALIASES),
    ],
)
def test_aliases_are_known_by_the_path_of_the_column(
    schema: dict[str, Any], transform: Any, aliases: dict[str, tuple[str, ...]]
) -> None:
    """At every depth, in lists, maps, unions, and in the rows of change events."""
    writer = WriterSchema(json.dumps(schema))
    assert writer_columns(1, writer, TopicSettings(transform=transform)).aliases == aliases
