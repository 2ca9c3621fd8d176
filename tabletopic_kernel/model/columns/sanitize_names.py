"""New types with the names that columns have (``model/columns/names.py``)."""

from __future__ import annotations

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from tabletopic_kernel.model.columns.names import column_names, doc_with_original, original_name, step


def sanitize_names(kind: IcebergType, origin: str = "", renames: dict[str, str] | None = None) -> IcebergType:
    """A new type with the names that columns have (``model/columns/names.py``), at every depth.

    Args:
        kind: of a writer's schema.
        origin: dotted path of its fields, with a dot at the end.
        renames: takes the fields whose column has another name, as in ``Evolution``.
    """
    if isinstance(kind, StructType):
        originals = {one.name: original_name(one.name, one.doc) for one in kind.fields}
        names = column_names(originals.values())
        return StructType(
            *(_sanitize_field(one, names[originals[one.name]], origin, renames) for one in kind.fields)
        )
    if isinstance(kind, ListType):
        inner = sanitize_names(kind.element_type, f"{origin}element.", renames)
        return kind.model_copy(
            update={"element_field": kind.element_field.model_copy(update={"field_type": inner})}
        )
    if isinstance(kind, MapType):
        inner = sanitize_names(kind.value_type, f"{origin}value.", renames)
        return kind.model_copy(
            update={"value_field": kind.value_field.model_copy(update={"field_type": inner})}
        )
    return kind


def _sanitize_field(one: NestedField, name: str, origin: str, renames: dict[str, str] | None) -> NestedField:
    here = origin + step(one.name)
    doc = one.doc
    if name != one.name:
        doc = doc_with_original(one.doc, name, original_name(one.name, one.doc))
        if renames is not None:
            renames[here] = name
    kind = sanitize_names(one.field_type, f"{here}.", renames)
    return one.model_copy(update={"name": name, "doc": doc, "field_type": kind})
