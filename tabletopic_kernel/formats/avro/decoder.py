"""Decodes Confluent-framed Avro values of one schema into Arrow rows; see ``driver``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyiceberg.types import BinaryType

from tabletopic_kernel.formats.avro.exact import ExactEngine
from tabletopic_kernel.formats.avro.fast import FastEngine
from tabletopic_kernel.formats.avro.schema import Primitive, parse
from tabletopic_kernel.formats.avro.types import iceberg_schema_of
from tabletopic_kernel.formats.decoder import WholeValueDecoder, WrittenBytesDecoder
from tabletopic_kernel.formats.driver import EngineDecoder
from tabletopic_kernel.formats.wire import WriterSchema


class AvroDecoder(EngineDecoder[ExactEngine]):
    """All records of one schema. Raises AvroSchemaError if the schema is not valid."""

    def __init__(
        self, schema: str, references: Mapping[str, str] | None = None, *, by_name: bool = False
    ) -> None:
        parsed = parse(schema, references, by_name=by_name)
        super().__init__(iceberg_schema_of(parsed), partial(FastEngine, parsed), partial(ExactEngine, parsed))


def make(schema: WriterSchema) -> AvroDecoder | WholeValueDecoder:
    """The decoder of a schema. Confluent's serializers write values of the type bytes unchanged."""
    references = dict(schema.references)
    if parse(schema.text, references).root == Primitive("bytes"):
        return WrittenBytesDecoder() if schema.framed else WholeValueDecoder(BinaryType())
    return AvroDecoder(schema.text, references, by_name=schema.by_name)
