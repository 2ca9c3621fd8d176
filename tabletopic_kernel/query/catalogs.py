"""The catalogs that a query may name: resolves a name in SQL to a catalog and table, or the closest match."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import in_section, reachable
from tabletopic_kernel.clients.outside_errors.sorting import sort_error
from tabletopic_kernel.model.errors import CATALOG, TableTopicError, Verdict
from tabletopic_kernel.model.settings.table_names import in_sql
from tabletopic_kernel.query.statements.sql import MOST_PARTS, Name


class Catalogs:
    """The default catalog, and others by name; a query opens those that it names.

    A table is called ``table`` (in ``namespace``) or ``namespace.table`` in the default one,
    ``catalog.namespace.table`` in any. For one thread at a time.
    """

    def __init__(
        self, default: Catalog, namespace: str, others: Mapping[str, Callable[[], Catalog]] | None = None
    ) -> None:
        self.default = default.name
        self._namespace = namespace
        self._others = others or {}
        self._opened: dict[str | None, Catalog] = {None: default}

    @property
    def are_several(self) -> bool:
        """Whether there is more than the default catalog."""
        return bool(self._others)

    def load(self, name: Name) -> Table | None:
        """The table of a name; nested namespaces may be written a.b.table or "a.b".table."""
        if not 1 <= len(name) <= MOST_PARTS:
            return None
        other, below = self._split(name)
        *namespace, table = below if len(below) > 1 else (self._namespace, *below)
        identifier = (*".".join(namespace).split("."), table)
        with self._catalog(other) as catalog:
            try:
                return catalog.load_table(identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                same = _same_but_for_case(catalog, identifier)
                return catalog.load_table(same) if same else None
            except Exception as error:  # of a query with several tables, which one
                trouble = sort_error(error, CATALOG)
                if trouble is None or trouble.verdict is not Verdict.ACT:
                    raise
                raise replace(trouble, doing=f"{'.'.join(identifier)}: ").error() from error

    def spelled(self, name: Name, table: Table) -> str:
        """The dotted name of a table that was loaded as ``name``."""
        return in_sql(table.name(), self._split(name)[0])

    def place(self, name: Name) -> tuple[str, str, str]:
        """Catalog, namespace and name that SQL means by ``name``."""
        if len(name) == 1:
            return self.default, self._namespace, name[0]
        if len(name) == 2:
            return self.default, name[0], name[1]
        return name[0], name[1], name[2]

    def tables(self) -> list[tuple[str, Name]]:
        """All tables: catalog, and namespace parts with name. Raises as ``load``."""
        everywhere = (None, *self._others)
        return [(other or self.default, name) for other in everywhere for name in self._tables_of(other)]

    def known_tables(self) -> list[str]:
        """The dotted names of all tables in available catalogs."""
        return [in_sql(name, other) for other, name in self.listed()[0]]

    def listed(self) -> tuple[list[tuple[str | None, Name]], list[TableTopicError]]:
        """The tables of the catalogs that respond, None for the default one; and why others do not."""
        tables, errors = list[tuple[str | None, Name]](), list[TableTopicError]()
        for other in (None, *self._others):
            try:
                tables += [(other, name) for name in self._tables_of(other)]
            except TableTopicError as error:
                errors.append(error)
        return tables, errors

    def _split(self, name: Name) -> tuple[str | None, Name]:
        """The other catalog that a name refers to, None for the default one, and the name there."""
        first = name[0].lower()
        if len(name) < MOST_PARTS or first not in (self.default.lower(), *self._others):
            return None, name
        return (first if first in self._others else None), name[1:]

    @contextmanager
    def _catalog(self, other: str | None) -> Iterator[Catalog]:
        with in_section(other):
            if other is not None and other not in self._opened:
                self._opened[other] = self._others[other]()
            with reachable("the catalog"):
                yield self._opened[other]

    def _tables_of(self, other: str | None) -> list[Name]:
        with self._catalog(other) as catalog:
            tables: list[Name] = []
            waiting = list(catalog.list_namespaces())
            while waiting:
                namespace = waiting.pop()
                tables += catalog.list_tables(namespace)
                waiting += [child for child in catalog.list_namespaces(namespace) if child not in waiting]
            return sorted(set(tables))


def _same_but_for_case(catalog: Catalog, identifier: Name) -> Name | None:
    """The one table that matches the name case-insensitively."""
    *namespace, _ = identifier
    try:
        siblings = catalog.list_namespaces(tuple(namespace[:-1]))
    except NoSuchNamespaceError:
        return None
    same = [
        table
        for sibling in siblings
        if _lower(sibling) == _lower(namespace)
        for table in catalog.list_tables(sibling)
        if _lower(table) == _lower(identifier)
    ]
    return same[0] if len(same) == 1 else None


def _lower(name: list[str] | Name) -> Name:
    return tuple(part.lower() for part in name)


def no_such_table(name: str, known: Iterable[str]) -> str:
    """The message about a missing table, with similar names.

    >>> no_such_table("clikcs", ["default.clicks", "web.orders"])
    'there is no table clikcs; did you mean default.clicks?'
    """
    known = sorted(known)
    by_short: dict[str, list[str]] = {}
    for full in known:
        by_short.setdefault(full.rpartition(".")[2].lower(), []).append(full)
        by_short.setdefault(full.lower(), []).append(full)
    close = difflib.get_close_matches(name.lower(), by_short, n=3) or difflib.get_close_matches(
        name.rpartition(".")[2].lower(), by_short, n=3
    )
    similar = list(dict.fromkeys(full for match in close for full in by_short[match]))[:3]
    if similar:
        return f"there is no table {name}; did you mean {' or '.join(similar)}?"
    if known:
        names = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
        return f"there is no table {name}; existing tables: {names}"
    return f"there is no table {name}; the catalog has no tables yet"
