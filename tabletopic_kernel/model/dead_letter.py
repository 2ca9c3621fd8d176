"""Dead letters: the columns of their tables, and the reasons that no decoder gives.

A dead letter is the whole record as Kafka gave it, with where it was, why it is no row, and when that
was found. Its table has the name of the topic's table and a suffix.
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
DEAD_LETTERS_OF_PROPERTY: Final = f"{PREFIX}dead-letters-of"  # of their table: the topic

# Reasons. A decoder's begin with its format: "avro_trailing_bytes".
NO_SCHEMA_ID: Final = "no_schema_id"
BAD_SCHEMA_HEADER: Final = "bad_schema_header"  # a header that is to name the schema and does not
UNKNOWN_SCHEMA: Final = "unknown_schema"  # the registry answers and has no such id
BAD_SCHEMA: Final = "bad_schema"  # it has it, and it cannot be read
INCOMPATIBLE_SCHEMA: Final = "incompatible_schema"  # its columns do not fit the table's without loss
OTHER_MESSAGE: Final = "protobuf_other_message"  # of the Protobuf file than the table has
KEY_NOT_TEXT: Final = "key_not_text"
NOT_AN_ENVELOPE: Final = "not_an_envelope"  # Debezium's change events are expected, and this is none
PROJECTION_FAILED: Final = "projection_failed"
INTERNAL_ERROR: Final = "internal_error"  # a fault of this program that only such a record brings to light
DOES_NOT_FIT: Final = "does_not_fit"  # a value that the table's column cannot hold

_HEADER = StructType(
    NestedField(14, "key", StringType(), required=False),
    NestedField(15, "value", BinaryType(), required=False),
)
# A catalog gives ids of its own to the fields of a table that it makes: go by name.
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
        12, "replay_id", StringType(), required=False, doc="set while a replay moves the letter to the table"
    ),
)


def dead_letter_identifier(table: tuple[str, ...]) -> tuple[str, ...]:
    """The identifier of the dead-letter table that belongs to ``table``.

    >>> dead_letter_identifier(("default", "clicks"))
    ('default', 'clicks__dead_letters')
    """
    return (*table[:-1], table[-1] + SUFFIX)
