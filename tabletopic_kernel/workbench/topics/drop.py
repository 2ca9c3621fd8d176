"""Removes a table topic with its data: the desired state, the table and its dead letters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.table import Table

from tabletopic_kernel.model.dead_letter import dead_letter_identifier
from tabletopic_kernel.model.errors import RetryableError, UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import in_sql, table_identifier
from tabletopic_kernel.table.dead_letters import LetterTable
from tabletopic_kernel.table.files.drop import TableDrop, drop_table, plan_drop
from tabletopic_kernel.table.topic_table import TopicTable

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.topics.topic import TableTopic
    from tabletopic_kernel.workbench.workbench import Workbench

_RELEASE_S: Final = 60.0  # a host commits what is staged before it releases a topic


@dataclass(frozen=True)
class Drop:
    """What goes with a table topic, or would go until it is ``done``; ``is_enabled``: it was."""

    topic: str
    is_enabled: bool
    tables: list[TableDrop]
    done: bool = False


def drop(topic: TableTopic, settings: TopicSettings, bench: Workbench, *, dry_run: bool) -> Drop:
    """Disable the topic, wait until its host has released it, and drop its tables, unless ``dry_run``.

    Raises UsageError: there is nothing to drop; ActionNeededError: the table is another's.
    """
    is_enabled = topic.name in bench.desired_topics()
    tables = _tables(topic.name, settings, bench)
    if not is_enabled and not tables:
        name = in_sql(table_identifier(topic.name, settings), settings.catalog)
        raise UsageError(f"{topic.name} is not enabled, and has no table {name}: there is nothing to drop")
    if dry_run:
        plans = [plan_drop(table, name) for name, table in tables.items()]
        return Drop(topic.name, is_enabled, plans)
    if is_enabled:
        _release(topic, bench)
        tables = _tables(topic.name, settings, bench)
    catalog = bench.open_catalog(settings.catalog)
    # The letters first: a table without its letters can be dropped again, letters without a table cannot.
    done = [drop_table(table, name, catalog) for name, table in reversed(tables.items())]
    return Drop(topic.name, is_enabled, done[::-1], done=True)


def _tables(topic: str, settings: TopicSettings, bench: Workbench) -> dict[str, Table]:
    """The topic's table and its dead letters, as far as there are any, by their names in SQL."""
    catalog, identifier = bench.open_catalog(settings.catalog), table_identifier(topic, settings)
    table, letters = TopicTable.load(catalog, identifier, topic), LetterTable(catalog, identifier, topic)
    letters.load()
    loaded = ((identifier, table), (dead_letter_identifier(identifier), letters.table))
    return {in_sql(name, settings.catalog): each.table for name, each in loaded if each is not None}


def _release(topic: TableTopic, bench: Workbench) -> None:
    """Disable the topic; return once no host reports that it runs it."""
    deadline = time.monotonic() + _RELEASE_S
    topic.disable()
    while any(topic.name in host.topics for host in bench.host_statuses()):
        if time.monotonic() > deadline:
            raise RetryableError(
                f"{topic.name} is disabled, and after {_RELEASE_S:g} s its host has not released it; nothing "
                "is dropped yet: try again"
            )
        time.sleep(topic.look_every_s)
