"""Maps a message type to simpler types with the same bytes, for the engines to read.

| schema's type | read as | because |
|---|---|---|
| any single scalar | the scalar, with presence | it shows whether the field is set |
| enum | int32 | it keeps numbers without a name, also of closed enums |
| int32, uint32, sint32, enum | 64 bits, to the native reader | the reader silently truncates 32-bit types |
| map | repeated message of key and value | it shows the entries' order, and equal keys |
| Timestamp, Duration, wrappers | messages of our own | readers then do not judge their values |
| JSON | repeated bytes, to the native reader | the reader has no recursion; the pieces of a message join |
| a oneof | separate fields, to the native reader | they show that two members are set |

The wire format of each pair is the same (Protobuf documentation, "Encoding" and "Updating a message type").
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import (  # type: ignore[import-untyped]
    Descriptor,
    FieldDescriptor,
    FileDescriptor,
)
from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    EDITION_2023,
    FeatureSet,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]

from tabletopic_kernel.formats.protobuf.schema import tree

_FILE: Final = "tabletopic_plain.proto"
_PACKAGE: Final = "tabletopic_plain"
_ROOT: Final = "Root"
_BATCH: Final = "Batch"
_Fields = list[tuple[int, tree.FieldType, bool]]  # number, type, whether it is a group
_WIDER: Final = {"int32": "int64", "uint32": "uint64", "sint32": "sint64"}
_TYPES: Final = {kind: number for number, kind in tree.KINDS.items()}


def name_of(number: int) -> str:
    """The name that field ``number`` has in every plain message."""
    return f"f{number}"


class Plain:
    """A message type in plain types: ``file`` has them, ``root`` is the top, ``batch`` many of it.

    Without the ``pool`` that has the schema's own files, the types are those for the native reader.
    """

    def __init__(self, root: tree.Message, pool: DescriptorPool | None = None) -> None:
        self._native = pool is None
        self._pool = DescriptorPool() if pool is None else pool
        self._proto = FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")
        self._editions = has_groups(root)
        if self._editions:  # proto3 has no groups, and proto2 treats text and enums differently
            self._proto.syntax = "editions"
            self._proto.edition = EDITION_2023
        self._names: dict[str, str] = {}
        self._message(root)
        batch = self._proto.message_type.add(name=_BATCH)
        batch.field.add(
            name=name_of(1),
            number=1,
            label=FieldDescriptor.LABEL_REPEATED,
            type=FieldDescriptor.TYPE_MESSAGE,
            type_name=f".{_PACKAGE}.{_ROOT}",
        )
        self._pool.Add(self._proto)
        self.file: FileDescriptor = self._pool.FindFileByName(_FILE)
        self.root: Descriptor = self.file.message_types_by_name[_ROOT]
        self.batch: Descriptor = self.file.message_types_by_name[_BATCH]

    def _message(self, node: tree.Message) -> str:
        key = f".{node.name}"  # no helper begins with a dot
        if key not in self._names:
            self._names[key] = name = f"Message{len(self._names)}" if self._names else _ROOT
            oneofs = [[node.fields[i].number for i in oneof] for oneof in node.oneofs]
            fields = [(field.number, field.type, field.delimited) for field in node.fields]
            self._add(name, fields, [] if self._native else oneofs)
        return self._names[key]

    def _helper(self, name: str, fields: _Fields) -> str:
        if name not in self._names:
            self._names[name] = name
            self._add(name, fields, [])
        return name

    def _add(self, name: str, fields: _Fields, oneofs: list[list[int]]) -> None:
        message = self._proto.message_type.add(name=name)
        oneof_of = {number: index for index, numbers in enumerate(oneofs) for number in numbers}
        for index in range(len(oneofs)):
            message.oneof_decl.add(name=f"oneof{index}")
        for number, node, delimited in fields:
            field = message.field.add(name=name_of(number), number=number)
            field.label = FieldDescriptor.LABEL_OPTIONAL
            self._set_type(field, node, f"{name}Entry{number}")
            if delimited:
                field.options.features.message_encoding = FeatureSet.DELIMITED
            if number in oneof_of:
                field.oneof_index = oneof_of[number]
            elif field.label == FieldDescriptor.LABEL_OPTIONAL and not self._editions:
                field.proto3_optional = True  # implemented as a oneof of its own
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _set_type(self, field: Any, node: tree.FieldType, entry: str) -> None:
        match node:
            case tree.Repeated(item):
                self._set_type(field, item, entry)
                field.label = FieldDescriptor.LABEL_REPEATED
            case tree.Map(key, value):
                name = self._helper(entry, [(1, tree.Scalar(key), False), (2, value, False)])
                field.type, field.type_name = FieldDescriptor.TYPE_MESSAGE, f".{_PACKAGE}.{name}"
                field.label = FieldDescriptor.LABEL_REPEATED
            case tree.Json() if self._native:
                field.label, field.type = FieldDescriptor.LABEL_REPEATED, FieldDescriptor.TYPE_BYTES
            case tree.Json(name):
                field.type, field.type_name = FieldDescriptor.TYPE_MESSAGE, f".{name}"
                file = self._pool.FindMessageTypeByName(name).file.name
                if file not in self._proto.dependency:
                    self._proto.dependency.append(file)
            case tree.Scalar(kind):
                field.type = _TYPES[_WIDER.get(kind, kind) if self._native else kind]
            case tree.Enum():
                self._set_type(field, tree.Scalar("int32"), entry)
            case _:
                field.type = FieldDescriptor.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{self._type_name(node)}"

    def _type_name(self, node: tree.Timestamp | tree.Duration | tree.Wrapper | tree.Message) -> str:
        match node:
            case tree.Message():
                return self._message(node)
            case tree.Wrapper(kind):
                return self._helper(f"Wrapped_{kind}", [(1, tree.Scalar(kind), False)])
        return self._helper("Moment", [(1, tree.Scalar("int64"), False), (2, tree.Scalar("int32"), False)])


def has_groups(root: tree.Message) -> bool:
    """Whether a field is encoded as a group."""
    messages = [node for node in tree.walk(root) if isinstance(node, tree.Message)]
    return any(field.delimited for message in messages for field in message.fields)


def largest_numbers(root: tree.Message) -> int:
    """The sum of the largest field numbers of all messages, as often as they occur in the tree."""
    messages = [node for node in tree.walk(root) if isinstance(node, tree.Message)]
    return sum(max(field.number for field in message.fields) for message in messages)
