"""Iceberg catalogs by PyIceberg's property names, with their errors sorted by remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pyarrow.fs as pafs
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from sqlalchemy.exc import ArgumentError, IntegrityError

from tabletopic_kernel.clients.engine_properties import DEFAULT_NAME, catalog_type
from tabletopic_kernel.clients.rest_catalog import PatientRestCatalog
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError
from tabletopic_kernel.model.steps import Step, reach

NAME = "name"  # our key beside PyIceberg's: Spark and PyIceberg must call the catalog the same
_ACCESS = (UnauthorizedError, ForbiddenError, AuthorizationExpiredError)
# Clients by which PyIceberg asks catalogs and storage: each has errors of its own, and may not be installed.
_CLIENTS = frozenset({"botocore", "boto3", "s3fs", "thrift", "hive_metastore", "sqlalchemy", "psycopg2"})
_CLIENTS_NET = frozenset({"requests", "urllib3", "aiohttp", "google", "gcsfs", "azure", "adlfs", "fsspec"})
# Of AWS, in the answer's code: no other try will fare better.
_AWS_ACCESS = re.compile(r"AccessDenied|Expired|InvalidClientToken|UnrecognizedClient|SignatureDoesNotMatch")
_MOST_UNDELETABLE = 10
_NEXT = {
    "the catalog": "is it running, and is [catalog] right?",
    "the storage": "is it reachable and not full, and are location and keys in [catalog] right?",
}


def catalog_name(properties: Mapping[str, str]) -> str:
    """The catalog's name in SQL: ``lake`` unless set."""
    return properties.get(NAME, DEFAULT_NAME)


def warehouse_location(properties: Mapping[str, str]) -> str | None:
    """Where tables lie by the properties; None where the catalog chooses.

    >>> warehouse_location({"warehouse": "file:/lake"}), warehouse_location({"warehouse": "prod"})
    ('file:/lake', None)
    """
    warehouse = properties.get("warehouse", "")
    is_location = "://" in warehouse or warehouse.startswith(("/", "file:"))
    return warehouse if is_location else None


def open_catalog(properties: Mapping[str, str]) -> Catalog:
    """Open the catalog.

    Raises:
        SettingsError: properties that PyIceberg does not take.
        RetryableError: the catalog does not answer.
    """
    rest = {key: value for key, value in properties.items() if key != NAME}
    with reachable("the catalog"):
        try:
            if catalog_type(properties) == "rest" and "py-catalog-impl" not in properties:
                return PatientRestCatalog(catalog_name(properties), **rest)
            return load_catalog(catalog_name(properties), **rest)
        except (ValueError, TypeError, ImportError, NotInstalledError, ArgumentError) as error:
            raise SettingsError(f"[catalog] {error}") from error


@contextmanager
def reachable(what: str) -> Iterator[None]:
    """Map trouble of ``the catalog`` or ``the storage`` to errors with a remedy; Iceberg's outcomes stay.

    Raises:
        RetryableError: no answer, busy, locked.
        ActionNeededError: not allowed.
    """
    try:
        yield
    except (CommitFailedException, NoSuchTableError):
        raise
    except Exception as error:
        if _is_refused(error):
            raise ActionNeededError(
                f"{what} does not allow it: {first_line(error)}; check [catalog] credentials, then resume "
                "the topic"
            ) from error
        if is_outside(error):
            raise RetryableError(
                f"{what} does not answer ({first_line(error)}), and is asked again: {_NEXT[what]}"
            ) from error
        raise


def _is_refused(error: Exception) -> bool:
    return isinstance(error, _ACCESS) or bool(_AWS_ACCESS.search(_aws_code(error)))


def is_outside(error: BaseException) -> bool:
    """Whether an error tells of a server, a network or a disk, and not of a fault of this program (I9).

    >>> is_outside(ConnectionResetError()), is_outside(KeyError())
    (True, False)
    """
    roots = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, RESTError | OSError) or bool(roots & (_CLIENTS | _CLIENTS_NET))


def _aws_code(error: Exception) -> str:
    """The code of an answer of AWS; empty for other errors."""
    response = getattr(error, "response", None)
    fault = response.get("Error") if isinstance(response, dict) else None
    return str(fault.get("Code", "")) if isinstance(fault, dict) else ""


def create_table(
    catalog: Catalog,
    identifier: tuple[str, ...],
    schema: Schema,
    spec: PartitionSpec,
    properties: dict[str, str],
) -> Table:
    """Create a table, with its namespace where that is missing.

    Raises:
        RetryableError: the catalog does not answer, or somebody else has just made the table.
    """
    with reachable("the catalog"):
        _ensure_namespace(catalog, identifier[:-1])
        try:
            return catalog.create_table(identifier, schema, partition_spec=spec, properties=properties)
        except TableAlreadyExistsError as error:
            raise RetryableError(f"{'.'.join(identifier)} has just been made by somebody else") from error


def _ensure_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """Create what is missing of it: a user may often not create, or not even look at, what is there."""
    try:
        if catalog.namespace_exists(namespace):
            return
    except Exception as error:
        if _is_refused(error):
            return  # whether it is there, the table's creation tells
        raise
    for depth in range(1, len(namespace) + 1):
        # The second: a catalog in a database looks and then inserts, and others do the same.
        with suppress(NamespaceAlreadyExistsError, IntegrityError):
            catalog.create_namespace(namespace[:depth])


def delete_files(table: Table, paths: list[str]) -> int:
    """Delete data files; returns how many went. Missing ones are fine.

    For ``table/sweep.py`` alone, which knows that nobody needs them. One that cannot be deleted hinders no
    other; after some of these the storage is at fault, and the rest stays too.

    Raises:
        RetryableError: some could not be deleted, whatever the storage's library raised.
    """
    gone, left, first = 0, [], None
    for path in paths:
        try:
            table.io.delete(path)
        except FileNotFoundError:
            continue
        except Exception as error:  # each storage has its own; which it is decides nothing here
            first = first or error
            left.append(path)
            if len(left) == _MOST_UNDELETABLE:
                break
        else:
            gone += 1
            reach(Step.DELETE)
    if first is not None:
        raise RetryableError(
            f"could not delete {left[0]}{f' and {len(left) - 1} more' * (len(left) > 1)}: "
            f"{type(first).__name__}: {first_line(first)}"
        ) from first
    return gone


def list_files(table: Table, folder: str, *, recursive: bool) -> list[str]:
    """Locations of what lies in ``folder`` (files, or folders when not recursive); empty if there is none.

    Only storage that PyArrow opens can be listed; others give an empty list.

    Raises:
        RetryableError: the storage does not answer, or names what lies there as if it lay elsewhere.
    """
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        return []
    scheme, netloc, path = io.parse_location(folder, io.properties)
    with reachable("the storage"):
        selector = pafs.FileSelector(path, recursive=recursive, allow_not_found=True)
        found = io.fs_by_scheme(scheme, netloc).get_file_info(selector)
    wanted = pafs.FileType.File if recursive else pafs.FileType.Directory
    root, inside = folder.rstrip("/"), re.sub("/+", "/", path).rstrip("/") + "/"
    locations = []
    for info in found:
        place = re.sub("/+", "/", info.path)
        if not place.startswith(inside):
            raise RetryableError(f"the storage lists {info.path} in {folder}")
        if info.type == wanted:
            locations.append(f"{root}/{place.removeprefix(inside)}")
    return locations


def first_line(error: BaseException) -> str:
    """What an error says, without the statements and links that SQLAlchemy adds below; never empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
