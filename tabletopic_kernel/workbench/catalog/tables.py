"""The tables of all catalogs, by name."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyiceberg.table import Table

from tabletopic_kernel.model.errors import UnknownTopicError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.query.catalogs import Catalogs, no_such_table
from tabletopic_kernel.query.statements.sql import Name, quote
from tabletopic_kernel.workbench.catalog.detail import (
    SnapshotDifference,
    TableDetail,
    detail_of,
    difference,
)
from tabletopic_kernel.workbench.catalog.files import TableFiles, files_of

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.workbench import Workbench

# A quoted name that does not end is one to the end: so its time is linear in any text.
_PART: Final = re.compile(r'"((?:[^"]|"")*+)(?:"|\Z)|([^."]+)')
_PLAIN: Final = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class CatalogTable:
    """A table: its parts, and its name as ``table`` and a query take it."""

    catalog: str
    namespace: str
    name: str
    table: str


@dataclass(frozen=True)
class CatalogTables:
    """The tables of all catalogs. ``troubles``: why those of a catalog are not known."""

    tables: list[CatalogTable]
    troubles: list[str]


class Tables:
    """Looks into the catalogs of a workbench; any thread may ask. Raises as ``Workbench.catalog_of``."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench

    def all(self) -> CatalogTables:
        """All tables of all catalogs that respond, by name; loads none of them."""
        catalogs = self._catalogs()
        listed, errors = catalogs.listed()
        tables = []
        for other, name in sorted(listed, key=lambda place: (place[0] or "", place[1])):
            parts = (".".join(name[:-1]), name[-1])
            spelled = _spelled(parts if other is None else (other, *parts))
            tables.append(CatalogTable(other or catalogs.default, *parts, spelled))
        return CatalogTables(tables, [error.advice for error in errors])

    def detail(self, name: str) -> TableDetail:
        """What a table's metadata says; UnknownTopicError, with similar names, if there is no such table."""
        return detail_of(name, self._load(name))

    def files(self, name: str, limit: int = 100) -> TableFiles:
        """The partitions, files and columns of a table, by its manifests; raises as ``detail``."""
        return files_of(name, self._load(name), limit)

    def compare(self, name: str, before: int, after: int) -> SnapshotDifference:
        """What is different between two snapshots; UsageError if one is unknown; raises as ``detail``."""
        return difference(name, self._load(name), before, after)

    def _load(self, name: str) -> Table:
        catalogs = self._catalogs()
        parts = _parts(name, {catalogs.default.lower(), *self._workbench.servers.catalogs})
        table = catalogs.load(parts)
        if table is None:
            raise UnknownTopicError(no_such_table(name, catalogs.known_tables()))
        return table

    def _catalogs(self) -> Catalogs:
        workbench = self._workbench
        others = {name: partial(workbench.catalog_of, name) for name in workbench.servers.catalogs}
        return Catalogs(workbench.catalog, TopicSettings().namespace, others)


def _parts(text: str, catalogs: Collection[str]) -> Name:
    """A name as typed: catalog, if it is one of these, namespace and table; parts in quotes may have dots.

    >>> _parts("a.b.c", []), _parts("prod.a.b.c", ["prod"]), _parts('"a.b"."x ""y"', [])
    (('a.b', 'c'), ('prod', 'a.b', 'c'), ('a.b', 'x "y'))
    """
    parts = [match[2] if match[1] is None else match[1].replace('""', '"') for match in _PART.finditer(text)]
    *first, last = parts or [text]
    catalog = (first.pop(0),) if len(first) > 1 and first[0].lower() in catalogs else ()
    return (*catalog, ".".join(first), last) if first else (last,)


def _spelled(parts: Name) -> str:
    """A name that ``_parts`` and a query take: quoted where it must be."""
    return ".".join(part if _PLAIN.match(part) else quote(part) for part in parts)
