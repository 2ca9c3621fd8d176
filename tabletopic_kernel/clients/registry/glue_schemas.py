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
_NOT_FOUND, _NO_ANSWER = 40403, 50100
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
    """One Glue registry, with keys of its own or boto3's; raises SettingsError for unknown properties."""

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
            # None: the environment's.
            proxies={} if is_loopback(properties.get("glue.endpoint", "")) else None,
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
        message = f"Glue has no schema with the number {schema_id}"
        raise SchemaRegistryError(HTTPStatus.NOT_FOUND, _NOT_FOUND, message)

    def get_schema_versions(self, schema_id: int, **_: object) -> list[RegisteredSchema]:
        self.get_schema(schema_id)
        return []

    def get_schema_by_guid(self, guid: str) -> Schema:
        return _schema(self._ask(lambda: self._glue.get_schema_version(SchemaVersionId=guid)))

    def lookup_schema(self, subject: str, schema: Schema, **_: object) -> RegisteredSchema:
        schema_id, text = self._schema_id(subject), schema.schema_str or ""
        ask, ask_version = self._glue.get_schema_by_definition, self._glue.get_schema_version
        match = self._ask(lambda: ask(SchemaId=schema_id, SchemaDefinition=text))
        version = self._ask(lambda: ask_version(SchemaVersionId=match["SchemaVersionId"]))
        return _registered(subject, version)

    def get_subjects(self, **_: object) -> list[str]:
        ask = self._glue.get_paginator("list_schemas").paginate
        pages = self._ask(lambda: list(ask(RegistryId={"RegistryName": self.name})))
        return [schema["SchemaName"] for page in pages for schema in page["Schemas"]]

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        return self.get_version(subject, None)

    def get_version(self, subject: str, version: int | None, **_: object) -> RegisteredSchema:
        number = {"LatestVersion": True} if version is None else {"VersionNumber": version}
        schema_id, ask = self._schema_id(subject), self._glue.get_schema_version
        return _registered(subject, self._ask(lambda: ask(SchemaId=schema_id, SchemaVersionNumber=number)))

    def get_versions(self, subject: str) -> list[int]:
        schema_id = self._schema_id(subject)
        ask = self._glue.get_paginator("list_schema_versions").paginate
        pages = self._ask(lambda: list(ask(SchemaId=schema_id)))
        return sorted(version["VersionNumber"] for page in pages for version in page["Schemas"])

    def get_compatibility(self, subject: str | None) -> str:
        schema_id = self._schema_id(subject or "")
        return str(self._ask(lambda: self._glue.get_schema(SchemaId=schema_id))["Compatibility"])

    def test_compatibility_all_versions(self, subject: str, schema: Schema) -> bool:
        message = "Glue reports it only when the schema is registered"
        raise SchemaRegistryError(HTTPStatus.NOT_IMPLEMENTED, _NO_ANSWER, message)

    def _schema_id(self, subject: str) -> dict[str, str]:
        own = {"RegistryName": self.name, "SchemaName": subject}
        topic = next((subject.removesuffix(end) for end in _SUFFIXES if subject.endswith(end)), subject)
        if topic == subject:
            return own
        try:
            self._ask(lambda: self._glue.get_schema(SchemaId=own))
        except SchemaRegistryError:
            return {**own, "SchemaName": topic}
        return own

    def _ask(self, call: Callable[[], T]) -> T:
        """The response; not found becomes Confluent's error, other errors stay botocore's."""
        try:
            return call()
        except self._glue.exceptions.EntityNotFoundException as error:
            raise SchemaRegistryError(HTTPStatus.NOT_FOUND, _NOT_FOUND, str(error)) from error


def _schema(version: Mapping[str, Any]) -> Schema:
    return Schema(version["SchemaDefinition"], version.get("DataFormat") or "AVRO")


def _registered(subject: str, version: Mapping[str, Any]) -> RegisteredSchema:
    # The UUID takes the place of Confluent's numeric id, because records carry it.
    guid: Any = version["SchemaVersionId"]
    return RegisteredSchema(subject, version["VersionNumber"], guid, guid, _schema(version))
