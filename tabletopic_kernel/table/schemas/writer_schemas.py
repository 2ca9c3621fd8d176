"""Writer schemas by a topic's settings: of values, of keys, and from an unregistered file.

The host, a plan, `peek` and the check of a candidate all start here, so what is announced is what happens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Protocol, get_args

from pyiceberg.types import IcebergType

from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats.decoder import BadSchemaError, make_decoder
from tabletopic_kernel.formats.wire import WriterSchema
from tabletopic_kernel.model.columns.table_columns import key_type
from tabletopic_kernel.model.errors import RetryableError, UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings


class SchemaText(Protocol):
    """A schema that is registered, or may be."""

    @property
    def text(self) -> str:
        """The schema as it was written."""

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
    """The schema of a topic's keys, which always name theirs."""
    return WriterSchema(schema.text, schema.references, schema.kind, nanos=settings.value_nanos)


def whole_writer(kind: str) -> WriterSchema:
    """The schema that values without one are decoded with: STRING, RAW or INFERRED."""
    return WriterSchema(kind=kind, framed=False)


SchemaType = Literal["AVRO", "PROTOBUF", "JSON"]
_BY_SUFFIX: Final[dict[str, SchemaType]] = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
# The id of an unregistered schema; no registry assigns it.
UNREGISTERED: Final = 0


@dataclass(frozen=True)
class Candidate:
    """A schema's text, its type as registries call it, and the file's name for people.

    ``references`` are those of the subject's newest version, once they are known.
    """

    name: str
    kind: SchemaType
    text: str
    references: tuple[tuple[str, str], ...] = ()


def read_candidate(path: str | Path, kind: str | None = None) -> Candidate:
    """Read a schema; ``kind`` None: by the file's suffix.

    Raises:
        UsageError: the file cannot be read, or its type is not known.
    """
    file = Path(path).expanduser()
    chosen = next((one for one in get_args(SchemaType) if one == (kind or "").upper()), None)
    if kind is not None and chosen is None:
        raise UsageError(f"{kind!r} is not a schema type; write avro, protobuf or json")
    chosen = chosen or _BY_SUFFIX.get(file.suffix.lower())
    if chosen is None:
        raise UsageError(
            f"{file.name}: {', '.join(_BY_SUFFIX)} determine the type of a schema; otherwise "
            "give --schema-type"
        )
    try:
        return Candidate(file.name, chosen, file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the schema {file}: {error}") from error


def candidate_writer(
    candidate: Candidate, topic: str, settings: TopicSettings, registry: Registry
) -> tuple[WriterSchema, str]:
    """The candidate as a writer's schema, and what the registry would say about it.

    The candidate may refer to whatever the subject's newest schema refers to. Does not wait for a registry
    that does not respond.

    Raises:
        UsageError: values of the topic have no schema.
    """
    if settings.value_format not in ("by_schema_id", "by_latest_schema"):
        raise UsageError(f"values of {topic} have no schema: value_format is {settings.value_format}")
    subject = settings.subject_of(topic)
    references: tuple[tuple[str, str], ...] = ()
    try:
        latest = registry.latest(subject)
        references = latest.references if latest else ()
        verdict = registry.verdict(subject, candidate.kind, candidate.text)
    except RetryableError as error:
        verdict = f"the registry was not consulted: {error}"
    return value_writer(replace(candidate, references=references), settings), verdict


def key_subject(topic: str) -> str:
    """The subject where the key schema of a topic is expected before there is one (TopicNameStrategy)."""
    return f"{topic}-key"


def newest_key_type(topic: str, settings: TopicSettings, registry: Registry) -> IcebergType | None:
    """The type of ``_kafka_key`` in a new table; None: it depends on the first key, or does not matter.

    Raises:
        RetryableError: the registry does not respond.
    """
    latest = registry.latest(key_subject(topic)) if settings.has_typed_keys else None
    if latest is None:
        return None
    try:
        return key_type(make_decoder(latest.id, key_writer(latest, settings)).iceberg_schema)
    except BadSchemaError:  # keys of other schemas may follow
        return None
