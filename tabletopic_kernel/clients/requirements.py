"""What a change of columns or partitions requires of the table that it arrives at.

A REST catalog chooses the ids of new schemas and specs itself. PyIceberg's own catalogs take those of the
request, and Iceberg's requirements compare only which schema and which partitions are current: where another
writer has added some and gone back, these are what they were, and the ids are taken. Two schemas or specs of
one id would follow. The requirements here look for that too; a REST catalog is sent Iceberg's part of them.
"""

from __future__ import annotations

from pydantic import PrivateAttr
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    TableRequirement,
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
