"""JSON that Kafka Connect's JsonConverter writes with its schema, ``{"schema": {…}, "payload": …}``.

Each record has the schema, the same bytes every time: it is parsed once, and known by a key made of its text.
A value of bytes is base64, a decimal's also a number, and a float may be the text NaN, Infinity or -Infinity.
The names of types, such as ``io.debezium.time.Date``, go into the docs of the columns
(``model/columns/connect_types.py``).

Source: JsonConverter and JsonSchema of Apache Kafka.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import StringType

from tabletopic_kernel.formats.arrays import Bodies, Positions
from tabletopic_kernel.formats.driver import Decoded
from tabletopic_kernel.formats.json.decoder import TypeDecoder, enveloped_parts
from tabletopic_kernel.formats.json.text import JsonTextError, json_text, parse
from tabletopic_kernel.formats.json.types import (
    MAX_LEVELS,
    Field,
    JsonType,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Text,
)
from tabletopic_kernel.formats.json.values import Rules
from tabletopic_kernel.formats.wire import CONNECT_KEY, WriterSchema
from tabletopic_kernel.model.columns.connect_types import BASE64, DECIMAL, NAMES, native_of
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.columns.names import column_names
from tabletopic_kernel.model.columns.types import doc_with_meaning
from tabletopic_kernel.model.errors import ActionNeededError

_SCALARS: Final = {
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    **dict.fromkeys(("float", "double"), "double"),
    **dict.fromkeys(("string", "bytes"), "string"),
    "int64": "long",
    "boolean": "boolean",
}
_STARTS: Final = (b'{"schema"', b'{"payload"')
_NAMES: Final = ('"schema"', '"payload"')


class ConnectSchemaError(ActionNeededError):
    """The schema in a record is none of Kafka Connect's."""


class ConnectDecoder(TypeDecoder):
    """Payloads of one schema."""

    def __init__(self, schema: str) -> None:
        node, nullable, meaning = _node(json.loads(schema), 0)
        is_whole = not isinstance(node, Struct)
        doc = doc_with_meaning(None, meaning)
        root = (
            node if isinstance(node, Struct) else Struct((Field(VALUE, VALUE, node, nullable, doc),), False)
        )
        rules = Rules(whole=is_whole, nullable=nullable and not is_whole, words=True)
        super().__init__(root, rules, rest=False)

    def decode(self, values: pa.Array) -> Decoded:
        """See ``Decoder``; ``values`` are payloads."""
        return self.decode_groups(Bodies(values))


def make(schema: WriterSchema) -> ConnectDecoder:
    """The decoder of a schema of Connect's, as JSON."""
    return ConnectDecoder(schema.text)


def split_connect(values: pa.Array) -> Iterator[tuple[str | None, str, Positions, pa.Array]]:
    """The key and the text of each schema in ``values``, and the positions and payloads of its records.

    The key is None for records without a schema of Connect's, which are whole. Each key comes once, and each
    record.
    """
    begins = pc.or_(*(pc.starts_with(values, start) for start in _STARTS))
    if pc.any(begins).as_py():
        begins = pc.and_(begins, pc.and_(*(pc.match_substring(values, name) for name in _NAMES)))
    if not pc.any(begins).as_py():
        yield None, "", np.arange(len(values)), values
        return
    groups: dict[tuple[str, str] | None, list[tuple[Positions, pa.Array]]] = {}
    for head, positions, parts in enveloped_parts(values, begins.to_numpy(zero_copy_only=False)):
        schema = _schema_in(head) if head is not None else None
        groups.setdefault(schema, []).append((positions, parts))
    for schema, members in groups.items():
        everywhere = np.concatenate([positions for positions, _ in members])
        order = np.argsort(everywhere)
        if schema is None:
            yield None, "", everywhere[order], values.take(pa.array(everywhere[order]))
        else:
            payloads = pa.concat_arrays([parts for _, parts in members])
            yield *schema, everywhere[order], payloads.take(pa.array(order)) if len(members) > 1 else payloads


@lru_cache(maxsize=256)
def _schema_in(head: bytes) -> tuple[str, str] | None:
    try:
        schema = parse(head + b"null}")["schema"]
    except JsonTextError:
        return None
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        return None
    text = json_text(schema)
    try:
        _node(json.loads(text), 0)
    except ConnectSchemaError:  # a property of this name in other JSON
        return None
    return CONNECT_KEY + hashlib.sha256(text.encode()).hexdigest()[:16], text


def _node(schema: Any, level: int) -> tuple[JsonType, bool, str | None]:
    """The type of a value as sent, whether it may be null, and the name of what it means."""
    if not isinstance(schema, dict):
        raise ConnectSchemaError(f"a schema of Kafka Connect is an object, not {str(schema)[:60]!r}")
    kind, nullable = schema.get("type"), schema.get("optional") is True
    if level > MAX_LEVELS:
        return Text(), nullable, None
    match kind:
        case "struct":
            fields = schema.get("fields")
            return _struct(fields, level) if fields else Text(), nullable, _meaning(schema)
        case "array":
            items, optional, meaning = _node(schema.get("items"), level + 2)
            return ListOf(items, optional), nullable, meaning
        case "map":
            values, optional, meaning = _node(schema.get("values"), level + 2)
            has_names = isinstance(schema.get("keys"), dict) and schema["keys"].get("type") == "string"
            return (MapOf(values, optional), nullable, meaning) if has_names else (Text(), nullable, None)
        case str() if kind in _SCALARS:
            meaning, scalar = _meaning(schema), Scalar(_SCALARS[kind])
            if kind == "bytes" and meaning != BASE64 and (decimal := native_of(StringType(), meaning)):
                scalar = Scalar("unscaled", scale=decimal.scale)
            return scalar, nullable, meaning
    raise ConnectSchemaError(f"Kafka Connect has no type {str(kind)[:60]!r}")


def _struct(fields: Any, level: int) -> Struct:
    if not isinstance(fields, list) or not all(
        isinstance(field, dict) and isinstance(field.get("field"), str) for field in fields
    ):
        raise ConnectSchemaError("a struct of Kafka Connect has a list of fields with names")
    names = column_names(field["field"] for field in fields)
    members = []
    for field in fields:
        node, nullable, meaning = _node(field, level + 1)
        doc = field.get("doc") if isinstance(field.get("doc"), str) else None
        members.append(
            Field(field["field"], names[field["field"]], node, nullable, doc_with_meaning(doc, meaning))
        )
    return Struct(tuple(members), open=False)


def _meaning(schema: dict[str, Any]) -> str | None:
    name, parameters = schema.get("name"), schema.get("parameters")
    if name == DECIMAL and isinstance(parameters, dict):
        precision = parameters.get("connect.decimal.precision")
        return f"{name} scale {parameters.get('scale')}" + (f" precision {precision}" if precision else "")
    if schema["type"] == "bytes":
        return BASE64
    is_number = str(schema["type"]).startswith(("int", "float", "double"))
    return name if isinstance(name, str) and (name in NAMES or is_number) else None
