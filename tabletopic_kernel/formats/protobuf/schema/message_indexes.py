"""Message indexes: which message of a schema's file a record contains.

Source: Confluent Platform documentation, "Wire format": after the schema id come the number of indexes and
the indexes, as zigzag varints: the position of the message in its file, then of each nested message in its
parent. The first message of a file may be the single byte 0.

Writers count differently if a message has map fields: the types that the compiler generates for these count
as nested messages for most clients (Python, Go, .NET, C++), but not for Java's. Both are understood; if they
lead to different messages, the first way counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor import Descriptor, FileDescriptor  # type: ignore[import-untyped]

from tabletopic_kernel.formats.protobuf.schema.tree import is_map_entry
from tabletopic_kernel.formats.wire import varint

MAX_INDEX_BYTES: Final = 5  # of one varint
MAX_LEVELS: Final = 64  # of nested messages
MAX_INDEX: Final = 2**31 - 1  # of a message in its file


def headers_of(file: FileDescriptor) -> dict[bytes, str]:
    """The bytes between schema id and body → the message's full name, for all messages of a file."""
    names = {b"\x00": next(iter(file.message_types_by_name.values())).full_name}
    for count_map_entries in (True, False):
        for path, message in _paths(list(file.message_types_by_name.values()), (), count_map_entries):
            names.setdefault(header_of(path), message.full_name)
    return names


def header_of(path: tuple[int, ...]) -> bytes:
    """The bytes of message indexes, with their number.

    >>> header_of((1, 0)).hex()
    '040200'

    Raises ValueError for a negative index.
    """
    if any(index < 0 for index in path):
        raise ValueError(f"message indexes {list(path)}: no message has a negative one")
    return b"".join(varint(number << 1) for number in (len(path), *path))


def read_header(value: bytes) -> tuple[tuple[int, ...], int]:
    """The message indexes at the start of what follows the schema id, and the start of the body.

    Raises ValueError if there are none, or one that no message can have.

    >>> read_header(bytes.fromhex("0402000a"))
    ((1, 0), 3)
    """
    count, position = _read_varint(value, 0)
    if not 0 <= count <= MAX_LEVELS:
        raise ValueError(
            f"{count} message indexes after the schema id; was the value written by a Protobuf serializer, "
            "and not with use.deprecated.format?"
        )
    path = []
    for _ in range(count):
        index, position = _read_varint(value, position)
        if not 0 <= index <= MAX_INDEX:
            raise ValueError(
                f"{index} among the message indexes behind the schema id, and no message has it; was the "
                "value written by a Protobuf serializer?"
            )
        path.append(index)
    return tuple(path) or (0,), position


def _paths(
    messages: list[Descriptor], above: tuple[int, ...], count_map_entries: bool
) -> Iterator[tuple[tuple[int, ...], Descriptor]]:
    counted = [message for message in messages if count_map_entries or not is_map_entry(message)]
    for index, message in enumerate(counted):
        if not is_map_entry(message):
            yield (*above, index), message
            yield from _paths(message.nested_types, (*above, index), count_map_entries)


def _read_varint(value: bytes, position: int) -> tuple[int, int]:
    number = 0
    for i, byte in enumerate(value[position : position + MAX_INDEX_BYTES]):
        number |= (byte & 127) << 7 * i
        if byte < 128:
            return (number >> 1) ^ -(number & 1), position + i + 1
    raise ValueError("the value ends, or is damaged, within the message indexes after the schema id")
