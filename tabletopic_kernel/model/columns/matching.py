"""Which column holds which field of a writer's schema.

In this order: the column that the field had when the table first covered its schema; the column of its
name; the column that one of its aliases names, if the writer has no field of that name (Avro spec,
"Aliases": the column is renamed); the column whose fields once had its name. A field without one is new.
So a column that was renamed takes the records of older schemas too, whichever name they know it by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pyiceberg.types import NestedField, StructType

from tabletopic_kernel.model.columns.names import original_name, step

Known = Callable[[str], int | None]  # dotted path of a writer's field → field id


class Homes:
    """The fields of one struct and their columns; ``columns`` has those that have one, by field name.

    ``renamed`` are fields whose column is to get their name; there are none unless it ``may_rename``.
    """

    def __init__(self, table: StructType, writer: StructType, may_rename: bool) -> None:
        self.may_rename = may_rename
        self.fields = {one.name: one for one in writer.fields}
        self.columns: dict[str, NestedField] = {}
        self.renamed: set[str] = set()
        self._free = {column.field_id: column for column in table.fields}
        self._held: dict[int, str] = {}
        self._table = table
        self._originals = {one.name: original_name(one.name, one.doc) for one in writer.fields}

    def original(self, name: str) -> str:
        """The name that the column of a field is to have, before the rule for names."""
        return self._originals[name]

    def settle(self, name: str, column: NestedField | None) -> None:
        """``column`` is the field's, unless either has found another."""
        if column is not None and name not in self.columns and column.field_id in self._free:
            self.columns[name] = self._free.pop(column.field_id)
            self._held[column.field_id] = name

    def move(self, name: str, original: str, column: NestedField | None) -> None:
        """The field goes to another column, or to a new one, of the name ``original``."""
        left = self.columns.pop(name)
        del self._held[left.field_id]
        self._free[left.field_id] = left
        self.renamed.discard(name)
        self._originals[name] = original
        self.settle(name, column)

    def field_of(self, column: NestedField) -> str | None:
        """The name of the field that a column holds."""
        return self._held.get(column.field_id)

    def other_columns(self, column: NestedField) -> list[str]:
        """Names of the columns beside this one."""
        return [one.name for one in self._table.fields if one.field_id != column.field_id]

    @property
    def free(self) -> list[NestedField]:
        """Columns without a field, the youngest first."""
        return sorted(self._free.values(), key=lambda one: one.field_id, reverse=True)

    @property
    def homeless(self) -> list[str]:
        """Fields without a column."""
        return [name for name in self.fields if name not in self.columns]


@dataclass(frozen=True)
class Matching:
    """What is known beside names; arguments as of ``model/columns/evolution.evolve``."""

    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    former: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    known: Known | None = None

    def homes(self, origin: str, table: StructType, writer: StructType, *, may_rename: bool) -> Homes:
        """Columns for the fields of a struct; ``origin`` is their dotted path, with a dot at the end."""
        homes = Homes(table, writer, may_rename)
        ids = {column.field_id: column for column in table.fields}
        if self.known is not None:
            for name in homes.homeless:
                homes.settle(name, ids.get(self.known(origin + step(name)) or 0))
        named = _by_original(homes.free)
        for name in homes.homeless:
            homes.settle(name, named.get(homes.original(name)))
        if self.aliases and may_rename:
            self._settle_aliases(homes, origin)
        if self.former:
            self._settle_former(homes)
        return homes

    def _settle_aliases(self, homes: Homes, origin: str) -> None:
        written = {homes.original(name) for name in homes.fields}
        for name in homes.homeless:
            named = _by_original(homes.free)
            gone = [alias for alias in self.aliases.get(origin + step(name), ()) if alias not in written]
            column = next((named[alias] for alias in gone if alias in named), None)
            if column is not None:
                homes.settle(name, column)
                homes.renamed.add(name)

    def _settle_former(self, homes: Homes) -> None:
        for name in homes.homeless:
            once = (one for one in homes.free if homes.original(name) in self.former.get(one.field_id, ()))
            homes.settle(name, next(once, None))


def _by_original(columns: Iterable[NestedField]) -> dict[str, NestedField]:
    return {original_name(one.name, one.doc): one for one in columns}
