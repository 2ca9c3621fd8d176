"""Tries whether catalog and storage accept what a table topic writes, before anything is created.

Everything written is undone: rows in a database are rolled back, a file is removed. Each trial ends within
``LIMIT_S`` (``_LOCAL_LIMIT_S`` for files on this machine): clients that wait longer are abandoned.
"""

from __future__ import annotations

import os
import re
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
from tabletopic_kernel.clients.catalog.guard import STORAGE_PREFIXES
from tabletopic_kernel.clients.catalog.pyiceberg_seams.files import files_at, staged_table
from tabletopic_kernel.clients.outside_errors.rules import NO_KEYS_LENT, STORAGE
from tabletopic_kernel.clients.outside_errors.sorting import is_refused
from tabletopic_kernel.model.errors import CATALOG, ActionNeededError, RetryableError, Trouble, Verdict
from tabletopic_kernel.model.redact import is_secret

T = TypeVar("T")
LIMIT_S: Final = 10.0
_LOCAL_LIMIT_S: Final = 60.0  # no firewall is in front of a file; it is slow only if the whole machine is
_FILE: Final = ".tabletopic-probe-"
# By default, clients retry for longer than anybody waits for a trial; user settings win.
_IMPATIENT: Final = {"glue.max-retries": "1", "s3.connect-timeout": "3"}


class Place(NamedTuple):
    """The location of an existing or future table, and the client that reads and writes there."""

    location: str
    io: FileIO


def open_impatient(properties: Mapping[str, str]) -> Catalog:
    """The catalog for a trial: like ``open_catalog``, with fewer retries; raises the same errors."""
    return open_catalog({**_IMPATIENT, **properties})


def within_limit(trial: Callable[[], T], *, at: str, system: str = CATALOG) -> T:
    """The outcome of a trial of a ``system`` at a URI or path; RetryableError if it takes too long.

    The thread of a hanging trial stays until its client gives up; the process does not wait for it to exit.
    """
    is_here = at.startswith(("sqlite", "/", "file:"))
    limit_s = _LOCAL_LIMIT_S if is_here else LIMIT_S
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(trial())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name=f"trial of {system}", daemon=True).start()
    try:
        return outcome.result(limit_s)
    except NotDoneError:
        if outcome.done():
            raise
        question = (
            "is its disk busy, or does another program keep its file locked?"
            if is_here
            else "is its address in {section} right, and do firewalls let this machine through?"
        )
        cause = f"has not responded within {limit_s:g} s"
        raise RetryableError(Trouble(cause, question, system, verdict=Verdict.WAIT)) from None


def try_table(
    properties: Mapping[str, str], identifier: tuple[str, ...], table_properties: Mapping[str, str]
) -> None:
    """Check that catalog and storage take a table ``identifier``; raises errors with their remedy."""

    def find_place() -> Place | None:
        catalog = open_impatient(properties)
        try_changes(catalog)
        return table_place(catalog, identifier)

    place = within_limit(find_place, at=properties.get("uri", ""))
    if place is not None:
        data = table_properties.get("write.data.path")

        def write() -> None:
            for folder in (place.location, *([data] if data else [])):
                try_folder(Place(folder, place.io), must_delete=not maintains_itself(properties))

        within_limit(write, system=STORAGE, at=place.location)


def try_changes(catalog: Catalog) -> None:
    """Make a change in a database and roll it back; other catalogs offer no way to try."""
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
    """The place of the table, or where it would be created; None if only the catalog knows."""
    with reachable(CATALOG):
        with suppress(NoSuchTableError):
            table = catalog.load_table(identifier)
            return Place(table.location(), table.io)
        if isinstance(catalog, MetastoreCatalog):
            return _metastore_place(catalog, identifier)
        return _rest_place(catalog, identifier)


def default_place(catalog: Catalog) -> Place | None:
    """The place of tables unless their namespace says otherwise; None if only the catalog knows."""
    warehouse = warehouse_location(catalog.properties)
    if warehouse is None or (isinstance(catalog, RestCatalog) and not _has_keys(catalog, warehouse)):
        return None
    return Place(warehouse, files_at(catalog, warehouse))


def try_folder(place: Place, *, must_delete: bool = True) -> None:
    """Write a small file, read it, delete it; creates no folders on this machine.

    Table buckets of S3 Tables refuse deletes, and themselves remove what no table refers to: without
    ``must_delete``, a file that stays is not an error.
    """
    path = f"{_existing(place.location).rstrip('/')}/{_FILE}{uuid.uuid4().hex}"
    text = uuid.uuid4().bytes
    with reachable(STORAGE):
        # Without a check whether it exists: stores say why they refuse a PUT, but not a HEAD.
        try:
            with place.io.new_output(path).create(overwrite=True) as stream:
                stream.write(text)
        except OSError:
            if path.startswith("/"):  # on a full disk there is a file, which is empty
                with suppress(OSError):
                    place.io.delete(path)
            raise
        try:
            with place.io.new_input(path).open() as stream:
                same = stream.read() == text
        finally:
            with nullcontext() if must_delete else suppress(OSError):
                place.io.delete(path)
    if not same:
        raise ActionNeededError(
            f"{place.location} returns other bytes than were written: do not use this storage"
        )


def _metastore_place(catalog: MetastoreCatalog, identifier: tuple[str, ...]) -> Place | None:
    namespace, exists = identifier[:-1], True
    properties: Mapping[str, str] = {}
    try:
        properties = catalog.load_namespace_properties(namespace)
    except NoSuchNamespaceError:
        exists = False
    except Exception as error:  # it may exist and be hidden
        if not is_refused(error):
            raise
    location = properties.get("location") or catalog.properties.get("warehouse")
    if location:
        return Place(location, files_at(catalog, location))
    if not exists and type(catalog).__name__ == "HiveCatalog":
        return None  # the metastore has its own warehouse for new databases
    raise ValueError("No default path is set, please specify a location when creating a table")


def _rest_place(catalog: Catalog, identifier: tuple[str, ...]) -> Place | None:
    """The place, from a staged table that is never created: it has location and keys (Iceberg's REST API)."""
    schema = Schema(NestedField(1, "probe", LongType(), required=False))
    try:
        staged = staged_table(catalog.create_table_transaction(identifier, schema))
    except NoSuchNamespaceError:  # it will be created with the table
        return default_place(catalog)
    except Exception as error:  # servers need not support it
        if is_refused(error) and not re.search(NO_KEYS_LENT, str(error)):
            return default_place(catalog)
        raise
    return Place(staged.location(), staged.io)


def _has_keys(catalog: Catalog, location: str) -> bool:
    """Whether the storage's keys are known: a REST catalog may lend them with each table."""
    is_here = urlparse(location).scheme in ("", "file")
    return is_here or any(is_secret(name) for name in catalog.properties if name.startswith(STORAGE_PREFIXES))


def _existing(location: str) -> str:
    """The folder, or its nearest existing parent; on an object store, folders always exist."""
    parts = urlparse(location)
    if parts.scheme not in ("", "file"):
        return location
    folder = parts.path  # not unquoted, like PyIceberg
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder
