"""Tables of topics that are not enabled: what a disabled topic leaves behind."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.table_names import in_sql, table_identifier

if TYPE_CHECKING:  # PyIceberg takes half a second
    from pyiceberg.catalog import Catalog

    from tabletopic_kernel.workbench.workbench import Workbench

_LOG = logging.getLogger(__name__)
_AGAIN_S = 30.0
_REST = 20  # times as long as a look took: a catalog that hangs holds up the overview
_MOST_LOADED = 20  # tables per look: the overview waits for them
Place = tuple[str | None, tuple[str, ...]]  # a catalog, and a namespace in it


@dataclass(frozen=True)
class LeftTable:
    """A topic's table, as in a query, and its rows."""

    table: str
    rows: int


@dataclass
class LeftTables:
    """Looks for the tables by the names that enabling would give them. For one thread."""

    _known: dict[str, LeftTable | None] = field(default_factory=dict)
    _topics: frozenset[str] = frozenset()
    _due_s: float = 0.0
    _workbench: Workbench | None = None

    def of(self, workbench: Workbench, topics: Collection[str]) -> dict[str, LeftTable]:
        """The tables by topic; those of a catalog that does not respond are as last known."""
        if self._workbench is not workbench:
            self._workbench, self._known, self._due_s = workbench, {}, 0.0
        current = frozenset(topics)
        if current != self._topics or time.monotonic() > self._due_s:
            self._known = {name: table for name, table in self._known.items() if name in current and table}
            self._topics, began_s = current, time.monotonic()
            try:
                self._look(workbench)
            except TableTopicError as error:
                _LOG.debug("tables of topics that are not enabled: %s", error)
            ended_s = time.monotonic()
            self._due_s = ended_s + max(_AGAIN_S, _REST * (ended_s - began_s))
        return {name: table for name, table in self._known.items() if table is not None}

    def _look(self, workbench: Workbench) -> None:
        from tabletopic_kernel.clients.catalog.catalog import in_section, reachable  # noqa: PLC0415 - as above

        by_place: dict[Place, dict[str, str]] = defaultdict(dict)  # topic by the table's name
        for topic in self._topics - self._known.keys():
            settings = workbench.settings_for(topic)
            *namespace, name = table_identifier(topic, settings)
            by_place[settings.catalog, tuple(namespace)][name] = topic
        loaded = 0
        for (catalog_name, space), topics in by_place.items():
            catalog = workbench.open_catalog(catalog_name)
            with in_section(catalog_name), reachable("the catalog"):
                if not catalog.namespace_exists(space):
                    continue
                names = [identifier[-1] for identifier in catalog.list_tables(space)]
            for name in names:
                if name in topics and loaded < _MOST_LOADED:
                    loaded += 1
                    table = _load(catalog, catalog_name, (*space, name), topics[name])
                    self._known[topics[name]] = table


def _load(catalog: Catalog, name: str | None, identifier: tuple[str, ...], topic: str) -> LeftTable | None:
    from tabletopic_kernel.table.topic_table import TopicTable  # noqa: PLC0415 - as above

    try:
        table = TopicTable.load(catalog, identifier, topic)
    except TableTopicError:  # another topic's, or it cannot be read: then this topic has none here
        return None
    return (
        None if table is None else LeftTable(in_sql(identifier, name), cast("int", table.figures()["rows"]))
    )
