"""A topic's schemas in the registry, or a file: how they decode records, are found, and which are foreign.

A damaged record may name any schema in the registry, and must not turn the table into another topic's: a
topic's own schemas are those of the subjects that the subject name strategies give it. Garbage records name
many schemas at once.

Source of the strategies: Confluent Platform documentation, "Subject name strategy".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

from tabletopic_kernel.clients.registry.answers import bare
from tabletopic_kernel.clients.registry.registry import (
    RegisteredSchema,
    Registry,
    UnknownSchemaError,
    find_schema,
)
from tabletopic_kernel.formats.avro import schema as avro_schema
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load, messages_of
from tabletopic_kernel.formats.wire import SchemaKey, WriterSchema, age
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.values import accepted
from tabletopic_kernel.model.topic_names import kafka_topic

# Formats whose values name no schema: the kind of their one writer schema, by value_format.
WITHOUT_SCHEMA: Final = {"json": "INFERRED", "string": "STRING", "raw": "RAW"}

_EXAMPLES: Final = 5  # subjects in a message
# One Protobuf file may have thousands of messages, each with two subjects that may have it.
_FEW_SUBJECTS: Final = 20  # looked up without checking which exist
_MOST_SUBJECTS: Final = 200  # existing ones that are looked up
# Registries' ids are signed 32-bit integers; a larger one is not worth a request.
_MAX_ID: Final = 2**31 - 1
# More than this are requested by several threads: a request is a few milliseconds of waiting.
_FEW: Final = 16
_THREADS: Final = 8


def value_writer(schema: RegisteredSchema, settings: TopicSettings) -> WriterSchema:
    """The schema of a topic's values."""
    return WriterSchema(
        schema.text,
        schema.references,
        schema.kind,
        settings.value_message,
        framed=settings.value_format != "by_latest_schema",
        nanos=settings.value_nanos,
        encrypted_by=schema.encrypted_by,
        by_name=settings.debezium_types == "native",
    )


def key_writer(schema: RegisteredSchema, settings: TopicSettings) -> WriterSchema:
    """The schema of a topic's keys, which always name their schema."""
    return replace(value_writer(schema, settings), message=None, framed=True)


def whole_writer(kind: str) -> WriterSchema:
    """The schema that values without one are decoded with: STRING, RAW or INFERRED."""
    return WriterSchema(kind=kind, framed=False)


def key_subject(topic: str) -> str:
    """The subject where the key schema of a topic is expected before there is one (TopicNameStrategy)."""
    return f"{kafka_topic(topic)}-key"


def look_up(
    find: Callable[[SchemaKey], RegisteredSchema], ids: Collection[SchemaKey]
) -> Iterator[tuple[SchemaKey, RegisteredSchema | UnknownSchemaError]]:
    """What the registry has for each id, older schemas first; raises as ``find``, except for unknown ids."""

    def ask(key: SchemaKey) -> RegisteredSchema | UnknownSchemaError:
        if isinstance(key, int) and key > _MAX_ID:
            return UnknownSchemaError(f"no registry has a schema id as large as {key}")
        try:
            return find(key)
        except UnknownSchemaError as error:
            return error

    ordered = sorted(ids, key=age)
    if len(ordered) <= _FEW:
        yield from ((key, ask(key)) for key in ordered)
        return
    with ThreadPoolExecutor(_THREADS, "registry") as pool:
        try:
            yield from zip(ordered, pool.map(ask, ordered), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)  # after an error, the rest is not needed


def find_registered(
    registry: Registry, key: SchemaKey, subject: str, settings: TopicSettings
) -> RegisteredSchema:
    """The schema that records mean by ``key``, as in ``subject``; raises as ``find_schema``."""
    answer = accepted(settings.accepted_texts).get(key)
    if answer is None:
        return find_schema(registry, key, subject)
    return replace(find_schema(registry, answer.registry_id, subject), id=key)


def text_of(registry: Registry, key: SchemaKey, subject: str, settings: TopicSettings) -> RegisteredSchema:
    """Like ``find_registered`` for an id, without its places; raises as ``Registry.text_of``."""
    answer = accepted(settings.accepted_texts).get(key)
    return registry.text_of(int(key) if answer is None else answer.registry_id, subject)


def why_foreign(
    registry: Registry,
    schema: RegisteredSchema,
    topic: str,
    settings: TopicSettings,
    *,
    of_keys: bool = False,
) -> str | None:
    """Why a schema does not belong to the topic, for people; None: it does, or the settings accept any."""
    if (
        settings.subjects == "any"
        or schema.subjects is None
        or schema.id in accepted(settings.accepted_texts)
    ):
        return None
    first = {key_subject(topic)} if of_keys else {f"{kafka_topic(topic)}-value", settings.subject_of(topic)}
    if _is_in_any(registry, schema, sorted(first)):
        return None
    names = record_names(schema)
    if _is_in_any(registry, schema, [f"{kafka_topic(topic)}-{name}" for name in names] + names):
        return None
    held = ", ".join(sorted(schema.subjects)[:_EXAMPLES]) or "no subject known to the registry"
    remedy = 'subjects = "any"' if of_keys else 'value_subject, or subjects = "any"'
    return (
        f"the schema {schema.id} belongs to {held}, and to no subject of this topic: "
        f"{', '.join(sorted(first))}, or that of its record. If records are meant to use it, set {remedy}"
    )


def is_other_event(registry: Registry, schema: RegisteredSchema, topic: str, settings: TopicSettings) -> bool:
    """Whether a topic's schema is of another event than the one that the settings choose."""
    wanted = [settings.subject_of(topic)]
    return settings.subjects == "value_subject" and not _is_in_any(registry, schema, wanted)


def record_names(schema: RegisteredSchema) -> list[str]:
    """The names that the record-name strategies may use: Avro's and Protobuf's full names, JSON's title."""
    try:
        match schema.kind:
            case "AVRO":
                name = getattr(avro_schema.parse(schema.text, dict(schema.references)).root, "name", None)
                return [name] if isinstance(name, str) else []
            case "JSON":
                tree = json.loads(schema.text)
                title = tree.get("title") if isinstance(tree, dict) else None
                return [title] if isinstance(title, str) else []
            case "PROTOBUF":
                files, file = compile_schema(schema.text, dict(schema.references))
                return [name for name, _ in messages_of(load(files).FindFileByName(file))]
    except (ActionNeededError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return []


def _is_in_any(registry: Registry, schema: RegisteredSchema, subjects: Sequence[str]) -> bool:
    known, wanted = set(map(bare, schema.subjects or ())), set(map(bare, subjects))
    if known & wanted or (known and isinstance(schema.id, int)):
        return bool(known & wanted)
    # Neither a GUID nor an id whose versions were deleted leads to subjects, so each subject is looked up.
    if len(subjects) > _FEW_SUBJECTS:
        existing = set(map(bare, registry.subjects()))
        subjects = [subject for subject in subjects if bare(subject) in existing][:_MOST_SUBJECTS]
    return any(registry.has(subject, schema) for subject in subjects)


SchemaType = Literal["AVRO", "PROTOBUF", "JSON"]
_BY_SUFFIX: Final[dict[str, SchemaType]] = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
# The id of an unregistered schema; no registry assigns it.
UNREGISTERED: Final = 0


@dataclass(frozen=True)
class Candidate:
    """A schema's text, its type as registries call it, and the file's name for people."""

    name: str
    kind: SchemaType
    text: str


def read_candidate(path: str | Path, kind: str | None = None) -> Candidate:
    """Read a schema; ``kind`` None: by the file's suffix. Raises UsageError."""
    file = Path(path).expanduser()
    chosen = next((name for name in get_args(SchemaType) if name == (kind or "").upper()), None)
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
    """The candidate as a writer's schema, with the newest one's references, and the registry's verdict."""
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
    schema = RegisteredSchema(UNREGISTERED, candidate.kind, candidate.text, references, subject, 0)
    return value_writer(schema, settings), verdict
