"""A table's history: snapshots with their ledgers, and versions of the schema."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import StructType

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry, UnknownSchemaError
from tabletopic_kernel.model.columns.evolution import evolve
from tabletopic_kernel.model.columns.names import sanitize_names
from tabletopic_kernel.model.columns.types import spell
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.changes.ledger_history import ledger_of, live_rows, summary
from tabletopic_kernel.table.schemas.columns import ValueColumns, writer_columns
from tabletopic_kernel.table.schemas.registered import value_writer
from tabletopic_kernel.table.schemas.reused import reused_ids
from tabletopic_kernel.table.topic_table import TopicTable

_MOST_VERSIONS = 100  # that the table does not cover: each costs a request to the registry


@dataclass(frozen=True)
class TableSnapshot:
    """One snapshot, in bytes and ms since 1970; ``next_offsets`` and ``epoch`` are its ledger's, if any."""

    snapshot_id: int
    parent_id: int | None
    at_ms: int
    operation: str
    added_rows: int
    added_files: int
    added_bytes: int
    rows: int
    files: int
    table_schema_id: int | None
    next_offsets: dict[int, int] | None
    epoch: int | None

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; snapshot ids and partitions are text, for JSON's sake."""
        plain = asdict(self)
        plain["snapshot_id"] = str(self.snapshot_id)
        plain["parent_id"] = None if self.parent_id is None else str(self.parent_id)
        if self.next_offsets is not None:
            plain["next_offsets"] = {str(p): offset for p, offset in self.next_offsets.items()}
        return plain


@dataclass(frozen=True)
class SchemaColumn:
    """A column, with its type as text."""

    name: str
    type: str
    required: bool
    doc: str | None


@dataclass(frozen=True)
class SchemaVersionInfo:
    """A registered schema, and the first of the table's that covers it; None: no record was read with it."""

    subject: str
    version: int
    id: int | str
    table_schema_id: int | None


@dataclass(frozen=True)
class TopicSchema:
    """The columns of the table, or of the registered ``version``.

    ``versions``: the registered versions that the table covers, and the newest 100 others. In words:
    ``reused_ids``, which the registry gave a second time, and what rules of the newest version encrypt.
    """

    topic: str
    table: str
    version: int | None
    columns: list[SchemaColumn]
    versions: list[SchemaVersionInfo]
    reused_ids: list[str] = field(default_factory=list)
    encrypted: list[str] = field(default_factory=list)


def snapshots(metadata: TableMetadata, limit: int | None = None) -> list[TableSnapshot]:
    """The table's snapshots, newest first."""
    newest = sorted(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0, reverse=True)
    return [snapshot_of(snapshot) for snapshot in newest[:limit]]


def snapshot_of(snapshot: Snapshot) -> TableSnapshot:
    figures, ledger = summary(snapshot), ledger_of(snapshot)
    operation = snapshot.summary.operation.value if snapshot.summary else ""
    # Rows of compacted files are not new.
    same = int(figures.get("deleted-records", 0)) if operation == "replace" else 0
    return TableSnapshot(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        at_ms=snapshot.timestamp_ms,
        operation=operation,
        added_rows=int(figures.get("added-records", 0)) - same,
        added_files=int(figures.get("added-data-files", 0)),
        added_bytes=int(figures.get("added-files-size", 0)),
        rows=live_rows(figures),
        files=int(figures.get("total-data-files", 0)),
        table_schema_id=snapshot.schema_id,
        next_offsets=dict(ledger.next_offsets) if ledger else None,
        epoch=ledger.epoch if ledger else None,
    )


def topic_schema(
    topic: str,
    identifier: str,
    table: TopicTable | None,
    registry: Registry,
    version: int | None,
    subject: str,
    settings: TopicSettings | None = None,
) -> TopicSchema:
    """The columns of the table; without one, or with a ``version``, of a registered schema."""
    registered_schemas = (
        [*table.registered_schemas().values(), *table.registered_key_schemas().values()] if table else []
    )
    known = {
        # A GUID may have no subject.
        (schema.subject or str(schema.id), schema.version): SchemaVersionInfo(
            schema.subject, schema.version, schema.id, schema.table_schema_id
        )
        for schema in registered_schemas
    }
    others = [number for number in registry.versions(subject) if (subject, number) not in known]
    for number in others[-_MOST_VERSIONS:]:
        registered = registry.by_version(subject, number)
        known[subject, number] = SchemaVersionInfo(subject, number, registered.id, None)
    if version is None and table is not None:
        columns = table.table.schema()
    else:
        newest = max((number for name, number in known if name == subject), default=None)
        wanted = version if version is not None else newest
        columns = Schema() if wanted is None else _columns(_version(registry, subject, wanted)).schema
    return TopicSchema(
        topic=topic,
        table=identifier,
        version=version,
        columns=[SchemaColumn(c.name, spell(c.field_type), c.required, c.doc) for c in columns.fields],
        versions=[known[version] for version in sorted(known)],
        reused_ids=reused_ids(table, topic, registry, settings) if table and settings else [],
        encrypted=encrypted_fields(registry.latest(subject)) if settings else [],
    )


def encrypted_fields(newest: RegisteredSchema | None) -> list[str]:
    """What rules of a schema encrypt before a record is sent, in words."""
    if newest is None:
        return []
    whole = [f"whole values: encrypted by rule {newest.encrypted_by}"] if newest.encrypted_by else []
    return [*whole, *(f"{name}: encrypted by rule {rule}" for name, rule in newest.encrypted_fields)]


def schema_difference(subject: str, registry: Registry, before: int, after: int) -> list[str]:
    """What a table of version ``before`` would change for ``after``, and refuse; raises UsageError."""
    old, new = (_columns(_version(registry, subject, number)) for number in (before, after))
    table = sanitize_names(old.schema.as_struct())
    assert isinstance(table, StructType)
    first = Schema(*table.fields)
    outcome = evolve(first, new.schema, first.highest_field_id, aliases=new.aliases)
    refused = [f"refused: {column} {why}" for column, why in outcome.refused.items()]
    return [*map(str, outcome.changes), *refused]


def _version(registry: Registry, subject: str, number: int) -> RegisteredSchema:
    try:
        return registry.by_version(subject, number)
    except UnknownSchemaError:
        existing = ", ".join(map(str, registry.versions(subject))) or "none"
        raise UsageError(f"{subject} has no version {number}; existing versions: {existing}") from None


def _columns(registered: RegisteredSchema) -> ValueColumns:
    settings = TopicSettings()
    return writer_columns(registered.id, value_writer(registered, settings), settings)
