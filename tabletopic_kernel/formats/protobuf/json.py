"""JSON text for Protobuf messages that have no columns: see ``formats/protobuf/schema/types.py``.

Source: Protobuf documentation, "ProtoJSON Format". Differences: names are those of the .proto file, maps are
sorted by key (the parser keeps no order), and NaN and infinities within Struct are words, on which Protobuf's
libraries fail.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

from tabletopic_kernel.formats.avro.values import json_number
from tabletopic_kernel.formats.protobuf.schema.tree import KINDS, WRAPPERS, enum_names, is_map_entry
from tabletopic_kernel.formats.protobuf.wire import MAX_LEVELS, WireChecker
from tabletopic_kernel.formats.rejection import Refusal

Text = Callable[[bytes], str]
_PACKAGE: Final = "google.protobuf."


class JsonTexts:
    """JSON texts of the message types of one pool."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool

    def of(self, name: str, levels: int) -> Text:
        """Makes JSON of the bytes of ``name`` messages with at most ``levels``; may raise Refusal."""
        descriptor = self._pool.FindMessageTypeByName(name)
        checker, message_class = WireChecker(descriptor), GetMessageClass(descriptor)

        def text(raw: bytes) -> str:
            checker.check(raw, levels)
            return self.text(parse_message(message_class, raw))

        return text

    def text(self, message: Message) -> str:
        """The JSON text of a message; it may raise Refusal."""
        return json.dumps(self._plain(message), ensure_ascii=False, separators=(",", ":"))

    def _plain(self, message: Message) -> Any:  # noqa: PLR0911 - a return per well-known type
        name = message.DESCRIPTOR.full_name
        match name.removeprefix(_PACKAGE) if name.startswith(_PACKAGE) else "":
            case "Timestamp" | "Duration":
                try:
                    return message.ToJsonString()
                except (ValueError, OverflowError) as error:
                    raise Refusal("protobuf_out_of_range", f"{name}: {error}") from error
            case "FieldMask":
                return ",".join(message.paths)
            case "Any":
                return self._any(message)
            case "Struct":
                return {key: self._plain(message.fields[key]) for key in sorted(message.fields)}
            case "ListValue":
                return [self._plain(value) for value in message.values]
            case "Value":
                kind = message.WhichOneof("kind")
                if kind is None or kind == "null_value":
                    return None
                return self._value(message.DESCRIPTOR.fields_by_name[kind], getattr(message, kind))
        if name in WRAPPERS:
            return self._value(message.DESCRIPTOR.fields_by_name["value"], message.value)
        return self._fields(message)

    def _fields(self, message: Message) -> dict[str, Any]:
        return {
            f"[{field.full_name}]" if field.is_extension else field.name: self._field(field, value)
            for field, value in message.ListFields()
        }

    def _field(self, field: FieldDescriptor, value: Any) -> Any:
        try:
            if not field.is_repeated:
                return self._value(field, value)
            if field.message_type is None or not is_map_entry(field.message_type):
                return [self._value(field, item) for item in value]
            item = field.message_type.fields_by_number[2]
            return {_key(key): self._value(item, value[key]) for key in sorted(value)}
        except Refusal as refusal:
            refusal.path.append(field.name)
            raise

    def _value(self, field: FieldDescriptor, value: Any) -> Any:  # noqa: PLR0911 - a return per type
        if field.message_type is not None:
            return self._plain(value)
        if field.enum_type is not None:
            if field.enum_type.full_name == "google.protobuf.NullValue":
                return None
            return dict(enum_names(field.enum_type)).get(value, value)
        match KINDS[field.type]:
            case "int64" | "uint64" | "fixed64" | "sfixed64" | "sint64":
                return str(value)
            case "bytes":
                return base64.b64encode(value).decode()
            case "double":
                return json_number(value)
            case "float":
                return json_number(float(str(np.float32(value))))  # the shortest text for 32 bits
        return value

    def _any(self, message: Message) -> Any:
        if not message.type_url:
            return {}
        try:
            descriptor = self._pool.FindMessageTypeByName(message.type_url.rpartition("/")[2])
        except KeyError:
            return {"@type": message.type_url, "value": base64.b64encode(message.value).decode()}
        WireChecker(descriptor).check(message.value)
        content = parse_message(GetMessageClass(descriptor), message.value)
        plain = self._plain(content)
        special = descriptor.full_name.startswith(_PACKAGE) and plain != self._fields(content)
        return {"@type": message.type_url, **({"value": plain} if special else plain)}


def parse_message(message_class: Any, raw: bytes) -> Message:
    """A message of checked bytes."""
    try:
        return message_class.FromString(raw)
    except DecodeError as error:  # not seen by the checker: the parser's limit counts differently
        raise Refusal(
            "protobuf_too_deep", f"Protobuf's parser takes {MAX_LEVELS} levels of messages: {error}"
        ) from error


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
