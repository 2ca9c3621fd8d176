"""Problems are detected before anything is created, quickly, and the probe leaves nothing behind."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from sqlalchemy import event, text

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.storage import probe as storage_probe
from tabletopic_kernel.clients.storage.probe import (
    default_place,
    table_place,
    try_changes,
    try_folder,
    try_table,
)
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError
from tabletopic_kernel.workbench.doctor.run import check_server
from tests.servers.answering_store import AnsweringStore
from tests.servers.staging_catalog import StagingCatalog

TABLE = ("web", "clicks")


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    """A catalog in SQLite and a warehouse that does not exist yet."""
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}


@pytest.fixture
def catalog(properties: dict[str, str]) -> Iterator[Catalog]:
    """That catalog."""
    catalog = open_catalog(properties)
    yield catalog
    catalog.close()


@pytest.fixture
def store() -> Iterator[AnsweringStore]:
    """An object store with the given responses."""
    with AnsweringStore() as store:
        yield store


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change how long a server, and a file of this machine, may take."""

    def change(server_s: float, file_s: float = 240.0) -> None:
        monkeypatch.setattr(storage_probe, "LIMIT_S", server_s)
        monkeypatch.setattr(storage_probe, "_LOCAL_LIMIT_S", file_s)

    return change


def test_nothing_stays_of_a_trial(tmp_path: Path, properties: dict[str, str]) -> None:
    """Neither a file, nor a folder, nor a row of the catalog."""
    try_table(properties, TABLE, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["catalog.db"]
    catalog = open_catalog(properties)
    assert catalog.list_namespaces() == []
    with catalog.engine.connect() as connection:  # type: ignore[attr-defined]
        assert connection.execute(text("SELECT count(*) FROM iceberg_tables")).scalar() == 0
    catalog.close()


def test_a_folder_that_nobody_may_make_is_refused(properties: dict[str, str]) -> None:
    """As the storage's trouble, also one of ``write.data.path``; no warehouse at all is a wrong setting."""
    with pytest.raises(RetryableError, match=r"^the storage .*disk"):
        try_table(properties, TABLE, {"write.data.path": "/proc/lake"})
    del properties["warehouse"]
    with pytest.raises(SettingsError, match=r"\[catalog\] .*set warehouse"):
        try_table(properties, TABLE, {})


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("NoSuchBucket", 404, r"^the storage has no such bucket \(.*create that bucket"),
        ("InvalidAccessKeyId", 403, r"^the storage refuses the keys \(.*s3\.access-key-id"),
        ("AccessDenied", 403, r"^the storage does not allow it \(.*list, read, write and delete"),
    ],
)
def test_what_the_store_refuses_is_told(
    properties: dict[str, str],
    store: AnsweringStore,
    limits: Callable[..., None],
    code: str,
    status: int,
    said: str,
) -> None:
    """With what to do, as what a person must do."""
    limits(240.0)
    store.aws_error(code, status)
    keys = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
    of_store = {"warehouse": "s3://lake/x", "s3.endpoint": f"http://{store.address}"}
    with pytest.raises(ActionNeededError, match=said):
        try_table({**properties, **keys, **of_store}, TABLE, {})


def test_a_database_that_takes_no_changes_is_refused(catalog: Catalog) -> None:
    """Though it opens, and tells what it has."""

    @event.listens_for(catalog.engine, "connect")  # type: ignore[attr-defined]
    def read_only(connection: object, _: object) -> None:
        connection.execute("PRAGMA query_only = ON")  # type: ignore[attr-defined]

    catalog.engine.dispose()  # type: ignore[attr-defined]
    with pytest.raises(RetryableError, match="is read-only at the moment"):
        try_changes(catalog)


def location_of(catalog: Catalog) -> str:
    """Where a trial would write."""
    place = table_place(catalog, TABLE)
    try_folder(place)
    return place.location


def test_where_a_trial_writes(tmp_path: Path, catalog: Catalog) -> None:
    """As a new table would, so where the warehouse or the namespace says; else where the table lies."""
    folder = f"file://{tmp_path}"
    catalog.create_namespace("web", {"location": f"{folder}/web"})
    assert location_of(catalog) == f"{folder}/web"
    with pytest.MonkeyPatch.context() as rights:  # least rights are enough
        rights.setattr(catalog, "load_namespace_properties", Mock(side_effect=ForbiddenError("not yours")))
        assert location_of(catalog) == catalog.properties["warehouse"]
    catalog.create_table(TABLE, Schema(), location=f"{folder}/elsewhere")
    assert location_of(catalog) == f"{folder}/elsewhere"


def test_table_buckets_refuse_deletes(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes what no table names by itself; elsewhere a refused delete is trouble."""
    catalog.create_namespace("web")
    catalog.create_table(TABLE, Schema(), location=f"file://{tmp_path}/elsewhere")

    def refused(*_: object) -> None:
        raise PermissionError(13, "AWS Error ACCESS_DENIED during DeleteObject operation")

    monkeypatch.setattr(PyArrowFileIO, "delete", refused)
    properties = dict(catalog.properties)
    try_table(properties | {"rest.signing-name": "s3tables"}, TABLE, {})
    with pytest.raises(ActionNeededError, match="ACCESS_DENIED"):
        try_table(properties, TABLE, {})


@pytest.fixture
def staging(tmp_path: Path) -> Iterator[Callable[..., tuple[StagingCatalog, Catalog]]]:
    """Starts a REST catalog that stages tables, or does not, and connects to it."""
    with ExitStack() as opened:

        def start(stages: bool | str = True) -> tuple[StagingCatalog, Catalog]:
            server = opened.enter_context(StagingCatalog(f"file://{tmp_path}/lent", stages=stages))
            return server, opened.enter_context(closing(open_catalog(rest(server))))

        yield start


def rest(server: StagingCatalog) -> dict[str, str]:
    """Properties of that catalog."""
    return {"type": "rest", "uri": server.url, "warehouse": "s3://lake/x"}


def test_keys_that_are_lent_are_those_of_the_trial(tmp_path: Path, staging: Any) -> None:
    """A REST catalog tells place and keys of a table that is staged and never made."""
    server, catalog = staging()
    place = table_place(catalog, TABLE)
    assert place.location == f"file://{tmp_path}/lent"
    assert place.io.properties["s3.secret-access-key"] == "lent"
    try_folder(place)
    assert server.made == []
    assert default_place(catalog) is None  # keys come with the table
    with pytest.raises(NoSuchTableError):
        catalog.load_table(TABLE)
    assert table_place(staging(stages=False)[1], TABLE) is None


def test_a_catalog_without_keys_to_lend_is_told_what_ends_it(staging: Any) -> None:
    """Like Polaris without STS: what the catalog is no longer asked with that property is named."""
    no_sts = "Credential vending was requested for table a.b, but no credentials are available"
    server, catalog = staging(no_sts)
    with pytest.raises(ActionNeededError, match=r'set header.X-Iceberg-Access-Delegation = ""'):
        table_place(catalog, TABLE)
    checks = {one.name: one for one in check_server("catalog", rest(server))}
    assert (checks["catalog"].status, checks["storage"].status) == ("ok", "fail")
    assert "s3.secret-access-key" in checks["storage"].detail
    with closing(open_catalog(rest(server) | {"header.X-Iceberg-Access-Delegation": ""})) as catalog:
        assert table_place(catalog, TABLE) is not None
    assert server.made == []


def test_an_address_behind_a_firewall_is_told_in_time(limits: Callable[..., None]) -> None:
    """A connection that is taken and never answered: PostgreSQL's client has no limit of its own."""
    limits(0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        uri = f"postgresql+psycopg2://u:secret@127.0.0.1:{port}/db?connect_timeout=60"
        with pytest.raises(RetryableError, match=r"is its address in \[catalog\] right"):
            try_table({"type": "sql", "uri": uri, "warehouse": "file:///nowhere"}, TABLE, {})
    for thread in threading.enumerate():
        if thread.name.startswith("trial"):
            thread.join()
