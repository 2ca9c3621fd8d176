"""Values that are one column as they are: without a schema, or of one that says ``bytes``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, IcebergType, NestedField, StringType

from tabletopic_kernel.formats.arrays import not_text
from tabletopic_kernel.formats.driver import Decoded
from tabletopic_kernel.formats.rejection import Refused
from tabletopic_kernel.formats.wire import PREFIX_BYTES
from tabletopic_kernel.model.columns.evolution import VALUE


class WholeValueDecoder:
    """Values without a schema: one column of text, or of bytes."""

    def __init__(self, kind: IcebergType) -> None:
        self._text = isinstance(kind, StringType)
        self.iceberg_schema = Schema(NestedField(1, VALUE, kind, required=False))
        self.arrow_schema = pa.schema([(VALUE, pa.large_string() if self._text else pa.large_binary())])

    def decode(self, values: pa.Array) -> Decoded:
        """See ``Decoder``; only bytes that are to be text and are not UTF-8 are refused."""
        refused: list[Refused] = []
        if self._text and len(bad := not_text(values)):
            refused = [Refused(at, "not_text", "the value is not UTF-8") for at in bad.tolist()]
            values = values.take(pa.array(np.delete(np.arange(len(values)), bad)))
        column = values.cast(self.arrow_schema.field(0).type)
        return Decoded(pa.RecordBatch.from_arrays([column], schema=self.arrow_schema), refused)


class WrittenBytesDecoder:
    """Values of an Avro schema that is ``bytes`` and nothing else, each with its 5-byte prefix.

    Confluent's serializers write these as they are, without the length that Avro has in front.
    """

    def __init__(self) -> None:
        self._whole = WholeValueDecoder(BinaryType())
        self.iceberg_schema = self._whole.iceberg_schema
        self.arrow_schema = self._whole.arrow_schema

    def decode(self, values: pa.Array) -> Decoded:
        """See ``Decoder``; nothing is refused."""
        return self._whole.decode(pc.binary_slice(values, PREFIX_BYTES))
