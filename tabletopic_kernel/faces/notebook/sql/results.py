"""Variables of a notebook that SQL may read as tables: results of earlier cells, and data frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tabletopic_kernel.faces.notebook.sql.names import Column

_KINDS = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch")}
_SCALARS = {
    *("int", "float", "str", "bool", "list", "tuple", "date", "datetime", "Timestamp", "Decimal", "UUID")
}
_HISTORY = ("In", "Out")


def tables_in(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the variables that are tables, by name; names with an underscore in front are private."""
    return {
        name: value
        for name, value in variables.items()
        if not name.startswith("_")
        and (type(value).__module__.partition(".")[0], type(value).__name__) in _KINDS
    }


def columns_of(table: Any) -> tuple[Column, ...]:
    """The columns of such a table."""
    if isinstance(table, pa.Table | pa.RecordBatch):
        return tuple(map(_column, table.schema))
    kinds = table.dtypes if isinstance(table.dtypes, list) else table.dtypes.tolist()
    return tuple(Column(str(name), str(kind)) for name, kind in zip(table.columns, kinds, strict=True))


def _column(field: pa.Field) -> Column:
    below = tuple(map(_column, field.type.fields)) if pa.types.is_struct(field.type) else ()
    return Column(field.name, "struct" if below else str(field.type), fields=below)


def about(variables: Mapping[str, Any]) -> dict[str, str]:
    """What each variable is that SQL may name, in a word."""
    tables = tables_in(variables)
    scalars = {
        name: type(value).__name__
        for name, value in variables.items()
        if not name.startswith("_") and name not in _HISTORY and type(value).__name__ in _SCALARS
    }
    shapes = {name: f"{type(table).__name__} of {_shape(table)}" for name, table in tables.items()}
    return scalars | shapes


def _shape(table: Any) -> str:
    rows, columns = table.shape if hasattr(table, "shape") else (table.num_rows, table.num_columns)
    return f"{rows:,} x {columns}"
