"""A REST catalog that accepts requests and does not respond, and one that grants few rights."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.catalog.pyiceberg_seams import rest as rest_catalog
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.table.topic_table import TopicTable
from tests.servers.http_server import Handler, HttpServer

CONFIG = '{"defaults": {}, "overrides": {}}'


@contextmanager
def answering(answers: Mapping[str, tuple[int, str]], silent: threading.Event | None = None) -> Iterator[str]:
    """The address of a server with these responses, by path; without any once ``silent`` is set."""
    over = threading.Event()

    class Answers(Handler):
        def do_GET(self) -> None:  # noqa: N802
            if silent is not None and silent.is_set():
                over.wait(30)
                return
            status, text = answers[self.path.partition("?")[0]]
            self.give(status, text.encode())

    with HttpServer(Answers) as server:
        try:
            yield server.url
        finally:
            over.set()


def test_a_server_that_stops_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request has its limit, the first too; PyIceberg alone would wait for ever."""
    silent = threading.Event()
    with answering({"/v1/config": (200, CONFIG)}, silent) as uri:
        catalog = open_catalog({"type": "rest", "uri": uri})
        monkeypatch.setattr(rest_catalog, "READ_S", 0.2)
        silent.set()
        with pytest.raises(OSError, match=r"[Tt]imed out"):
            catalog.list_namespaces()
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(RetryableError, match=r"the catalog does not respond .*[Tt]imed out"):
            open_catalog({"type": "rest", "uri": uri})


@pytest.mark.parametrize(
    "body", ["<html>404 Not Found</html>", "404 page not found", '{"message": "no route"}']
)
def test_a_load_balancer_does_not_say_that_a_table_is_gone(body: str) -> None:
    """While the catalog behind it restarts: a topic that took it for the catalog's word would stop."""
    answers = {"/v1/config": (200, CONFIG)}
    with answering(answers) as uri:
        catalog = open_catalog({"type": "rest", "uri": uri})
        gone = {"message": "no such table", "type": "NoSuchTableException", "code": 404}
        answers["/v1/namespaces/default/tables/clicks"] = (404, json.dumps({"error": gone}))
        assert TopicTable.load(catalog, ("default", "clicks"), "clicks") is None
        answers["/v1/namespaces/default/tables/clicks"] = (404, body)
        with pytest.raises(RetryableError, match="being restarted"):
            TopicTable.load(catalog, ("default", "clicks"), "clicks")


def test_new_columns_are_told_with_the_highest_id() -> None:
    """That of the table or of the new schema, at any depth; nothing else of the request changes."""
    nested = {"type": "list", "element-id": 12, "element": "int"}
    field = {"id": 3, "name": "b", "type": nested, "required": False}
    schema = {"type": "struct", "schema-id": 40, "fields": [field]}
    updates = [
        {"action": "add-schema", "schema": schema},
        {"action": "set-properties", "updates": {"id": "99"}},
    ]
    for known, expected in ((20, 20), (5, 12)):
        requirement = {"type": "assert-last-assigned-field-id", "last-assigned-field-id": known}
        request = {"requirements": [requirement], "updates": updates}
        told = json.loads(rest_catalog.with_last_column_id(json.dumps(request).encode()))
        assert told["updates"][0].pop("last-column-id") == expected
        assert told == request
