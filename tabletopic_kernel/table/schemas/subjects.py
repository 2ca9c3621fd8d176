"""Whether a schema is one of a topic's own: of a subject that the subject name strategies give it.

A damaged record may name any schema there is in the registry, and a table must not become that of another
topic for it. Source of the strategies: Confluent Platform documentation, "Subject name strategy".
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from tabletopic_kernel.clients.registry import RegisteredSchema, Registry
from tabletopic_kernel.formats.avro import schema as avro_schema
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import load, messages_of
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.schemas.key_types import key_subject

_CONTEXT: Final = re.compile(r"^:\.[^:]*:")  # of Confluent's schema contexts, in front of a subject
_EXAMPLES: Final = 5  # subjects in a message
# One Protobuf file may hold thousands of messages, each with two subjects that may have it.
_ASKED: Final = 20  # subjects that are asked without a look at which there are
_MOST: Final = 200  # of those that are there


def why_foreign(
    registry: Registry, found: RegisteredSchema, topic: str, settings: TopicSettings, *, of_keys: bool = False
) -> str | None:
    """Why a schema is none of the topic's, for a person; None: it is, or the settings take any.

    Raises:
        RetryableError: the registry does not answer.
    """
    if settings.subjects == "any" or found.subjects is None:
        return None
    first = {key_subject(topic)} if of_keys else {f"{topic}-value", settings.subject_of(topic)}
    if _has_one(registry, found, sorted(first)):
        return None
    names = record_names(found)
    if _has_one(registry, found, [f"{topic}-{name}" for name in names] + names):
        return None
    held = ", ".join(sorted(found.subjects)[:_EXAMPLES]) or "no subject that the registry tells of"
    remedy = 'subjects = "any"' if of_keys else 'value_subject, or subjects = "any"'
    return (
        f"the schema {found.id} is of {held}, and of none of this topic: {', '.join(sorted(first))}, or that "
        f"of its record. Where records are meant to be written by it, set {remedy}"
    )


def record_names(found: RegisteredSchema) -> list[str]:
    """The names by which the record-name strategies may call records of a schema; none if it cannot be read.

    Avro: the full name. JSON Schema: the title. Protobuf: the full name of each message of the file.
    """
    try:
        match found.kind:
            case "AVRO":
                root = avro_schema.parse(found.text, dict(found.references)).root
                name = getattr(root, "name", None)
                return [name] if isinstance(name, str) else []
            case "JSON":
                tree = json.loads(found.text)
                title = tree.get("title") if isinstance(tree, dict) else None
                return [title] if isinstance(title, str) else []
            case "PROTOBUF":
                files, file = compile_schema(found.text, dict(found.references))
                return [name for name, _ in messages_of(load(files).FindFileByName(file))]
    except (ActionNeededError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return []


def _has_one(registry: Registry, found: RegisteredSchema, subjects: Sequence[str]) -> bool:
    known = {_CONTEXT.sub("", one) for one in found.subjects or ()}
    if known.intersection(subjects) or (known and isinstance(found.id, int)):
        return bool(known.intersection(subjects))
    # A GUID tells no subjects, nor does an id whose versions were deleted: the subjects are asked themselves.
    if len(subjects) > _ASKED:
        there = {_CONTEXT.sub("", one) for one in registry.subjects()}
        subjects = [one for one in subjects if one in there][:_MOST]
    return any(registry.has(one, found) for one in subjects)
