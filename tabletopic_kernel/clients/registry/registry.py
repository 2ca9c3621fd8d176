"""The schema registry, through Confluent's client: any compatible server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tabletopic_kernel.clients.registry.answers import (
    Worth,
    bare,
    checked,
    checked_list,
    checked_place,
    checked_places,
    checked_version,
    kind_of,
    worth_of,
)
from tabletopic_kernel.clients.registry.connection import Connection, references_of
from tabletopic_kernel.clients.registry.encryption import encryption_of
from tabletopic_kernel.clients.registry.errors import UnknownSchemaError, invalid
from tabletopic_kernel.formats.wire import SchemaKey, fingerprint
from tabletopic_kernel.model.errors import RetryableError

__all__ = ["RegisteredSchema", "Registry", "UnknownSchemaError", "find_schema"]
_ODD_S = 60.0  # a malformed response counts as broken for this long
_INVALID = 422  # the schema itself is invalid


@dataclass(frozen=True)
class RegisteredSchema:
    """One registered schema; ``references`` maps names to texts, resolved.

    ``id`` is the id it was requested by, or the registry's number. A GUID alone has no subject or version:
    then ``subject`` is empty and the version 0. ``subjects`` are all that have the schema, deleted ones too;
    None if not requested. ``places`` are subjects and versions that have it. ``sources`` are the references
    in the registry's form. ``encrypted_by`` and ``encrypted_fields``: see ``encryption_of``.
    """

    id: SchemaKey
    kind: str
    text: str
    references: tuple[tuple[str, str], ...]
    subject: str
    version: int
    subjects: tuple[str, ...] | None = None
    sources: tuple[SchemaReference, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    encrypted_by: str = ""
    encrypted_fields: tuple[tuple[str, str], ...] = ()

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.kind, self.text, self.references)

    def seen_from(self, subject: str) -> RegisteredSchema:
        """The same schema with its version in ``subject``; unchanged if the subject does not have it."""
        own = [version for name, version in self.places if subject in (name, bare(name))]
        return replace(self, subject=subject, version=max(own)) if own else self


class Registry:
    """Schemas by id and by subject; ``check`` may know why the registry does not respond, and raise it."""

    def __init__(self, properties: Mapping[str, str], check: Callable[[], None] = lambda: None) -> None:
        self._connection = Connection(properties, check)
        self.url = self._connection.url
        self._client, self._ask = self._connection.client, self._connection.ask
        self._odd: dict[SchemaKey, tuple[float, str]] = {}  # malformed schemas: since when

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """The schema with this id in the context of ``subject``; its version is the highest in any subject.

        Raises UnknownSchemaError, or RetryableError if the response is not a schema.
        """
        what, within = f"schema id {schema_id}", _within(subject)
        schema = self._ask(what, lambda: checked(self._client.get_schema(schema_id, **within)))
        try:
            # Include deleted subjects: records written with the schema can still be read.
            ask = self._client.get_schema_versions
            places = self._ask(what, lambda: checked_places(ask(schema_id, deleted=True, **within)))
        except UnknownSchemaError:
            places = []
        newest_in, version = max(places, key=lambda place: place[1], default=("", 0))
        subjects = tuple(dict.fromkeys(name for name, _ in places))
        resolved = self._resolved(schema_id, schema, newest_in, version)
        resolved = replace(resolved, subjects=subjects, places=tuple(places))
        self._check_valid(resolved, schema.schema_type or "AVRO")
        return resolved

    def text_of(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """Like ``by_id``, without places and proof: one request, and one per reference."""
        ask, within = self._client.get_schema, _within(subject)
        schema = self._ask(f"schema id {schema_id}", lambda: checked(ask(schema_id, **within)))
        return self._resolved(schema_id, schema, "", 0)

    def _check_valid(self, schema: RegisteredSchema, declared: str) -> None:
        """Check that a schema returned by id is valid; raises RetryableError if it may not be.

        A doubtful schema must not differ by subject and version. A malformed one must be the same there, and
        for a minute: a registry validates what it registers, so a broken response is more likely.
        """
        worth = worth_of(declared, schema.text, dict(schema.references))
        if worth is Worth.GOOD:
            self._odd.pop(schema.id, None)
            return
        same = _is_same(schema, self._connection)
        first, text = self._odd.setdefault(schema.id, (time.monotonic(), schema.text))
        is_new = text != schema.text or time.monotonic() - first < _ODD_S
        if same is False or (worth is Worth.NO_SCHEMA and (same is None or is_new)):
            if text != schema.text:
                self._odd[schema.id] = (time.monotonic(), schema.text)
            raise invalid(self.url, f"schema id {schema.id}", repr(schema.text[:80]))

    def by_guid(self, guid: str, subject: str) -> RegisteredSchema:
        """The schema with this GUID, its version that in ``subject``, or 0; raises UnknownSchemaError."""
        try:
            schema = self._ask(f"schema GUID {guid}", lambda: checked(self._client.get_schema_by_guid(guid)))
        except RetryableError as error:
            cause = error.__cause__
            if not isinstance(cause, SchemaRegistryError) or cause.http_status_code != HTTPStatus.NOT_FOUND:
                raise
            self.check()  # HTTP 404: not a registry, or one without GUIDs
            raise UnknownSchemaError(
                f"the registry at {self.url} has no GUIDs, so {guid} cannot be resolved: let "
                "producers send schema ids"
            ) from error
        try:
            ask = self._client.lookup_schema
            version = self._ask(f"subject {subject}", lambda: checked_version(ask(subject, schema)))
        except UnknownSchemaError:
            subject, version = "", 0
        subjects = (subject,) if subject else ()
        resolved = replace(self._resolved(guid, schema, subject, version), subjects=subjects)
        self._check_valid(resolved, schema.schema_type or "AVRO")
        return resolved

    def has(self, subject: str, schema: RegisteredSchema) -> bool:
        body = Schema(schema.text, schema.kind, list(schema.sources))
        try:
            self._ask(f"subject {subject}", lambda: self._client.lookup_schema(subject, body, deleted=True))
        except UnknownSchemaError:
            return False
        return True

    def subjects(self) -> list[str]:
        """All subjects, deleted ones too."""
        ask = self._client.get_subjects
        names: list[str] = self._ask("subjects", lambda: checked_list(ask(deleted=True), str))
        return names

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest schema of a subject; None if the subject does not exist."""
        try:
            registered = self._ask(
                f"subject {subject}", lambda: checked_place(self._client.get_latest_version(subject), subject)
            )
        except UnknownSchemaError:
            return None
        try:
            return self._newest(subject, registered)
        except UnknownSchemaError as error:  # of a reference
            raise RetryableError(
                f"the newest schema of {subject} is not whole: {error}; register what is missing again"
            ) from error

    def _newest(self, subject: str, registered: Any) -> RegisteredSchema:
        newest = self._resolved(registered.schema_id, registered.schema, subject, registered.version)
        declared = registered.schema.schema_type or "AVRO"
        if worth_of(declared, newest.text, dict(newest.references)) is not Worth.GOOD:
            requested = self.by_id(newest.id) if isinstance(newest.id, int) else newest
            if requested.text != newest.text:
                raise invalid(self.url, f"the newest schema of {subject}", repr(newest.text[:80]))
        return newest

    def by_version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject; raises UnknownSchemaError."""
        what = f"version {version} of {subject}"
        ask = self._client.get_version
        registered = self._ask(what, lambda: checked_place(ask(subject, version), subject, version))
        return self._resolved(registered.schema_id, registered.schema, subject, version)

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, oldest first; empty if it does not exist."""
        try:
            ask = self._client.get_versions
            return sorted(self._ask(f"subject {subject}", lambda: checked_list(ask(subject), int)))
        except UnknownSchemaError:
            return []

    def verdict(self, subject: str, kind: str, text: str) -> str:
        """Whether the registry would accept a schema as the next version of a subject, in words."""
        try:
            latest = self._ask(f"subject {subject}", lambda: self._client.get_latest_version(subject))
        except UnknownSchemaError:
            return f"the registry has no subject {subject} yet and accepts any valid schema"
        schema = Schema(text, kind, latest.schema.references)
        rule = self.rule(subject)
        try:
            # Check all versions: the registry itself leaves out those that the subject's rule excludes.
            ask = self._client.test_compatibility_all_versions
            accepts = self._ask("a verdict", lambda: ask(subject, schema))
        except RetryableError as error:
            if (
                isinstance(error.__cause__, SchemaRegistryError)
                and error.__cause__.http_status_code == _INVALID
            ):
                return f"the registry would refuse it: {error.__cause__.error_message}"
            raise
        if accepts:
            return f"the registry would accept it as the next version of {subject} ({rule})"
        return f"the registry would refuse it: it violates the compatibility rule of {subject} ({rule})"

    def rule(self, subject: str) -> str:
        """The compatibility level in force for a subject, its own or the registry's; or "rule unknown"."""
        for scope in (subject, None):
            ask = partial(self._client.get_compatibility, scope)
            try:
                return str(self._ask(f"the rule of {scope or 'all subjects'}", ask))
            except UnknownSchemaError:
                continue
            except RetryableError as error:
                if not isinstance(error.__cause__, SchemaRegistryError):
                    raise
                continue  # the subject has no level of its own
        return "rule unknown"

    def check(self) -> list[str]:
        """All subjects; the cheapest request that proves that the registry responds."""
        subjects: list[str] = self._ask("subjects", lambda: checked_list(self._client.get_subjects(), str))
        return subjects

    def _resolved(self, schema_id: SchemaKey, schema: Schema, subject: str, version: int) -> RegisteredSchema:
        encrypted_by, encrypted_fields = encryption_of(schema)
        return RegisteredSchema(
            id=schema_id,
            kind=kind_of(schema.schema_type or "AVRO", schema.schema_str or ""),
            text=schema.schema_str or "",
            references=tuple(references_of(schema, self._connection).items()),
            subject=subject,
            version=version,
            sources=tuple(schema.references or ()),
            encrypted_by=encrypted_by,
            encrypted_fields=encrypted_fields,
        )


def _is_same(schema: RegisteredSchema, connection: Connection) -> bool | None:
    """Whether the schema is the same by subject and version; None if unknown."""
    if not schema.subject:
        return None
    what, ask = f"version {schema.version} of {schema.subject}", connection.client.get_version
    try:
        registered = connection.ask(
            what,
            lambda: checked_place(
                ask(schema.subject, schema.version, deleted=True), schema.subject, schema.version
            ),
        )
    except UnknownSchemaError:
        return None
    except RetryableError as error:
        if isinstance(error.__cause__, SchemaRegistryError):  # the registry does not provide it
            return None
        raise
    is_id = not isinstance(schema.id, int) or registered.schema_id == schema.id
    return bool(is_id and registered.schema.schema_str == schema.text)


def find_schema(registry: Registry, key: SchemaKey, subject: str) -> RegisteredSchema:
    """The schema that records name by ``key``, as in ``subject``; raises like ``by_id`` and ``by_guid``."""
    if isinstance(key, str):
        return registry.by_guid(key, subject)
    return registry.by_id(key, subject).seen_from(subject)


def _within(subject: str) -> dict[str, str]:
    """The client's argument for the context that a subject names, if it does."""
    return {"subject_name": subject} if bare(subject) != subject else {}
