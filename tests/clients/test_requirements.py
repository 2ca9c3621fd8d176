"""What a REST catalog is sent of the requirements."""

from __future__ import annotations

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from tabletopic_kernel.table.transaction import same_specs

_NAME = TableIdentifier(namespace=Namespace(["default"]), name="t")


def test_a_rest_catalog_gets_the_requirements_of_the_spec() -> None:
    """What PyIceberg's own catalogs look for beside them is not sent."""
    schema = Schema(NestedField(1, "a", LongType(), required=False))
    metadata = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///t")
    request = CommitTableRequest(identifier=_NAME, requirements=same_specs(metadata), updates=())
    sent = request.model_dump(mode="json", by_alias=True)["requirements"]
    assert sent == [
        {"type": "assert-table-uuid", "uuid": str(metadata.table_uuid)},
        {"type": "assert-current-schema-id", "current-schema-id": 0},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
        {"type": "assert-default-spec-id", "default-spec-id": 0},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
    ]
