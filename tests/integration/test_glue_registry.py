"""Records that AWS Glue's serializers wrote, on a real broker."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import boto3
import fastavro
import pytest
from moto.server import ThreadedMotoServer

from tabletopic_kernel.local import machine
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.formats.test_glue_frames import framed

pytestmark = pytest.mark.story
_SCHEMA = {"type": "record", "name": "Click", "fields": [{"name": "url", "type": "string"}]}


def test_a_topic_of_glues_serializers_is_read(stack: StackInfo, new_topic: Callable[..., Any]) -> None:
    """Plain and compressed values are rows, an unknown UUID has its reason, the columns are known."""
    server = ThreadedMotoServer("127.0.0.1", machine.free_port(set()), verbose=False)
    server.start()
    try:
        keys = {"glue.region": "us-east-1", "glue.access-key-id": "k", "glue.secret-access-key": "s"}
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        glue = boto3.client("glue", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="k",
                            aws_secret_access_key="s")  # fmt: skip
        glue.create_registry(RegistryName="shop")
        sender = new_topic()
        guid = glue.create_schema(
            RegistryId={"RegistryName": "shop"}, SchemaName=sender.topic, DataFormat="AVRO",
            Compatibility="NONE", SchemaDefinition=json.dumps(_SCHEMA),
        )["SchemaVersionId"]  # fmt: skip
        for url in ("/a", "/b"):
            body = io.BytesIO()
            fastavro.schemaless_writer(body, _SCHEMA, {"url": url})
            sender.raw(framed(body.getvalue(), guid, packed=url == "/b"))
        sender.raw(framed(b"nobody"))
        sender.flush()
        registry = {"type": "glue", "glue.registry-name": "shop", "glue.endpoint": endpoint, **keys}
        workbench = Workbench(Settings(state_dir=str(stack.state_dir), registry=registry))
        unknown, *rows = workbench.topic(sender.topic).peek(3)
        assert [row.value for row in rows] == [{"url": "/b"}, {"url": "/a"}]
        assert rows[0].schema_id == guid
        assert "6da336d8" in str(unknown.error)
        plan = workbench.plan(sender.topic)
        assert "url" in [column.name for column in plan.columns]
    finally:
        server.stop()
