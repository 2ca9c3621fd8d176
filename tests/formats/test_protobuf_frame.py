"""Message indexes."""

from __future__ import annotations

import pytest

from tabletopic_kernel.formats.protobuf.schema.message_indexes import header_of, headers_of, read_header
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load

SCHEMA = """
syntax = "proto3"; package t;
message A { message B { message C {} } map<string, int32> m = 1; message D {} message E {} }
message F {}
"""


def _headers(schema: str) -> dict[bytes, str]:
    files, name = compile_schema(schema)
    return headers_of(load(files).FindFileByName(name))


def test_every_message_has_its_indexes() -> None:
    """The first message may be a single 0; types that are made for maps count, or they do not, as in Java."""
    headers = _headers(SCHEMA)
    assert headers[b"\0"] == headers[header_of((0,))] == "t.A"
    assert headers[header_of((1,))] == "t.F"
    assert headers[header_of((0, 0))] == "t.A.B"
    assert headers[header_of((0, 0, 0))] == "t.A.B.C"
    assert headers[header_of((0, 3))] == "t.A.E"
    assert headers[header_of((0, 1))] == "t.A.D"  # Java's; nobody sends records of the map's own type
    assert (
        headers[header_of((0, 2))] == "t.A.D"
    )  # t.A.E to Java: the first way to count is the one that counts


@pytest.mark.parametrize("path", [(0,), (1,), (0, 0), (63, 64, 1000), (0,) * 20])
def test_indexes_are_read_as_they_are_written(path: tuple[int, ...]) -> None:
    """Reading gives the path and the place behind it."""
    header = header_of(path)
    assert read_header(header + b"\x0a\x00") == (path, len(header))


def test_a_single_zero_is_the_first_message() -> None:
    """The short form."""
    assert read_header(b"\0\x0a") == ((0,), 1)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "80",
        "0402",
        "01",
        "ff",
        "8002",
        "80808080800002",
        "fe01",
        "0201",
        "0263",
        "04020103",
        "02ffffffff1f",
        "0280808080100a",
    ],
)
def test_what_are_no_indexes(header: str) -> None:
    """Cut, negative, too many: an error that says what may be the cause."""
    with pytest.raises(ValueError, match="message indexes"):
        read_header(bytes.fromhex(header))
