"""The Confluent wire format: how a record names its schema; and that schema.

``pipeline/split_by_schema`` splits records by it.

The body is preceded by a magic byte 0 and a schema id in 4 bytes, big-endian. Or a header has them, and the
body is alone: ``__value_schema_id`` for the value, ``__key_schema_id`` for the key. A header may have the
schema's GUID instead, with a magic byte 1 and its 16 bytes. Protobuf's message indexes follow the id in
either place.

AWS's serializers prepend a byte 3, a byte for the compression of the body (0: none, 5: zlib) and the 16 bytes
of the schema version's UUID.

Source: Confluent Platform documentation, "Wire format"; for headers and GUIDs, the code of Confluent's
``SchemaId`` and ``DualSchemaIdDeserializer``; ``AWSSchemaRegistryConstants`` of
awslabs/aws-glue-schema-registry.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class WriterSchema:
    """One writer schema and those it refers to (name → text).

    ``kind`` is the registry's AVRO, JSON or PROTOBUF; or STRING, RAW or INFERRED (JSON) for values without a
    schema. ``message`` names the message of a Protobuf file; None: the first. ``framed``: values begin with
    the schema's id. ``nanos``: what to do with times finer than microseconds, in Protobuf and with a JSON
    Schema. ``renames`` maps dotted paths of fields to their columns in the table, if these have other names.
    ``encrypted_by``: the rule that encrypts whole values, if one does. ``by_name``: the docs of the columns
    have the names of Kafka Connect's types, and values are as sent.
    """

    text: str = ""
    references: tuple[tuple[str, str], ...] = ()
    kind: str = "AVRO"
    message: str | None = None
    framed: bool = True
    nanos: Literal["refuse", "floor"] = "refuse"
    renames: tuple[tuple[str, str], ...] = ()
    encrypted_by: str = ""
    by_name: bool = False

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.kind, self.text, self.references)


def fingerprint(kind: str, text: str, references: tuple[tuple[str, str], ...]) -> str:
    """64 bits that tell a schema's text from another; layout and Protobuf's comments do not matter.

    >>> fingerprint("AVRO", '"long"', ()) == fingerprint("AVRO", ' "long" ', ())
    True
    >>> fingerprint("PROTOBUF", "message A { }  // a", ()) == fingerprint("PROTOBUF", "message A {}", ())
    True
    """
    texts = [kind, _plain(text), *sorted(f"{name}\n{_plain(referred)}" for name, referred in references)]
    # Those of Protobuf are longer than they were when its layout counted.
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[: 18 if kind == "PROTOBUF" else 16]


def comparable(text: str, texts: Iterable[str]) -> list[str]:
    """Those of ``texts`` that were computed as this fingerprint was."""
    return [other for other in texts if len(other) == len(text)]


_TOKEN: Final = re.compile(r"""//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|"[^"\n]*"|'[^'\n]*'|[\w.]+|\S""")


def _plain(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):  # Protobuf's is no JSON
        return " ".join(token for token in _TOKEN.findall(text) if not token.startswith(("//", "/*")))


# How a record names its schema: by the registry's id, or by a GUID as text.
SchemaKey = int | str

MAGIC: Final = 0
GUID_MAGIC: Final = 1
PREFIX_BYTES: Final = 5
GUID_BYTES: Final = 17
# Schemas that Kafka Connect puts into records of JSON: their kind, and how their keys begin.
CONNECT_KIND: Final = "CONNECT"
CONNECT_KEY: Final = "connect-"
GLUE_MAGIC: Final = 3
GLUE_BYTES: Final = 18
GLUE_PLAIN, GLUE_ZLIB = 0, 5
VALUE_HEADER: Final = "__value_schema_id"
KEY_HEADER: Final = "__key_schema_id"
_PREFIX = struct.Struct(">bI")


def age(key: SchemaKey) -> tuple[bool, int, str]:
    """A sort key: older schemas before newer ones, by id; then GUIDs, which show no age.

    >>> sorted(["6da3", 10, 9], key=age)
    [9, 10, '6da3']
    """
    return (True, 0, key) if isinstance(key, str) else (False, key, "")


def prefix(schema_id: int) -> bytes:
    """The 5 bytes before a body written with ``schema_id``."""
    return _PREFIX.pack(MAGIC, schema_id)


def varint(number: int) -> bytes:
    """An unsigned number in groups of seven bits, the lowest first, as Avro and Protobuf have them."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def read_schema_header(header: bytes) -> tuple[SchemaKey, bytes]:
    """The id or GUID in a header's value, and the bytes after it.

    Raises ValueError if it names none.

    >>> read_schema_header(bytes.fromhex("0000000007" "00"))
    (7, b'\\x00')
    >>> read_schema_header(bytes.fromhex("01" "6da336d8f1d30f984c47d03ee8a14a10"))
    ('6da336d8-f1d3-0f98-4c47-d03ee8a14a10', b'')
    """
    magic = header[0] if header else None
    if magic == MAGIC and len(header) >= PREFIX_BYTES:
        return int(_PREFIX.unpack_from(header)[1]), header[PREFIX_BYTES:]
    if magic == GUID_MAGIC and len(header) >= GUID_BYTES:
        return str(uuid.UUID(bytes=header[1:GUID_BYTES])), header[GUID_BYTES:]
    if magic in (MAGIC, GUID_MAGIC):
        raise ValueError(f"has {len(header)} bytes, too few for an id or a GUID")
    raise ValueError("is empty" if magic is None else f"begins with byte {magic}, and 0 or 1 was expected")
