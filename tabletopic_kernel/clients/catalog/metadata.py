"""Parses table metadata files once, copies and writes their history cheaply, and changes it once.

Metadata lists every snapshot. For a commit, PyIceberg parses it twice (for the committer and for the
catalog), copies it four times, and serializes all of it: with a thousand snapshots that was most of a
commit's time. A snapshot never changes, so copies share it, and its JSON is made once.

Why it is safe to identify a file by its location: Iceberg never changes a metadata file, and writers put a
UUID into its name (Iceberg's specification, "Metastore Tables"). The catalog says at each load which location
is the table's. A name without a UUID, like a Hadoop table's, may be reused after a drop: such a file is
always read. Metadata is kept only while somebody holds it, for example a table, so nothing piles up.

The manifests of a table repeat one Avro schema in their headers; converting it for each was an eighth of a
compaction's CPU time.

Times in metadata never go back here, whatever the clock does: Iceberg's Java library, and so Spark, reads no
table whose logs go back by more than a minute, and PyIceberg writes such a table without a word.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from itertools import accumulate
from typing import Any
from weakref import WeakValueDictionary, ref

from pydantic import BaseModel
from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata, TableMetadataCommonFields
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from pyiceberg.typedef import UTF8
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

_HISTORY = ("snapshots", "snapshot_log", "metadata_log")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*\.metadata\.json$", re.IGNORECASE)
_NO_SNAPSHOTS = '"snapshots":[]'
_known: WeakValueDictionary[str, TableMetadata] = WeakValueDictionary()  # by location
_texts: dict[int, tuple[ref[Snapshot], str]] = {}  # by the snapshot's id(), removed with the snapshot
_SCHEMAS = 64  # a manifest's, one for each partition spec, and a manifest list's
_read, _write = FromInputFile.table_metadata, ToOutputFile.table_metadata
_convert = AvroFileHeader.get_schema


def _read_once(input_file: InputFile, encoding: str = UTF8) -> TableMetadata:
    """Like PyIceberg's, but does not read a known file."""
    metadata = _known.get(input_file.location)
    if metadata is None:
        metadata = _read(input_file, encoding)
        _remember(input_file.location, metadata)
    return metadata


def _write_and_remember(metadata: TableMetadata, output_file: OutputFile, overwrite: bool = False) -> None:
    """Like PyIceberg's, but remembers what it wrote, and skips the check whether a unique name exists."""
    metadata = _in_order(metadata)
    dumped: Any = _Dumped(metadata)  # PyIceberg only asks it for the JSON
    _write(dumped, output_file, overwrite or _has_uuid(output_file.location))
    _remember(output_file.location, metadata)


def _in_order(metadata: TableMetadata) -> TableMetadata:
    """The metadata with logs whose times do not go back, and last updated at the newest of them or later."""
    update: dict[str, Any] = {}
    newest_ms = metadata.last_updated_ms
    for name in ("snapshot_log", "metadata_log"):
        log = getattr(metadata, name)
        times = [entry.timestamp_ms for entry in log]
        if times != (in_order := list(accumulate(times, max))):
            pairs = zip(log, in_order, strict=True)
            update[name] = [entry.model_copy(update={"timestamp_ms": at_ms}) for entry, at_ms in pairs]
        newest_ms = max([newest_ms, *in_order[-1:]])
    if newest_ms != metadata.last_updated_ms:
        update["last_updated_ms"] = newest_ms
    return metadata.model_copy(update=update) if update else metadata


class _Dumped:
    """Serializes metadata, reusing the JSON of each snapshot."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata

    def model_dump_json(self, *, exclude_none: bool = True) -> str:
        """Like the metadata's own."""
        metadata = self._metadata
        if metadata.format_version > 1 and exclude_none:  # else a snapshot's JSON is different
            bare = metadata.model_copy(update={"snapshots": []}).model_dump_json()
            parts = bare.split(_NO_SNAPSHOTS)  # inside a string, the quotes would be escaped
            if len(parts) == 2:
                return f'{parts[0]}"snapshots":[{",".join(map(_text, metadata.snapshots))}]{parts[1]}'
        return metadata.model_dump_json(exclude_none=exclude_none)


def _text(snapshot: Snapshot) -> str:
    """The JSON of a snapshot, cached as long as the snapshot exists."""
    key = id(snapshot)
    found = _texts.get(key)
    if found is None or found[0]() is not snapshot:
        _texts[key] = found = (ref(snapshot, lambda _: _texts.pop(key, None)), snapshot.model_dump_json())
    return found[1]


def _has_uuid(location: str) -> bool:
    return _UUID.search(location) is not None


def _remember(location: str, metadata: TableMetadata) -> None:
    if _has_uuid(location):
        _known[location] = metadata


def _copied(metadata: TableMetadata, memo: dict[int, Any] | None = None) -> TableMetadata:
    """A deep copy, except for the entries of the history, which nobody changes in place."""
    history = {name: [*getattr(metadata, name)] for name in _HISTORY}
    bare = metadata.model_copy(update=dict.fromkeys(_HISTORY, ()))
    return BaseModel.__deepcopy__(bare, memo).model_copy(update=history)


def _snapshot_by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot | None:
    """Like PyIceberg's, but starts at the newest: a commit asks for the head and its parent a dozen times."""
    return next((one for one in reversed(metadata.snapshots) if one.snapshot_id == snapshot_id), None)


def _schema(header: AvroFileHeader) -> Schema:
    """Like PyIceberg's, but converts each schema once; its readers only visit it."""
    text = header.meta.get("avro.schema")
    return _converted(text) if text else _convert(header)


@lru_cache(_SCHEMAS)
def _converted(text: str) -> Schema:
    return AvroSchemaConversion().avro_to_iceberg(json.loads(text))


class QuickTransaction(Transaction):
    """A transaction that computes the resulting metadata once per change.

    PyIceberg's copies the whole metadata, with all snapshots, on every access: nineteen times in a commit,
    which took more than a second of CPU time in a table of two hundred snapshots. Nothing modifies the
    result: PyIceberg makes new metadata from old.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._known: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the updates so far."""
        base, updates = self._table.metadata, self._updates
        if self._known is None or self._known[0] is not base or self._known[1] is not updates:
            self._known = (base, updates, super().table_metadata)
        return self._known[2]

    def _apply(
        self, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...] = ()
    ) -> Transaction:
        """Like PyIceberg's, but no snapshot is older than the table's newest metadata."""
        newest_ms = self._table.metadata.last_updated_ms
        return super()._apply(tuple(_not_before(newest_ms, one) for one in updates), requirements)


def _not_before(newest_ms: int, update: TableUpdate) -> TableUpdate:
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.timestamp_ms >= newest_ms:
        return update
    snapshot = update.snapshot.model_copy(update={"timestamp_ms": newest_ms})
    return update.model_copy(update={"snapshot": snapshot})


# PyIceberg's catalogs for SQL, Glue, Hive and DynamoDB read and write through these two.
FromInputFile.table_metadata = staticmethod(_read_once)  # type: ignore[method-assign]
ToOutputFile.table_metadata = staticmethod(_write_and_remember)  # type: ignore[method-assign]
TableMetadataCommonFields.__deepcopy__ = _copied  # type: ignore[assignment,method-assign]
TableMetadataCommonFields.snapshot_by_id = _snapshot_by_id  # type: ignore[assignment,method-assign]
AvroFileHeader.get_schema = _schema  # type: ignore[assignment,method-assign]
