"""The Confluent wire format: a magic byte 0, a schema id in 4 bytes big-endian, the body.

Source: Confluent Platform documentation, "Wire format".
"""

import struct

MAGIC = 0
PREFIX_BYTES = 5
_PREFIX = struct.Struct(">bI")


def prefix(schema_id: int) -> bytes:
    """The 5 bytes in front of a body written with ``schema_id``."""
    return _PREFIX.pack(MAGIC, schema_id)


def schema_id_of(value: bytes) -> int | None:
    """The schema id of one framed value; None where there is no frame."""
    if len(value) < PREFIX_BYTES or value[0] != MAGIC:
        return None
    return int(_PREFIX.unpack_from(value)[1])
