"""What switching a topic on would do, and what speaks against it, found out before anything is changed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField

from tabletopic_kernel.adapters.kafka import Broker, TopicFacts
from tabletopic_kernel.adapters.registry import Registry
from tabletopic_kernel.commit.key_types import key_subject, newest_key_type
from tabletopic_kernel.commit.schemas import WITHOUT_SCHEMA
from tabletopic_kernel.commit.snapshot import TopicTable
from tabletopic_kernel.commit.start import check_topic
from tabletopic_kernel.core.errors import ActionNeededError, UsageError
from tabletopic_kernel.core.evolution import (
    KEY,
    VALUE,
    Change,
    evolve,
    evolve_key,
    metadata_columns,
    spell,
    table_schema,
)
from tabletopic_kernel.core.partitions import parse_partition, partition_spec
from tabletopic_kernel.core.settings import TopicSettings, table_identifier
from tabletopic_kernel.core.transform import value_columns
from tabletopic_kernel.ingest.decoders import make_decoder
from tabletopic_kernel.ingest.plan import WHOLE_TOPIC, WriterSchema

_CHANGED: dict[str, Literal["new", "relaxed", "widened"]] = {
    "add": "new",
    "relax": "relaxed",
    "widen": "widened",
}


@dataclass(frozen=True)
class PlanColumn:
    """A column that the table will have; ``change`` says what becomes of it."""

    name: str
    type: str
    required: bool
    doc: str | None
    change: Literal["new", "kept", "relaxed", "widened"]


@dataclass
class Plan:
    """What ``enable`` would do with a topic. It would refuse if ``refused`` names a reason.

    ``creates``: the table is not there yet. ``columns`` is empty while no schema is registered. ``start``
    is the setting; a table that is there goes on at its ledger instead, as one of the ``notes`` says.
    """

    topic: str
    table: str
    creates: bool
    columns: list[PlanColumn] = field(default_factory=list)
    partition_by: list[str] = field(default_factory=list)
    start: str | int = "earliest"
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)


def check_before_enable(
    topic: str, settings: TopicSettings, broker: Broker, registry: Registry, catalog: Catalog
) -> None:
    """See whether ``topic`` can become a table with these settings; reads only.

    Raises:
        UsageError: no such topic, a bad partition expression, a schema that cannot be the table's, a table
            of that name that is not this topic's.
        RetryableError: broker, registry or catalog do not answer.
    """
    plan = plan_enable(topic, settings, broker, registry, catalog)
    if plan.refused:
        raise UsageError("; ".join(plan.refused))


def plan_enable(
    topic: str, settings: TopicSettings, broker: Broker, registry: Registry, catalog: Catalog
) -> Plan:
    """What switching the topic on would do; reads only. Reasons against it are in ``refused``.

    Raises:
        UsageError: there is no such topic.
        RetryableError: broker, registry or catalog do not answer.
    """
    facts = broker.facts(topic)
    plan = Plan(
        topic=topic,
        table=".".join(table_identifier(topic, settings)),
        creates=True,
        partition_by=list(settings.partition_by),
        start=settings.start,
    )
    try:
        for text in settings.partition_by:
            parse_partition(text)
        table = TopicTable.load(catalog, table_identifier(topic, settings), topic)
        columns, origin = _columns(topic, settings, registry)
        key = newest_key_type(topic, settings, registry)
        if table is None:
            _plan_new(plan, columns, key, origin, settings, facts)
        else:
            _plan_old(plan, table, columns, origin, settings, facts)
            _plan_key(plan, table.table, key, settings)
        if key is None and settings.has_typed_keys:
            plan.notes.append(
                f"no schema is registered as {key_subject(topic)} yet: {KEY} comes with the first key"
            )
    except (UsageError, ActionNeededError) as error:
        plan.refused.append(str(error))
    return plan


def _columns(topic: str, settings: TopicSettings, registry: Registry) -> tuple[Schema | None, str]:
    """The value's columns by what is known now, and where they come from; None: not known yet."""
    kind = WITHOUT_SCHEMA.get(settings.value_format)
    if kind == "INFERRED":
        return None, "JSON without a schema: the columns come with the records"
    if kind is not None:
        decoded = make_decoder(WHOLE_TOPIC, WriterSchema(kind=kind)).iceberg_schema
        return value_columns(decoded, settings.transform), "one column for the value"
    subject = settings.value_subject or f"{topic}-value"
    latest = registry.latest(subject)
    if latest is None:
        return None, f"no schema is registered as {subject} yet: the columns come with the first record"
    writer = WriterSchema(latest.text, latest.references, latest.kind, settings.value_message)
    origin = f"version {latest.version} of {latest.subject} (id {latest.id})"
    return value_columns(make_decoder(latest.id, writer).iceberg_schema, settings.transform), origin


def _plan_new(
    plan: Plan,
    columns: Schema | None,
    key: IcebergType | None,
    origin: str,
    settings: TopicSettings,
    facts: TopicFacts,
) -> None:
    records = sum(end - facts.first.get(partition, 0) for partition, end in facts.end.items())
    if settings.start == "earliest" and records:
        plan.notes.append(f"the table begins with the up to {records:,} records that the topic has now")
    elif settings.start == "latest":
        plan.notes.append("the table begins with the records that are sent from now on")
    plan.notes.append(origin if columns is None else f"columns of {origin}")
    if columns is None:
        return
    schema = table_schema(columns, settings, key)
    plan.columns = [_column(one, "new") for one in schema.fields]
    partition_spec(settings.partition_by, schema)


def _plan_old(
    plan: Plan,
    table: TopicTable,
    columns: Schema | None,
    origin: str,
    settings: TopicSettings,
    facts: TopicFacts,
) -> None:
    schema = table.table.schema()
    plan.creates = False
    plan.columns = [_column(one, "kept") for one in schema.fields]
    plan.partition_by = plan.partition_by or _partition_texts(table.table)
    _note_ledger(plan, table, facts)
    if settings.partition_by:
        wanted = partition_spec(settings.partition_by, schema)
        if not wanted.compatible_with(table.table.spec()):
            there = ", ".join(_partition_texts(table.table)) or "nothing"
            raise UsageError(
                f"the table {table.identifier} is there and partitioned by {there}; a table topic does not "
                "change that: "
                "leave `partition_by` out, or choose another `table`"
            )
    if columns is None:
        return  # what comes is checked when it comes
    _check_columns(table.table, columns, settings)
    beside = settings.on_incompatible == "new_column"
    last = table.table.metadata.last_column_id
    outcome = evolve(schema, columns, last, new_columns=beside)
    told = "; ".join(f"{column} {why}" for column, why in outcome.refused.items())
    if outcome.refused and "stop" in (settings.on_incompatible, settings.errors):
        raise UsageError(f"{origin} does not fit the table {table.identifier}: {told}")
    if outcome.refused:
        plan.notes.append(f"{origin} does not fit the table, its records are refused: {told}")
        return
    changed = _by_column(outcome.changes)
    plan.columns = [_column(one, changed.get(one.name, "kept")) for one in outcome.schema.fields]
    plan.notes += [f"{origin}: {change}" for change in outcome.changes]


def _plan_key(plan: Plan, table: Table, key: IcebergType | None, settings: TopicSettings) -> None:
    """What keys that name their schema change in a table that is there."""
    if key is None:
        return
    schema, last = table.schema(), table.metadata.last_column_id
    outcome = evolve_key(schema, key, last, new_columns=settings.on_incompatible == "new_column")
    if KEY in outcome.refused:
        raise UsageError(f"{KEY} {outcome.refused[KEY]}: keep the key format, or choose another --table")
    told = "; ".join(f"{column} {why}" for column, why in outcome.refused.items())
    if outcome.refused and "stop" in (settings.on_incompatible, settings.errors):
        raise UsageError(f"the newest schema of the keys does not fit the table: {told}")
    if outcome.refused:
        plan.notes.append(f"the newest schema of the keys does not fit the table, they are refused: {told}")
        return
    changed = _by_column(outcome.changes)
    new = [_column(one, changed[one.name]) for one in outcome.schema.fields if one.name in changed]
    names = {one.name for one in new}
    plan.columns = [one for one in plan.columns if one.name not in names] + new
    plan.notes += [f"the newest schema of the keys: {change}" for change in outcome.changes]


def _note_ledger(plan: Plan, table: TopicTable, facts: TopicFacts) -> None:
    ledger = table.ledger
    if ledger is None:
        return
    read = sum(ledger.next_offsets.values()) - sum(facts.first.get(p, 0) for p in ledger.next_offsets)
    plan.notes.append(
        f"the table is there and goes on at its ledger, whatever `start` says ({max(0, read):,} of the "
        "records that the topic has are read)"
    )
    try:
        check_topic(ledger, facts)
    except ActionNeededError as error:  # a host says so too, as the topic's state
        plan.notes.append(str(error))


def _column(column: NestedField, change: Literal["new", "kept", "relaxed", "widened"]) -> PlanColumn:
    return PlanColumn(column.name, spell(column.field_type), column.required, column.doc, change)


def _by_column(changes: tuple[Change, ...]) -> dict[str, Literal["new", "relaxed", "widened"]]:
    """What becomes of each top column: a change below it widens it."""
    found: dict[str, Literal["new", "relaxed", "widened"]] = {}
    for change in changes:
        top, dot, _ = change.column.partition(".")
        found[top] = "widened" if dot or found.get(top) == "widened" else _CHANGED[change.kind]
    return found


def _check_columns(table: Table, writer: Schema, settings: TopicSettings) -> None:
    """The settings that shape the columns must be those the table was made with, or fewer columns."""
    there = {column.name: column.field_type for column in table.schema().fields}
    for column in metadata_columns(settings):
        if column.name not in there:
            raise UsageError(
                f"the table has no column {column.name}; switch it off with metadata_columns, "
                "or choose another --table"
            )
        if column.name == KEY and there[KEY] != column.field_type:
            raise UsageError(
                f"{KEY} is {there[KEY]} in the table: keep the key format, or choose another --table"
            )
    if (VALUE in there) != (VALUE in [column.name for column in writer.fields]):
        raise UsageError("the table was made with another transform; keep it, or choose another --table")


def _partition_texts(table: Table) -> list[str]:
    spec, schema = table.spec(), table.schema()
    return [f"{one.transform}({schema.find_column_name(one.source_id)})" for one in spec.fields]
