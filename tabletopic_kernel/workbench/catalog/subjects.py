"""Subjects of the registry: versions as registered, the compatibility rule, the topics that use them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabletopic_kernel.clients.registry.errors import UnknownSchemaError
from tabletopic_kernel.model.errors import RetryableError, UnknownTopicError
from tabletopic_kernel.model.topic_names import kafka_topic

if TYPE_CHECKING:
    from tabletopic_kernel.clients.registry.registry import Registry
    from tabletopic_kernel.workbench.workbench import Workbench

_MOST_VERSIONS = 100  # each costs a request


@dataclass(frozen=True)
class SubjectVersion:
    """A version; ``text`` is indented if it is JSON. ``references``: names and texts.

    ``error``: why it has no text.
    """

    version: int
    id: int | str | None
    kind: str
    text: str
    references: list[str]
    error: str | None = None


@dataclass(frozen=True)
class Subject:
    """A subject with its newest 100 versions, newest first. ``topics``: those of its name, and the table
    topics that read records with it.
    """

    subject: str
    compatibility: str
    topics: list[str]
    version_count: int
    versions: list[SubjectVersion]


def subject_of(workbench: Workbench, name: str) -> Subject:
    """A subject with its versions; UnknownTopicError if the registry has none of that name."""
    registry = workbench.registry
    numbers = registry.versions(name)
    if not numbers:
        raise UnknownTopicError(f"the registry has no subject {name}; `tabletopic subjects` lists them")
    versions = [_version(registry, name, number) for number in reversed(numbers[-_MOST_VERSIONS:])]
    return Subject(name, registry.rule(name), _topics(workbench, name), len(numbers), versions)


def _version(registry: Registry, name: str, number: int) -> SubjectVersion:
    try:
        schema = registry.by_version(name, number)
    except (UnknownSchemaError, RetryableError) as error:  # removed meanwhile, or a reference is
        return SubjectVersion(number, None, "", "", [], str(error))
    references = [f"{reference}\n{indented(text)}" for reference, text in schema.references]
    return SubjectVersion(number, schema.id, schema.kind, indented(schema.text), references)


def indented(text: str) -> str:
    """JSON with a line for each value; other text as it is.

    >>> print(indented('{"type": "string"}'))
    {
      "type": "string"
    }
    """
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _topics(workbench: Workbench, name: str) -> list[str]:
    topic, _, side = name.rpartition("-")
    desired = workbench.desired_topics()
    known = desired.keys() | workbench.kafka_topics().keys() if side in ("key", "value") else ()
    named = (table_topic for table_topic in known if kafka_topic(table_topic) == topic)
    read = {
        status.topic
        for status in workbench.statuses(desired)
        if any(version["subject"] == name for version in status.schema_versions)
    }
    meant = {topic for topic, wanted in desired.items() if wanted.settings.value_subject == name}
    return sorted({*named, *read, *meant})
