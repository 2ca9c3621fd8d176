"""Looks up the schemas that records name, and decides whether they belong to the topic.

A damaged record may name any schema in the registry, and must not turn the table into another topic's: a
topic's own schemas are those of the subjects that the subject name strategies give it. Garbage records name
many schemas at once.

Source of the strategies: Confluent Platform documentation, "Subject name strategy".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry, UnknownSchemaError
from tabletopic_kernel.formats.avro import schema as avro_schema
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load, messages_of
from tabletopic_kernel.formats.wire import SchemaKey, age
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError
from tabletopic_kernel.model.progress.events import ControlEvent
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.schemas.writer_schemas import key_subject

Find = Callable[[SchemaKey], RegisteredSchema]
Found = RegisteredSchema | UnknownSchemaError
# Registries' ids are signed 32-bit integers; a larger one is not worth a request.
_MAX_ID: Final = 2**31 - 1
# More than this are requested by several threads: a request is a few milliseconds of waiting.
_FEW: Final = 16
_THREADS: Final = 8


def look_up(find: Find, ids: Collection[SchemaKey]) -> Iterator[tuple[SchemaKey, Found]]:
    """What the registry has for each id, older schemas first; raises as ``find``, except for unknown ids."""
    ordered = sorted(ids, key=age)
    if len(ordered) <= _FEW:
        yield from ((schema_id, _one(find, schema_id)) for schema_id in ordered)
        return
    with ThreadPoolExecutor(_THREADS, "registry") as pool:
        try:
            yield from zip(ordered, pool.map(lambda schema_id: _one(find, schema_id), ordered), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)  # after an error, nobody waits for the rest


def _one(find: Find, key: SchemaKey) -> Found:
    if isinstance(key, int) and key > _MAX_ID:
        return UnknownSchemaError(f"no registry has a schema id as large as {key}")
    try:
        return find(key)
    except UnknownSchemaError as error:
        return error


def check_same(find: Find, schema: RegisteredSchema) -> None:
    """Check that the registry returns the same schema again; raises RetryableError if it does not."""
    if find(schema.id).text != schema.text:
        raise RetryableError(
            f"the registry gave two different schemas for {schema.id}; are there two behind [registry] url?"
        )


_CONTEXT: Final = re.compile(r"^:\.[^:]*:")  # Confluent's schema context, in front of a subject
_EXAMPLES: Final = 5  # subjects in a message
# One Protobuf file may have thousands of messages, each with two subjects that may have it.
_ASKED: Final = 20  # subjects to ask without checking which exist
_MOST_SUBJECTS: Final = 200  # of the existing ones


def why_foreign(
    registry: Registry,
    schema: RegisteredSchema,
    topic: str,
    settings: TopicSettings,
    *,
    of_keys: bool = False,
) -> str | None:
    """Why a schema does not belong to the topic, for people; None: it does, or the settings accept any.

    Raises:
        RetryableError: the registry does not respond.
    """
    if settings.subjects == "any" or schema.subjects is None:
        return None
    first = {key_subject(topic)} if of_keys else {f"{topic}-value", settings.subject_of(topic)}
    if _has_one(registry, schema, sorted(first)):
        return None
    names = record_names(schema)
    if _has_one(registry, schema, [f"{topic}-{name}" for name in names] + names):
        return None
    held = ", ".join(sorted(schema.subjects)[:_EXAMPLES]) or "no subject known to the registry"
    remedy = 'subjects = "any"' if of_keys else 'value_subject, or subjects = "any"'
    return (
        f"the schema {schema.id} belongs to {held}, and to no subject of this topic: "
        f"{', '.join(sorted(first))}, or that of its record. If records are meant to use it, set {remedy}"
    )


def record_names(schema: RegisteredSchema) -> list[str]:
    """The names that the record-name strategies may use for a schema's records; none if it cannot be read.

    Avro: the full name. JSON Schema: the title. Protobuf: the full name of each message of the file.
    """
    try:
        match schema.kind:
            case "AVRO":
                root = avro_schema.parse(schema.text, dict(schema.references)).root
                name = getattr(root, "name", None)
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


def _has_one(registry: Registry, schema: RegisteredSchema, subjects: Sequence[str]) -> bool:
    known = {_CONTEXT.sub("", subject) for subject in schema.subjects or ()}
    if known.intersection(subjects) or (known and isinstance(schema.id, int)):
        return bool(known.intersection(subjects))
    # Neither a GUID nor an id whose versions were deleted leads to subjects, so these are asked directly.
    if len(subjects) > _ASKED:
        there = {_CONTEXT.sub("", subject) for subject in registry.subjects()}
        subjects = [subject for subject in subjects if subject in there][:_MOST_SUBJECTS]
    return any(registry.has(subject, schema) for subject in subjects)


class EventWriter(Protocol):
    """Where events go."""

    def write(self, event: ControlEvent) -> None:
        """Send an event. Raises nothing: events are for people, and a table does not wait for them."""


class SchemaServices(Protocol):
    """The registry, a clock, and where to report."""

    @property
    def registry(self) -> Registry:
        """The registry."""

    @property
    def control(self) -> EventWriter:
        """Where changes of the table are reported."""

    @property
    def host(self) -> str:
        """The host that reports them."""

    @property
    def now_ms(self) -> Callable[[], int]:
        """The clock, in ms since 1970."""
