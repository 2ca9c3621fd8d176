"""A change of a table: worked out once, and what it requires of the table that it arrives at.

A REST catalog chooses the ids of new schemas and specs itself. PyIceberg's own catalogs take those of the
request, and Iceberg's requirements compare only which schema and which partitions are current: where another
writer has added some and gone back, these are what they were, and the ids are taken. Two schemas or specs of
one id would follow. The requirements here look for that too; a REST catalog is sent Iceberg's part of them.
"""

from __future__ import annotations

from pydantic import PrivateAttr
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
)


class _SameSchemas(AssertCurrentSchemaId):
    _ids: frozenset[int] = PrivateAttr(frozenset())

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as its base
        super().validate(base_metadata)
        if base_metadata is not None and self._ids != _schema_ids(base_metadata):
            raise CommitFailedException("Requirement failed: a schema was added concurrently")


class _SameSpecs(AssertDefaultSpecId):
    _ids: frozenset[int] = PrivateAttr(frozenset())

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as its base
        super().validate(base_metadata)
        if base_metadata is not None and self._ids != frozenset(base_metadata.specs()):
            raise CommitFailedException("Requirement failed: a partition spec was added concurrently")


def _schema_ids(metadata: TableMetadata) -> frozenset[int]:
    return frozenset(schema.schema_id for schema in metadata.schemas)


def same_schemas(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """The table's schemas are those of ``metadata``, and no more column ids are taken."""
    schemas = _SameSchemas(current_schema_id=metadata.current_schema_id)
    schemas._ids = _schema_ids(metadata)
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        schemas,
        # A column that came and went leaves the schema as it was, and its ids are taken all the same.
        AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
    )


def same_specs(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """Schemas and partition specs are those of ``metadata``, and no more ids of either are taken."""
    specs = _SameSpecs(default_spec_id=metadata.default_spec_id)
    specs._ids = frozenset(metadata.specs())
    last = AssertLastAssignedPartitionId(last_assigned_partition_id=metadata.last_partition_id)
    return (*same_schemas(metadata), specs, last)


class QuickTransaction(Transaction):
    """Works out what the table would be once for each change of it.

    PyIceberg's copies the whole metadata, with all snapshots, whenever it is asked for a property: nineteen
    times in a commit, which took a second and more of CPU time in a table of two hundred snapshots. Nothing
    changes what it gives: PyIceberg makes new metadata of old.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._known: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the updates so far."""
        base, updates = self._table.metadata, self._updates
        if self._known is None or self._known[0] is not base or self._known[1] is not updates:
            self._known = (base, updates, super().table_metadata)
        return self._known[2]
