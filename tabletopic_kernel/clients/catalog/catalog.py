"""Iceberg catalogs, configured by PyIceberg's property names, with errors classified by remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType, infer_catalog_type, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from sqlalchemy.exc import DatabaseError, IntegrityError

from tabletopic_kernel.clients.catalog.engine_properties import catalog_type
from tabletopic_kernel.clients.catalog.guard import STORAGE_PREFIXES
from tabletopic_kernel.clients.catalog.pyiceberg_seams.catalogs import own
from tabletopic_kernel.clients.catalog.pyiceberg_seams.rest import PatientRestCatalog
from tabletopic_kernel.clients.outside_errors.sorting import is_refused, plain, sort_error
from tabletopic_kernel.model.errors import (
    CATALOG,
    ActionNeededError,
    RetryableError,
    SettingsError,
    TableTopicError,
    Trouble,
)
from tabletopic_kernel.model.redact import is_secret
from tabletopic_kernel.model.settings.cluster import is_loopback
from tabletopic_kernel.model.settings.sections import DEFAULT_CATALOG_NAME
from tabletopic_kernel.model.settings.table_properties import outside

_TABLE_FILES = "tabletopic_kernel.clients.catalog.pyiceberg_seams.files.TableFileIO"
NAME = "name"  # our key next to PyIceberg's: Spark and PyIceberg must use the same name
_TRIES, _GLUE_TRIES = "glue.max-retries", "3"


def catalog_name(properties: Mapping[str, str]) -> str:
    """The catalog's name in SQL: ``lake`` unless set."""
    return properties.get(NAME, DEFAULT_CATALOG_NAME)


@contextmanager
def in_section(catalog: str | None) -> Iterator[None]:
    """Make errors name the section of ``catalog``, which their classification does not know."""
    try:
        yield
    except TableTopicError as error:
        error.of_catalog(catalog)
        raise


def warehouse_location(properties: Mapping[str, str]) -> str | None:
    """The tables' location in the properties; None if the catalog chooses it.

    >>> warehouse_location({"warehouse": "file:/lake"}), warehouse_location({"warehouse": "prod"})
    ('file:/lake', None)
    """
    warehouse = properties.get("warehouse", "")
    is_location = "://" in warehouse or warehouse.startswith(("/", "file:"))
    return warehouse if is_location else None


def check_inside(catalog: Catalog, table_properties: Mapping[str, str], now: Mapping[str, str] = {}) -> None:
    """Raise ActionNeededError if settings lead files out of the warehouse, unless the table's do ``now``."""
    new = {name: value for name, value in table_properties.items() if now.get(name) != value}
    if name := outside(new, place := warehouse_location(catalog.properties)):
        raise ActionNeededError(
            f"table_properties.{name}: {table_properties[name]} is outside the catalog's warehouse, {place}"
        )


def open_catalog(properties: Mapping[str, str]) -> Catalog:
    """Open the catalog; raises SettingsError if PyIceberg does not accept the properties."""
    options: dict[str, Any] = {key: value for key, value in properties.items() if key != NAME}
    options.setdefault("py-io-impl", _TABLE_FILES)
    with reachable("the catalog"):
        try:
            if catalog_type(properties) == "glue":
                # PyIceberg passes it unchanged to boto3, which needs a number. Its own ten tries take 35 s
                # without a word to the user, and callers retry anyway.
                options[_TRIES] = int(options.get(_TRIES, _GLUE_TRIES))
            elif catalog_type(properties) == "sql" and not properties.get("uri", "").startswith("sqlite"):
                # Replaces a connection that a restart or a firewall has ended, instead of an error.
                options.setdefault("pool_pre_ping", "true")
            if catalog_type(properties) == "rest" and "py-catalog-impl" not in properties:
                return PatientRestCatalog(catalog_name(properties), **options)
            catalog = own(_load(catalog_name(properties), options))
            if catalog_type(properties) == "glue" and is_loopback(options.get("glue.endpoint", "")):
                _ask_directly(catalog.glue)  # type: ignore[attr-defined]
            return catalog
        except (ValueError, TypeError, KeyError) as error:
            if sort_error(error, CATALOG) is not None:
                raise
            missing = f"{error.args[0]} is not set" if isinstance(error, KeyError) and error.args else None
            raise SettingsError(Trouble(missing or plain(error))) from error


def _load(name: str, properties: dict[str, Any]) -> Catalog:
    """Like PyIceberg's, without the properties and classes of a ``.pyiceberg.yaml`` in this very folder."""
    if "py-catalog-impl" in properties:  # then it reads no file
        return load_catalog(name, **properties)
    kind = properties["type"].lower() if "type" in properties else infer_catalog_type(name, properties)
    load = AVAILABLE_CATALOGS[CatalogType(kind)]
    try:
        return load(name, properties)
    except DatabaseError as error:
        if "already exists" not in str(error):
            raise
        return load(name, properties)  # another program has just created the tables of a new catalog


def _ask_directly(client: Any) -> None:
    """Let an existing client of boto3 ask without the environment's proxy."""
    from botocore.httpsession import URLLib3Session  # noqa: PLC0415 - of the extra [glue]

    session = URLLib3Session()
    client.meta.events.register_first("before-send.glue", lambda request, **_: session.send(request))


@contextmanager
def reachable(system: str, *, lent: bool = False) -> Iterator[None]:
    """Translate errors of ``the catalog`` or ``the storage``; Iceberg's own outcomes pass through.

    ``lent``: the catalog lends the storage's keys, so the next load of the table brings new ones.
    Raises RetryableError (no answer, busy), ActionNeededError (refused), or SettingsError.
    """
    try:
        yield
    except (CommitFailedException, TableTopicError):
        raise
    except Exception as error:
        if (trouble := sort_error(error, system, lent=lent)) is None:
            raise
        raise trouble.error() from error


def lends_keys(table: Table) -> bool:
    """Whether the catalog lends keys for the storage with the table."""
    own = table.catalog.properties
    return any(
        is_secret(name) and own.get(name) != value
        for name, value in table.io.properties.items()
        if name.startswith(STORAGE_PREFIXES)
    )


def create_table(
    catalog: Catalog,
    identifier: tuple[str, ...],
    schema: Schema,
    spec: PartitionSpec,
    properties: dict[str, str],
    order: SortOrder = UNSORTED_SORT_ORDER,
) -> Table:
    """Create a table, and its namespace; raises RetryableError if another program just did."""
    with reachable("the catalog"):
        _ensure_namespace(catalog, identifier[:-1])
        try:
            return catalog.create_table(
                identifier, schema, partition_spec=spec, sort_order=order, properties=properties
            )
        except TableAlreadyExistsError as error:
            raise RetryableError(f"{'.'.join(identifier)} was just created by another program") from error
        except NoSuchNamespaceError as error:
            raise ActionNeededError(
                f"the catalog's user can neither see nor create the namespace {'.'.join(identifier[:-1])}: "
                "create it, or choose another with --namespace"
            ) from error


def _ensure_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """Create missing namespaces only: users often may not create, or even check, existing ones."""
    try:
        if catalog.namespace_exists(namespace):
            return
    except Exception as error:
        if is_refused(error):
            return  # the table's creation will show whether it exists
        raise
    for depth in range(1, len(namespace) + 1):
        # IntegrityError: a database's catalog checks, then inserts; others may insert in between.
        with suppress(NamespaceAlreadyExistsError, IntegrityError):
            catalog.create_namespace(namespace[:depth])
