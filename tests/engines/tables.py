"""Tables with a history: evolved at every depth, repartitioned, sorted, deleted from and compacted.

All that this tester uses of the product's writing side is here.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.layout import lay_out
from tests.engines.values import Row, named, some_value
from tests.table.foreign_deletes import delete_rows
from tests.table.lake import Lake
from tests.table.samples import IDENTIFIER

_PRIMITIVES: tuple[IcebergType, ...] = (
    *(BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(9, 2), DateType()),
    *(TimestampType(), TimestamptzType(), StringType(), UUIDType(), BinaryType(), FixedType(4)),
)
_WIDER: dict[IcebergType, IcebergType] = {
    IntegerType(): LongType(), FloatType(): DoubleType(), DecimalType(9, 2): DecimalType(18, 2)
}  # fmt: skip
_NAMES = ("name", "city", "Total", "odd name", "select", "größe")
_PARTITIONS = (
    "string",
    "bucket(3, long)",
    "day(timestamptz)",
    "truncate(1, string)",
    "truncate(4, int)",
    "date",
    "bucket(2, struct.a)",
)
_ROWS = 24
ID = 1  # the field id of the column that numbers all rows


@dataclass(frozen=True)
class Version:
    """A snapshot, its schema, and the rows that it has."""

    snapshot_id: int
    at_ms: int
    schema: Schema
    rows: tuple[Row, ...]


def first_schema(ids: Iterator[int]) -> Schema:
    """Columns of all types, and structs in structs, lists and maps."""

    def struct(*more: tuple[str, IcebergType, bool]) -> StructType:
        given = (("a", IntegerType(), False), ("b", StringType(), True), *more)
        return StructType(*(NestedField(next(ids), name, kind, required=r) for name, kind, r in given))

    def items(kind: IcebergType) -> ListType:
        return ListType(next(ids), kind, element_required=False)

    def entries(kind: IcebergType) -> MapType:
        return MapType(next(ids), StringType(), next(ids), kind, value_required=False)

    fields = [NestedField(next(ids), "id", LongType(), required=True)]
    fields += [
        NestedField(next(ids), str(kind).partition("(")[0].partition("[")[0], kind) for kind in _PRIMITIVES
    ]
    nested = {
        "struct": struct(("inner", struct(("f", FloatType(), False)), False)),
        "ints": items(IntegerType()),
        "items": items(struct(("more", items(struct()), False))),
        "texts": entries(StringType()),
        "props": entries(struct(("f", FloatType(), False))),
        "deep": entries(items(struct(("in", struct(), False)))),
    }
    return Schema(*fields, *(NestedField(next(ids), name, kind) for name, kind in nested.items()))


@dataclass
class Evolving:
    """Random changes at any depth, as a writer's schema makes them: add, relax, widen and rename."""

    chance: random.Random
    ids: Iterator[int]

    def schema(self, schema: Schema) -> Schema:
        """The schema after changes at several depths."""
        return Schema(*self._struct(schema.as_struct(), is_top=True).fields, schema_id=schema.schema_id + 1)

    def _struct(self, struct: StructType, *, is_top: bool = False) -> StructType:
        fields = [self._field(one) for one in struct.fields]
        taken = {one.name.lower() for one in fields} | {one.name.lower() for one in struct.fields}
        free = [name for name in _NAMES if name.lower() not in taken]
        at = self.chance.randrange(len(fields))
        if free and self.chance.random() < 0.3 and fields[at].field_id != ID:
            old = fields[at]
            fields[at] = NestedField(old.field_id, free.pop(), old.field_type, required=old.required)
        if free and (is_top or self.chance.random() < 0.5):
            kind = self.chance.choice((*_PRIMITIVES, IntegerType(), StringType(), FloatType()))
            if isinstance(kind, UUIDType) and not is_top:  # Arrow takes no Python values for it in there
                kind = StringType()
            if self.chance.random() < 0.2:
                inner = [NestedField(next(self.ids), name, StringType()) for name in "ab"]
                kind = ListType(next(self.ids), StructType(*inner), element_required=False)
            fields.append(NestedField(next(self.ids), free[0], kind))
        return StructType(*fields)

    def _field(self, one: NestedField) -> NestedField:
        required = one.required and (one.field_id == ID or self.chance.random() < 0.6)
        return NestedField(one.field_id, one.name, self._kind(one.field_type), required=required)

    def _kind(self, kind: IcebergType) -> IcebergType:
        if isinstance(kind, StructType):
            return self._struct(kind)
        if isinstance(kind, ListType):
            return ListType(kind.element_id, self._kind(kind.element_type), element_required=False)
        if isinstance(kind, MapType):
            value = self._kind(kind.value_type)
            return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=False)
        return _WIDER.get(kind, kind) if self.chance.random() < 0.3 else kind


@dataclass
class History:
    """A table, and the rows that each of its versions must have; ``spark`` runs a statement in a catalog."""

    name: str
    folder: Path
    chance: random.Random
    spark: Callable[[str, str], Any]
    versions: list[Version] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.properties = {
            "name": self.name,
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/{self.name}.db",
            "warehouse": f"file://{self.folder}/{self.name}",
        }
        self.catalog = open_catalog(self.properties)
        self.rows: dict[int, Row] = {}
        self._numbers = itertools.count(1)
        by = self._partition()
        modes = {"write.delete.mode": self.chance.choice(("merge-on-read", "copy-on-write"))}
        schema = first_schema(itertools.count(1))
        self._lake = Lake(self.catalog, schema, by, table_properties=modes)

    def _partition(self) -> tuple[str, ...]:
        return (self.chance.choice(_PARTITIONS),) if self.chance.random() < 0.8 else ()

    @property
    def table(self) -> Table:
        """As it is now."""
        return self.catalog.load_table(IDENTIFIER)

    def play(self, steps: int) -> None:
        """A history of so many steps, each followed by new rows or their loss."""
        moves = (self._evolve, self._evolve, self._lay_out, self._compact, self._delete, self._rewrite)
        self._append()
        for at in range(steps):
            (moves[at % 2] if at < 2 else self.chance.choice(moves))()
            self._append()
        self._compact()

    def _note(self) -> None:
        table = self.table
        snapshot = table.current_snapshot()
        if snapshot and not (self.versions and self.versions[-1].snapshot_id == snapshot.snapshot_id):
            rows = tuple(self.rows.values())
            self.versions.append(Version(snapshot.snapshot_id, snapshot.timestamp_ms, table.schema(), rows))

    def _append(self) -> None:
        struct = self.table.schema().as_struct()
        count = self.chance.choice((8, _ROWS))
        rows = [some_value(struct, self.chance, required=True) for _ in range(count)]
        for row in rows:
            row[ID] = next(self._numbers)
        plain = [named(row, struct) for row in rows]
        self._lake.append({one.name: [row[one.name] for row in plain] for one in struct.fields})
        self.rows |= {row[ID]: row for row in rows}
        self._note()

    def _evolve(self) -> None:
        topic = self._lake.topic
        topic.reload()
        ids = itertools.count(topic.table.metadata.last_column_id + 1)
        topic.evolve(Evolving(self.chance, ids).schema(topic.table.schema()), {}, epoch=1)

    def _lay_out(self) -> None:
        self._lake.topic.reload()
        sort = ("string desc", "long") if self.chance.random() < 0.5 else ("double",)
        lay_out(self._lake.topic, TopicSettings(partition_by=self._partition(), sort_by=sort))

    def _compact(self) -> None:
        self._lake.compact()
        self._note()

    def _some_ids(self) -> list[int]:
        return self.chance.sample(sorted(self.rows), min(len(self.rows) - 1, 4))

    def _delete(self) -> None:
        gone = self._some_ids()
        if self.chance.random() < 0.5:
            self.spark(self.name, f"DELETE FROM clicks WHERE id IN ({', '.join(map(str, gone))})")
        else:
            spec = self.table.metadata.default_spec_id  # of the delete file, too
            files = [file for file in self._lake.files() if file.spec_id == spec]
            if not files:
                return
            found = self.chance.choice(files)
            numbers = pq.read_table(found.file_path.removeprefix("file://"), columns=["id"])["id"].to_pylist()
            live = [at for at, number in enumerate(numbers) if number in self.rows][:3]
            gone = [numbers[at] for at in live]
            if gone:
                delete_rows(self.table, {found.file_path: live})
        for one in gone:
            del self.rows[one]
        self._note()

    def _rewrite(self) -> None:
        how = "options => map('rewrite-all', 'true')"
        self.spark(self.name, f"CALL {self.name}.system.rewrite_data_files(table => 'default.clicks', {how})")
        self._note()
