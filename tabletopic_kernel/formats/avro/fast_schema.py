"""Maps Avro types to simpler types with the same bytes, and back to the table's columns.

DataFusion's reader (arrow-avro 59) is lax in places: any branch of ``[null, T]`` except 0 is T, any byte
except 0 is true, decimals may exceed their precision, timestamps may overflow. With these types, every such
record becomes visible and is refused here, by array operations over the whole group:

| writer's type | read as | then |
|---|---|---|
| [null, T] | a union with a third branch | branch 2 is refused, the union becomes nullable T |
| boolean | fixed(1) | 0 or 1 |
| date, time, timestamp | int, long | ranges, units |
| uuid text; decimals beyond 38 digits or 32 bytes | string; bytes, fixed | text forms, digits |
| null, record without fields, fixed(0) | left out | null, "{}", empty |
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tabletopic_kernel.formats.arrays import repeated_keys
from tabletopic_kernel.formats.avro import columns
from tabletopic_kernel.formats.avro import schema as nodes
from tabletopic_kernel.formats.avro.logical import Decimal
from tabletopic_kernel.formats.avro.types import is_null, is_text_decimal, only_branch
from tabletopic_kernel.formats.rejection import NotRows, UnsupportedError

# Arrow's union type codes are signed bytes; one is reserved for the branch that must not occur.
MAX_BRANCHES: Final = 126
# The reader's decimals have up to 256 bits.
MAX_DECIMAL_BYTES: Final = 32

ConvertAll = Callable[[Sequence[pa.Array], int], list[pa.Array]]


@dataclass(frozen=True)
class Plan:
    """The simpler Avro type, None if it takes no bytes; and the conversion of its array to the column's."""

    avro: Any
    convert: columns.Convert


class Planner:
    """Plans the types of one schema; gives named types our own names."""

    def __init__(self) -> None:
        self._names = (f"t{i}" for i in itertools.count())

    def plan(self, node: nodes.AvroType, target: pa.DataType) -> Plan:  # noqa: PLR0911 - a return per Avro type
        """Raises UnsupportedError."""
        if is_null(node) and isinstance(node, nodes.Primitive):
            return Plan(None, lambda array: pa.nulls(len(array), target))
        match node:
            case nodes.Primitive():
                return self._primitive(node, target)
            case nodes.Fixed():
                return self._fixed(node, target)
            case nodes.Enum(_, symbols):
                names = pa.array(symbols, target)
                plain_symbols = [f"s{i}" for i in range(len(symbols))]
                plain = {"type": "enum", "name": next(self._names), "symbols": plain_symbols}
                return Plan(plain, lambda array: names.take(array.indices))
            case nodes.Array(items):
                return self._array(items, target)
            case nodes.Map(values):
                return self._map(values, target)
            case nodes.Record(_, fields) if fields:
                return self._record(node, target)
            case nodes.Record():
                return Plan(None, lambda array: pa.repeat(pa.scalar("{}", target), len(array)))
            case nodes.Union(branches) if branches:
                return self._union(node, target)
        raise UnsupportedError("a record that contains itself, or a union without branches")

    def _primitive(self, node: nodes.Primitive, target: pa.DataType) -> Plan:
        if node.kind == "boolean":
            return Plan(self._bytes(1), columns.booleans)
        if isinstance(node.logical, Decimal):
            return _decimal("bytes", node.logical, target)
        if node.logical == "uuid":
            return Plan("string", columns.uuids)
        if node.logical is not None:
            return Plan(node.kind, columns.TEMPORAL[node.logical])
        return Plan(node.kind, lambda array: array.cast(target))

    def _fixed(self, node: nodes.Fixed, target: pa.DataType) -> Plan:
        if node.size == 0:
            return Plan(None, lambda array: pa.repeat(pa.scalar(b"", target), len(array)))
        plain = self._bytes(node.size)
        if isinstance(node.logical, Decimal):
            return _decimal(plain, node.logical, target)
        if node.logical == "uuid":
            return Plan(plain, lambda array: pa.ExtensionArray.from_storage(target, array))
        if node.logical == "duration":
            return Plan(plain, lambda array: columns.durations(array, target))
        return Plan(plain, lambda array: array)

    def _bytes(self, size: int) -> dict[str, Any]:
        return {"type": "fixed", "name": next(self._names), "size": size}

    def _array(self, items: nodes.AvroType, target: pa.DataType) -> Plan:
        if not nodes.takes_bytes(items):
            raise UnsupportedError("array items that take no bytes: a few bytes could ask for endless items")
        item = self.plan(items, target.value_type)

        def convert(array: pa.Array) -> pa.Array:
            offsets = array.offsets.cast(pa.int64())
            return pa.LargeListArray.from_arrays(offsets, item.convert(array.values), type=target)

        return Plan({"type": "array", "items": item.avro}, convert)

    def _map(self, values: nodes.AvroType, target: pa.DataType) -> Plan:
        item = self.plan(values, target.item_type)
        if item.avro is None:
            raise UnsupportedError("map values that take no bytes")

        def convert(array: pa.Array) -> pa.Array:
            if repeated_keys(np.asarray(array.offsets), array.keys) is not None:
                raise NotRows("a map with one key twice, of which the exact engine takes the last")
            keys, items = array.keys.cast(target.key_type), item.convert(array.items)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=target)

        return Plan({"type": "map", "values": item.avro}, convert)

    def _record(self, node: nodes.Record, target: pa.DataType) -> Plan:
        plans = [self.plan(field.type, target.field(i).type) for i, field in enumerate(node.fields)]
        fields, convert_all = fields_of(plans)
        if not fields:
            return Plan(None, lambda array: columns.struct_of(convert_all([], len(array)), target))
        plain = {"type": "record", "name": next(self._names), "fields": fields}

        def convert(array: pa.Array) -> pa.Array:
            children = [array.field(i) for i in range(len(fields))]
            return columns.struct_of(convert_all(children, len(array)), target)

        return Plan(plain, convert)

    def _union(self, node: nodes.Union, target: pa.DataType) -> Plan:
        if len(node.branches) > MAX_BRANCHES:
            raise UnsupportedError(f"a union of more than {MAX_BRANCHES} branches")
        only = only_branch(node)
        children = iter(() if is_null(node) or only is not None else [f.type for f in target])
        targets = [target if is_null(branch) else next(children, target) for branch in node.branches]
        plans = [self.plan(branch, t) for branch, t in zip(node.branches, targets, strict=True)]
        nulls = [i for i, branch in enumerate(node.branches) if is_null(branch)]
        values = [i for i in range(len(plans)) if i not in nulls]
        if sum(plan.avro is None for plan in plans) > 1:
            raise UnsupportedError("a union with several branches that take no bytes")
        # With [null, T], the reader takes every branch except 0 for T; with three branches, it checks. No
        # other branch reads as a boolean (see _primitive), so this type is unique.
        plain = [*("null" if plan.avro is None else plan.avro for plan in plans), "boolean"]
        if len(plain) == 2:
            plain.append(self._bytes(1))

        def convert(array: pa.Array) -> pa.Array:
            codes = np.asarray(array.type_codes)
            if (codes >= len(plans)).any():
                raise NotRows("a branch that the union does not have")
            arrays = [columns.spread(plans[i].convert(array.field(i)), codes == i) for i in values]
            if not values:
                return pa.nulls(len(array), target)
            if only is not None:
                return arrays[0]
            return columns.struct_of(arrays, target, pa.array(np.isin(codes, nulls)) if nulls else None)

        return Plan(plain, convert)


def fields_of(plans: Sequence[Plan]) -> tuple[list[dict[str, Any]], ConvertAll]:
    """A record's fields in Avro, without those that take no bytes, and the conversion to all columns."""
    present = [i for i, plan in enumerate(plans) if plan.avro is not None]
    fields = [{"name": f"c{i}", "type": plans[i].avro} for i in present]

    def convert(arrays: Sequence[pa.Array], length: int) -> list[pa.Array]:
        absent = pa.nulls(length)
        by_index = dict(zip(present, arrays, strict=True))
        return [plan.convert(by_index.get(i, absent)) for i, plan in enumerate(plans)]

    return fields, convert


def with_metadata(field: pa.Field, avro: Any) -> pa.Field:
    """The field with the names that arrow-avro attaches to named types, at every depth."""
    kind = field.type
    if isinstance(avro, list):
        children = [with_metadata(kind.field(i), branch) for i, branch in enumerate(avro)]
        return field.with_type(pa.dense_union(children))
    if not isinstance(avro, dict):
        return field
    match avro["type"]:
        case "record":
            children = [with_metadata(kind.field(i), f["type"]) for i, f in enumerate(avro["fields"])]
            field = field.with_type(pa.struct(children))
        case "array":
            return field.with_type(pa.list_(with_metadata(kind.value_field, avro["items"])))
        case "map":
            return field.with_type(pa.map_(kind.key_field, with_metadata(kind.item_field, avro["values"])))
    metadata = {key: str(avro[key]) for key in ("precision", "scale") if key in avro}
    if "name" in avro:
        metadata["avro.name"] = avro["name"]
    if avro["type"] == "enum":
        metadata["avro.enum.symbols"] = json.dumps(avro["symbols"], separators=(",", ":"))
    return field.with_metadata(metadata)


def smallest(avro: Any) -> bytes:
    """The shortest encoding of a plain type: zeros, empty texts, first branches."""
    if isinstance(avro, list):
        return b"\0" + smallest(avro[0])
    kind = avro["type"] if isinstance(avro, dict) else avro
    match kind:
        case "null":
            return b""
        case "record":
            return b"".join(smallest(field["type"]) for field in avro["fields"])
        case "fixed":
            return bytes(avro["size"])
    return bytes({"float": 4, "double": 8}.get(kind, 1))


def _decimal(plain: Any, logical: Decimal, target: pa.DataType) -> Plan:
    too_wide = isinstance(plain, dict) and plain["size"] > MAX_DECIMAL_BYTES
    if is_text_decimal(logical) or too_wide:
        return Plan(plain, lambda array: columns.decimals_one_by_one(array, logical, target))
    base = plain if isinstance(plain, dict) else {"type": plain}
    annotated = base | {"logicalType": "decimal", "precision": logical.precision, "scale": logical.scale}
    return Plan(annotated, columns.decimals(logical))
