"""What the registry's answers mean: no such schema, or nobody there who could know."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tabletopic_kernel.adapters.registry import Registry, UnknownSchemaError
from tabletopic_kernel.core.errors import RetryableError

KNOWN, GONE, NO_PAGE, CLOSED = (f"6da336d8-f1d3-0f98-4c47-d03ee8a14a1{digit}" for digit in range(4))
ANSWERS: dict[str, tuple[int, Any]] = {
    "/schemas/ids/1": (200, {"schema": '"string"'}),
    "/schemas/ids/1/versions": (200, [{"subject": "a-value", "version": 3}]),
    "/schemas/ids/2": (404, {"error_code": 40403, "message": "Schema 2 not found"}),
    "/schemas/ids/3": (404, {"title": "no such page"}),
    "/schemas/ids/4": (404, "<html>not here</html>"),
    "/schemas/ids/5": (403, {"error_code": 40301, "message": "no"}),
    "/schemas/ids/6": (200, {"schema": '"int"'}),
    "/schemas/ids/6/versions": (404, {"error_code": 40403, "message": "its subject is deleted"}),
    f"/schemas/guids/{KNOWN}": (200, {"schema": '"long"', "guid": KNOWN}),
    f"/schemas/guids/{GONE}": (404, {"error_code": 40403, "message": "Schema not found"}),
    f"/schemas/guids/{NO_PAGE}": (404, ""),
    f"/schemas/guids/{CLOSED}": (403, ""),
    "/subjects": (200, ["a-value"]),
    "/subjects/a-value": (200, {"subject": "a-value", "version": 2, "id": 9, "schema": '"long"'}),
    "/subjects/b-value": (404, {"error_code": 40401, "message": "no subject"}),
    "/subjects/a-value/versions/latest": (404, {"error_code": 40401, "message": "no subject"}),
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer by the table above."""
        status, body = ANSWERS.get(self.path.partition("?")[0], (404, ""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write((body if isinstance(body, str) else json.dumps(body)).encode())

    def do_POST(self) -> None:
        """Answer by the table above, whatever was sent."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    """A client of a server that gives those answers."""
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield Registry({"url": f"http://127.0.0.1:{server.server_port}"})
    server.shutdown()
    serving.join()
    server.server_close()


def test_a_schema_with_its_place(registry: Registry) -> None:
    """The text, and the newest subject and version that have it."""
    found = registry.by_id(1)
    assert (found.text, found.subject, found.version, found.kind) == ('"string"', "a-value", 3, "AVRO")


def test_a_schema_whose_subjects_are_deleted_is_a_schema(registry: Registry) -> None:
    """Records that were written with it can be read."""
    assert registry.by_id(6).text == '"int"'


def test_no_such_schema_or_subject(registry: Registry) -> None:
    """The registry says so with a code of its own."""
    with pytest.raises(UnknownSchemaError):
        registry.by_id(2)
    assert registry.latest("a-value") is None


@pytest.mark.parametrize("schema_id", [3, 4, 5])
def test_other_refusals_say_nothing_about_the_schema(registry: Registry, schema_id: int) -> None:
    """A page that is not there, or a closed door, is waited out: it makes no dead letter (I9)."""
    with pytest.raises(RetryableError, match="url"):
        registry.by_id(schema_id)


def test_a_schema_by_guid(registry: Registry) -> None:
    """Its version is that in the subject that it is looked for in; without one it is still a schema."""
    found = registry.by_guid(KNOWN, "a-value")
    assert (found.id, found.text, found.subject, found.version) == (KNOWN, '"long"', "a-value", 2)
    elsewhere = registry.by_guid(KNOWN, "b-value")
    assert (elsewhere.text, elsewhere.subject, elsewhere.version) == ('"long"', "", 0)


def test_a_guid_that_nobody_can_tell(registry: Registry) -> None:
    """A registry may have no such schema, or no GUIDs at all; both are told, neither is waited for."""
    with pytest.raises(UnknownSchemaError, match=GONE):
        registry.by_guid(GONE, "a-value")
    with pytest.raises(UnknownSchemaError, match="has no GUIDs"):
        registry.by_guid(NO_PAGE, "a-value")


def test_a_guid_asked_of_no_registry(registry: Registry) -> None:
    """A closed door, or pages that are not there although no registry answers, say nothing (I9)."""
    with pytest.raises(RetryableError):
        registry.by_guid(CLOSED, "a-value")
    with pytest.raises(RetryableError):
        Registry({"url": f"{registry.url}/elsewhere"}).by_guid(NO_PAGE, "a-value")


@pytest.mark.parametrize("told", ["AVRO", "JSON", "PROTOBUF"])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"type": "record", "name": "A", "fields": []}', "AVRO"),
        ('{"type": "enum", "name": "E", "symbols": ["X"]}', "AVRO"),
        ('["null", "string"]', "AVRO"),
        ('{"type": "object", "properties": {}, "symbols": 1}', "JSON"),
        ("true", "JSON"),
        ('{"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}', "JSON"),
        ('syntax = "proto3"; message A { int64 id = 1; }', "PROTOBUF"),
        ("CglvcmQucHJvdG8SBHNob3A=", "PROTOBUF"),
    ],
)
def test_the_format_is_that_of_the_text(registry: Registry, told: str, text: str, kind: str) -> None:
    """Apicurio calls each version of a subject what the first one was, whatever format it has."""
    schema_id = 100 + len(ANSWERS)  # clients share what they have learnt of an id
    ANSWERS[f"/schemas/ids/{schema_id}"] = (200, {"schema": text, "schemaType": told})
    ANSWERS[f"/schemas/ids/{schema_id}/versions"] = (200, [{"subject": "a-value", "version": 4}])
    assert registry.by_id(schema_id).kind == kind
