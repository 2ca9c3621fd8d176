"""The catalog: in memory like a REST catalog's server, or PyIceberg's own on SQLite; below, the storage.

``GuardedCatalog`` is a process's view of it: each call goes through ``Outside.call``. Foreign writers and the
reader use the catalog itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, update_table_metadata
from pyiceberg.typedef import EMPTY_DICT

from tests.simulation.store import SPELLINGS, STORE_PROPERTY, MemoryIO, Store

MAIN = ("default", "clicks")
LETTERS = ("default", "clicks__dead_letters")
NEIGHBOUR = ("default", "views")

Call = Callable[[str, Callable[[], Any]], Any]


_FIND = (
    "SELECT metadata_location FROM iceberg_tables "
    "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
)


class _OnSqlite(SqlCatalog):
    """Counts its changes in ``version``, and does not rebuild the SQL for a table each time."""

    version = 0

    def load_table(self, identifier: Any) -> Table:
        *namespace, name = self.identifier_to_tuple(identifier)
        connection = self.engine.raw_connection()
        try:
            found = connection.cursor().execute(_FIND, (self.name, ".".join(namespace), name)).fetchone()
        finally:
            connection.close()
        if found is None:
            raise NoSuchTableError(f"Table does not exist: {identifier}")
        row = IcebergTables(
            catalog_name=self.name,
            table_namespace=".".join(namespace),
            table_name=name,
            metadata_location=found[0],
            previous_metadata_location=None,
        )
        return self._convert_orm_to_iceberg(row)

    def commit_table(self, *args: Any, **more: Any) -> Any:
        return self._counted(lambda: super(_OnSqlite, self).commit_table(*args, **more))

    def create_table(self, *args: Any, **more: Any) -> Table:
        return self._counted(lambda: super(_OnSqlite, self).create_table(*args, **more))  # type: ignore[no-any-return]

    def drop_table(self, identifier: Any) -> None:
        self._counted(lambda: super(_OnSqlite, self).drop_table(identifier))

    def _counted(self, change: Callable[[], Any]) -> Any:
        try:
            return change()
        finally:
            self.version += 1


class _InMemory(NoopCatalog):
    """A REST catalog's server: requirements, updates, and the response, all at once.

    No metadata file is written, as nobody here reads one. ``version`` counts its changes. ``lenient``: only a
    request's requirements are checked, as a server may do, however old its snapshot's sequence number is.
    """

    version = 0

    def __init__(self, name: str, *, lenient: bool = False, **properties: str) -> None:
        super().__init__(name, **properties)
        self._lenient = lenient
        self._tables: dict[tuple[str, ...], tuple[TableMetadata, str]] = {}
        self._namespaces: set[tuple[str, ...]] = set()
        self._io = MemoryIO(properties)

    def namespace_exists(self, namespace: Any) -> bool:
        return self.identifier_to_tuple(namespace) in self._namespaces

    def create_namespace(self, namespace: Any, properties: Any = None) -> None:
        name = self.identifier_to_tuple(namespace)
        if name in self._namespaces:
            raise NamespaceAlreadyExistsError(f"Namespace already exists: {namespace}")
        self._namespaces.add(name)

    def create_table(
        self,
        identifier: Any,
        schema: Any,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: Any = UNSORTED_SORT_ORDER,
        properties: Any = EMPTY_DICT,
    ) -> Table:
        name = self.identifier_to_tuple(identifier)
        if name in self._tables:
            raise TableAlreadyExistsError(f"Table already exists: {identifier}")
        where = f"{self.properties['warehouse']}/{'/'.join(name)}"
        metadata = new_table_metadata(schema, partition_spec, sort_order, where, properties)
        self._put(name, metadata, 0)
        return self.load_table(name)

    def _put(self, name: tuple[str, ...], metadata: TableMetadata, number: int) -> str:
        location = f"{metadata.location}/metadata/{number:05d}-{uuid.uuid4()}.metadata.json"
        self._tables[name] = metadata, location
        self.version += 1
        return location

    def load_table(self, identifier: Any) -> Table:
        name = self.identifier_to_tuple(identifier)
        found = self._tables.get(name)
        if found is None:
            raise NoSuchTableError(f"Table does not exist: {identifier}")
        return Table(name, *found, io=self._io, catalog=self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        name = table.name()
        if name not in self._tables:
            raise NoSuchTableError(f"Table does not exist: {name}")
        current, location = self._tables[name]
        for requirement in requirements:
            requirement.validate(current)
        changed = update_table_metadata(self._before(current, updates), updates, metadata_location=location)
        newest = max(current.last_sequence_number, changed.last_sequence_number)
        changed = changed.model_copy(update={"last_sequence_number": newest})
        if changed != current:
            location = self._put(name, changed, self.version)
        return CommitTableResponse.model_construct(metadata=changed, metadata_location=location)

    def _before(self, current: TableMetadata, updates: Any) -> TableMetadata:
        """What the updates are made to; lenient: as if no newer snapshot had been there."""
        added = [
            update.snapshot.sequence_number for update in updates if isinstance(update, AddSnapshotUpdate)
        ]
        if not self._lenient or not added or None in added:
            return current
        last = min(current.last_sequence_number, min(added) - 1)
        return current.model_copy(update={"last_sequence_number": last})

    def drop_table(self, identifier: Any) -> None:
        if self._tables.pop(self.identifier_to_tuple(identifier), None) is None:
            raise NoSuchTableError(f"Table does not exist: {identifier}")
        self.version += 1

    def close(self) -> None:
        """Nothing to give back."""


class Lake:
    """A catalog of this history's own; ``spelling``: of the warehouse."""

    def __init__(self, name: str, spelling: str, *, on_sqlite: bool, lenient: bool = False) -> None:
        self.store = Store(name)
        self.spellings = next(some for some in SPELLINGS.values() if spelling in some)
        properties = {
            "warehouse": spelling,
            "py-io-impl": f"{MemoryIO.__module__}.{MemoryIO.__qualname__}",
            STORE_PROPERTY: name,
        }
        self.catalog: Any = (
            _OnSqlite("lake", uri="sqlite:///:memory:", **properties)
            if on_sqlite
            else _InMemory("lake", lenient=lenient, **properties)
        )
        self.catalog.create_namespace("default")
        self.io = MemoryIO(properties)
        self._known: tuple[int, dict[tuple[str, ...], Table | None]] = (-1, {})

    def load(self, identifier: tuple[str, ...]) -> Table | None:
        """The table as it is now; None if there is none."""
        try:
            return self.catalog.load_table(identifier)  # type: ignore[no-any-return]
        except NoSuchTableError:
            return None

    def look(self, identifier: tuple[str, ...]) -> Table | None:
        """As ``load``, for who changes nothing: the same table until somebody has changed one."""
        at, known = self._known
        if at != self.catalog.version:
            self._known = at, known = self.catalog.version, {}
        if identifier not in known:
            known[identifier] = self.load(identifier)
        return known[identifier]

    def close(self) -> None:
        """Give everything back."""
        self.catalog.close()
        self.store.close()


class GuardedCatalog:
    """A process's catalog: its requests may fail, be slow, or be executed twice."""

    def __init__(self, real: Catalog, call: Call) -> None:
        self._real, self._call = real, call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _ours(self, table: Table) -> Table:
        table.catalog = self  # type: ignore[assignment]
        return table

    def load_table(self, identifier: Any) -> Table:
        """As PyIceberg's; the table commits through here."""
        return self._ours(self._call("catalog load", lambda: self._real.load_table(identifier)))

    def namespace_exists(self, *args: Any) -> Any:
        """As PyIceberg's; the first question of who makes a table."""
        return self._call("catalog create", lambda: self._real.namespace_exists(*args))

    def create_namespace(self, *args: Any, **more: Any) -> Any:
        """As PyIceberg's."""
        return self._call("catalog create", lambda: self._real.create_namespace(*args, **more))

    def create_table(self, *args: Any, **more: Any) -> Table:
        """As PyIceberg's; the table commits through here."""
        return self._ours(self._call("catalog create", lambda: self._real.create_table(*args, **more)))

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> Any:
        """As PyIceberg's."""
        return self._call(
            _kind(table, updates), lambda: self._real.commit_table(table, requirements, updates)
        )


def _kind(table: Table, updates: Any) -> str:
    added = [update.snapshot.summary for update in updates if isinstance(update, AddSnapshotUpdate)]
    if table.name() == LETTERS and added:
        return "catalog commit of letters"
    has_rows = any(summary is not None and summary.get("added-data-files") for summary in added)
    return "catalog commit of rows" if has_rows else "catalog commit"
