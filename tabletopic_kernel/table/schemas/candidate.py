"""A schema that nobody has registered yet: read from a file, to see what it would do to a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

from tabletopic_kernel.clients.registry import Registry
from tabletopic_kernel.formats.writer_schema import WriterSchema
from tabletopic_kernel.model.errors import RetryableError, UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.schemas.writers import value_writer

SchemaType = Literal["AVRO", "PROTOBUF", "JSON"]
_BY_SUFFIX: Final[dict[str, SchemaType]] = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
# The id of a schema that has none; no registry gives it.
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
        raise UsageError(f"{kind!r} is no type of schema; write avro, protobuf or json")
    chosen = chosen or _BY_SUFFIX.get(file.suffix.lower())
    if chosen is None:
        raise UsageError(
            f"{file.name}: {', '.join(_BY_SUFFIX)} say what a schema is; for another name give --schema-type"
        )
    try:
        return Candidate(file.name, chosen, file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the schema {file}: {error}") from error


def candidate_writer(
    candidate: Candidate, topic: str, settings: TopicSettings, registry: Registry
) -> tuple[WriterSchema, str]:
    """The candidate as a writer's schema, and what the registry would say of it.

    What the subject's newest schema refers to, the candidate may refer to as well. A registry that does not
    answer is not waited for.

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
        verdict = f"the registry was not asked: {error}"
    return value_writer(replace(candidate, references=references), settings), verdict
