"""What the keywords of a JSON Schema together say about a value's type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tabletopic_kernel.formats.json.schema_refs import JsonSchemaError, Subschema

_SCALARS: Final = frozenset(("string", "integer", "number", "boolean"))
# A subschema with none of these only restricts its siblings.
_SHAPES: Final = frozenset(
    (
        *("$ref", "$dynamicRef", "$recursiveRef", "type", "enum", "const", "allOf", "anyOf", "oneOf"),
        *("properties", "patternProperties", "additionalProperties", "items", "prefixItems"),
    )
)
# These name properties that depend on the value: evaluated ones, but not columns.
_DEPENDENT: Final = frozenset(("if", "then", "else", "dependentSchemas"))
_PYTHON_TYPES: Final = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
}


@dataclass
class Keywords:
    """Subschemas that all apply, with what they say about a value's type."""

    types: set[str] | None = None
    nullable: bool = False
    formats: list[str] = field(default_factory=list)
    properties: dict[str, list[Subschema]] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    patterns: list[Subschema] = field(default_factory=list)
    additional: list[Subschema] = field(default_factory=list)
    additional_false: bool = False
    additional_any: bool = False
    unevaluated_false: bool = False
    depends: bool = False
    items: list[Subschema] = field(default_factory=list)
    items_false: bool = False
    items_any: bool = False
    unevaluated_items_false: bool = False
    tuple_items: list[Subschema] = field(default_factory=list)
    unions: list[list[Subschema]] = field(default_factory=list)
    values: list[list[Any]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    unreadable: bool = False
    entered: list[int] = field(default_factory=list)

    @property
    def closed(self) -> bool:
        """Whether properties not named here are forbidden: parts that depend on the value may name more."""
        # Anything that some part accepts counts as evaluated.
        evaluated = self.depends or self.additional_any or bool(self.additional)
        return self.additional_false or (self.unevaluated_false and not evaluated)

    @property
    def items_closed(self) -> bool:
        """Whether an array may have no items beyond those described one by one."""
        evaluated = self.depends or self.items_any
        return self.items_false or (self.unevaluated_items_false and not evaluated)

    @property
    def has_shape(self) -> bool:
        keywords = (self.types, self.properties, self.patterns, self.additional, self.items, self.tuple_items)
        return any(keywords) or bool(self.values)

    @property
    def is_scalar(self) -> bool:
        """Whether it is a single type without parts."""
        return (
            self.types is not None and len(self.types - {"null"}) == 1 and self.types <= _SCALARS | {"null"}
        )


def note(subschema: Subschema, keywords: Keywords) -> None:
    schema = subschema.schema
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not kinds or not all(isinstance(kind, str) for kind in kinds):
            raise JsonSchemaError(
                f"a type is a string or a list of strings, not {str(schema['type'])[:60]!r}"
            )
        keywords.types = _both_types(keywords.types, set(kinds))
    keywords.nullable |= schema.get("nullable") is True
    keywords.unreadable |= "$dynamicRef" in schema or "$recursiveRef" in schema
    if isinstance(schema.get("format"), str):
        keywords.formats.append(schema["format"])
    if isinstance(schema.get("enum"), list):
        keywords.values.append(schema["enum"])
    if "const" in schema:
        keywords.values.append([schema["const"]])
    keywords.limits += [schema[k] for k in ("minimum", "maximum") if isinstance(schema.get(k), int | float)]
    for name, inner in _dict(schema, "properties"):
        keywords.properties.setdefault(name, []).append(subschema.inner(inner))
    keywords.required.update(name for name in list_of(schema, "required") if isinstance(name, str))
    keywords.patterns += [subschema.inner(inner) for _, inner in _dict(schema, "patternProperties")]
    keywords.additional_false |= schema.get("additionalProperties") is False
    keywords.unevaluated_false |= schema.get("unevaluatedProperties") is False
    evaluating = [schema.get(keyword) for keyword in ("additionalProperties", "unevaluatedProperties")]
    keywords.additional_any |= any(value is True or isinstance(value, dict) for value in evaluating)
    keywords.depends |= bool(_DEPENDENT.intersection(schema))
    if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
        keywords.additional.append(subschema.inner(schema["additionalProperties"]))
    _note_items(subschema, keywords)
    for keyword in ("oneOf", "anyOf"):
        if branches := list_of(schema, keyword):
            keywords.unions.append([subschema.inner(branch) for branch in branches])


def _note_items(subschema: Subschema, keywords: Keywords) -> None:
    schema = subschema.schema
    items = schema.get("items")
    prefix = items if isinstance(items, list) else list_of(schema, "prefixItems")
    further = schema.get("additionalItems") if isinstance(items, list) else items
    keywords.tuple_items += [subschema.inner(item) for item in prefix]
    if isinstance(further, dict):
        keywords.items.append(subschema.inner(further))
    most = schema.get("maxItems")
    all_listed = bool(prefix) and isinstance(most, int) and most <= len(prefix)
    keywords.items_false |= further is False or all_listed
    keywords.unevaluated_items_false |= schema.get("unevaluatedItems") is False
    # ``contains`` evaluates the items that it matches.
    keywords.items_any |= (
        further is True or "contains" in schema or schema.get("unevaluatedItems") not in (None, False)
    )


def _both_types(types: set[str] | None, others: set[str]) -> set[str]:
    """Types that both allow; an integer is a number."""
    if types is None:
        return others
    shared = types & others
    if "integer" in types | others and "number" in types | others:
        shared |= {"integer"}
    return shared


def types_of(keywords: Keywords) -> set[str] | None:
    """The types that a value may have; None if the keywords do not say."""
    if keywords.types:
        return keywords.types
    if keywords.values:
        return {_PYTHON_TYPES.get(type(value), "object") for value in keywords.values[0]} or None
    if keywords.properties or keywords.patterns or keywords.additional:
        return {"object"}
    return {"array"} if keywords.items or keywords.tuple_items else None


def is_null(subschema: Subschema) -> bool:
    """Whether null is the only value."""
    schema = subschema.schema
    if not isinstance(schema, dict):
        return False
    return (
        schema.get("type") in ("null", ["null"])
        or schema.get("enum") == [None]
        or ("const" in schema and schema["const"] is None)
    )


def doc_of(schema: Any) -> str | None:
    """A subschema's description for people."""
    doc = schema.get("description") or schema.get("title") if isinstance(schema, dict) else None
    return doc if isinstance(doc, str) else None


def _dict(schema: dict[str, Any], keyword: str) -> Iterator[tuple[str, Any]]:
    members = schema.get(keyword, {})
    if not isinstance(members, dict):
        raise JsonSchemaError(f"{keyword} must be an object, not {str(members)[:60]!r}")
    yield from members.items()


def list_of(schema: dict[str, Any], keyword: str) -> list[Any]:
    """The value of a keyword that is a list; raises JsonSchemaError."""
    values = schema.get(keyword, [])
    if keyword == "required" and isinstance(values, bool):  # draft 3 had it on the property
        return []
    if not isinstance(values, list):
        raise JsonSchemaError(f"{keyword} is a list, not {str(values)[:60]!r}")
    return values


def has_shape(subschema: Subschema) -> bool:
    """Whether a subschema says more than restrictions."""
    return isinstance(subschema.schema, dict) and bool(_SHAPES.intersection(subschema.schema))
