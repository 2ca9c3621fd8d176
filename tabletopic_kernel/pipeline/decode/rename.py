"""Give fields of decoded rows the names of the columns that hold them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tabletopic_kernel.model.columns.names import step
from tabletopic_kernel.pipeline.conform import map_entries, rebuilt


def rename(columns: Mapping[str, pa.Array], renames: Mapping[str, str]) -> dict[str, pa.Array]:
    """The same arrays under other names; nothing is copied.

    Args:
        columns: decoded columns by name.
        renames: by dotted path as in ``model/columns/evolution.py``, the new name of that field.
    """
    return {
        renames.get(step(name), name): _inside(array, f"{step(name)}.", renames)
        for name, array in columns.items()
    }


def _inside(array: pa.Array, prefix: str, renames: Mapping[str, str]) -> pa.Array:
    if not any(path.startswith(prefix) for path in renames):
        return array
    kind = array.type
    if pa.types.is_struct(kind):
        children = [
            _inside(array.field(at), f"{prefix}{step(kind.field(at).name)}.", renames)
            for at in range(kind.num_fields)
        ]
        fields = [
            pa.field(renames.get(prefix + step(old.name), old.name), child.type, old.nullable)
            for old, child in zip(kind, children, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_map(kind):
        entries = map_entries(array)
        values = _inside(entries.field(1), f"{prefix}value.", renames)
        item = pa.field(kind.item_field.name, values.type, kind.item_field.nullable)
        pairs = pa.StructArray.from_arrays([entries.field(0), values], fields=[kind.key_field, item])
        return rebuilt(array, pa.map_(kind.key_field, item), pairs)
    values = _inside(array.values, f"{prefix}element.", renames)
    element = pa.field(kind.value_field.name, values.type, kind.value_field.nullable)
    return rebuilt(array, pa.large_list(element), values)
