"""Table columns of a JSON Schema, draft 4 to 2020-12; docs/reference/types.md has each type with an example.

A property is required if it is in ``required`` and may not be null. Keywords that only restrict values of a
type (minimum, pattern, if/then/else, not…) are not checked: the column can hold the value. Properties that
the schema does not name are refused if it says so (additionalProperties or unevaluatedProperties false),
and otherwise kept in ``_kafka_value_rest``. An object without named properties is JSON text if it may
contain anything. The top-level object keeps its columns even if something in it refers back to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tabletopic_kernel.formats.json.schema_keywords import (
    Keywords,
    doc_of,
    has_shape,
    is_null,
    list_of,
    note,
    types_of,
)
from tabletopic_kernel.formats.json.schema_refs import Documents, JsonSchemaError, Subschema
from tabletopic_kernel.formats.json.text import MAX_LONG
from tabletopic_kernel.formats.json.types import (
    MAX_LEVELS,
    REST,
    Field,
    JsonType,
    ListOf,
    MapOf,
    Scalar,
    Struct,
    Text,
)
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.columns.names import column_names
from tabletopic_kernel.model.columns.types import doc_with_meaning, json_meaning

# References may expand a short text endlessly ("billion laughs").
_MAX_NODES: Final = 20_000
_FORMATS: Final = {"date": "date", "time": "time", "date-time": "timestamptz", "uuid": "uuid"}
_Typed = tuple[JsonType, bool]  # a type, and whether it allows null


@dataclass(frozen=True)
class JsonSchema:
    """How a schema maps a record. ``root`` has the columns.

    ``whole``: the record is the value of the only column; else it is an object with the columns' properties,
    or, if ``nullable``, null: a row of nulls.
    """

    root: Struct
    whole: bool
    nullable: bool = False


def parse_json_schema(text: str, references: Mapping[str, str] | None = None) -> JsonSchema:
    """Read a schema; ``references`` are those that it uses, by name. Raises JsonSchemaError."""
    documents = Documents(text, references)
    try:
        node, nullable = _Reader(documents).top()
    except RecursionError:
        raise JsonSchemaError("the schema's references and unions nest too deeply; make it flatter") from None
    if not isinstance(node, Struct):
        return JsonSchema(Struct((Field(VALUE, VALUE, node, nullable),), open=False), whole=True)
    if any(field.name.lower() == REST for field in node.fields):
        raise JsonSchemaError(f"a property is called {REST}, the column of unmapped values; rename it")
    if nullable:  # a null record has none of its columns
        optional = (Field(f.key, f.name, f.type, True, f.doc) for f in node.fields)
        node = Struct(tuple(optional), node.open)
    return JsonSchema(node, whole=False, nullable=nullable)


class _MeetsItselfError(Exception):
    """A schema occurs within itself while it is being read."""


class _Reader:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._open: set[int] = set()  # schemas that are being read
        self._recursive: set[int] = set()
        self._nodes = 0

    def top(self) -> _Typed:
        """The type of a whole record; a Struct only if it has named properties."""
        return self._read([self._documents.root], 0, top=True)

    def _read(self, subschemas: list[Subschema], level: int, *, top: bool = False) -> _Typed:
        """The type of a value that is all of ``subschemas``."""
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise JsonSchemaError(f"the schema has more than {_MAX_NODES} fields; make it smaller")
        if level > MAX_LEVELS:
            return Text(), True
        keywords = Keywords()
        try:
            for subschema in subschemas:
                self._collect(subschema, keywords)
            typed = self._type(keywords, level)
        except _MeetsItselfError:
            typed = Text(), True
        finally:
            self._open.difference_update(keywords.entered)
        if not top and self._recursive.intersection(keywords.entered):
            self._recursive.difference_update(keywords.entered)
            return Text(), True
        return typed

    def _collect(self, subschema: Subschema, keywords: Keywords) -> None:
        """Add a subschema to ``keywords``, with those that it refers to and includes."""
        schema = subschema.schema
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise JsonSchemaError(f"a schema must be an object, not {str(schema)[:60]!r}")
        if subschema.key in keywords.entered:
            return  # reached in another way, or by a reference to itself: nothing new
        if subschema.key in self._open:
            self._recursive.add(subschema.key)
            raise _MeetsItselfError
        self._open.add(subschema.key)
        keywords.entered.append(subschema.key)
        note(subschema, keywords)
        if isinstance(ref := schema.get("$ref"), str):
            self._collect(self._documents.resolve(ref, subschema), keywords)
        for part in list_of(schema, "allOf"):
            self._collect(subschema.inner(part), keywords)

    def _type(self, keywords: Keywords, level: int) -> _Typed:
        nullable = keywords.nullable
        for union in keywords.unions:
            present = [branch for branch in union if not is_null(branch)]
            nullable |= len(present) < len(union)
            shapes = [branch for branch in present if has_shape(branch)]
            if keywords.is_scalar or (keywords.has_shape and not shapes):
                continue  # the branches only restrict their siblings
            if len(present) != 1:
                return self._union(keywords, present, nullable, level)
            self._collect(present[0], keywords)
            keywords.unions.remove(union)
            inner, inner_nullable = self._type(keywords, level)
            return inner, nullable or inner_nullable
        if keywords.unreadable:
            return Text(), True
        types = types_of(keywords)
        nullable |= types is not None and "null" in types
        types = None if types is None else types - {"null"}
        if types == {"integer", "number"}:
            types = {"number"}
        if types is None or len(types) != 1:
            return Text(), types is None or nullable
        return self._node(types.pop(), keywords, level), nullable

    def _union(self, keywords: Keywords, branches: list[Subschema], nullable: bool, level: int) -> _Typed:
        read = [self._read([branch], level) for branch in branches]
        nodes = {node for node, _ in read}
        nullable |= any(null for _, null in read) or not read
        if nodes == {Scalar("long"), Scalar("double")}:
            nodes = {Scalar("double")}
        return (nodes.pop() if len(nodes) == 1 and not keywords.has_shape else Text()), nullable

    def _node(self, kind: str, keywords: Keywords, level: int) -> JsonType:
        match kind:
            case "object":
                return self._object(keywords, level)
            case "array":
                return self._array(keywords, level)
            case "string":
                known = [_FORMATS[name] for name in keywords.formats if name in _FORMATS]
                return Scalar(known[0] if known else "string")
            case "integer":
                beyond = any(not -MAX_LONG - 1 <= limit <= MAX_LONG for limit in keywords.limits)
                return Scalar("decimal", 38, 0) if beyond else Scalar("long")
            case "number":
                return Scalar("double")
            case "boolean":
                return Scalar("boolean")
        raise JsonSchemaError(f"JSON Schema has no type {kind!r}")

    def _object(self, keywords: Keywords, level: int) -> JsonType:
        if not keywords.properties:
            only_pattern = keywords.patterns if keywords.closed and len(keywords.patterns) == 1 else []
            inner = keywords.additional or only_pattern
            if not inner or (keywords.patterns and keywords.additional):
                return Text()
            values, optional = self._read(inner, level + 2)
            return Text() if values == Text() else MapOf(values, optional)
        names = column_names(keywords.properties)
        fields = []
        for key, subschemas in keywords.properties.items():
            node, nullable = self._read(subschemas, level + 1)
            doc = next((doc for part in subschemas if (doc := doc_of(part.schema))), None)
            meaning = next((meaning for part in subschemas if (meaning := json_meaning(part.schema))), None)
            if meaning is not None:
                doc = doc_with_meaning(None if doc == meaning else doc, meaning)
            fields.append(Field(key, names[key], node, nullable or key not in keywords.required, doc))
        return Struct(tuple(fields), open=not keywords.closed or bool(keywords.patterns))

    def _array(self, keywords: Keywords, level: int) -> JsonType:
        if keywords.tuple_items:
            types = {self._read([item], level + 2) for item in keywords.tuple_items + keywords.items}
            is_open = not keywords.items and not keywords.items_closed  # further items may be anything
            if len(types) != 1 or is_open:
                return Text()
            return ListOf(*types.pop())
        return ListOf(*self._read(keywords.items, level + 2)) if keywords.items else ListOf(Text(), True)
