"""The plan for enabling a topic, and the reasons against it, before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField

from tabletopic_kernel.clients.catalog.aws import limits_of_aws
from tabletopic_kernel.clients.catalog.catalog import check_inside
from tabletopic_kernel.clients.kafka.broker import Broker, TopicFacts
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.host.resume_point import check_topic
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.columns.evolution import KEY
from tabletopic_kernel.model.columns.merge import Change
from tabletopic_kernel.model.columns.partitions import NONE, parse_partition, partition_spec, partition_texts
from tabletopic_kernel.model.columns.sort_orders import check_sort_entry, sort_order, sort_texts
from tabletopic_kernel.model.columns.table_columns import evolve_key, table_schema
from tabletopic_kernel.model.columns.types import spell
from tabletopic_kernel.model.columns.upsert_columns import check_same_key, check_same_mode
from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier, table_name
from tabletopic_kernel.model.topic_names import not_a_table_topic
from tabletopic_kernel.render.words import many
from tabletopic_kernel.table.changes.old_rows import old_rows
from tabletopic_kernel.table.draft import check_columns, newest_columns, with_types_of
from tabletopic_kernel.table.layout import names_before, order_change, partition_change, wanted_order
from tabletopic_kernel.table.schemas.columns import ValueColumns, newest_key_type, writer_columns
from tabletopic_kernel.table.schemas.registered import (
    UNREGISTERED,
    Candidate,
    candidate_writer,
    key_subject,
)
from tabletopic_kernel.table.topic_table import TopicTable
from tabletopic_kernel.workbench.plan import ColumnChange, Plan, PlanColumn
from tabletopic_kernel.workbench.topics.backlog import Layout, backlog, try_rules
from tabletopic_kernel.workbench.topics.upserts import check_upsert_topic

TableName = tuple[str, ...]  # namespace parts and name, in PyIceberg's form
_CHANGED: dict[str, ColumnChange]
_CHANGED = {"add": "new", "relax": "relaxed", "widen": "widened", "rename": "renamed"}


def plan_enable(
    topic: str,
    settings: TopicSettings,
    broker: Broker,
    registry: Registry,
    catalog: Catalog,
    taken: Mapping[TableName, str],
    candidate: Candidate | None = None,
) -> Plan:
    """What enabling the topic would do; reads only. Reasons against it are in ``refused``.

    ``taken``: the other enabled topics of this catalog, by table; some of the tables may not exist yet.
    ``candidate``: a schema to use instead of the newest registered one. Raises UsageError without a topic.
    """
    # Longer than other functions: an objection of any server becomes a reason in the plan.
    facts = broker.facts(topic)
    if facts.internal:  # including internal topics of newer Kafkas, with names unknown here
        raise UsageError(not_a_table_topic(topic, "Kafka's own"))
    plan = Plan(
        topic=topic,
        table=table_name(topic, settings),
        creates=True,
        partition_by=[] if list(settings.partition_by) == [NONE] else list(settings.partition_by),
        sort_by=[] if list(settings.sort_by) == [NONE] else list(settings.sort_by),
        start=settings.start,
    )
    try:
        if other := taken.get(table_identifier(topic, settings)):
            raise UsageError(
                f"the table {plan.table} belongs to the topic {other!r}; choose another name with --table or "
                "--namespace"
            )
        for text in settings.partition_by:
            parse_partition(text)
        for text in settings.sort_by:
            check_sort_entry(text)
        if settings.projection is not None:
            from tabletopic_kernel.pipeline.transform.projection.statement import statement  # noqa: PLC0415 - DuckDB, where it is needed

            statement(settings.projection)
        table = TopicTable.load(catalog, table_identifier(topic, settings), topic)
        plan.creates = table is None
        settings = with_types_of(table, settings) if table else settings
        check_inside(catalog, settings.table_properties, table.table.properties if table else {})
        if candidate is None:
            columns, origin = newest_columns(topic, settings, registry)
        else:
            writer, plan.registry = candidate_writer(candidate, topic, settings, registry)
            columns, origin = writer_columns(UNREGISTERED, writer, settings), f"the schema {candidate.name}"
        key = newest_key_type(topic, settings, registry)
        if table is None:
            if candidate is None:
                from tabletopic_kernel.workbench.peek.newest import check_newest  # noqa: PLC0415 - DuckDB

                plan.warnings += check_newest(topic, settings, broker, registry)
                plan.notes += plan.warnings
            layout = _plan_new(plan, columns, key, origin, settings, facts)
            schema, former = (layout[0] if layout else None), {}
            plan.notes += try_rules(facts, settings, broker, registry, layout, None)
            layout = layout if candidate is None else None
            plan.backlog = backlog(facts, settings, broker, registry, layout, plan.notes)
        else:
            check_same_mode(settings, table.table.properties, plan.table)
            schema, former = table.table.schema(), names_before(table)
            _plan_old(plan, table, columns, origin, settings, facts)
            _plan_key(plan, table.table, key, settings)
            plan.notes += try_rules(facts, settings, broker, registry, None, table)
        plan.notes += check_upsert_topic(topic, settings, broker, registry, catalog, schema, former)
        plan.notes += limits_of_aws(catalog.properties, {c.name: c.type for c in plan.columns})
        if key is None and settings.has_typed_keys:
            plan.notes.append(
                f"no schema is registered as {key_subject(topic)} yet: {KEY} is added with the first key"
            )
    except (UsageError, ActionNeededError) as error:
        error.of_catalog(settings.catalog)
        plan.refused.append(str(error))
    return plan


def _plan_new(
    plan: Plan,
    columns: ValueColumns | None,
    key: IcebergType | None,
    origin: str,
    settings: TopicSettings,
    facts: TopicFacts,
) -> Layout | None:
    records = sum(end - facts.first.get(partition, 0) for partition, end in facts.end.items())
    if settings.start == "earliest" and records:
        plan.notes.append(f"the table starts with up to {many(records, 'record')} already in the topic")
    elif settings.start == "latest":
        plan.notes.append("the table starts with records sent from now on")
    plan.notes.append(origin if columns is None else f"columns of {origin}")
    if columns is None:
        return None
    value, _ = columns.first(settings)
    schema = table_schema(value, settings, key)
    plan.columns = [_column(field, "new") for field in schema.fields]
    former = columns.former_names(schema, settings)
    sort_order(settings.sort_by, schema, former)
    spec = partition_spec(settings.partition_by, schema, former)
    old_rows(settings, schema, spec, now_ms())  # raises, if no column says how old a row is
    return schema, spec


def _plan_old(
    plan: Plan,
    table: TopicTable,
    columns: ValueColumns | None,
    origin: str,
    settings: TopicSettings,
    facts: TopicFacts,
) -> None:
    schema = table.table.schema()
    plan.columns = [_column(field, "kept") for field in schema.fields]
    spec = table.table.spec()
    plan.partition_by_before = partition_texts(spec, schema)
    if settings.partition_by:
        spec = partition_spec(settings.partition_by, schema, names_before(table))
    plan.partition_by = partition_texts(spec, schema)
    plan.sort_by_before = sort_texts(table.table.sort_order(), schema)
    order = wanted_order(table, settings) or table.table.sort_order()
    plan.sort_by = sort_texts(order, schema)
    _note_ledger(plan, table, facts)
    if change := partition_change(table, settings):
        plan.notes.append(f"{change}: existing rows keep their partitions, new rows use the new ones")
    if change := order_change(table, settings):
        plan.notes.append(f"{change}: new files use the new order, existing ones once they are compacted")
    if old := old_rows(settings, schema, spec, now_ms()):
        plan.notes.append(f"rows to delete, {old.text(table.table)[1]}")
    if columns is None:
        return  # new records are checked as they arrive
    check_columns(table.table, columns.schema, settings)
    evolution = columns.evolution(table, settings)
    if evolution.refused:
        plan.incompatible = evolution.refused
        _note_incompatible(plan, origin, settings)
        return
    changes = _by_column(evolution.changes)
    plan.columns = [_column(field, changes.get(field.name, "kept")) for field in evolution.schema.fields]
    plan.changes = [str(change) for change in evolution.changes]
    plan.notes += [f"{origin}: {change}" for change in plan.changes]
    plan.notes += [f"{origin}: {column} {reason}" for column, reason in evolution.partly.items()]
    by_number = columns.evolution(table, settings.model_copy(update={"rename": "by_number"}))
    plan.notes += [
        f"{origin}: {change.after} has the number that {change.column} had: `tabletopic alter {plan.topic} "
        "--rename by_number` renames the column instead of adding one"
        for change in by_number.changes
        if change.kind == "rename" and change not in evolution.changes
    ]
    plan.partition_by = partition_texts(spec, evolution.schema)
    plan.sort_by = sort_texts(order, evolution.schema)


def _note_incompatible(plan: Plan, origin: str, settings: TopicSettings) -> None:
    reasons = "; ".join(f"{column} {reason}" for column, reason in plan.incompatible.items())
    if "stop" in (settings.on_incompatible, settings.errors):
        raise UsageError(
            f"{origin} does not fit the table {plan.table}: {reasons}; its records stop the topic"
        )
    effects = {"dead_letter": "its records become dead letters", "skip": "its records are skipped"}
    plan.notes.append(f"{origin} does not fit the table, {effects[settings.errors]}: {reasons}")


def _plan_key(plan: Plan, table: Table, key: IcebergType | None, settings: TopicSettings) -> None:
    """Plan the columns of keys that name their schema, in an existing table."""
    if key is None:
        return
    schema, last = table.schema(), table.metadata.last_column_id
    evolution = evolve_key(schema, key, last, settings)
    if KEY in evolution.refused:
        raise UsageError(f"{KEY} {evolution.refused[KEY]}: keep the key format, or choose another --table")
    reasons = "; ".join(f"{column} {reason}" for column, reason in evolution.refused.items())
    if evolution.refused and "stop" in (settings.on_incompatible, settings.errors):
        raise UsageError(f"the newest schema of the keys does not fit the table: {reasons}")
    if evolution.refused:
        plan.notes.append(
            f"the newest schema of the keys does not fit the table; records with it are refused: {reasons}"
        )
        return
    check_same_key(settings, schema, evolution.schema, names_before(TopicTable(table)))
    changes = _by_column(evolution.changes)
    plan.columns = [column for column in plan.columns if column.name not in changes]
    plan.columns += [
        _column(field, changes[field.name]) for field in evolution.schema.fields if field.name in changes
    ]
    plan.notes += [f"the newest schema of the keys: {change}" for change in evolution.changes]


def _note_ledger(plan: Plan, table: TopicTable, facts: TopicFacts) -> None:
    ledger = table.ledger
    if ledger is None:
        return
    records = sum(ledger.next_offsets.values()) - sum(facts.first.get(p, 0) for p in ledger.next_offsets)
    plan.notes.append(
        f"the table exists and resumes at its ledger, whatever `start` says ({max(0, records):,} of the "
        "topic's records are already read)"
    )
    try:
        check_topic(ledger, facts)
    except ActionNeededError as error:  # a host reports the same, as the topic's state
        plan.notes.append(str(error))


def _column(column: NestedField, change: ColumnChange) -> PlanColumn:
    return PlanColumn(column.name, spell(column.field_type), column.required, column.doc, change)


def _by_column(changes: tuple[Change, ...]) -> dict[str, ColumnChange]:
    """The change of each top-level column, by its new name; a nested change widens it."""
    by_column: dict[str, ColumnChange] = {}
    for change in changes:
        top, dot, _ = change.column.partition(".")
        if change.kind == "rename" and not dot:
            top = change.after
        if by_column.get(top) not in ("widened", "renamed"):
            by_column[top] = "widened" if dot else _CHANGED[change.kind]
    return by_column
