"""One writer schema, as a decoder is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class WriterSchema:
    """One writer schema and those it refers to (name → text).

    ``kind`` is the registry's AVRO, JSON or PROTOBUF; or STRING, RAW or INFERRED (JSON) for values without a
    schema. ``message`` names the message of a Protobuf file, None the first. ``framed``: values begin with
    the schema's id. ``nanos`` says what becomes of times with more digits than microseconds, in Protobuf and
    by a JSON Schema.
    ``renames`` maps dotted paths of fields to the columns that they have in the table instead.
    """

    text: str = ""
    references: tuple[tuple[str, str], ...] = ()
    kind: str = "AVRO"
    message: str | None = None
    framed: bool = True
    nanos: Literal["refuse", "floor"] = "refuse"
    renames: tuple[tuple[str, str], ...] = ()
