"""Merges the columns of a writer's schema into a table's: one recursion over types."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from tabletopic_kernel.model.columns.names import (
    Homes,
    Matching,
    Naming,
    as_written,
    colliding_fields,
    column_names,
    doc_with_original,
    original_name,
    sanitize_names,
    step,
)
from tabletopic_kernel.model.columns.types import (
    differ,
    holds,
    holds_some,
    meaning_in,
    short_name,
    spell,
    suffix,
    widens,
    with_fresh_ids,
)


@dataclass(frozen=True)
class Change:
    """One difference between versions of a table's schema; ``column`` is the dotted path before it."""

    kind: Literal["add", "relax", "widen", "rename"]
    column: str
    before: str | None
    after: str

    def __str__(self) -> str:
        return {
            "add": f"add {self.column} {self.after}",
            "relax": f"relax {self.column} to optional",
            "widen": f"widen {self.column} {self.before} → {self.after}",
            "rename": f"rename {self.column} to {self.after}",
        }[self.kind]


@dataclass
class Merge:
    """One merge. Paths of the table's columns and of the writer's fields differ if their names do."""

    ids: Iterator[int]
    matching: Matching = field(default_factory=Matching)
    new_columns: bool = False
    partition_names: Mapping[str, int] = field(default_factory=dict)
    by_value: bool = False
    naming: Naming = as_written
    changes: list[Change] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    renames: dict[str, str] = field(default_factory=dict)
    partly: dict[str, str] = field(default_factory=dict)

    def struct(
        self, path: str, origin: str, table: StructType, writer: StructType, *, may_rename: bool = True
    ) -> StructType:
        """The common struct; ``may_rename``: columns may take the fields' names."""
        homes = self.matching.homes(origin, table, writer, may_rename=may_rename)
        if self.new_columns:
            self._move_beside(path, origin, table, homes)
        columns = [self._known(path, origin, column, homes) for column in table.fields]
        taken = [*(column.name for column in columns), *self._taken_by_partitions(path, None)]
        new = homes.homeless
        names = column_names(map(homes.original, new), taken, self.naming)
        for name in new:
            original = homes.original(name)
            column = names[original]
            if self._collides(path + name, original, column, homes.fields[name]):
                continue
            columns.append(self._added(path, origin + step(name), homes.fields[name], column, original))
            self._note_rename(origin, name, column)
        return StructType(*columns)

    def _move_beside(self, path: str, origin: str, table: StructType, homes: Homes) -> None:
        by_original = {original_name(column.name, column.doc): column for column in table.fields}
        for name, column in list(homes.columns.items()):
            writer = homes.fields[name]
            if self._fits(path, origin + step(name), column, writer, homes.may_rename):
                continue
            original = homes.original(name)
            # A column that only an alias matches is not renamed.
            beside = self.matching.renumbered.get(origin + step(name), ("", _suffix(column, writer)))[1]
            new_name = original if name in homes.renamed else f"{original}_{beside}"
            if any(homes.original(other) == new_name for other in homes.fields if other != name):
                continue  # another field has that name: this one stays rejected
            homes.move(name, new_name, by_original.get(new_name))

    def _fits(
        self, path: str, origin: str, table: NestedField, writer: NestedField, may_rename: bool
    ) -> bool:
        trial = Merge(itertools.count(1), self.matching, new_columns=True)
        trial._type(path + table.name, origin, table.field_type, writer.field_type, may_rename=may_rename)
        is_other = origin in self.matching.renumbered or differ(table.doc, writer.doc)
        return not trial.refused and not is_other

    def _collides(self, column: str, original: str, name: str, writer: NestedField) -> bool:
        """Whether a new column in lowercase, or one in it, would have the name of another."""
        if self.naming is as_written:
            return False
        inside = colliding_fields(writer.field_type)
        # The decoder of JSON has numbered such names already.
        if name in (self.naming(original), self.naming(writer.name)) and not inside:
            return False
        others = inside[0] if inside else f"{original} and an existing column"
        self.refused[column] = f"cannot be in lowercase: {others} would have the same name"
        return True

    def _known(self, path: str, origin: str, table: NestedField, homes: Homes) -> NestedField:
        name = homes.held.get(table.field_id)
        if name is None:
            required = self._required(path + table.name, table.required, False)
            return table.model_copy(update={"required": required})
        writer = homes.fields[name]
        if name in homes.renamed:
            table = self._renamed(path, table, homes, name)
        self._note_rename(origin, name, table.name)
        column, source = path + table.name, origin + step(name)
        required = self._required(column, table.required, writer.required)
        numbers = self.matching.renumbered.get(source)
        if numbers and homes.original(name) == name:  # else it was moved to a column of its number
            self.refused[column] = (
                "has the number {} in the table and {} in the new schema: in Protobuf, it is another field"
            ).format(*numbers)
            return table
        if differ(table.doc, writer.doc):
            self.refused[column] = (
                f"is {meaning_in(table.doc)} in the table and {meaning_in(writer.doc)} in the new schema: "
                "one column cannot distinguish them"
            )
            return table
        kind = self._type(column, source, table.field_type, writer.field_type, may_rename=homes.may_rename)
        return table.model_copy(update={"required": required, "field_type": kind})

    def _renamed(self, path: str, table: NestedField, homes: Homes, name: str) -> NestedField:
        original = homes.original(name)
        others = (column.name for column in homes.table.fields if column.field_id != table.field_id)
        taken = [*others, *self._taken_by_partitions(path, table.field_id)]
        new = column_names([original], taken, self.naming)[original]
        self.changes.append(Change("rename", path + table.name, table.name, new))
        return table.model_copy(update={"name": new, "doc": doc_with_original(table.doc, new, original)})

    def _taken_by_partitions(self, path: str, field_id: int | None) -> list[str]:
        """Names that only column ``field_id`` may have: else Iceberg's Java library cannot load the table."""
        return [] if path else [name for name, source in self.partition_names.items() if source != field_id]

    def _note_rename(self, origin: str, name: str, column: str) -> None:
        if column != name:
            self.renames[origin + step(name)] = column

    def _added(self, path: str, origin: str, writer: NestedField, name: str, original: str) -> NestedField:
        kind = sanitize_names(writer.field_type, f"{origin}.", self.renames, self.naming)
        doc = doc_with_original(writer.doc, name, original) if name != writer.name else writer.doc
        fresh = NestedField(next(self.ids), name, kind, required=False, doc=doc)
        self.changes.append(Change("add", path + name, None, spell(kind)))
        return fresh.model_copy(update={"field_type": with_fresh_ids(kind, self.ids)})

    def _required(self, name: str, table: bool, writer: bool) -> bool:
        if table and not writer:
            self.changes.append(Change("relax", name, "required", "optional"))
        return table and writer

    def _type(
        self,
        name: str,
        origin: str,
        table: IcebergType,
        writer: IcebergType,
        *,
        may_rename: bool = True,
        contained: bool = False,
    ) -> IcebergType:
        """The common type; ``contained``: it is the element of a list, or the value of a map.

        PyIceberg 0.12 reads a list or map directly inside another by field names, not ids: a renamed field
        below would be null. So nothing is renamed there.
        """
        if isinstance(table, StructType) and isinstance(writer, StructType):
            return self.struct(f"{name}.", f"{origin}.", table, writer, may_rename=may_rename)
        inside = may_rename and not contained
        if isinstance(table, ListType) and isinstance(writer, ListType):
            return self._list(name, origin, table, writer, inside)
        if isinstance(table, MapType) and isinstance(writer, MapType):
            return self._map(name, origin, table, writer, inside)
        return self._other(name, table, writer)

    def _other(self, name: str, table: IcebergType, writer: IcebergType) -> IcebergType:
        """The common type of two types that are not both the same kind of container."""
        if table == writer or holds(table, writer):
            return table
        if widens(table, writer):
            self.changes.append(Change("widen", name, str(table), str(writer)))
            return writer
        types = f"is {spell(table)} in the table and {spell(writer)} in the new schema"
        if self.by_value and holds_some(table, writer):
            self.partly[name] = f"{types}: a value that is not exact in both is refused"
            return table
        self.refused[name] = types
        return table

    def _list(self, name: str, origin: str, table: ListType, writer: ListType, may_rename: bool) -> ListType:
        element, source = f"{name}.element", f"{origin}.element"
        kinds = (table.element_type, writer.element_type)
        return ListType(
            element_id=table.element_id,
            element_type=self._type(element, source, *kinds, may_rename=may_rename, contained=True),
            element_required=self._required(element, table.element_required, writer.element_required),
        )

    def _map(self, name: str, origin: str, table: MapType, writer: MapType, may_rename: bool) -> MapType:
        if table.key_type != writer.key_type and not _same_shape(table.key_type, writer.key_type):
            self.refused[f"{name}.key"] = (
                f"is {spell(table.key_type)} in the table and {spell(writer.key_type)} in the new"
            )
        value, source = f"{name}.value", f"{origin}.value"
        kinds = (table.value_type, writer.value_type)
        return MapType(
            key_id=table.key_id,
            key_type=table.key_type,
            value_id=table.value_id,
            value_type=self._type(value, source, *kinds, may_rename=may_rename, contained=True),
            value_required=self._required(value, table.value_required, writer.value_required),
        )


def _suffix(table: NestedField, writer: NestedField) -> str:
    meaning = meaning_in(writer.doc)
    if meaning is not None and differ(table.doc, writer.doc):
        return short_name(meaning)
    return suffix(writer.field_type)


def _same_shape(kind: IcebergType, other: IcebergType) -> bool:
    merge = Merge(itertools.count(1))
    merge._type("key", "key", kind, other)
    return not merge.changes and not merge.refused
