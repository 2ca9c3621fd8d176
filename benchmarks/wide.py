"""Events with 100 columns: the shape of a table that was denormalized for analysts."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import fastavro

from tabletopic_kernel.formats.wire import prefix

_KINDS: Final = ("long", "double", "string")
Columns = Mapping[str, str]  # beside the event's id: names with Avro's types


def columns(width: int) -> Columns:
    """Of a table with so many columns in all: an id, and the kinds in turns."""
    return {f"{_KINDS[at % 3]}_{at // 3:02}": _KINDS[at % 3] for at in range(width - 1)}


def schema(columns: Columns) -> str:
    """The schema in Avro."""
    optional = [{"name": name, "type": ["null", kind], "default": None} for name, kind in columns.items()]
    fields = [{"name": "event_id", "type": "string"}, *optional]
    return json.dumps({"type": "record", "name": "WideEvent", "fields": fields})


COLUMNS: Final = columns(100)
SCHEMA: Final = schema(COLUMNS)


def events(count: int, seed: int = 7, columns: Columns = COLUMNS) -> Iterator[dict[str, Any]]:
    """Distinct events; one value in ten is null."""
    chance = random.Random(seed)
    values: dict[str, Callable[[], Any]] = {
        "long": lambda: chance.randrange(1 << 40),
        "double": lambda: round(chance.uniform(0, 1000), 2),
        "string": lambda: f"value-{chance.randrange(1000)}",
    }
    for number in range(count):
        row = {name: None if chance.random() < 0.1 else values[kind]() for name, kind in columns.items()}
        yield {"event_id": f"{seed:04}-{number:08}", **row}


def encoder(schema_id: int, text: str = SCHEMA) -> Callable[[dict[str, Any]], bytes]:
    """A function from an event to a record's value."""
    schema = fastavro.parse_schema(json.loads(text))

    def encode(value: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, value)
        return prefix(schema_id) + buffer.getvalue()

    return encode
