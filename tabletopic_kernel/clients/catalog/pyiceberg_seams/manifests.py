"""Manifests of our tables: the schema in their headers is converted once, and entries are written in blocks.

All manifests of a table repeat one Avro schema; converting it for each took an eighth of a compaction's CPU
time. To be needless, PyIceberg would have to cache the conversion by the schema's text. It writes each entry
as an Avro block of its own, which is compressed alone: five times the bytes.
"""

from __future__ import annotations

import io
import json
from functools import lru_cache
from types import FunctionType, MethodType, TracebackType
from typing import Any, Final, TypeVar

from pydantic import BaseModel, PrivateAttr
from pyiceberg import manifest
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader, AvroOutputFile
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile, ManifestWriter
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import StructProtocol
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

D = TypeVar("D", bound=StructProtocol)
M = TypeVar("M", bound=BaseModel)
_ENTRIES: Final = 100  # of a block: about 64 kB, as Avro's Java library has
_SCHEMAS = 64  # a manifest's, one for each partition spec, and a manifest list's


def renamed(function: Any, **names: Any) -> Any:
    """A function of PyIceberg's that uses these names instead of its module's."""
    own = {**function.__globals__, **names}
    ours = FunctionType(
        function.__code__, own, function.__name__, function.__defaults__, function.__closure__
    )
    ours.__kwdefaults__, ours.__doc__ = function.__kwdefaults__, function.__doc__
    return ours


def copy_as(kind: type[M], model: BaseModel, **update: Any) -> M:
    """A shallow copy of a model as one of a subclass."""
    return kind.model_construct(model.model_fields_set, **{**model.__dict__, **update})


class _Header(AvroFileHeader):
    def get_schema(self) -> Schema:
        text = self.meta.get("avro.schema")
        return _converted(text) if text else super().get_schema()


@lru_cache(_SCHEMAS)
def _converted(text: str) -> Schema:
    """Shared: readers do not change it."""
    return AvroSchemaConversion().avro_to_iceberg(json.loads(text))


class _AvroFile(AvroFile[D]):
    def _read_header(self) -> AvroFileHeader:
        return construct_reader(META_SCHEMA, {-1: _Header}).read(self.decoder)  # type: ignore[no-any-return]


class _ManifestFile(ManifestFile):
    fetch_manifest_entry = renamed(ManifestFile.fetch_manifest_entry, AvroFile=_AvroFile)


@lru_cache(2**14)
def _avro_int(integer: int) -> bytes:
    stream = io.BytesIO()
    BinaryEncoder(stream).write_int(integer)
    return stream.getvalue()


class _Encoder(BinaryEncoder):
    def write_int(self, integer: int) -> None:
        """Integers repeat: ids of columns, lengths, counts; PyIceberg shifts them bit by bit."""
        self._output_stream.write(_avro_int(integer))


class _Blocks(AvroOutputFile[D]):
    _waiting: tuple[D, ...] = ()

    def write_block(self, objects: list[D]) -> None:
        self._waiting += tuple(objects)
        if len(self._waiting) >= _ENTRIES:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, ()
        if waiting:
            _write_block(self, list(waiting))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._flush()
        finally:
            super().__exit__(kind, error, trace)


_write_block = renamed(AvroOutputFile.write_block, BinaryEncoder=_Encoder)
_new_writer = renamed(ManifestWriter.new_writer, AvroOutputFile=_Blocks)


def in_blocks(writer: ManifestWriter) -> ManifestWriter:
    """The writer, which writes a hundred entries at once."""
    writer.new_writer = MethodType(_new_writer, writer)  # type: ignore[method-assign]
    return writer


_manifest_cache = manifest._ManifestCache()


def clear_manifest_cache() -> None:
    """As PyIceberg's, for the manifests that are read here."""
    _manifest_cache.clear()


_manifests = renamed(
    manifest._manifests,
    read_manifest_list=renamed(manifest.read_manifest_list, AvroFile=_AvroFile, ManifestFile=_ManifestFile),
    _manifest_cache=_manifest_cache,
)


class OwnSnapshot(Snapshot):
    """A snapshot whose manifests are read by us."""

    def manifests(self, io: FileIO) -> list[ManifestFile]:
        return list(_manifests(io, self.manifest_list))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self.__dict__ == other.__dict__

    __hash__ = Snapshot.__hash__


def own_snapshot(snapshot: Snapshot) -> Snapshot:
    """The same snapshot, as one of ours."""
    return snapshot if isinstance(snapshot, OwnSnapshot) else copy_as(OwnSnapshot, snapshot)


class OwnSpec(PartitionSpec):
    """Computes the type of its partitions once per schema; PyIceberg's does for each file."""

    _known: tuple[Schema, StructType] | None = PrivateAttr(None)

    @classmethod
    def of(cls, spec: PartitionSpec) -> OwnSpec:
        return cls(*spec.fields, spec_id=spec.spec_id)

    def partition_type(self, schema: Schema) -> StructType:
        if (known := self._known) is None or known[0] is not schema:
            self._known = known = schema, super().partition_type(schema)
        return known[1]


def has_files(manifest: ManifestFile) -> bool:
    """Whether it has files of the table, not just those that its snapshot removed."""
    return bool(manifest.has_added_files() or manifest.has_existing_files())
