"""AWS Glue's schema registry, on moto's server: it supports the same calls as Confluent's client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto.server import ThreadedMotoServer

from tabletopic_kernel.clients.registry.registry import Registry, UnknownSchemaError, find_schema
from tabletopic_kernel.local import machine
from tabletopic_kernel.model.errors import RetryableError, SettingsError

_V1 = json.dumps({"type": "record", "name": "Click", "fields": [{"name": "url", "type": "string"}]})
_MORE = {"name": "n", "type": ["null", "int"], "default": None}
_V2 = json.dumps({"type": "record", "name": "Click", "fields": [{"name": "url", "type": "string"}, _MORE]})
_KEYS = {"glue.access-key-id": "k", "glue.secret-access-key": "s", "glue.region": "us-east-1"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A server with Glue's API."""
    server = ThreadedMotoServer("127.0.0.1", machine.free_port(set()), verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def glue(endpoint: str) -> Any:
    """boto3's client, on an empty registry ``shop``."""
    client = boto3.client(
        "glue", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="k",
        aws_secret_access_key="s",
    )  # fmt: skip
    for one in client.list_registries()["Registries"]:
        client.delete_registry(RegistryId={"RegistryName": one["RegistryName"]})
    client.create_registry(RegistryName="shop")
    return client


@pytest.fixture
def registry(endpoint: str, glue: Any) -> Registry:
    """The product's own, on it."""
    return Registry({"type": "glue", "glue.registry-name": "shop", "glue.endpoint": endpoint, **_KEYS})


def _register(glue: Any, name: str, *texts: str, kind: str = "AVRO") -> list[str]:
    """UUIDs of the versions of a new schema."""
    first, *others = texts
    made = glue.create_schema(
        RegistryId={"RegistryName": "shop"},
        SchemaName=name,
        DataFormat=kind,
        Compatibility="BACKWARD",
        SchemaDefinition=first,
    )
    place = {"RegistryName": "shop", "SchemaName": name}
    later = [glue.register_schema_version(SchemaId=place, SchemaDefinition=text) for text in others]
    return [made["SchemaVersionId"], *(one["SchemaVersionId"] for one in later)]


def test_a_schema_is_found_by_its_uuid(registry: Registry, glue: Any) -> None:
    """With its version in the topic's subject, which is the topic's name; another topic's is foreign."""
    _, second = _register(glue, "clicks", _V1, _V2)
    found = find_schema(registry, second, "clicks-value")
    assert (found.kind, json.loads(found.text), found.version) == ("AVRO", json.loads(_V2), 2)
    assert found.subjects == ("clicks-value",)
    with pytest.raises(UnknownSchemaError):
        registry.by_guid("6da336d8-f1d3-0f98-4c47-d03ee8a14a10", "clicks-value")
    with pytest.raises(UnknownSchemaError):
        registry.by_id(7)
    (other,) = _register(glue, "orders", _V1.replace("Click", "Order"))
    assert registry.by_guid(other, "clicks-value").subjects == ()


def test_subjects_and_versions(registry: Registry, glue: Any) -> None:
    """The newest and each version are there; a schema of the subject's own name goes first."""
    first, second = _register(glue, "clicks", _V1, _V2)
    newest = registry.latest("clicks-value")
    assert (newest.id, newest.version) == (second, 2)
    assert json.loads(registry.by_version("clicks-value", 1).text) == json.loads(_V1)
    assert registry.latest("nothing-value") is None
    (own,) = _register(glue, "clicks-value", _V1)
    assert {first, own} & {registry.by_version("clicks-value", 1).id} == {own}


def test_lists(registry: Registry, glue: Any) -> None:
    """Subjects and versions are read page by page. Moto has no lists: the answers are of AWS's own shape."""
    asked = registry._client._glue
    with Stubber(asked) as answers:
        answers.add_response("list_schemas", {"Schemas": [{"SchemaName": "a"}], "NextToken": "more"})
        answers.add_response("list_schemas", {"Schemas": [{"SchemaName": "b"}]})
        assert registry.subjects() == ["a", "b"]
        answers.add_client_error("get_schema", "EntityNotFoundException")
        versions = {"Schemas": [{"VersionNumber": 2}, {"VersionNumber": 1}]}
        place = {"SchemaId": {"RegistryName": "shop", "SchemaName": "a"}}
        answers.add_response("list_schema_versions", versions, place)
        assert registry.versions("a-value") == [1, 2]
        answers.add_client_error("list_schema_versions", "EntityNotFoundException")
        assert registry.versions("b") == []


def test_a_registry_that_is_away_is_waited_for(endpoint: str) -> None:
    """No answer is an outage and no unknown schema; a property that Glue has not is told."""
    nobody = f"http://127.0.0.1:{machine.free_port(set())}"
    away = Registry({"type": "glue", "glue.endpoint": nobody, **_KEYS})
    with pytest.raises(RetryableError, match="glue:default-registry"):
        away.by_guid("6da336d8-f1d3-0f98-4c47-d03ee8a14a10", "clicks-value")
    with pytest.raises(
        SettingsError, match=r"url is not one of the properties of Glue's registry: type, glue\.endpoint"
    ):
        Registry({"type": "glue", "url": "http://r", **_KEYS})
