"""Registered schemas as decoders are made of them, by the settings of their topic.

The host, a plan, `peek` and a candidate's look all begin here, so that what is said before is what happens.
"""

from __future__ import annotations

from typing import Protocol

from tabletopic_kernel.formats.writer_schema import WriterSchema
from tabletopic_kernel.model.settings.sections import TopicSettings


class SchemaText(Protocol):
    """A schema that is registered, or may be."""

    @property
    def text(self) -> str:
        """What was written."""

    @property
    def kind(self) -> str:
        """AVRO, JSON or PROTOBUF."""

    @property
    def references(self) -> tuple[tuple[str, str], ...]:
        """Name and text of each schema that it refers to."""


def value_writer(schema: SchemaText, settings: TopicSettings) -> WriterSchema:
    """The schema of a topic's values."""
    return WriterSchema(
        schema.text,
        schema.references,
        schema.kind,
        settings.value_message,
        framed=settings.value_format != "by_latest_schema",
        nanos=settings.value_nanos,
    )


def key_writer(schema: SchemaText, settings: TopicSettings) -> WriterSchema:
    """The schema of a topic's keys, which always name it."""
    return WriterSchema(schema.text, schema.references, schema.kind, nanos=settings.value_nanos)


def whole_writer(kind: str) -> WriterSchema:
    """What values without a schema are decoded by: STRING, RAW or INFERRED."""
    return WriterSchema(kind=kind, framed=False)
