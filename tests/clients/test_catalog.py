"""The catalog's errors: each has a remedy, or is an outcome of Iceberg.

test_outside_errors.py tests which error becomes which.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from tabletopic_kernel.clients.catalog.catalog import create_table, open_catalog, reachable
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError


@pytest.mark.parametrize(
    "error",
    [
        CommitFailedException("first"), NoSuchTableError("x"), KeyError("x"), ValueError("x"),
        RetryableError("x"),
    ],
)  # fmt: skip
def test_outcomes_that_are_no_trouble(error: Exception) -> None:
    """Outcomes and faults of ours stay what they are; a table of another format is not created again."""
    with pytest.raises(type(error)), reachable("the catalog"):
        raise error


@pytest.mark.parametrize("uri", ["nonsense", "nosuch://host/db", "nosuch+driver://host/db"])
def test_an_address_that_cannot_be_is_a_wrong_setting(tmp_path: Path, uri: str) -> None:
    """It says where it stands, and is not tried again."""
    with pytest.raises(SettingsError, match=r"\[catalog\]"):
        open_catalog({"type": "sql", "uri": uri, "warehouse": str(tmp_path)})


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install; a host does not take it for a fault of its own."""

    def load(*_: object, **__: object) -> None:
        raise NotInstalledError("not installed") from ModuleNotFoundError("no module", name="psycopg2")

    monkeypatch.setitem(AVAILABLE_CATALOGS, CatalogType.SQL, load)
    with pytest.raises(SettingsError, match=r"\[catalog\] .*pip install 'tabletopic\[postgres\]'"):
        open_catalog({"type": "sql", "uri": "postgresql+psycopg2://h/db", "warehouse": str(tmp_path)})


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"type": "rest"}, "uri"),
        ({"type": "sql"}, "uri"),
        ({"type": "sql", "uri": "postgres://u@h/db"}, r"postgresql\+psycopg2://"),
        ({"uri": "postgres://u@h/db"}, "set type"),
        ({"uri": "sqlite://", "schema_version": "v7"}, "v0' or 'v1"),
    ],
)
def test_what_no_server_has_to_be_asked_for_is_told_at_once(properties: dict[str, str], said: str) -> None:
    """As a wrong setting, with what to write."""
    with pytest.raises(SettingsError, match=rf"^\[catalog\] .*{said}"):
        open_catalog(properties)


def test_a_table_of_another_format_is_no_table_that_is_missing() -> None:
    """It would be created again and again."""
    with pytest.raises(ActionNeededError, match="choose another with --table"), reachable("the catalog"):
        raise NoSuchIcebergTableError("Property table_type is hive, expected iceberg: default.clicks")


class _Stingy(InMemoryCatalog):
    """Denies access to namespaces."""

    def namespace_exists(self, namespace: object) -> bool:
        raise ForbiddenError("not yours")

    def create_table(self, *_: object, **__: object) -> Table:
        raise NoSuchNamespaceError("Namespace does not exist: web")


def test_a_namespace_that_is_missing_and_may_not_be_made_is_named(tmp_path: Path) -> None:
    """The server says of it that it is not there; that is no fault of ours."""
    catalog = _Stingy("lake", warehouse=str(tmp_path))
    with pytest.raises(ActionNeededError, match=r"namespace web.*create it"):
        create_table(catalog, ("web", "clicks"), Schema(), UNPARTITIONED_PARTITION_SPEC, {})


def test_the_number_of_tries_of_glue_is_a_number() -> None:
    """All settings are texts; boto3 compares this one with numbers."""
    properties = {"type": "glue", "glue.region": "us-east-1", "glue.max-retries": "1"}
    catalog = open_catalog(properties)
    assert catalog.glue.meta.config.retries["total_max_attempts"] in (1, 2)  # type: ignore[attr-defined]
    ours = open_catalog({key: text for key, text in properties.items() if key != "glue.max-retries"})
    assert ours.glue.meta.config.retries["total_max_attempts"] == 4  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="invalid literal"):
        open_catalog(properties | {"glue.max-retries": "many"})


def test_a_database_whose_messages_are_not_utf8_is_waited_for() -> None:
    """Before the login it writes in its own encoding, which psycopg2 cannot read: no wrong setting."""
    fields = "SFATAL\0C57P03\0Mdas Datenbanksystem fährt hoch\0\0".encode("latin-1")

    def answer(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                if len(connection.recv(1_000)) == 8:  # a request for TLS
                    connection.sendall(b"N")
                    connection.recv(1_000)
                connection.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)

    server = socket.create_server(("127.0.0.1", 0))
    answering = threading.Thread(target=answer, args=(server,))
    answering.start()
    uri = f"postgresql+psycopg2://me:p@127.0.0.1:{server.getsockname()[1]}/lake"
    try:
        with pytest.raises(RetryableError, match=r"das Datenbanksystem f.hrt hoch"):
            open_catalog({"type": "sql", "uri": uri, "warehouse": "file:///nowhere"})
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        answering.join()


def test_two_programs_may_open_a_new_catalog_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both see no tables, and one is too late to create them."""
    real, late = AVAILABLE_CATALOGS[CatalogType.SQL], ["table iceberg_tables already exists"]

    def load(name: str, properties: dict[str, str]) -> Catalog:
        if late:
            raise OperationalError("CREATE TABLE iceberg_tables", (), Exception(late.pop()))
        return real(name, properties)

    monkeypatch.setitem(AVAILABLE_CATALOGS, CatalogType.SQL, load)
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": tmp_path.as_uri()}
    assert open_catalog(place).list_namespaces() == []
