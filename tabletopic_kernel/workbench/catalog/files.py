"""The files of any table by its manifests: partitions, the largest files, and the bounds of columns."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import index_by_id
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, Transform
from pyiceberg.types import IcebergType, NestedField, PrimitiveType, UUIDType

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.render.values import text
from tabletopic_kernel.table.compaction.deleted_rows import Head

_MOST_TEXT: Final = 100  # characters of a bound or of a part of a partition
_IDENTITY: Final[IdentityTransform[Any]] = IdentityTransform()


@dataclass(frozen=True)
class TablePartition:
    """A partition of the newest snapshot, with deleted rows; empty text: not partitioned."""

    partition: str
    rows: int
    files: int
    bytes: int


@dataclass(frozen=True)
class TableFile:
    """A file of the newest snapshot: of rows, or that deletes rows of others."""

    path: str
    content: str
    partition: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class ColumnBounds:
    """A column by the figures of its files; None: not all of them have it. Long texts are cut off."""

    name: str
    nulls: int | None
    lower: str | None
    upper: str | None
    bytes: int | None


@dataclass(frozen=True)
class TableFiles:
    """The newest snapshot by its manifests. Of partitions and files, the largest; counts are of all."""

    table: str
    partition_count: int
    file_count: int
    bytes: int
    partitions: list[TablePartition]
    files: list[TableFile]
    columns: list[ColumnBounds]


def files_of(name: str, table: Table, limit: int) -> TableFiles:
    """The partitions, files and columns of a table; opens no data file."""
    with reachable("the storage", lent=lends_keys(table)):
        head = Head(table)
    data = [entry.data_file for entry in head.data]
    every = [*data, *(entry.data_file for entry in head.deletes)]
    place_of = _places(table)
    groups: dict[str, list[DataFile]] = {}
    for file in data:
        groups.setdefault(place_of(file), []).append(file)
    partitions = [
        TablePartition(place, sum(file.record_count for file in files), len(files), _bytes(files))
        for place, files in groups.items()
    ]
    largest = sorted(every, key=lambda file: -file.file_size_in_bytes)[:limit]
    files = [
        TableFile(
            file.file_path,
            file.content.name.lower().replace("_", " "),
            place_of(file),
            file.record_count,
            file.file_size_in_bytes,
        )
        for file in largest
    ]
    largest_partitions = sorted(partitions, key=lambda place: (-place.bytes, place.partition))[:limit]
    columns = [_bounds(field, data) for field in table.schema().fields]
    return TableFiles(name, len(partitions), len(every), _bytes(every), largest_partitions, files, columns)


def _bytes(files: Iterable[DataFile]) -> int:
    return sum(file.file_size_in_bytes for file in files)


def _places(table: Table) -> Callable[[DataFile], str]:
    """Names a file's partition in words, also by a column that was dropped since."""
    types = {
        key: field.field_type
        for schema in [*table.schemas().values(), table.schema()]
        for key, field in index_by_id(schema).items()
    }
    specs = table.specs()

    def place(file: DataFile) -> str:
        parts = []
        for at, field in enumerate(specs[file.spec_id].fields):
            value = file.partition[at]
            source = types.get(field.source_id)
            shown = str(value) if source is None else _shown(source, value, field.transform)
            parts.append(f"{field.name}={shown[:_MOST_TEXT]}")
        return "/".join(parts)

    return place


def _bounds(field: NestedField, files: Sequence[DataFile]) -> ColumnBounds:
    key, kind = field.field_id, field.field_type
    lower = _end(kind, [(file.lower_bounds or {}).get(key) for file in files], min)
    upper = _end(kind, [(file.upper_bounds or {}).get(key) for file in files], max)
    nulls = [(file.null_value_counts or {}).get(key) for file in files]
    sizes = [(file.column_sizes or {}).get(key) for file in files]
    return ColumnBounds(field.name, _sum(nulls), lower, upper, _sum(sizes))


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _end(kind: IcebergType, bounds: Sequence[bytes | None], end: Callable[[set[Any]], Any]) -> str | None:
    """The lower or upper bound of all files; files of nulls alone have none."""
    known = {bound for bound in bounds if bound is not None}
    if not known or not isinstance(kind, PrimitiveType):
        return None
    try:
        value = end({from_bytes(kind, bound) for bound in known})
        return _shown(kind, value)[:_MOST_TEXT]
    except (ValueError, TypeError, struct.error, OverflowError):  # not a value of this type
        return None


def _shown(kind: IcebergType, value: Any, transform: Transform[Any, Any] = _IDENTITY) -> str:
    """A value as queries show it; Iceberg's own text of bytes is base64."""
    if isinstance(value, bytes):
        return str(uuid.UUID(bytes=value)) if isinstance(kind, UUIDType) else text(value)
    return transform.to_human_string(kind, value)
