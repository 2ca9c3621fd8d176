"""With a proxy in the environment, this machine's servers are asked directly, others through it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest
from pyarrow.fs import S3FileSystem

import tabletopic_kernel
from tabletopic_kernel.clients.catalog.catalog import open_catalog, reachable
from tabletopic_kernel.clients.proxies import child_environment, proxy_hint
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.query.duckdb_connection import connect, give_secret
from tests.servers.http_server import Handler, HttpServer

VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


class Server:
    """Responds the same to every request, and keeps their first lines."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self.requests: list[str] = []
        requests = self.requests

        class Same(Handler):
            """Of this server."""

            def respond(self) -> None:
                """Respond."""
                requests.append(self.requestline)
                self.body()
                headers = {
                    "content-type": "application/json",
                    "last-modified": "Fri, 27 Nov 2026 03:12:08 GMT",
                }
                self.give(status, body, headers)

            do_GET = do_POST = do_HEAD = do_CONNECT = respond  # noqa: N815 - the standard library's names

        self.http = HttpServer(Same)
        self.url = self.http.url


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Starts servers."""
    with ExitStack() as servers:

        def start(body: object, status: int = 200) -> Server:
            server = Server(body if isinstance(body, bytes) else json.dumps(body).encode(), status)
            servers.enter_context(server.http)
            return server

        yield start


@pytest.fixture(params=[str.lower, str.upper], ids=["lower case", "upper case"])
def proxy(
    request: pytest.FixtureRequest, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> Server:
    """A proxy that refuses everything, in the environment."""
    made = serve(b"<html>refused by the proxy</html>", 503)
    for variable in VARIABLES:
        monkeypatch.delenv(variable.upper(), raising=False)
        monkeypatch.setenv(request.param(variable), made.url)
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    return made


def ask_registry(url: str) -> None:
    """As a host does."""
    Registry({"url": url}).check()


def ask_catalog(url: str) -> None:
    """PyIceberg's REST catalog."""
    open_catalog({"name": "lake", "type": "rest", "uri": url})


def ask_glue(url: str) -> None:
    """PyIceberg's Glue catalog."""
    keys = {"glue.access-key-id": "a", "glue.secret-access-key": "b", "glue.region": "eu-west-1"}
    catalog = open_catalog({"name": "lake", "type": "glue", "glue.endpoint": url, **keys})
    with reachable("the catalog"):
        catalog.list_namespaces()


def ask_glue_registry(url: str) -> None:
    """AWS Glue's schema registry."""
    keys = {"glue.access-key-id": "a", "glue.secret-access-key": "b", "glue.region": "eu-west-1"}
    Registry({"type": "glue", "glue.endpoint": url, **keys}).check()


def ask_pyarrow(url: str) -> None:
    """PyArrow's S3."""
    keys = {"access_key": "a", "secret_key": "b", "region": "x"}
    S3FileSystem(endpoint_override=url, **keys).get_file_info("lake/a.csv")


def ask_duckdb(url: str) -> None:
    """DuckDB's S3."""
    connection = connect()
    give_secret(
        connection, ["s3://lake/"], {"s3.endpoint": url, "s3.access-key-id": "a", "s3.secret-access-key": "b"}
    )
    try:
        connection.sql("FROM read_text('s3://lake/a.csv')").fetchall()
    except duckdb.Error as error:
        raise AssertionError(str(error)) from error
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("ask", "body"),
    [
        (ask_registry, ["clicks-value"]),
        (ask_catalog, {"defaults": {}, "overrides": {}}),
        (ask_glue, {"DatabaseList": []}),
        (ask_glue_registry, {"Schemas": []}),
        (ask_pyarrow, b""),
        (ask_duckdb, b"text"),
    ],
)
def test_no_request_for_this_machine_goes_through_a_proxy(
    ask: Callable[[str], None], body: object, proxy: Server, serve: Callable[..., Server]
) -> None:
    """Although no_proxy is not set; the environment stays as it was."""
    before = dict(os.environ)
    server = serve(body)
    ask(server.url)
    assert server.requests
    assert proxy.requests == []
    assert dict(os.environ) == before


@pytest.mark.parametrize("ask", [ask_registry, ask_catalog])
def test_an_error_of_another_server_names_the_variable(ask: Callable[[str], None], proxy: Server) -> None:
    """With what to set for a server that is reached without the proxy."""
    with pytest.raises(RetryableError) as raised:
        ask("http://server.test:8081")
    assert proxy.requests
    message = str(raised.value)
    assert (
        f"through the proxy of {'http_proxy' if 'http_proxy' in os.environ else 'HTTP_PROXY'}={proxy.url}:"
        in message
    )
    assert message.endswith("for a server that is reached without it, set no_proxy=server.test")


def test_no_proxy_is_respected_and_completed(proxy: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hosts are asked directly, so no error speaks of a proxy; a login of the proxy is not shown."""
    monkeypatch.setenv("no_proxy", "server.test")
    assert proxy_hint("http://server.test:8081") == ""
    assert proxy_hint("http://localhost:8081") == ""
    assert proxy_hint("https://other.test/x").endswith("set no_proxy=server.test,other.test")
    assert child_environment()["no_proxy"] == "server.test,127.0.0.1,localhost,::1"
    monkeypatch.setenv("no_proxy", "*")
    assert child_environment()["no_proxy"] == "*"
    monkeypatch.delenv("no_proxy")
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "http://me:s3cret@proxy.test:3128")
    assert "s3cret" not in proxy_hint("http://server.test")


def test_no_other_module_makes_a_client_of_the_registry() -> None:
    """It would ask the local stack's registry through the proxy."""
    root = Path(tabletopic_kernel.__file__).parents[1]
    makers = {
        file.relative_to(root).as_posix()
        for folder in ("tabletopic_kernel", "datasets")
        for file in (root / folder).rglob("*.py")
        if re.search(r"SchemaRegistryClient[.(]", file.read_text("utf-8"))
    }
    assert makers == {"tabletopic_kernel/clients/registry/client.py"}
