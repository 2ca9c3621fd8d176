"""The exact Protobuf engine: Google's parser, one record at a time, after a strict check of the bytes.

*Why this is exact.* The parser skips unknown fields, and takes a field with another wire type for an unknown
one; so ``wire`` first walks over the bytes, and rejects anything that does not match the schema. The parser
then reads the same bytes with plain types (``fast_schema``), in which each value keeps all its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

from tabletopic_kernel.formats.arrays import BatchMaker
from tabletopic_kernel.formats.protobuf.fast_schema import Plain, name_of
from tabletopic_kernel.formats.protobuf.json import JsonTexts, parse_message
from tabletopic_kernel.formats.protobuf.schema import tree
from tabletopic_kernel.formats.protobuf.values import SubMicros, duration_micros, timestamp_micros
from tabletopic_kernel.formats.protobuf.wire import WireChecker
from tabletopic_kernel.formats.rejection import Refusal

Convert = Callable[[Any], Any]
Read = Callable[[Any], Any]  # from a plain message to a field's value


class ExactEngine:
    """Reads records of one message type, one at a time."""

    def __init__(
        self,
        descriptor: Descriptor,
        root: tree.Message | tree.Json,
        plain: Plain | None,
        arrow_schema: pa.Schema,
        sub_micros: SubMicros,
    ) -> None:
        self._maker = BatchMaker(arrow_schema)
        compiler = _Compiler(JsonTexts(descriptor.file.pool), sub_micros)
        self._checker = WireChecker(descriptor)
        self._read: Callable[[Any], tuple[Any, ...]]
        if isinstance(root, tree.Json) or plain is None:
            self._class = GetMessageClass(descriptor)
            self._read = lambda message: (compiler.json.text(message),)
        else:
            self._class = GetMessageClass(plain.root)
            read = compiler.message(root)
            self._read = lambda message: tuple(read(message).values())

    def row(self, body: bytes) -> tuple[Any, ...]:
        """The columns' values of one message; raises Refusal."""
        self._checker.check(body)
        return self._read(parse_message(self._class, body))

    def batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        return self._maker.batch([row[i] for row in rows] for i in range(len(self._maker.schema)))


class _Compiler:
    def __init__(self, json: JsonTexts, sub_micros: SubMicros) -> None:
        self.json = json
        self._sub_micros = sub_micros

    def message(self, node: tree.Message) -> Convert:
        """A function from a plain message to its fields' values, by name."""
        reads = [(field.name, self._field(field)) for field in node.fields]

        def read(message: Any) -> dict[str, Any]:
            row = {}
            name = ""
            try:
                for name, read_field in reads:
                    row[name] = read_field(message)
            except Refusal as refusal:
                refusal.path.append(name)
                raise
            return row

        return read

    def _field(self, field: tree.Field) -> Convert:
        name = name_of(field.number)
        match field.type:
            case tree.Repeated(item):
                convert_item = self._element(item)
                return lambda message: [convert_item(item) for item in getattr(message, name)]
            case tree.Map(key, value):
                read_entry = self._entry(key, value)
                return lambda message: list(dict(map(read_entry, getattr(message, name))).items())
        convert = self._element(field.type)
        if field.presence == "implicit":
            return lambda message: convert(getattr(message, name))
        required = field.presence == "required"

        def read(message: Any) -> Any:
            if message.HasField(name):
                return convert(getattr(message, name))
            if required:
                raise Refusal("protobuf_required", "a required field is missing")
            return None

        return read

    def _entry(self, key: str, value: tree.Element) -> Callable[[Any], tuple[Any, Any]]:
        """A function from a map's entry to key and value; of equal keys, the caller keeps the last."""
        key_name, value_name = name_of(1), name_of(2)
        convert_key, convert = self._element(tree.Scalar(key)), self._element(value)
        return lambda entry: (convert_key(getattr(entry, key_name)), convert(getattr(entry, value_name)))

    def _element(self, node: tree.Element) -> Convert:  # noqa: PLR0911 - a return per type
        sub_micros = self._sub_micros
        match node:
            case tree.Scalar(kind):
                return Decimal if kind in ("uint64", "fixed64") else lambda value: value
            case tree.Enum(names):
                name_of_number = dict(names)
                return lambda number: name_of_number.get(number) or str(number)
            case tree.Wrapper(kind):
                convert = self._element(tree.Scalar(kind))
                return lambda wrapper: convert(wrapper.f1)
            case tree.Timestamp():
                return lambda moment: timestamp_micros(moment.f1, moment.f2, sub_micros)
            case tree.Duration():
                return lambda moment: duration_micros(moment.f1, moment.f2, sub_micros)
            case tree.Json():
                return self.json.text
            case tree.Message():
                return self.message(node)
