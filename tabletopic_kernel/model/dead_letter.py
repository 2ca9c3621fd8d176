"""Dead letters: the columns of their tables, and the reasons that do not come from a decoder.

A dead letter is the whole record as Kafka returned it, with its position, and why and when it was rejected.
Its table has the name of the topic's table plus a suffix.
"""

from __future__ import annotations

from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tabletopic_kernel.model.ledger import PREFIX

SUFFIX: Final = "__dead_letters"
DEAD_LETTERS_OF_PROPERTY: Final = f"{PREFIX}dead-letters-of"  # in the dead-letter table: its topic

# Reasons. A decoder's begin with its format: "avro_trailing_bytes".
NO_SCHEMA_ID: Final = "no_schema_id"
BAD_SCHEMA_HEADER: Final = "bad_schema_header"  # the header for the schema is invalid
UNKNOWN_SCHEMA: Final = "unknown_schema"  # the registry responds and has no such id
BAD_SCHEMA: Final = "bad_schema"  # the registry has it, but it is unreadable
ENCRYPTED: Final = "encrypted"  # a rule of its schema encrypts the whole value
INCOMPATIBLE_SCHEMA: Final = "incompatible_schema"  # its columns do not fit the table's without loss
OTHER_MESSAGE: Final = "protobuf_other_message"  # another message of the Protobuf file than the table's
KEY_NOT_TEXT: Final = "key_not_text"
NO_KEY: Final = "no_key"  # of a table that is kept by key
NOT_AN_ENVELOPE: Final = "not_an_envelope"  # not one of the expected change events of Debezium
PROJECTION_FAILED: Final = "projection_failed"
EXPECTATION: Final = "expectation"  # a rule on rows is false for it
INTERNAL_ERROR: Final = "internal_error"  # a fault of this program that only such a record reveals
DOES_NOT_FIT: Final = "does_not_fit"  # a value that the table's column cannot hold

_HEADER = StructType(
    NestedField(14, "key", StringType(), required=False),
    NestedField(15, "value", BinaryType(), required=False),
)
# A catalog assigns its own field ids to a table it creates: match by name.
SCHEMA: Final = Schema(
    NestedField(1, "topic", StringType(), required=True),
    NestedField(2, "partition", IntegerType(), required=True),
    NestedField(3, "offset", LongType(), required=True),
    NestedField(4, "timestamp", TimestamptzType(), required=False, doc="of the Kafka record"),
    NestedField(5, "key", BinaryType(), required=False, doc="raw bytes"),
    NestedField(6, "value", BinaryType(), required=False, doc="raw bytes"),
    NestedField(
        7,
        "headers",
        ListType(element_id=13, element_type=_HEADER, element_required=False),
        required=False,
        doc="all of them, in order",
    ),
    NestedField(8, "schema_id", IntegerType(), required=False, doc="as the value names it"),
    NestedField(9, "reason", StringType(), required=True, doc="short class of what is wrong"),
    NestedField(10, "message", StringType(), required=True, doc="what is wrong, for a person"),
    NestedField(11, "at", TimestamptzType(), required=True, doc="when it was refused"),
    NestedField(
        12, "replay_id", StringType(), required=False, doc="set while a replay makes the record a row"
    ),
)


def dead_letter_identifier(table: tuple[str, ...]) -> tuple[str, ...]:
    """The identifier of the dead-letter table that belongs to ``table``.

    >>> dead_letter_identifier(("default", "clicks"))
    ('default', 'clicks__dead_letters')
    """
    return (*table[:-1], table[-1] + SUFFIX)
