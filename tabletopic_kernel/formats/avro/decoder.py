"""Decodes Confluent-framed Avro values of one schema id into Arrow rows; ``driver`` says how."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType

from tabletopic_kernel.formats.arrays import Bodies
from tabletopic_kernel.formats.avro.exact import ExactEngine
from tabletopic_kernel.formats.avro.fast import FastEngine
from tabletopic_kernel.formats.avro.schema import Primitive, parse
from tabletopic_kernel.formats.avro.types import iceberg_schema_of
from tabletopic_kernel.formats.decoder import WholeValueDecoder, WrittenBytesDecoder
from tabletopic_kernel.formats.driver import Decoded, decode
from tabletopic_kernel.formats.rejection import UnsupportedError
from tabletopic_kernel.formats.types import arrow_schema_of
from tabletopic_kernel.formats.wire import PREFIX_BYTES, WriterSchema


class AvroDecoder:
    """All records of one schema id. Not for use by two threads at once.

    Raises AvroSchemaError if the schema is not valid.
    """

    def __init__(self, schema_id: int, schema: str, references: Mapping[str, str] | None = None) -> None:
        parsed = parse(schema, references)
        self.iceberg_schema: Schema = iceberg_schema_of(parsed)
        self.arrow_schema: pa.Schema = arrow_schema_of(self.iceberg_schema)
        self.fast_refusal: str | None = None  # why the fast engine cannot take this schema at all
        self.schema_id = schema_id
        self._exact = ExactEngine(parsed, self.arrow_schema)
        self._fast: FastEngine | None = None
        try:
            self._fast = FastEngine(parsed, self.arrow_schema)
        except UnsupportedError as error:
            self.fast_refusal = str(error)

    def decode(self, values: pa.Array) -> Decoded:
        """Rows in the order of ``values``, without the refused ones, which have that order too.

        ``values``: BinaryArray or LargeBinaryArray without nulls, each value with its 5-byte prefix.
        """
        return decode(self._fast, self._exact, Bodies(values, PREFIX_BYTES))


def make(schema_id: int, schema: WriterSchema) -> AvroDecoder | WholeValueDecoder | WrittenBytesDecoder:
    """The decoder of a schema. Confluent's serializers write values of the type bytes as they are."""
    references = dict(schema.references)
    if parse(schema.text, references).root == Primitive("bytes"):
        return WrittenBytesDecoder() if schema.framed else WholeValueDecoder(BinaryType())
    return AvroDecoder(schema_id, schema.text, references)
