"""How DuckDB, Spark and PyIceberg spell places, values and functions."""

from __future__ import annotations

import math
import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar

from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, IcebergType, ListType, MapType, StructType

from tests.engines.values import Place


class DuckDb:
    """DuckDB's SQL."""

    name = "duckdb"
    functions: ClassVar = {
        "length": "length({})", "upper": "upper({})", "lower": "lower({})",
        "substring": "substring({}, 1, 2)", "concat": "({} || 'z')", "remainder": "({} % 7)",
        "year": "year({})", "isnan": "isnan({})", "size": "len({})", "entries": "cardinality({})",
        "coalesce": "coalesce({}, {})", "nullif": "nullif({}, {})",
    }  # fmt: skip

    @staticmethod
    def quoted(name: str) -> str:
        """An identifier."""
        return '"' + name.replace('"', '""') + '"'

    def item(self, of: str, at: int) -> str:
        """An element of a list."""
        return f"{of}[{at + 1}]"

    def text(self, value: str) -> str:
        """A string."""
        return "'" + value.replace("'", "''") + "'"

    def entry(self, of: str, key: str) -> str:
        """The value of a map's key."""
        return f"{of}[{self.text(key)}]"

    def same(self, left: str, right: str) -> str:
        """Equality with which null equals null."""
        return f"{left} IS NOT DISTINCT FROM {right}"

    def any_of(self, items: str, condition: str) -> str:
        """Whether a condition on ``e`` is true of an element."""
        return f"coalesce(len(list_filter({items}, lambda e: {condition})) > 0, false)"

    def each(self, items: str, part: str) -> str:
        """A part of each element."""
        return f"list_transform({items}, lambda e: e.{self.quoted(part)})"

    def literal(self, value: Any, kind: IcebergType) -> str:
        """A value of a primitive type."""
        if isinstance(value, float):
            shown = repr(value) if math.isfinite(value) else str(value)
            return f"CAST('{shown}' AS {'FLOAT' if isinstance(kind, FloatType) else 'DOUBLE'})"
        if isinstance(value, bytes):
            return "'" + "".join(f"\\x{one:02X}" for one in value) + "'::BLOB"
        if isinstance(value, uuid.UUID):
            return f"'{value}'::UUID"
        if isinstance(value, datetime):
            return f"{'TIMESTAMPTZ' if value.tzinfo else 'TIMESTAMP'} '{value.isoformat(' ')}'"
        return self._plain(value)

    def _plain(self, value: Any) -> str:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, date):
            return f"DATE '{value.isoformat()}'"
        return f"{value:f}" if isinstance(value, Decimal) else str(value)

    def place(self, place: Place, schema: Schema) -> str:
        """The place as an expression on the table ``t``."""
        said, kind = "t", schema.as_struct()
        for step in place.steps:
            if isinstance(kind, StructType):
                field = next(field for field in kind.fields if field.field_id == step)
                said, kind = f"{said}.{self.quoted(field.name)}", field.field_type
            elif isinstance(kind, ListType):
                said, kind = self.item(said, step[0]), kind.element_type  # type: ignore[index]
            elif isinstance(kind, MapType):
                said, kind = self.entry(said, str(step)), kind.value_type
        return said


class Spark(DuckDb):
    """Spark's SQL."""

    name = "spark"
    functions: ClassVar = DuckDb.functions | {
        "size": "array_size({})", "entries": "size({})", "concat": "concat({}, 'z')",
    }  # fmt: skip

    @staticmethod
    def quoted(name: str) -> str:
        """An identifier."""
        return "`" + name.replace("`", "``") + "`"

    def item(self, of: str, at: int) -> str:
        """An element of a list: with brackets, one that is not there would be an error."""
        return f"get({of}, {at})"

    def text(self, value: str) -> str:
        """A string."""
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"

    def same(self, left: str, right: str) -> str:
        """Equality with which null equals null."""
        return f"{left} <=> {right}"

    def any_of(self, items: str, condition: str) -> str:
        """Whether a condition on ``e`` is true of an element."""
        return f"coalesce(exists({items}, e -> {condition}), false)"

    def each(self, items: str, part: str) -> str:
        """A part of each element."""
        return f"{items}.{self.quoted(part)}"

    def literal(self, value: Any, kind: IcebergType) -> str:  # noqa: PLR0911 - one for each type
        """A value of a primitive type."""
        if isinstance(value, float):
            shown = repr(value) if math.isfinite(value) else str(value)
            return f"{'float' if isinstance(kind, FloatType) else 'double'}('{shown}')"
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        if isinstance(value, uuid.UUID):
            return f"'{value}'"
        if isinstance(value, datetime):
            return f"{'TIMESTAMP' if value.tzinfo else 'TIMESTAMP_NTZ'} '{value.isoformat(' ')}'"
        if isinstance(value, Decimal):
            return f"{value:f}BD"
        if isinstance(value, int) and not isinstance(value, bool):
            # The smallest long is no literal.
            return str(value) if abs(value) < 2**31 else f"bigint('{value}')"
        return self._plain(value)


def dotted(place: Place, schema: Schema) -> str | None:
    """PyIceberg's name of a place; None if it is below a list or map."""
    names, kind = [], schema.as_struct()
    for step in place.steps:
        if not isinstance(kind, StructType):
            return None
        field = next(field for field in kind.fields if field.field_id == step)
        names.append(field.name)
        kind = field.field_type  # type: ignore[assignment]
    return ".".join(names)
