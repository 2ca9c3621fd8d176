"""AWS Glue's schema registry, behind the interface of Confluent's client that ``Registry`` uses.

A schema there has a name within a registry, numbered versions, and a UUID per version, which records carry
(``formats/wire.py``). Glue has no numeric schema ids, no references and no compatibility check for an
unregistered schema. AWS's serializers name a schema after its topic, so subject ``clicks-value`` means the
schema ``clicks`` unless there is one with its own name.

Source: AWS Glue API reference, "Schema registry"; awslabs/aws-glue-schema-registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar

from confluent_kafka.schema_registry import RegisteredSchema, Schema
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.settings.cluster import is_loopback
from tabletopic_kernel.model.settings.servers import GLUE_REGISTRY

T = TypeVar("T")
_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND, _NO_ANSWER = 40401, 40402, 40403, 50100
_SUFFIXES: Final = ("-value", "-key")
_TIMEOUT_S: Final = 10
# PyIceberg's names of its Glue properties, and boto3's.
_SESSION: Final = {
    "glue.access-key-id": "aws_access_key_id",
    "glue.secret-access-key": "aws_secret_access_key",
    "glue.session-token": "aws_session_token",
    "glue.region": "region_name",
    "glue.profile-name": "profile_name",
}
_OTHERS: Final = ("type", "glue.endpoint", "glue.registry-name")


class GlueSchemas:
    """One Glue registry.

    Args:
        properties: ``type`` (glue), ``glue.registry-name`` (default-registry), ``glue.region``,
            ``glue.endpoint``, ``glue.profile-name``, ``glue.access-key-id``, ``glue.secret-access-key``,
            ``glue.session-token``; without keys, boto3's own credentials.

    Raises:
        SettingsError: an unknown property, no region, or boto3 is not installed.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        if unknown := sorted(properties.keys() - _SESSION.keys() - set(_OTHERS)):
            names = ", ".join([*_OTHERS, *_SESSION])
            raise SettingsError(
                f"[registry] {unknown[0]} is not one of the properties of Glue's registry: {names}"
            )
        try:
            import boto3  # noqa: PLC0415 - of the extra [glue]
            from botocore.config import Config  # noqa: PLC0415
            from botocore.exceptions import BotoCoreError  # noqa: PLC0415
        except ImportError as error:
            raise SettingsError(
                "[registry] type = glue needs boto3: pip install 'tabletopic[glue]'"
            ) from error
        self.name = properties.get("glue.registry-name", GLUE_REGISTRY)
        limits = Config(
            connect_timeout=_TIMEOUT_S,
            read_timeout=_TIMEOUT_S,
            retries={"total_max_attempts": 2},
            proxies={}
            if is_loopback(properties.get("glue.endpoint", ""))
            else None,  # None: the environment's
        )
        session = {name: properties[key] for key, name in _SESSION.items() if properties.get(key)}
        try:
            self._glue: Any = boto3.Session(**session).client(
                "glue", endpoint_url=properties.get("glue.endpoint"), config=limits
            )
        except (BotoCoreError, ValueError) as error:
            raise SettingsError(f"[registry] cannot be used: {error}") from error

    def clear_caches(self) -> None:
        """Do nothing: nothing is cached."""

    def get_schema(self, schema_id: int, **_: object) -> Schema:
        """Glue has no numeric ids."""
        raise SchemaRegistryError(
            HTTPStatus.NOT_FOUND, _SCHEMA_NOT_FOUND, f"Glue has no schema with the number {schema_id}"
        )

    def get_schema_versions(self, schema_id: int, **_: object) -> list[RegisteredSchema]:
        """Like ``get_schema``."""
        self.get_schema(schema_id)
        return []

    def get_schema_by_guid(self, guid: str) -> Schema:
        """The schema of one version, by UUID."""
        version = self._ask(_SCHEMA_NOT_FOUND, lambda: self._glue.get_schema_version(SchemaVersionId=guid))
        return _schema(version)

    def lookup_schema(self, subject: str, schema: Schema, **_: object) -> RegisteredSchema:
        """The version of a subject with this schema."""
        schema_id, text = self._schema_id(subject), schema.schema_str or ""
        ask = self._glue.get_schema_by_definition
        match = self._ask(_SCHEMA_NOT_FOUND, lambda: ask(SchemaId=schema_id, SchemaDefinition=text))
        ask_version = self._glue.get_schema_version
        version = self._ask(_SCHEMA_NOT_FOUND, lambda: ask_version(SchemaVersionId=match["SchemaVersionId"]))
        return _registered(subject, version)

    def get_subjects(self, **_: object) -> list[str]:
        """The names of the registry's schemas."""
        ask = self._glue.get_paginator("list_schemas").paginate
        pages = self._ask(_SUBJECT_NOT_FOUND, lambda: list(ask(RegistryId={"RegistryName": self.name})))
        return [schema["SchemaName"] for page in pages for schema in page["Schemas"]]

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject."""
        return self._version(subject, {"LatestVersion": True}, _SUBJECT_NOT_FOUND)

    def get_version(self, subject: str, version: int | None, **_: object) -> RegisteredSchema:
        """One version of a subject; None for the newest."""
        number = {"LatestVersion": True} if version is None else {"VersionNumber": version}
        return self._version(subject, number, _VERSION_NOT_FOUND)

    def get_versions(self, subject: str) -> list[int]:
        """A subject's version numbers."""
        schema_id = self._schema_id(subject)
        ask = self._glue.get_paginator("list_schema_versions").paginate
        pages = self._ask(_SUBJECT_NOT_FOUND, lambda: list(ask(SchemaId=schema_id)))
        return sorted(version["VersionNumber"] for page in pages for version in page["Schemas"])

    def get_compatibility(self, subject: str | None) -> str:
        """A schema's compatibility mode; Glue has no global one."""
        schema_id = self._schema_id(subject or "")
        schema = self._ask(_SUBJECT_NOT_FOUND, lambda: self._glue.get_schema(SchemaId=schema_id))
        return str(schema["Compatibility"])

    def test_compatibility_all_versions(self, subject: str, schema: Schema) -> bool:
        """Glue can check only a registered schema."""
        raise SchemaRegistryError(
            HTTPStatus.NOT_IMPLEMENTED, _NO_ANSWER, "Glue reports it only when the schema is registered"
        )

    def _version(self, subject: str, number: Mapping[str, object], missing: int) -> RegisteredSchema:
        schema_id, ask = self._schema_id(subject), self._glue.get_schema_version
        version = self._ask(missing, lambda: ask(SchemaId=schema_id, SchemaVersionNumber=number))
        return _registered(subject, version)

    def _schema_id(self, subject: str) -> dict[str, str]:
        """The schema to which a subject refers."""
        own = {"RegistryName": self.name, "SchemaName": subject}
        topic = next((subject.removesuffix(end) for end in _SUFFIXES if subject.endswith(end)), subject)
        if topic == subject:
            return own
        try:
            self._ask(_SUBJECT_NOT_FOUND, lambda: self._glue.get_schema(SchemaId=own))
        except SchemaRegistryError:
            return {**own, "SchemaName": topic}
        return own

    def _ask(self, missing: int, call: Callable[[], T]) -> T:
        """The response; not found becomes Confluent's error ``missing``, other errors stay botocore's."""
        try:
            return call()
        except self._glue.exceptions.EntityNotFoundException as error:
            raise SchemaRegistryError(HTTPStatus.NOT_FOUND, missing, str(error)) from error


def _schema(version: Mapping[str, Any]) -> Schema:
    return Schema(version["SchemaDefinition"], version.get("DataFormat") or "AVRO")


def _registered(subject: str, version: Mapping[str, Any]) -> RegisteredSchema:
    # The UUID takes the place of Confluent's numeric id, because records carry it.
    guid: Any = version["SchemaVersionId"]
    return RegisteredSchema(subject, version["VersionNumber"], guid, guid, _schema(version))
