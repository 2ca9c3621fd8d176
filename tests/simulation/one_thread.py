"""PyIceberg and the product's pools in one thread, without randomness or needless work.

A history makes thousands of files of a few records each, so most of its time would be spent on what depends
only on its arguments: schemas of manifests, readers and writers of Avro, metadata already parsed.
"""

from __future__ import annotations

import io
import os
import random
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any
from unittest import mock
from weakref import WeakValueDictionary

import pyarrow as pa
from pyiceberg import manifest, serializers
from pyiceberg.avro import file as avro_file
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.io import pyarrow
from pyiceberg.manifest import ManifestWriter
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataCommonFields, TableMetadataUtil
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.typedef import IcebergBaseModel
from pyiceberg.types import StructType
from pyiceberg.utils.concurrent import ExecutorFactory
from pyiceberg.utils.config import Config
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tabletopic_kernel.clients.catalog.pyiceberg_seams import tables as catalog_metadata
from tabletopic_kernel.clients.catalog.pyiceberg_seams.manifests import clear_manifest_cache
from tabletopic_kernel.clients.storage import storage
from tabletopic_kernel.formats.decoder import cached_decoder
from tabletopic_kernel.pipeline import conform, write
from tabletopic_kernel.table.schemas import columns, states


class _AtOnce(Executor):
    """Runs its tasks in this thread: PyIceberg reads manifests in a pool."""

    def __init__(self, *_: Any) -> None:
        """Of no size."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class _Parsed:
    """As ``TableMetadataUtil``, once for each text."""

    @staticmethod
    @lru_cache(maxsize=64)
    def parse_raw(data: str) -> TableMetadata:
        """Metadata of its JSON."""
        return TableMetadataUtil.parse_raw(data)


def _remembering(make: Callable[..., Any]) -> Callable[..., Any]:
    """Objects derived from a schema, once each: PyIceberg rebuilds them for each file."""
    made: dict[Any, Any] = {}

    def remembered(*args: Any, **more: Any) -> Any:
        key = tuple(_key(one) for one in (*args, *sorted(more.items())))
        if key not in made:
            made[key] = make(*args, **more)
        return made[key]

    return remembered


def _text(one: IcebergBaseModel) -> str:
    """Its JSON, which nobody changes: made once."""
    text = one.__dict__.get("_simulation_text")
    if text is None:
        text = one.__dict__["_simulation_text"] = one.model_dump_json()
    return text  # type: ignore[no-any-return]


def _key(one: Any) -> Any:
    if isinstance(one, Schema):
        return _text(one)
    if isinstance(one, NameMapping):
        return one.model_dump_json()
    if isinstance(one, pa.Schema):
        return one.serialize().to_pybytes()
    if isinstance(one, dict):
        return tuple(sorted(one.items(), key=lambda item: str(item[0])))
    if isinstance(one, tuple):
        return tuple(map(_key, one))
    return one


_as_struct = Schema.as_struct


def _same_struct(self: Schema) -> StructType:
    """Like ``Schema.as_struct``, once per schema: PyIceberg rebuilds it at each use."""
    fields, struct = self.__dict__.get("_simulation_struct", (None, None))
    if fields is not self.fields:
        struct = _as_struct(self)
        self.__dict__["_simulation_struct"] = self.fields, struct
    return struct


class _Bytes(dict[int, bytes]):
    """An integer as Avro has it; those up to 2¹⁶ are kept."""

    def __missing__(self, integer: int) -> bytes:
        stream = io.BytesIO()
        _write_int(BinaryEncoder(stream), integer)  # type: ignore[arg-type]
        if -(2**16) < integer < 2**16:
            self[integer] = stream.getvalue()
        return stream.getvalue()


_write_int = BinaryEncoder.write_int
_bytes = _Bytes()


def _same_bytes(self: BinaryEncoder, integer: int) -> None:
    """As ``BinaryEncoder.write_int``, which shifts bit by bit."""
    self._output_stream.write(_bytes[integer])


_entry_schema = ManifestWriter._with_partition
_entry_schemas: dict[tuple[str, str, int], Schema] = {}


def _same_entry_schema(self: ManifestWriter, version: Any) -> Schema:
    """As ``ManifestWriter._with_partition``, once for each table's schema and partitions."""
    key = _text(self._schema), _text(self._spec), version
    if key not in _entry_schemas:
        _entry_schemas[key] = _entry_schema(self, version)
    return _entry_schemas[key]


_avro_schemas: dict[tuple[str, str | None], Any] = {}


class _Conversion(AvroSchemaConversion):
    """As there; the Avro schema of a file once for each schema."""

    def iceberg_to_avro(self, schema: Schema, schema_name: str | None = None) -> Any:
        """See PyIceberg's."""
        key = _text(schema), schema_name
        if key not in _avro_schemas:
            _avro_schemas[key] = super().iceberg_to_avro(schema, schema_name)
        return _avro_schemas[key]


# Process-wide: they depend on nothing but their arguments.
_REMEMBERED = [
    (where, name, _remembering(getattr(where, name)))
    for where, names in (
        (avro_file, ("resolve_reader", "construct_reader", "resolve_writer", "construct_writer")),
        (pyarrow, ("compute_statistics_plan", "parquet_path_to_id_mapping", "pyarrow_to_schema")),
        (conform, ("schema_to_pyarrow",)),
    )
    for name in names
]


@contextmanager
def pyiceberg_in_one_thread(seed: int) -> Iterator[None]:
    """Patch them for one history.

    Metadata is copied deeply for each step of a transaction, 19 times per commit. Nobody changes it in place,
    so a shallow copy is enough: it saves three quarters of a commit's time. PyIceberg identifies manifests by
    path, and we identify metadata by path; histories of one seed have the same paths with other contents.
    """
    dice = random.Random(seed)

    def made() -> uuid.UUID:
        return uuid.UUID(int=dice.getrandbits(128), version=4)

    clear_manifest_cache()
    manifest.clear_manifest_cache()  # of writers beside the product
    with ExitStack() as patches:
        for where, name, what in (
            (ExecutorFactory, "_instance", _AtOnce()),
            (ExecutorFactory, "_instance_pid", os.getpid()),
            (storage, "ThreadPoolExecutor", _AtOnce),
            (write, "ThreadPoolExecutor", _AtOnce),
            (serializers, "TableMetadataUtil", _Parsed),
            (write, "TableMetadataUtil", _Parsed),
            (states, "make_decoder", cached_decoder),
            (columns, "make_decoder", cached_decoder),
            (TableProperties, "WRITE_AVRO_COMPRESSION_DEFAULT", "null"),
            (ManifestWriter, "_with_partition", _same_entry_schema),
            (avro_file, "AvroSchemaConversion", _Conversion),
            (catalog_metadata, "_known", WeakValueDictionary()),
            (catalog_metadata, "_texts", {}),
            (TableMetadataCommonFields, "__deepcopy__", lambda self, memo=None: self.model_copy()),
            (uuid, "uuid4", made),
            (BinaryEncoder, "write_int", _same_bytes),
            (Schema, "as_struct", _same_struct),
            (Config, "_from_configuration_files", staticmethod(lambda: None)),
            (Config, "_from_environment_variables", staticmethod(lambda config: config)),
            *_REMEMBERED,
        ):
            patches.enter_context(mock.patch.object(where, name, what))
        yield
