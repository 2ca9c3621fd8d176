"""The catalog: PyIceberg's own on SQLite in memory, with the storage in memory below it.

``GuardedCatalog`` is what a process sees of it: each call goes through ``Outside.call``. Foreign writers and
the reader use the catalog itself.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any
from unittest import mock

from pyiceberg import serializers
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataCommonFields, TableMetadataUtil
from pyiceberg.utils.concurrent import ExecutorFactory

from tabletopic_kernel.adapters import manifests, staged_files
from tests.simulation.store import SPELLINGS, STORE_PROPERTY, MemoryIO, Store

MAIN = ("default", "clicks")
LETTERS = ("default", "clicks__dead_letters")
NEIGHBOUR = ("default", "views")

Call = Callable[[str, Callable[[], Any]], Any]


_FIND = (
    "SELECT metadata_location FROM iceberg_tables "
    "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
)


class _Catalog(SqlCatalog):
    """Counts its changes in ``version``, and finds a table by SQL that is not made anew each time."""

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
        return self._counted(lambda: super(_Catalog, self).commit_table(*args, **more))

    def create_table(self, *args: Any, **more: Any) -> Table:
        return self._counted(lambda: super(_Catalog, self).create_table(*args, **more))  # type: ignore[no-any-return]

    def drop_table(self, identifier: Any) -> None:
        self._counted(lambda: super(_Catalog, self).drop_table(identifier))

    def _counted(self, change: Callable[[], Any]) -> Any:
        try:
            return change()
        finally:
            self.version += 1


class Lake:
    """A catalog of this history's own. ``scheme``: file or s3; ``spelling``: of the warehouse."""

    def __init__(self, name: str, spelling: str) -> None:
        self.store = Store(name)
        self.spellings = next(some for some in SPELLINGS.values() if spelling in some)
        properties = {
            "uri": "sqlite:///:memory:",
            "warehouse": spelling,
            "py-io-impl": f"{MemoryIO.__module__}.{MemoryIO.__qualname__}",
            STORE_PROPERTY: name,
        }
        self.catalog = _Catalog("lake", **properties)
        self.catalog.create_namespace("default")
        self.io = MemoryIO(properties)
        self._known: tuple[int, dict[tuple[str, ...], Table | None]] = (-1, {})

    def load(self, identifier: tuple[str, ...]) -> Table | None:
        """The table as it is now; None if there is none."""
        try:
            return self.catalog.load_table(identifier)
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
    """A process's catalog: what it asks may fail, be slow, or be done twice."""

    def __init__(self, real: SqlCatalog, call: Call) -> None:
        self._real, self._call = real, call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _ours(self, table: Table) -> Table:
        table.catalog = self  # type: ignore[assignment]
        return table

    def load_table(self, identifier: Any) -> Table:
        """As PyIceberg's; the table commits through here."""
        return self._ours(self._call("catalog load", lambda: self._real.load_table(identifier)))

    def create_namespace(self, *args: Any, **more: Any) -> Any:
        """As PyIceberg's."""
        return self._call("catalog create", lambda: self._real.create_namespace(*args, **more))

    def create_table(self, *args: Any, **more: Any) -> Table:
        """As PyIceberg's; the table commits through here."""
        return self._ours(self._call("catalog create", lambda: self._real.create_table(*args, **more)))

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> Any:
        """As PyIceberg's."""
        return self._call("catalog commit", lambda: self._real.commit_table(table, requirements, updates))


class _AtOnce(Executor):
    """Runs what it is given in this thread: PyIceberg reads manifests in a pool."""

    def __init__(self, *_: Any) -> None:
        """Of no size."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class _Parsed:
    """As ``TableMetadataUtil``, once for each text."""

    @staticmethod
    @lru_cache(maxsize=64)
    def parse_raw(data: str) -> TableMetadata:
        """Metadata of its JSON."""
        return TableMetadataUtil.parse_raw(data)


@contextmanager
def pyiceberg_in_one_thread(seed: int) -> Iterator[None]:
    """PyIceberg and the product without threads of a pool, without chance, and without needless copies.

    Metadata is copied deeply for each step of a transaction, 19 times a commit. Nobody changes it in place,
    so a shallow copy does: three quarters of a commit's time are saved.
    """
    dice = random.Random(seed)

    def made() -> uuid.UUID:
        return uuid.UUID(int=dice.getrandbits(128), version=4)

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(ExecutorFactory, "_instance", _AtOnce()))
        patches.enter_context(mock.patch.object(ExecutorFactory, "_instance_pid", os.getpid()))
        for module in (staged_files, manifests):
            patches.enter_context(mock.patch.object(module, "ThreadPoolExecutor", _AtOnce))
        patches.enter_context(mock.patch.object(serializers, "TableMetadataUtil", _Parsed))
        patches.enter_context(
            mock.patch.object(
                TableMetadataCommonFields, "__deepcopy__", lambda self, memo=None: self.model_copy()
            )
        )
        patches.enter_context(mock.patch.object(uuid, "uuid4", made))
        yield
