"""A change to a table is computed once, and applied only if the table is unchanged."""

from __future__ import annotations

import operator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, Or
from pyiceberg.expressions.visitors import manifest_evaluator
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Namespace, Table, TableIdentifier
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.clients.catalog.pyiceberg_seams.requirements import same_specs
from tabletopic_kernel.clients.catalog.pyiceberg_seams.snapshots import thread_safe

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """With a few snapshots."""
    place = {"uri": f"sqlite:///{tmp_path / 'c.db'}", "warehouse": f"file://{tmp_path}/w"}
    catalog = open_catalog({"type": "sql", **place})
    catalog.create_namespace("default")
    made = catalog.create_table("default.t", SCHEMA)
    for number in range(3):
        made.append(pa.table({"id": [number]}, SCHEMA))
    return made


_NAME = TableIdentifier(namespace=Namespace(["default"]), name="t")


def test_snapshots_are_shared_by_copies_of_the_metadata(table: Table) -> None:
    """A commit costs what it adds, not what the table has: in PyIceberg's own catalogs too."""
    copied = table.metadata.model_copy(deep=True)
    assert copied == table.metadata
    assert copied.properties is not table.metadata.properties
    for name in ("snapshots", "snapshot_log", "metadata_log"):
        ours, theirs = getattr(table.metadata, name), getattr(copied, name)
        assert ours
        assert ours is not theirs
        assert all(map(operator.is_, ours, theirs))


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


def test_manifests_are_judged_by_their_own_bounds_in_several_threads() -> None:
    """While one is compared, another thread begins with the next, whose partitions are others."""
    schema = Schema(NestedField(1, "part", LongType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"))
    judge = thread_safe(manifest_evaluator(spec, schema, Or(EqualTo("part", 5), EqualTo("part", 1)), True))
    judged: list[bool] = []

    class Slow(list[Any]):
        """Bounds that are read once the other manifest was judged."""

        def __getitem__(self, at: Any) -> Any:
            if not judged:
                judged.append(judge(_manifest([_bounds(2)])))
            return super().__getitem__(at)

    assert judge(_manifest(Slow([_bounds(1)])))
    assert judged == [False]


def _bounds(value: int) -> Any:
    packed = value.to_bytes(8, "little")
    return SimpleNamespace(contains_null=False, contains_nan=None, lower_bound=packed, upper_bound=packed)


def _manifest(partitions: list[Any]) -> Any:
    return SimpleNamespace(partitions=partitions)
