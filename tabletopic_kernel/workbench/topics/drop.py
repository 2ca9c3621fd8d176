"""Removes a table topic with its data: the desired state, the table and its dead letters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.table import Table

from tabletopic_kernel.host.topics.control_topic import read_events
from tabletopic_kernel.model.dead_letter import dead_letter_identifier
from tabletopic_kernel.model.errors import RetryableError, UsageError
from tabletopic_kernel.model.progress.events import HostHeartbeat
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import in_sql, table_identifier, table_name
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC
from tabletopic_kernel.table.dead_letters import LetterTable
from tabletopic_kernel.table.files.drop import TableDrop, claim_table, drop_table, plan_drop
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


def drop(topic: TableTopic, table: str | None, bench: Workbench, *, dry_run: bool) -> Drop:
    """Disable the topic, wait until its host has released it, and drop its tables, unless ``dry_run``.

    ``table``: its dotted name, needed if the topic is not enabled. Raises UsageError: there is nothing to
    drop, or it is unclear what; ActionNeededError: the table is another's.
    """
    desired = bench.desired_topics().get(topic.name)
    settings = _settings(topic, table, desired, bench)
    if dry_run:
        plans = [plan_drop(loaded, name) for name, loaded in _tables(topic.name, settings, bench).items()]
        return Drop(topic.name, desired is not None, plans)
    name = in_sql(table_identifier(topic.name, settings), settings.catalog)
    again = f"tabletopic drop {topic.name} --table {name} --yes"
    _release(topic, bench, again, is_enabled=desired is not None)
    catalog = bench.open_catalog(settings.catalog)
    tables = _tables(topic.name, settings, bench)
    claimed = [claim_table(loaded, name, catalog) for name, loaded in tables.items()]
    # The letters first: a table without its letters can be dropped again, letters without a table cannot.
    done = [drop_table(claim, catalog) for claim in reversed(claimed)]
    return Drop(topic.name, desired is not None, done[::-1], done=True)


def _settings(
    topic: TableTopic, table: str | None, desired: DesiredTopic | None, bench: Workbench
) -> TopicSettings:
    """Settings with the name of the table; those of a topic that was disabled are gone with it."""
    if desired is not None:
        if table not in (None, filled := table_name(topic.name, desired.settings)):
            raise UsageError(f"{topic.name} fills {filled}: disable it first to drop {table}")
        return desired.settings
    if table is None:
        default = table_name(topic.name, topic.settings_for())
        raise UsageError(f"{topic.name} is not enabled: name the table to drop, such as --table {default}")
    *namespace, name = table.split(".")
    section = namespace.pop(0) if namespace and namespace[0] in bench.servers.catalogs else None
    settings = TopicSettings(catalog=section, namespace=".".join(namespace) or "default", table=name)
    if not _tables(topic.name, settings, bench):
        raise UsageError(f"{topic.name} is not enabled, and has no table {table}: there is nothing to drop")
    return settings


def _tables(topic: str, settings: TopicSettings, bench: Workbench) -> dict[str, Table]:
    """The topic's table and its dead letters, as far as there are any, by their names in SQL."""
    catalog, identifier = bench.open_catalog(settings.catalog), table_identifier(topic, settings)
    table, letters = TopicTable.load(catalog, identifier, topic), LetterTable(catalog, identifier, topic)
    letters.load()
    loaded = ((identifier, table), (dead_letter_identifier(identifier), letters.table))
    return {in_sql(name, settings.catalog): found.table for name, found in loaded if found is not None}


def _release(topic: TableTopic, bench: Workbench, again: str, *, is_enabled: bool) -> None:
    """Disable the topic; return once each live host has reported, since then, that it does not run it."""
    deadline = time.monotonic() + _RELEASE_S
    end = bench.broker.end_offsets([CONTROL_TOPIC]).get(CONTROL_TOPIC, {}).get(0, 0)
    if is_enabled:
        topic.disable()
    unsure = set(bench.hosts())

    def follow() -> bool:
        return bool(unsure) and time.monotonic() < deadline

    for event in read_events(bench.broker.properties, None, since=end, follow=follow) if unsure else ():
        if isinstance(event, HostHeartbeat):
            (unsure.add if topic.name in event.topics else unsure.discard)(event.host)
    unsure &= set(bench.hosts())
    if unsure:
        raise RetryableError(
            f"{topic.name} is disabled, and after {_RELEASE_S:g} s the host {min(unsure)} has not reported "
            f"that it released it; nothing is dropped yet: try again with `{again}`"
        )
