"""What the metadata of any table says: columns, snapshots, refs, and what changed between two snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import Table
from pyiceberg.types import NestedField

from tabletopic_kernel.model.columns.partitions import partition_texts
from tabletopic_kernel.model.columns.sort_orders import sort_texts
from tabletopic_kernel.model.columns.types import spell
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.redact import mask_property
from tabletopic_kernel.table.changes.ledger_history import summary
from tabletopic_kernel.table.history import SchemaColumn, TableSnapshot, snapshot_of, snapshots
from tabletopic_kernel.table.topic_table import TOPIC_PROPERTY

_MOST_SNAPSHOTS = 200


@dataclass(frozen=True)
class TableDetail:
    """A table by its metadata alone. ``table``: its name as in a query; ``topic``: which fills it.

    ``rows`` and ``files`` are of the newest snapshot, which other programs may leave without them. Of
    ``snapshot_count`` snapshots, ``snapshots`` has the newest 200.
    """

    table: str
    topic: str | None
    location: str
    format_version: int
    rows: int | None
    files: int | None
    columns: list[SchemaColumn]
    partition_by: list[str]
    sort_by: list[str]
    snapshots: list[TableSnapshot]
    snapshot_count: int
    refs: list[str]
    properties: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; snapshot ids are text, for JSON's sake."""
        return asdict(self) | {"snapshots": [snapshot.to_json() for snapshot in self.snapshots]}


@dataclass(frozen=True)
class SnapshotDifference:
    """What is different in ``after``; ``rows`` and ``files`` are more, or with a minus fewer."""

    table: str
    before: TableSnapshot
    after: TableSnapshot
    rows: int
    files: int
    changes: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"before": self.before.to_json(), "after": self.after.to_json()}


def detail_of(name: str, table: Table) -> TableDetail:
    """What the metadata says; nothing else is read."""
    metadata, schema = table.metadata, table.schema()
    head = metadata.current_snapshot()
    now = None if head is None else snapshot_of(head)
    is_known = head is None or "total-records" in summary(head)
    return TableDetail(
        table=name,
        topic=metadata.properties.get(TOPIC_PROPERTY),
        location=metadata.location,
        format_version=metadata.format_version,
        rows=(now.rows if now else 0) if is_known else None,
        files=(now.files if now else 0) if is_known else None,
        columns=[SchemaColumn(c.name, spell(c.field_type), c.required, c.doc) for c in schema.fields],
        partition_by=partition_texts(table.spec(), schema),
        sort_by=sort_texts(table.sort_order(), schema),
        snapshots=snapshots(metadata, _MOST_SNAPSHOTS),
        snapshot_count=len(metadata.snapshots),
        refs=[
            f"{about.snapshot_ref_type.value} {ref} at snapshot {about.snapshot_id}"
            for ref, about in sorted(metadata.refs.items())
        ],
        properties={key: mask_property(key, value) for key, value in sorted(metadata.properties.items())},
    )


def difference(name: str, table: Table, before: int, after: int) -> SnapshotDifference:
    """What is different in the snapshot ``after``; UsageError if the table lacks one."""
    known = {snapshot.snapshot_id: snapshot for snapshot in snapshots(table.metadata)}
    for wanted in (before, after):
        if wanted not in known:
            newest = ", ".join(map(str, [*known][:3])) or "none"
            raise UsageError(f"{name} has no snapshot {wanted}; its newest: {newest}")
    old, new, schemas = known[before], known[after], table.schemas()
    # Writers of the first format version may leave out a snapshot's schema.
    sides = (schemas.get(side.table_schema_id or 0, table.schema()) for side in (old, new))
    changes = schema_changes(*sides)
    return SnapshotDifference(name, old, new, new.rows - old.rows, new.files - old.files, changes)


def schema_changes(before: Schema, after: Schema) -> list[str]:
    """What is different in the columns of ``after``, at any depth, by their ids.

    >>> from pyiceberg.types import LongType, IntegerType
    >>> old = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", LongType()))
    >>> schema_changes(old, Schema(NestedField(1, "n", LongType()), NestedField(3, "c", LongType())))
    ['drop b long', 'rename a to n', 'n: int becomes long', 'add c long']
    """
    old, new = _fields(before), _fields(after)
    dropped = (column for key, column in old.items() if key not in new)
    changes = [f"drop {name} {spell(field.field_type)}" for name, field in dropped]
    for key, (name, field) in new.items():
        if key not in old:
            changes.append(f"add {name} {spell(field.field_type)}")
            continue
        former, was = old[key]
        if was.name != field.name:
            changes.append(f"rename {former} to {name}")
        if was.field_type.is_primitive and was.field_type != field.field_type:
            changes.append(f"{name}: {spell(was.field_type)} becomes {spell(field.field_type)}")
        if was.required != field.required:
            changes.append(f"{name}: becomes {'required' if field.required else 'optional'}")
        if was.doc != field.doc:
            changes.append(f"{name}: other doc: {field.doc or 'none'}")
    return changes


def _fields(schema: Schema) -> Mapping[int, tuple[str, NestedField]]:
    return {key: (schema.find_column_name(key) or "?", field) for key, field in index_by_id(schema).items()}
