"""The numbers of a message's fields: in Protobuf they, not names, tell which field a value belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import (
    FieldType,
    Map,
    Message,
    Repeated,
    load,
    message_named,
    parse,
)
from tabletopic_kernel.formats.wire import WriterSchema
from tabletopic_kernel.model.columns.names import step


def numbers_of(schema: WriterSchema) -> dict[str, str]:
    """The numbers that lead to each field, by dotted path; raises as ``compile_schema``.

    The message's full name precedes them, as in ``shop/OrderPaid.2.1``: a topic may have several messages.
    """
    files, name = compile_schema(schema.text, dict(schema.references))
    root = parse(message_named(load(files).FindFileByName(name), schema.message))
    return dict(_numbers(root, number=f"{root.name.replace('.', '/')}."))


def _numbers(node: FieldType, path: str = "", number: str = "") -> Iterator[tuple[str, str]]:
    match node:
        case Message(fields=fields):
            for field in fields:
                name, own = path + step(field.name), f"{number}{field.number}"
                yield name, own
                yield from _numbers(field.type, f"{name}.", f"{own}.")
        case Repeated(item=inner):
            yield from _numbers(inner, f"{path}element.", number)
        case Map(value=inner):
            yield from _numbers(inner, f"{path}value.", number)
