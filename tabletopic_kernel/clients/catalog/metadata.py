"""Table metadata whose files are parsed once, and whose history is copied and written at little cost.

Metadata names every snapshot. PyIceberg parses it twice for a commit (the committer's look and the catalog's
own), copies it four times, and makes JSON of all of it: with a thousand snapshots that was most of a commit.
A snapshot never changes, so copies share it, and its JSON is made once.

Why it is safe to know a file by its location: Iceberg never changes a metadata file, and writers put a UUID
into its name (Iceberg's specification, "Metastore Tables"). Which location is the table's, the catalog says
at each look. A name without a UUID, as a Hadoop table's, may be used again after a drop: such a file is
always read. Metadata is known as long as somebody holds it, a table for example, so nothing piles up.
"""

from __future__ import annotations

import re
from typing import Any
from weakref import WeakValueDictionary, ref

from pydantic import BaseModel
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataCommonFields
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import UTF8

_HISTORY = ("snapshots", "snapshot_log", "metadata_log")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*\.metadata\.json$", re.IGNORECASE)
_NO_SNAPSHOTS = '"snapshots":[]'
_known: WeakValueDictionary[str, TableMetadata] = WeakValueDictionary()  # by location
_texts: dict[int, tuple[ref[Snapshot], str]] = {}  # by id of the snapshot, which takes its own away
_read, _write = FromInputFile.table_metadata, ToOutputFile.table_metadata


def _read_once(input_file: InputFile, encoding: str = UTF8) -> TableMetadata:
    """As PyIceberg's, without a look at a file that is known."""
    metadata = _known.get(input_file.location)
    if metadata is None:
        metadata = _read(input_file, encoding)
        _remember(input_file.location, metadata)
    return metadata


def _write_and_remember(metadata: TableMetadata, output_file: OutputFile, overwrite: bool = False) -> None:
    """As PyIceberg's; what was written need not be read, nor looked for under a name that nobody else has."""
    dumped: Any = _Dumped(metadata)  # PyIceberg asks it for nothing but the JSON
    _write(dumped, output_file, overwrite or _has_uuid(output_file.location))
    _remember(output_file.location, metadata)


class _Dumped:
    """Gives the JSON of metadata, with that of each snapshot as it was made before."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata

    def model_dump_json(self, *, exclude_none: bool = True) -> str:
        """As the metadata's own."""
        metadata = self._metadata
        if metadata.format_version > 1 and exclude_none:  # else a snapshot's JSON is another one
            bare = metadata.model_copy(update={"snapshots": []}).model_dump_json()
            parts = bare.split(_NO_SNAPSHOTS)  # inside a text the quotes would be escaped
            if len(parts) == 2:
                return f'{parts[0]}"snapshots":[{",".join(map(_text, metadata.snapshots))}]{parts[1]}'
        return metadata.model_dump_json(exclude_none=exclude_none)


def _text(snapshot: Snapshot) -> str:
    """The JSON of a snapshot, kept as long as the snapshot."""
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
    """A deep copy, but for the entries of the history: nobody changes these in place."""
    history = {name: [*getattr(metadata, name)] for name in _HISTORY}
    bare = metadata.model_copy(update=dict.fromkeys(_HISTORY, ()))
    return BaseModel.__deepcopy__(bare, memo).model_copy(update=history)


def _snapshot_by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot | None:
    """As PyIceberg's, from the newest on: a commit asks for the head and its parent a dozen times."""
    return next((one for one in reversed(metadata.snapshots) if one.snapshot_id == snapshot_id), None)


# PyIceberg's catalogs for SQL, Glue, Hive and DynamoDB read and write through these two.
FromInputFile.table_metadata = staticmethod(_read_once)  # type: ignore[method-assign]
ToOutputFile.table_metadata = staticmethod(_write_and_remember)  # type: ignore[method-assign]
TableMetadataCommonFields.__deepcopy__ = _copied  # type: ignore[assignment,method-assign]
TableMetadataCommonFields.snapshot_by_id = _snapshot_by_id  # type: ignore[assignment,method-assign]
