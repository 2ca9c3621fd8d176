"""Decodes Confluent-framed Protobuf values of one schema into Arrow rows.

A schema id names a file, and the message indexes after it say which message of the file a record contains
(``schema/message_indexes``). A decoder decodes one message: the file's first, or the one requested by name.
It refuses records of other messages, which have other columns.

For how the records of one message are decoded, see ``driver``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tabletopic_kernel.formats.arrays import Bodies, Mask
from tabletopic_kernel.formats.driver import Decoded, EngineDecoder
from tabletopic_kernel.formats.protobuf.exact import ExactEngine
from tabletopic_kernel.formats.protobuf.fast import FastEngine
from tabletopic_kernel.formats.protobuf.fast_schema import Plain
from tabletopic_kernel.formats.protobuf.json import JsonTexts
from tabletopic_kernel.formats.protobuf.schema.message_indexes import header_of, headers_of, read_header
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import Json, load, message_named, parse
from tabletopic_kernel.formats.protobuf.schema.types import iceberg_schema_of
from tabletopic_kernel.formats.protobuf.values import SubMicros
from tabletopic_kernel.formats.rejection import Refused, UnsupportedError
from tabletopic_kernel.formats.wire import PREFIX_BYTES, WriterSchema
from tabletopic_kernel.model.dead_letter import OTHER_MESSAGE


class ProtobufDecoder(EngineDecoder[ExactEngine]):
    """All records of one schema and one message, by name; None for the file's first.

    Raises ProtobufSchemaError if the schema does not compile, lacks the message, or is beyond our limits.
    """

    def __init__(
        self,
        schema: str,
        references: Mapping[str, str] | None = None,
        message: str | None = None,
        sub_micros: SubMicros = "refuse",
    ) -> None:
        files, name = compile_schema(schema, references)
        pool = load(files)
        file = pool.FindFileByName(name)
        descriptor = message_named(file, message)
        root = parse(descriptor)
        self.message: str = descriptor.full_name
        self._messages = headers_of(file)
        self._headers = [header for header, name in self._messages.items() if name == self.message]
        self.frame = bytes(PREFIX_BYTES) + self._headers[0]  # of messages that have none
        plain = None if isinstance(root, Json) else Plain(root, pool)

        def fast(arrow_schema: pa.Schema) -> FastEngine:
            if isinstance(root, Json):
                raise UnsupportedError("the whole message is JSON text")
            return FastEngine(root, JsonTexts(pool), arrow_schema, sub_micros)

        super().__init__(
            iceberg_schema_of(root),
            fast,
            lambda arrow_schema: ExactEngine(descriptor, root, plain, arrow_schema, sub_micros),
        )

    def decode(self, values: pa.Array) -> Decoded:
        """Rows in the order of ``values``, without refused ones; with message indexes behind the prefix."""
        every, left, groups = Bodies(values, PREFIX_BYTES), np.ones(len(values), bool), []
        for header in self._headers:
            chosen = _begin_with(every, header)
            if chosen.any():
                left &= ~chosen
                groups.append(every.take(np.flatnonzero(chosen), PREFIX_BYTES + len(header)))
        rows, refused = self.decode_groups(*groups)
        others = np.flatnonzero(left).tolist()
        if others:
            refused += [Refused(index, *self._why_not_ours(every.body(index))) for index in others]
            refused.sort(key=lambda record: record.index)
        return Decoded(rows, refused)

    def _why_not_ours(self, body: bytes) -> tuple[str, str]:
        """The reason and message for a body that does not begin with our message's indexes."""
        try:
            path, _ = read_header(body)
        except ValueError as error:
            return "protobuf_frame", str(error)
        message = self._messages.get(header_of(path))
        if message is None:
            return "protobuf_frame", f"message indexes {list(path)}, which lead to no message of the schema"
        if message == self.message:
            return "protobuf_frame", f"message indexes {list(path)}, in more bytes than any serializer takes"
        return (
            OTHER_MESSAGE,
            f"the record is a {message}, and the table has the columns of {self.message}; "
            "the setting value_message names another",
        )


def _begin_with(bodies: Bodies, header: bytes) -> Mask:
    starts, data = bodies.offsets[:-1] + bodies.front, bodies.data
    matches: Mask = bodies.lengths >= len(header)
    for index, byte in enumerate(header):
        matches[matches] = data[starts[matches] + index] == byte
    return matches


def make(schema: WriterSchema) -> ProtobufDecoder:
    return ProtobufDecoder(schema.text, dict(schema.references), schema.message, schema.nanos)
