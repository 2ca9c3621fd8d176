"""Whether catalog and storage take what a table topic writes, tried before anything is made.

What is written is taken back: rows of a database by a rollback, a file by its removal. Each trial ends within
``LIMIT_S``, whatever the servers do: clients that wait longer are left to themselves.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDoneError
from contextlib import nullcontext, suppress
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlparse

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from tabletopic_kernel.clients.catalog.catalog import open_catalog, reachable, warehouse_location
from tabletopic_kernel.clients.catalog.engine_properties import maintains_itself
from tabletopic_kernel.clients.outside_errors.sorting import is_refused
from tabletopic_kernel.clients.outside_errors.table import CATALOG, STORAGE
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError
from tabletopic_kernel.model.redact import is_secret

T = TypeVar("T")
LIMIT_S: Final = 10.0
_FILE: Final = ".tabletopic-probe-"
# Clients ask again for longer than anybody waits for a trial; what a person has set stays.
_IMPATIENT: Final = {"glue.max-retries": "1", "s3.connect-timeout": "3"}
_KEYS: Final = ("s3.", "gcs.", "adls.", "client.")


class Place(NamedTuple):
    """Where a table lies or will lie, and the client that reads and writes there."""

    location: str
    io: FileIO


def open_impatient(properties: Mapping[str, str]) -> Catalog:
    """The catalog for a trial: as ``open_catalog``, with fewer tries of its client; raises as that does."""
    return open_catalog({**_IMPATIENT, **properties})


def within_limit(trial: Callable[[], T], *, what: str = CATALOG) -> T:
    """The outcome of a trial; raises RetryableError where it is not done in time.

    The thread of one that hangs stays until its client gives up; the end of the process does not wait for it.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(trial())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name=f"trial of {what}", daemon=True).start()
    try:
        return outcome.result(LIMIT_S)
    except NotDoneError:
        if outcome.done():
            raise
        raise RetryableError(
            f"{what} has not answered within {LIMIT_S:g} s; is its address in [catalog] right, and do "
            "firewalls let this machine through?"
        ) from None


def try_table(
    properties: Mapping[str, str], identifier: tuple[str, ...], table_properties: Mapping[str, str]
) -> None:
    """See that a table topic can be kept in ``identifier``: the catalog takes changes, the storage files.

    Raises:
        SettingsError: [catalog] is wrong, whatever a server says.
        ActionNeededError: something is refused.
        RetryableError: no answer, or not in time.
    """

    def place() -> Place | None:
        catalog = open_impatient(properties)
        try_changes(catalog)
        return table_place(catalog, identifier)

    found = within_limit(place)
    if found is not None:
        data = table_properties.get("write.data.path")

        def write() -> None:
            for folder in (found.location, *([data] if data else [])):
                try_folder(Place(folder, found.io), must_delete=not maintains_itself(properties))

        within_limit(write, what=STORAGE)


def try_changes(catalog: Catalog) -> None:
    """Let a database take a change and take it back; other catalogs have no way to try.

    Raises: as ``reachable``.
    """
    if not isinstance(catalog, SqlCatalog):
        return
    name, probe = catalog.name, f"{_FILE}{uuid.uuid4().hex}"
    row = {"catalog_name": name, "table_namespace": probe, "table_name": probe, "metadata_location": ""}
    mark = {"catalog_name": name, "namespace": probe, "property_key": "exists", "property_value": "true"}
    with reachable(CATALOG):
        session = Session(catalog.engine)
        try:
            session.execute(insert(IcebergNamespaceProperties).values(**mark))
            session.execute(insert(IcebergTables).values(**row))
            of_probe = IcebergTables.table_name == probe
            session.execute(update(IcebergTables).where(of_probe).values(metadata_location="x"))
        finally:
            session.rollback()
            session.close()


def table_place(catalog: Catalog, identifier: tuple[str, ...]) -> Place | None:
    """Where the table lies, or would be made; None where only the catalog knows, and does not tell yet.

    Raises:
        SettingsError: nothing says where.
        RetryableError, ActionNeededError: as ``reachable``.
    """
    with reachable(CATALOG):
        with suppress(NoSuchTableError):
            table = catalog.load_table(identifier)
            return Place(table.location(), table.io)
        if isinstance(catalog, MetastoreCatalog):
            return _metastore_place(catalog, identifier)
        return _rest_place(catalog, identifier)


def default_place(catalog: Catalog) -> Place | None:
    """Where tables lie unless their namespace says otherwise; None where only the catalog knows."""
    warehouse = warehouse_location(catalog.properties)
    if warehouse is None or (isinstance(catalog, RestCatalog) and not _has_keys(catalog, warehouse)):
        return None
    return Place(warehouse, catalog._load_file_io(location=warehouse))


def try_folder(place: Place, *, must_delete: bool = True) -> None:
    """Write a small file, read it, delete it; of folders of this machine none is made that is not there.

    Table buckets of S3 Tables refuse deletes and remove what no table names by themselves: without
    ``must_delete`` a file that stays is no trouble.

    Raises:
        RetryableError, ActionNeededError: as ``reachable``; or other bytes come back.
    """
    path = f"{_existing(place.location).rstrip('/')}/{_FILE}{uuid.uuid4().hex}"
    text = uuid.uuid4().bytes
    with reachable(STORAGE):
        # Without a look whether it is there: stores tell why they refuse a PUT, and not a HEAD.
        with place.io.new_output(path).create(overwrite=True) as stream:
            stream.write(text)
        try:
            with place.io.new_input(path).open() as stream:
                same = stream.read() == text
        finally:
            with nullcontext() if must_delete else suppress(OSError):
                place.io.delete(path)
    if not same:
        raise ActionNeededError(
            f"{place.location} gives back other bytes than were written: do not use this storage"
        )


def _metastore_place(catalog: MetastoreCatalog, identifier: tuple[str, ...]) -> Place | None:
    namespace, is_there = identifier[:-1], True
    properties: Mapping[str, str] = {}
    try:
        properties = catalog.load_namespace_properties(namespace)
    except NoSuchNamespaceError:
        is_there = False
    except Exception as error:  # it may be there and not be shown
        if not is_refused(error):
            raise
    location = properties.get("location") or catalog.properties.get("warehouse")
    if location:
        return Place(location, catalog._load_file_io(location=location))
    if not is_there and type(catalog).__name__ == "HiveCatalog":
        return None  # the metastore has a warehouse of its own for new databases
    raise ValueError("No default path is set, please specify a location when creating a table")


def _rest_place(catalog: Catalog, identifier: tuple[str, ...]) -> Place | None:
    """By a table that is staged and never made: with it come location and keys (Iceberg's REST interface)."""
    schema = Schema(NestedField(1, "probe", LongType(), required=False))
    try:
        staged = catalog.create_table_transaction(identifier, schema)._table
    except NoSuchNamespaceError:  # it is made with the table
        return default_place(catalog)
    except Exception as error:  # a server need not know how
        if is_refused(error):
            return default_place(catalog)
        raise
    return Place(staged.location(), staged.io)


def _has_keys(catalog: Catalog, location: str) -> bool:
    """Whether it is known what opens the storage: a REST catalog may lend keys with each table."""
    is_here = urlparse(location).scheme in ("", "file")
    return is_here or any(is_secret(name) for name in catalog.properties if name.startswith(_KEYS))


def _existing(location: str) -> str:
    """The folder, or the nearest one above it that is there; that of an object store is always there."""
    parts = urlparse(location)
    if parts.scheme not in ("", "file"):
        return location
    folder = parts.path  # as PyIceberg reads it: nothing is unquoted
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder
