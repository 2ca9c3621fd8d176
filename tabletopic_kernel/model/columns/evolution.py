"""Schema evolution: which changes a writer's schema makes to a table's, and which are rejected.

``model/columns/names.py`` matches fields to columns, mostly by name. Allowed at every depth: add (as
optional), relax (required to optional), widen and rename (Iceberg spec, "Schema Evolution"). A column that a
writer lacks stays and becomes optional, and one that can hold every value of the writer's type stays as it
is. Everything else is rejected, never coerced, including numbers whose meaning changes
(``model/columns/types.py``). Optionally, a field that does not fit gets a column of its own instead:
``price`` as text beside a number becomes ``price_string``. Inside a list or map, whose elements cannot have a
second name, the list or map gets the column.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyiceberg.schema import Schema
from pyiceberg.types import StructType

from tabletopic_kernel.model.columns.merge import Change, Merge
from tabletopic_kernel.model.columns.names import (
    Known,
    Matching,
    Naming,
    Renumbered,
    as_written,
    renamed_path,
)

KEY, HEADER, METADATA, VALUE = "_kafka_key", "_kafka_header", "_kafka_metadata", "_kafka_value"


@dataclass(frozen=True)
class Evolution:
    """The outcome: the new schema, the changes that lead to it, and what was rejected (column: why).

    ``renames`` maps the writer's fields whose column has another name (dotted path) to that name; ``former``
    has, by field id, all other names that fields of a column ever had; ``partly`` gives the reason for
    columns that accept only some of the writer's values; ``batch`` has a projection's input columns, and
    ``numbers`` the names by numbers of Protobuf's fields, if these change.
    """

    schema: Schema
    changes: tuple[Change, ...]
    refused: dict[str, str]
    renames: dict[str, str] = field(default_factory=dict)
    former: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    partly: dict[str, str] = field(default_factory=dict)
    batch: Schema | None = None
    numbers: Mapping[str, tuple[str, ...]] | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the table must change."""
        return bool(self.changes) or self.batch is not None or self.numbers is not None


def evolve(
    table: Schema,
    writer: Schema,
    last_column_id: int,
    *,
    new_columns: bool = False,
    aliases: Mapping[str, tuple[str, ...]] | None = None,
    former: Mapping[int, tuple[str, ...]] | None = None,
    known: Known | None = None,
    renumbered: Mapping[str, Renumbered] | None = None,
    partition_names: Mapping[str, int] | None = None,
    by_value: bool = False,
    naming: Naming = as_written,
) -> Evolution:
    """Merge the columns of ``writer`` (see ``table_columns``) into a ``table``'s, whose field ids stay.

    New ids count on from ``last_column_id``. ``new_columns``: a field that does not fit its column gets
    another one. ``aliases``: other names of the writer's fields, by dotted path; ``former``: former names of
    a column's fields, by field id; ``known``: the column of a field, if the table already covers its schema;
    ``renumbered``: fields that are not the column of their name, by dotted path; ``partition_names``: the
    table's partition fields, with the field id of each one's column. ``by_value``: a column of integers
    accepts whole doubles, and one of doubles the integers that it can represent exactly; other values are
    rejected one by one.
    """
    aliases, former = aliases or {}, former or {}
    matching = Matching(aliases, former, known, renumbered or {})
    ids = itertools.count(last_column_id + 1)
    merge = Merge(ids, matching, new_columns, partition_names or {}, by_value, naming)
    struct = merge.struct("", "", table.as_struct(), _with_kafka_columns(table, writer))
    schema = Schema(*struct.fields)
    noted = (
        former
        if merge.refused
        else _with_aliases(former, _former_only(aliases, writer), schema, merge.renames)
    )
    return Evolution(schema, tuple(merge.changes), merge.refused, merge.renames, noted, merge.partly)


def _former_only(aliases: Mapping[str, tuple[str, ...]], writer: Schema) -> dict[str, tuple[str, ...]]:
    """Aliases without those that name another field of the same record: that field has its own column."""
    written = set(writer.column_names)
    former = {
        path: tuple(name for name in names if path[: path.rfind(".") + 1] + name not in written)
        for path, names in aliases.items()
    }
    return {path: names for path, names in former.items() if names}


def _with_aliases(
    former: Mapping[int, tuple[str, ...]],
    aliases: Mapping[str, tuple[str, ...]],
    schema: Schema,
    renames: Mapping[str, str],
) -> dict[int, tuple[str, ...]]:
    noted = dict(former)
    for path, names in aliases.items():
        column = schema.find_field(renamed_path(path, renames))
        before = noted.get(column.field_id, ())
        noted[column.field_id] = (*before, *(name for name in names if name not in before))
    return noted


def known_by(schema: Schema, renames: Mapping[str, str]) -> Callable[[str], int | None]:
    """Field ids by path of a writer's field, from the table's schema and renames that first covered it."""

    def find(path: str) -> int | None:
        try:
            return schema.find_field(renamed_path(path, renames)).field_id
        except ValueError:
            return None

    return find


def _with_kafka_columns(table: Schema, writer: Schema) -> StructType:
    """The writer's columns plus the table's own metadata columns, which no writer schema has."""
    names = {column.name for column in writer.fields}
    kafka_columns = (c for c in table.fields if c.name in (KEY, HEADER, METADATA) and c.name not in names)
    return StructType(*writer.fields, *kafka_columns)
