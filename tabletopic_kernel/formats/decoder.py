"""Decoders with one interface: of writer schemas, by format, and of values without a format."""

from __future__ import annotations

import importlib
import logging
import threading
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, IcebergType, NestedField, StringType

from tabletopic_kernel.formats import FORMATS
from tabletopic_kernel.formats.arrays import not_text
from tabletopic_kernel.formats.driver import Decoded
from tabletopic_kernel.formats.json.infer import Reserved
from tabletopic_kernel.formats.rejection import Refused, is_trouble, last_line
from tabletopic_kernel.formats.wire import PREFIX_BYTES, SchemaKey, WriterSchema, prefix
from tabletopic_kernel.model.columns.evolution import VALUE
from tabletopic_kernel.model.columns.types import MAX_LEVELS, levels
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError

_LOG = logging.getLogger(__name__)


class WholeValueDecoder:
    """Values without a schema: one column of text, or of bytes."""

    def __init__(self, kind: IcebergType) -> None:
        self._text = isinstance(kind, StringType)
        self.iceberg_schema = Schema(NestedField(1, VALUE, kind, required=False))
        self.arrow_schema = pa.schema([(VALUE, pa.large_string() if self._text else pa.large_binary())])

    def decode(self, values: pa.Array) -> Decoded:
        """See ``Decoder``; only bytes that should be text but are not UTF-8 are refused."""
        refused: list[Refused] = []
        if self._text and len(bad := not_text(values)):
            refused = [Refused(position, "not_text", "the value is not UTF-8") for position in bad.tolist()]
            values = values.take(pa.array(np.delete(np.arange(len(values)), bad)))
        column = values.cast(self.arrow_schema.field(0).type)
        return Decoded(pa.RecordBatch.from_arrays([column], schema=self.arrow_schema), refused)


class WrittenBytesDecoder(WholeValueDecoder):
    """Values of the schema ``bytes``: Confluent writes them unchanged behind the prefix, without length."""

    def __init__(self) -> None:
        super().__init__(BinaryType())

    def decode(self, values: pa.Array) -> Decoded:
        """See ``Decoder``; nothing is refused."""
        return super().decode(pc.binary_slice(values, PREFIX_BYTES))


class Decoder(Protocol):
    """Decodes the values of one writer schema. For one thread at a time."""

    iceberg_schema: Schema
    arrow_schema: pa.Schema

    def decode(self, values: pa.Array) -> Decoded:
        """Rows in the order of ``values`` (binary, without nulls, as in Kafka), without the refused ones."""


@runtime_checkable
class InferringDecoder(Decoder, Protocol):
    """A decoder whose columns come from records; after ``decode``, ``needed`` has the missing ones."""

    needed: Schema | None


class BadSchemaError(ActionNeededError):
    """No decoder can be made for a writer schema."""


class EncryptedError(BadSchemaError):
    """A rule of the schema encrypts whole values, and nothing here decrypts them."""


def make_decoder(schema_id: SchemaKey, schema: WriterSchema) -> Decoder:
    """The decoder of a writer schema; raises BadSchemaError, or RetryableError if it cannot be built now."""
    if schema.encrypted_by:
        raise EncryptedError(
            f"values of schema id {schema_id} are encrypted as a whole by its rule {schema.encrypted_by} "
            "(ENCRYPT_PAYLOAD), and this program does not decrypt"
        )
    try:
        return _make(schema_id if isinstance(schema_id, int) else 0, schema)
    except BadSchemaError:
        raise
    except ActionNeededError as error:  # the formats' own: the text is not valid, or beyond their limits
        raise BadSchemaError(str(error)) from error
    except (MemoryError, OSError) as error:
        raise RetryableError(f"no decoder can be built now: {last_line(error)}") from error
    except BaseException as error:  # of any library involved, including panics of native code
        if is_trouble(error):
            raise
        _LOG.warning("schema %s cannot be built", schema_id, exc_info=error)
        raise BadSchemaError(
            f"no decoder can be built for this {schema.kind} schema: {last_line(error)}"
        ) from error


class _Cached(threading.local):
    """The decoders of one thread: a decoder serves one thread at a time."""

    def __init__(self) -> None:
        self.decoder = lru_cache(maxsize=256)(make_decoder)


_CACHED = _Cached()


def cached_decoder(schema_id: SchemaKey, schema: WriterSchema) -> Decoder:
    """Like ``make_decoder``, but kept between the tasks of a Python worker, per calling thread."""
    return _CACHED.decoder(schema_id, schema)


def inferring_decoder(columns: Schema, reserved: Reserved | None = None) -> Decoder:
    """The decoder of JSON without a schema; with ``reserved`` names, values may be in Connect's envelope."""
    # Imported when needed.
    from tabletopic_kernel.formats.json.decoder import JsonDecoder, PayloadDecoder  # noqa: PLC0415

    return JsonDecoder(columns) if reserved is None else PayloadDecoder(columns, reserved)


class BareDecoder:
    """Values of one schema that do not name it: prepends the frame that its decoder expects."""

    def __init__(self, schema_id: int, framed: Decoder) -> None:
        self._framed = framed
        self._frame = getattr(framed, "frame", prefix(max(schema_id, 0)))  # Protobuf's is more than a prefix
        self.iceberg_schema = framed.iceberg_schema
        self.arrow_schema = framed.arrow_schema

    def decode(self, values: pa.Array) -> Decoded:
        front, nothing = pa.scalar(self._frame, values.type), pa.scalar(b"", values.type)
        return self._framed.decode(pc.binary_join_element_wise(front, values, nothing))


def _make(schema_id: int, schema: WriterSchema) -> Decoder:
    """Make a decoder, importing the format's engines only now: together, they cost a second."""
    if schema.kind in ("STRING", "RAW"):
        return WholeValueDecoder(StringType() if schema.kind == "STRING" else BinaryType())
    if schema.kind not in FORMATS:
        raise BadSchemaError(f"schema id {schema_id} is {schema.kind}, which is not supported")
    decoder: Decoder = importlib.import_module(FORMATS[schema.kind]).make(schema)
    # One column, or a key, puts another level around the value.
    if (count := levels(decoder.iceberg_schema.as_struct()) + 1) > MAX_LEVELS:
        raise BadSchemaError(
            f"its columns have {count} levels in Parquet, where an array or map takes two, and readers take "
            f"{MAX_LEVELS}. Register a flatter schema."
        )
    if schema.framed or isinstance(decoder, WholeValueDecoder):
        return decoder
    return BareDecoder(schema_id, decoder)
