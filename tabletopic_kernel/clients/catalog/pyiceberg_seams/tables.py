"""Tables of our catalogs: their metadata is parsed once, copied and written cheaply, and changed once.

Metadata lists every snapshot. For a commit, PyIceberg parses it twice (for the committer and for the
catalog), copies it four times, and serializes all of it: with a thousand snapshots that was most of a
commit's time. A snapshot never changes, so copies share it, and its JSON is made once. To be needless,
PyIceberg would have to share snapshots between copies, and to cache parsed metadata by location.

Why it is safe to identify a file by its location: Iceberg never changes a metadata file, and writers put a
UUID into its name (Iceberg's specification, "Metastore Tables"). The catalog says at each load which location
is the table's. A name without a UUID, like a Hadoop table's, may be reused after a drop: such a file is
always read. Metadata is kept only while somebody holds it, for example a table, so nothing piles up.

Times in metadata never go back here, even if the clock does: Iceberg's Java library, and so Spark, reads no
table whose logs go back by more than a minute, and PyIceberg writes such a table without a word.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any
from weakref import WeakValueDictionary, ref

from pydantic import BaseModel
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.locations import LocationProvider, load_location_provider
from pyiceberg.table.metadata import (
    TableMetadata,
    TableMetadataCommonFields,
    TableMetadataV1,
    TableMetadataV2,
    TableMetadataV3,
)
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from pyiceberg.table.update.snapshot import UpdateSnapshot
from pyiceberg.typedef import EMPTY_DICT, UTF8, Properties

from tabletopic_kernel.clients.catalog.pyiceberg_seams.manifests import OwnSpec, copy_as, own_snapshot
from tabletopic_kernel.model.errors import ActionNeededError

_HISTORY = ("snapshots", "snapshot_log", "metadata_log")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*\.metadata\.json$", re.IGNORECASE)
_NO_SNAPSHOTS = '"snapshots":[]'
_known: WeakValueDictionary[str, TableMetadata] = WeakValueDictionary()  # by location
_texts: dict[int, tuple[ref[Snapshot], str]] = {}  # by the snapshot's id(), removed with the snapshot


class _Cheap(TableMetadataCommonFields):
    """Shares its history with its copies, and searches it from its end: a commit often asks for the head."""

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Any:
        history = {name: [*getattr(self, name)] for name in _HISTORY}
        bare = self.model_copy(update=dict.fromkeys(_HISTORY, ()))
        return BaseModel.__deepcopy__(bare, memo).model_copy(update=history)

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        return next((s for s in reversed(self.snapshots) if s.snapshot_id == snapshot_id), None)

    def spec(self) -> PartitionSpec:
        return OwnSpec.of(super().spec())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableMetadataCommonFields) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]


class _MetadataV1(_Cheap, TableMetadataV1):
    pass


class _MetadataV2(_Cheap, TableMetadataV2):
    pass


class _MetadataV3(_Cheap, TableMetadataV3):
    pass


_KINDS: dict[int, type[Any]] = {1: _MetadataV1, 2: _MetadataV2, 3: _MetadataV3}


def own_metadata(metadata: TableMetadata) -> TableMetadata:
    """The same metadata, as ours."""
    if isinstance(metadata, _Cheap):
        return metadata
    snapshots = [own_snapshot(snapshot) for snapshot in metadata.snapshots]
    own: TableMetadata = copy_as(_KINDS[metadata.format_version], metadata, snapshots=snapshots)
    return own


class MetadataFiles:
    """In our catalogs' methods, this is PyIceberg's ``FromInputFile`` and ``ToOutputFile``."""

    @staticmethod
    def table_metadata(*arguments: Any, **options: Any) -> Any:
        """Read a file, or write metadata to one: PyIceberg has the same name for both."""
        reads = isinstance(arguments[0], InputFile)
        return read_metadata(*arguments, **options) if reads else _write_and_remember(*arguments, **options)


def read_metadata(input_file: InputFile, encoding: str = UTF8) -> TableMetadata:
    """Like PyIceberg's, but does not read a known file."""
    metadata = _known.get(input_file.location)
    if metadata is None:
        metadata = own_metadata(FromInputFile.table_metadata(input_file, encoding))
        _remember(input_file.location, metadata)
    return metadata


def _write_and_remember(metadata: TableMetadata, output_file: OutputFile, overwrite: bool = False) -> None:
    """Like PyIceberg's, but remembers what it wrote, and skips the check whether a unique name exists."""
    metadata = own_metadata(_in_order(metadata))
    dumped: Any = _Dumped(metadata)  # PyIceberg only asks it for the JSON
    ToOutputFile.table_metadata(dumped, output_file, overwrite or _has_uuid(output_file.location))
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
    cached = _texts.get(key)
    if cached is None or cached[0]() is not snapshot:
        _texts[key] = cached = (ref(snapshot, lambda _: _texts.pop(key, None)), snapshot.model_dump_json())
    return cached[1]


def _has_uuid(location: str) -> bool:
    return _UUID.search(location) is not None


def _remember(location: str, metadata: TableMetadata) -> None:
    if _has_uuid(location):
        _known[location] = metadata


# --- tables and transactions -------------------------------------------------------------------------------


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
        """Like PyIceberg's, but a snapshot is ours, and not older than the table's newest metadata."""
        newest_ms = self._table.metadata.last_updated_ms
        return super()._apply(tuple(_own_update(newest_ms, update) for update in updates), requirements)

    def require(self, requirement: TableRequirement) -> None:
        """Send a further requirement; PyIceberg lets only its own kinds of changes add some."""
        self._requirements += (requirement,)

    def keep_manifests(self) -> None:
        """Keep manifests after a refusal, which proves nothing; PyIceberg would have to let us."""
        self._snapshot_producers = []


def _own_update(newest_ms: int, update: TableUpdate) -> TableUpdate:
    if not isinstance(update, AddSnapshotUpdate):
        return update
    at_ms = max(update.snapshot.timestamp_ms, newest_ms)
    return update.model_copy(
        update={"snapshot": own_snapshot(update.snapshot.model_copy(update={"timestamp_ms": at_ms}))}
    )


class _GuardedTransaction(QuickTransaction):
    def update_snapshot(
        self, snapshot_properties: dict[str, str] = EMPTY_DICT, branch: str | None = MAIN_BRANCH
    ) -> UpdateSnapshot:
        """All that writes data files begins with this."""
        _refuse_class(self._table.location(), self.table_metadata.properties)
        return super().update_snapshot(snapshot_properties, branch)


class OwnTable(Table):
    """A table of our catalogs."""

    def __init__(
        self,
        identifier: Any,
        metadata: TableMetadata,
        metadata_location: str,
        io: FileIO,
        *arguments: Any,
        **options: Any,
    ) -> None:
        super().__init__(identifier, own_metadata(metadata), metadata_location, io, *arguments, **options)

    def transaction(self) -> Transaction:
        return _GuardedTransaction(self)

    def location_provider(self) -> LocationProvider:
        """Without a class that the table names."""
        return location_provider(self.location(), self.metadata.properties)


def send(table: Table, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]) -> None:
    """Send updates for which PyIceberg has no builder, and delete old metadata as after each commit."""
    table._do_commit(updates, requirements)


def is_identifier(schema: Schema, field_id: int) -> bool:
    """Whether a column that others chose to identify rows still may (Iceberg spec, "Identifier Field IDs").

    A column that becomes optional may not: other engines load no table with such a schema.
    """
    try:
        schema._validate_identifier_field(field_id)
    except ValueError:
        return False
    return True


def location_provider(table_location: str, table_properties: Properties) -> LocationProvider:
    """Like PyIceberg's, but of no class that the table names; PyIceberg would have to take the class."""
    _refuse_class(table_location, table_properties)
    return load_location_provider(table_location, table_properties)


def _refuse_class(table_location: str, properties: Properties) -> None:
    if name := properties.get(TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL):
        raise ActionNeededError(
            f"the table at {table_location.rstrip('/')} names a class for the locations of its files, "
            f"{name}, which is not loaded; remove the property "
            f"{TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL}"
        )
