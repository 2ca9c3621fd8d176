"""The schema registry, through Confluent's client: any compatible server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tabletopic_kernel.core.errors import RetryableError, TableTopicError, UsageError
from tabletopic_kernel.core.redact import mask
from tabletopic_kernel.core.wire import SchemaKey

T = TypeVar("T")
# Of subject, version and schema. A 404 without such a code comes from something that is no registry, and
# says nothing about a schema: with a wrong url every record would become a dead letter (I9).
_NOT_FOUND = frozenset({40401, 40402, 40403})
_INVALID = 422  # the schema itself cannot be read
# The client's own retries would hold a thread; waiting is the coordinator's business (I9).
_CLIENT_DEFAULTS = {"max.retries": 1, "timeout": 10}


class UnknownSchemaError(TableTopicError):
    """The registry answers and has no such schema or subject."""


@dataclass(frozen=True)
class RegisteredSchema:
    """One schema with what the registry says of it; ``references`` maps names to texts, resolved.

    ``id`` is what it was asked for by, or the registry's number. A GUID alone tells no place: ``subject`` is
    empty then, and the version 0.
    """

    id: SchemaKey
    kind: str
    text: str
    references: tuple[tuple[str, str], ...]
    subject: str
    version: int


class Registry:
    """Schemas by id and by subject.

    Args:
        properties: of confluent_kafka's SchemaRegistryClient, at least ``url``.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.url = mask(properties.get("url", ""))  # for messages; the client has the login
        try:
            self._client = SchemaRegistryClient({**_CLIENT_DEFAULTS, **properties})
        except (ValueError, TypeError) as error:
            raise UsageError(f"the [registry] settings are not usable: {error}") from error

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id, its references resolved.

        Raises:
            UnknownSchemaError: no such id.
            RetryableError: the registry does not answer.
        """
        schema = self._ask(f"schema id {schema_id}", lambda: self._client.get_schema(schema_id))
        try:
            places = self._ask(f"schema id {schema_id}", lambda: self._client.get_schema_versions(schema_id))
        except UnknownSchemaError:  # its subjects were deleted; what was written with it can still be read
            places = []
        newest = max(places, key=lambda place: place.version or 0, default=None)
        subject, version = (newest.subject or "", newest.version or 0) if newest else ("", 0)
        return self._resolved(schema_id, schema, subject, version)

    def by_guid(self, guid: str, subject: str) -> RegisteredSchema:
        """The schema with this GUID, its references resolved; its version is that in ``subject``, 0 without.

        Raises:
            UnknownSchemaError: no such GUID, or the registry has none.
            RetryableError: the registry does not answer.
        """
        try:
            schema = self._ask(f"schema GUID {guid}", lambda: self._client.get_schema_by_guid(guid))
        except RetryableError as error:
            cause = error.__cause__
            if not isinstance(cause, SchemaRegistryError) or cause.http_status_code != HTTPStatus.NOT_FOUND:
                raise
            self.check()  # a page that is not there: of no registry, or of one that has no GUIDs
            raise UnknownSchemaError(
                f"the registry at {self.url} has no GUIDs, so nobody can tell what {guid} is: have records "
                "name their schema by its id"
            ) from error
        try:
            place = self._ask(f"subject {subject}", lambda: self._client.lookup_schema(subject, schema))
        except UnknownSchemaError:
            return self._resolved(guid, schema, "", 0)
        return self._resolved(guid, schema, subject, place.version or 0)

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest schema of a subject; None where the subject does not exist.

        Raises:
            RetryableError: the registry does not answer.
        """
        try:
            found = self._ask(f"subject {subject}", lambda: self._client.get_latest_version(subject))
        except UnknownSchemaError:
            return None
        return self._resolved(int(found.schema_id or 0), found.schema, subject, int(found.version or 0))

    def by_version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject.

        Raises:
            UnknownSchemaError: no such subject or version.
            RetryableError: the registry does not answer.
        """
        what = f"version {version} of {subject}"
        found = self._ask(what, lambda: self._client.get_version(subject, version))
        return self._resolved(int(found.schema_id or 0), found.schema, subject, version)

    def versions(self, subject: str) -> list[int]:
        """The versions that a subject has, oldest first; empty where it does not exist.

        Raises:
            RetryableError: the registry does not answer.
        """
        try:
            return sorted(self._ask(f"subject {subject}", lambda: self._client.get_versions(subject)))
        except UnknownSchemaError:
            return []

    def verdict(self, subject: str, kind: str, text: str) -> str:
        """Whether the registry would take a schema as the next version of a subject, in words.

        Raises:
            RetryableError: the registry does not answer.
        """
        try:
            latest = self._ask(f"subject {subject}", lambda: self._client.get_latest_version(subject))
        except UnknownSchemaError:
            return f"the registry has no subject {subject} yet and takes any valid schema"
        schema = Schema(text, kind, latest.schema.references)
        rule = self._rule(subject)
        try:
            # Against all versions: those that the subject's rule does not mean are left out by the registry.
            ask = self._client.test_compatibility_all_versions
            takes = self._ask("a verdict", lambda: ask(subject, schema))
        except RetryableError as error:
            if (
                isinstance(error.__cause__, SchemaRegistryError)
                and error.__cause__.http_status_code == _INVALID
            ):
                return f"the registry would refuse it: {error.__cause__.error_message}"
            raise
        if takes:
            return f"the registry would take it as the next version of {subject} ({rule})"
        return f"the registry would refuse it: it breaks the rule of {subject} ({rule})"

    def _rule(self, subject: str) -> str:
        """The compatibility level of a subject, or the one for all."""
        for where in (subject, None):
            try:
                return str(self._client.get_compatibility(where))
            except SchemaRegistryError:  # none of its own
                continue
        return "rule unknown"

    def check(self) -> list[str]:
        """The subjects there are; the cheapest question that proves the registry answers."""
        return self._ask("subjects", self._client.get_subjects)

    def _resolved(self, schema_id: SchemaKey, schema: Schema, subject: str, version: int) -> RegisteredSchema:
        references: dict[str, str] = {}
        self._collect(schema, references)
        return RegisteredSchema(
            id=schema_id,
            kind=_kind(schema.schema_type or "AVRO", schema.schema_str or ""),
            text=schema.schema_str or "",
            references=tuple(references.items()),
            subject=subject,
            version=version,
        )

    def _collect(self, schema: Schema, into: dict[str, str]) -> None:
        for reference in schema.references or []:
            name, subject, version = reference.name or "", reference.subject or "", reference.version or -1
            if name not in into:
                found = self._ask(
                    f"{subject} version {version}",
                    lambda subject=subject, version=version: self._client.get_version(subject, version),  # type: ignore[misc]
                )
                self._collect(found.schema, into)  # what it needs itself comes first
                into[name] = found.schema.schema_str or ""

    def _ask(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except SchemaRegistryError as error:
            if error.error_code in _NOT_FOUND:
                raise UnknownSchemaError(f"the registry at {self.url} has no {what}") from error
            raise RetryableError(
                f"the registry at {self.url} refused to give {what}: {error}; is [registry] url right?"
            ) from error
        except Exception as error:  # its HTTP library's errors have no public base class
            raise RetryableError(
                f"the registry at {self.url} does not answer ({type(error).__name__}: {error}); "
                "is it running (`tabletopic up` starts a local one), and is [registry] url right?"
            ) from error


def _kind(told: str, text: str) -> str:
    """The format of a schema: Apicurio calls all versions of a subject what the first one was."""
    try:
        tree = json.loads(text)
    except ValueError:
        return "PROTOBUF"
    if isinstance(tree, bool):  # any value, or none
        return "JSON"
    if not isinstance(tree, dict) or tree.get("type") in ("record", "enum", "fixed"):
        return "AVRO"
    if "type" not in tree or tree["type"] in ("object", "integer", "number"):
        return "JSON"
    return "AVRO" if told == "PROTOBUF" else told


def find_schema(registry: Registry, key: SchemaKey, subject: str) -> RegisteredSchema:
    """The schema that records name by ``key``; raises as ``by_id`` and ``by_guid``."""
    return registry.by_guid(key, subject) if isinstance(key, str) else registry.by_id(key)
