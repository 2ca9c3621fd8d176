"""A Protobuf message type as a tree of frozen nodes.

Rules: Protobuf language guides (proto2, proto3, editions) and the pages of the well-known types. Types that
cannot be a table's columns are ``Json`` nodes: Struct, Value, ListValue and Any; messages without fields;
messages that contain themselves, everywhere. The root message keeps its columns, and only references back to
it are JSON, so the tree is finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor  # type: ignore[import-untyped]
from google.protobuf.descriptor_pb2 import FileDescriptorSet  # type: ignore[import-untyped]
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]

from tabletopic_kernel.formats.protobuf.schema.field_meta import meta_reader
from tabletopic_kernel.model.columns.types import protobuf_meaning
from tabletopic_kernel.model.errors import ActionNeededError

# Deeper types would exhaust Python's stack in PyIceberg's visitors; people write fewer than ten.
MAX_DEPTH: Final = 64
# A message type is expanded at every use, so a short schema can mean a tree of any size.
MAX_NODES: Final = 20_000

Presence = Literal["implicit", "optional", "required"]

SCALARS: Final = (
    *("double", "float", "bool", "string", "bytes", "int32", "int64", "uint32", "uint64"),
    *("sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64"),
)
KINDS: Final[dict[int, str]] = {getattr(FieldDescriptor, f"TYPE_{kind.upper()}"): kind for kind in SCALARS}
_WRAPPED: Final = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
WRAPPERS: Final = {f"google.protobuf.{kind}Value": kind.lower() for kind in _WRAPPED}
_ALWAYS_JSON: Final = frozenset(f"google.protobuf.{name}" for name in ("Any", "Struct", "Value", "ListValue"))


class ProtobufSchemaError(ActionNeededError):
    """The registry's schema is not valid Protobuf, or beyond our limits: register a valid one."""


@dataclass(frozen=True)
class Scalar:
    """A scalar type, by its keyword in .proto files."""

    kind: str


@dataclass(frozen=True)
class Enum:
    """Numbers with names; the first name if a number has several."""

    names: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Timestamp:
    """google.protobuf.Timestamp: seconds and nanoseconds since 1970."""


@dataclass(frozen=True)
class Duration:
    """google.protobuf.Duration: seconds and nanoseconds of the same sign."""


@dataclass(frozen=True)
class Wrapper:
    """google.protobuf.Int32Value and so on: a scalar that may be absent."""

    kind: str


@dataclass(frozen=True)
class Json:
    """A message that is JSON text in the table; ``name`` is its full name."""

    name: str


@dataclass(frozen=True)
class Message:
    """A message with its own columns. ``oneofs``: positions in ``fields``, at most one set in each."""

    name: str
    fields: tuple[Field, ...]
    oneofs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Repeated:
    """A list; ``packed``: how writers lay out numbers."""

    item: Element
    packed: bool


@dataclass(frozen=True)
class Map:
    """A map; ``key`` is a scalar's kind."""

    key: str
    value: Element


Element = Scalar | Enum | Timestamp | Duration | Wrapper | Json | Message
FieldType = Element | Repeated | Map


@dataclass(frozen=True)
class Field:
    """A field. ``delimited``: encoded as a group, between two tags, not after a length.

    ``meaning``: Connect's name of the type, if the schema has it.
    """

    name: str
    number: int
    type: FieldType
    presence: Presence
    delimited: bool
    meaning: str | None = None


def load(files: bytes) -> DescriptorPool:
    """A pool with the files of a FileDescriptorSet, each after its imports; raises ProtobufSchemaError."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(files).file:
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:  # the pool raises this for any error
            raise ProtobufSchemaError(f"the Protobuf schema is not valid: {error}") from error
    return pool


def message_named(file: FileDescriptor, name: str | None) -> Descriptor:
    """A file's message type: the first, or by name (package optional); raises ProtobufSchemaError."""
    messages = dict(messages_of(file))
    if not messages:
        raise ProtobufSchemaError("the Protobuf schema has no message; register one that has")
    if name is None:
        return next(iter(messages.values()))
    for full_name in (name, f"{file.package}.{name}"):
        if full_name in messages:
            return messages[full_name]
    known = ", ".join(list(messages)[:20])
    raise ProtobufSchemaError(f"the Protobuf schema has no message {name!r}; it has {known}")


def messages_of(file: FileDescriptor) -> Iterator[tuple[str, Descriptor]]:
    """Full name and type of every message of a file, nested ones after their parents."""
    todo = list(reversed(file.message_types_by_name.values()))
    while todo:
        message = todo.pop()
        yield message.full_name, message
        todo += [nested for nested in reversed(message.nested_types) if not is_map_entry(nested)]


def is_map_entry(message: Descriptor) -> bool:
    """Whether the compiler generated a nested type for a map field."""
    return bool(message.GetOptions().map_entry)


def fields_of(message: Descriptor) -> list[tuple[str, FieldDescriptor]]:
    """The fields by number, with extensions from the loaded files, by their full names if need be."""
    fields = [(field.name, field) for field in message.fields]
    taken = {name for name, _ in fields}
    for field in sorted(message.file.pool.FindAllExtensions(message), key=lambda field: field.number):
        name = field.name if field.name not in taken else field.full_name.replace(".", "_")
        taken.add(name)
        fields.append((name, field))
    return fields


def parse(message: Descriptor) -> Message | Json:
    """The tree of a message type; Json if it has no fields. Raises ProtobufSchemaError beyond the limits."""
    if not fields_of(message):
        return Json(message.full_name)
    return _Parser(message).message(message, 1)


class _Parser:
    def __init__(self, root: Descriptor) -> None:
        self._root = root.full_name
        self._meta_of = meta_reader(root.file.pool)
        self._recursive: dict[str, bool] = {}
        self._nodes = 0

    def message(self, message: Descriptor, depth: int) -> Message:
        if depth > MAX_DEPTH:
            raise ProtobufSchemaError(f"messages nest more than {MAX_DEPTH} levels deep in the schema")
        fields: list[Field] = []
        oneofs: dict[str, list[int]] = {}
        for name, field in fields_of(message):
            self._nodes += 1
            if self._nodes > MAX_NODES:
                raise ProtobufSchemaError(f"the message has more than {MAX_NODES} columns")
            if field.containing_oneof is not None:
                oneofs.setdefault(field.containing_oneof.name, []).append(len(fields))
            delimited = field.type == FieldDescriptor.TYPE_GROUP
            kind, meaning = self._type(field, depth), protobuf_meaning(self._meta_of(field))
            fields.append(Field(name, field.number, kind, _presence(field), delimited, meaning))
        choices = tuple(tuple(members) for members in oneofs.values() if len(members) > 1)
        return Message(message.full_name, tuple(fields), choices)

    def _type(self, field: FieldDescriptor, depth: int) -> FieldType:
        if field.message_type is not None and is_map_entry(field.message_type):
            key, value = field.message_type.fields_by_number[1], field.message_type.fields_by_number[2]
            return Map(KINDS[key.type], self._element(value, depth))
        item = self._element(field, depth)
        return Repeated(item, field.is_packed) if field.is_repeated else item

    def _element(self, field: FieldDescriptor, depth: int) -> Element:
        message = field.message_type
        if message is None:
            return Enum(enum_names(field.enum_type)) if field.enum_type else Scalar(KINDS[field.type])
        match message.full_name:
            case "google.protobuf.Timestamp":
                return Timestamp()
            case "google.protobuf.Duration":
                return Duration()
            case name if name in WRAPPERS:
                return Wrapper(WRAPPERS[name])
            case name if name in _ALWAYS_JSON or name == self._root or self._contains_itself(message):
                return Json(name)
        return self.message(message, depth + 1) if fields_of(message) else Json(message.full_name)

    def _contains_itself(self, message: Descriptor) -> bool:
        """Whether the message contains itself, other than through the root or through JSON nodes."""
        if message.full_name not in self._recursive:
            seen: set[str] = set()
            todo = [message]
            while todo:
                for part in _parts(todo.pop()):
                    if part.full_name not in seen | _ALWAYS_JSON | {self._root}:
                        seen.add(part.full_name)
                        todo.append(part)
            self._recursive[message.full_name] = message.full_name in seen
        return self._recursive[message.full_name]


def enum_names(enum: EnumDescriptor) -> tuple[tuple[int, str], ...]:
    """Each number with its first name."""
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)
    return tuple(names.items())


def _parts(message: Descriptor) -> Iterator[Descriptor]:
    for _, field in fields_of(message):
        part = field.message_type
        if part is not None:
            yield from _parts(part) if is_map_entry(part) else [part]


def _presence(field: FieldDescriptor) -> Presence:
    if field.is_required:
        return "required"
    return "optional" if not field.is_repeated and field.has_presence else "implicit"


def walk(node: Any) -> Iterator[Any]:
    """The node and all nodes below it."""
    yield node
    match node:
        case Message(fields=fields):
            for field in fields:
                yield from walk(field.type)
        case Repeated(item=item):
            yield from walk(item)
        case Map(value=value):
            yield from walk(value)
