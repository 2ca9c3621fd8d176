"""Rows for which a condition is true go, of whatever type its columns are and wherever they lie."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.ledger import Ledger, StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.changes.row_deletes import DeletingBatch, deleted, holders, in_rounds
from tabletopic_kernel.table.compaction.plan import rows_where
from tabletopic_kernel.table.topic_table import TopicTable
from tests.table.samples import IDENTIFIER, TOPIC

_ID = uuid.UUID(int=7)
_KINDS: dict[str, Any] = {
    "n": LongType(), "x": DoubleType(), "b": BooleanType(), "s": StringType(), "y": BinaryType(),
    "d": DateType(), "t": TimestamptzType(), "m": DecimalType(9, 2), "u": UUIDType(),
    "p": StructType(NestedField(20, "q", LongType(), required=False)),
}  # fmt: skip
_SCHEMA = Schema(
    *(NestedField(n, name, kind, required=False) for n, (name, kind) in enumerate(_KINDS.items(), 1))
)
_NULL = dict.fromkeys(_KINDS)
_ROWS: list[dict[str, Any]] = [
    {"n": 1, "x": float("nan"), "b": True, "s": "", "y": b"\0", "d": date(2026, 1, 1),
     "t": datetime(2026, 1, 1, tzinfo=UTC), "m": Decimal("1.50"), "u": _ID.bytes, "p": {"q": 1}},
    _NULL | {"n": 2, "s": "o'brien", "p": {"q": None}},
    _NULL | {"n": 3, "x": 1.0, "b": False, "s": "x" * 100_000},
]  # fmt: skip


@pytest.fixture
def life(catalog: Catalog) -> tuple[TopicTable, Ledger]:
    """A table with a file of these rows."""
    spec = partition_spec((), _SCHEMA)
    table = TopicTable.create(catalog, IDENTIFIER, _SCHEMA, spec, TOPIC, TopicSettings())
    ledger = Ledger(TOPIC, "cluster", "topic-id", {0: 0}, 1, "claim")
    table.claim(ledger, None)
    return table, added(table, ledger, "first")


def added(table: TopicTable, ledger: Ledger, commit_id: str) -> Ledger:
    """A file of the rows more."""
    plan, target = table.plan(), file_schema(table.table.schema())
    writer = DataFileWriter(plan.metadata, plan.io_properties, 1)
    columns = {
        field.name: pa.array(
            [row[field.name] for row in _ROWS], getattr(field.type, "storage_type", field.type)
        )
        for field in target
    }
    columns = {
        name: pa.ExtensionArray.from_storage(target.field(name).type, column)
        if isinstance(target.field(name).type, pa.BaseExtensionType)
        else column
        for name, column in columns.items()
    }
    files = writer.write(pa.Table.from_batches([conform(columns, len(_ROWS), target)]))
    after = ledger.advanced(StagedOffsets({0: 0}, {0: 0}), commit_id)
    table.commit(ledger, appended(after, files))
    return after


def delete(table: TopicTable, ledger: Ledger, where: BooleanExpression) -> tuple[Ledger, int]:
    """Delete what matches; the rows that went."""
    rows = 0
    for number, part in enumerate(in_rounds(holders(table.table, where, set()))):
        by_file = {each.file.file_path: each.whole for each in part}
        batch = DeletingBatch(StagedOffsets({}, {}), (), 0, 0.0, where=where, holders=by_file)
        after = ledger.advanced(StagedOffsets({0: 0}, {0: 0}), f"deletion {number}")
        table.commit(ledger, deleted(after, batch))
        table.reload()
        ledger, rows = after, rows + batch.done["rows"]
    return ledger, rows


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("n = 2", {1, 3}), ("n != 2", {2}), ("x > 0", {1, 2}), ("x is nan", {2, 3}), ("b = true", {2, 3}),
        ("s = 'o''brien'", {1, 3}), ("s is null", {1, 2, 3}), ("s like 'xx%'", {1, 2}),
        ("d < '2026-01-02'", {2, 3}), ("t <= '2026-01-01T00:00:00+00:00'", {2, 3}), ("m = 1.50", {2, 3}),
        (f"u = '{str(_ID).upper()}'", {2, 3}), (f"u in ('{_ID}', '{uuid.UUID(int=8)}')", {2, 3}),
        ("u is null", {1}), ("p.q = 1", {2, 3}), ("p.q is null", {1}), ("n in (1, 3) and s = ''", {2, 3}),
        ("not (n = 1)", {1}), ("n > 0", set()), ("n > 99", {1, 2, 3}),
    ],
)  # fmt: skip
def test_what_is_true_goes(life: tuple[TopicTable, Ledger], where: str, left: set[int]) -> None:
    """And null is not true."""
    table, ledger = life
    condition = rows_where(where, _SCHEMA)
    assert condition is not None
    _, rows = delete(table, ledger, condition)
    kept = table.table.scan().to_arrow()
    assert (set(kept["n"].to_pylist()), rows) == (left, 3 - len(left))
    assert holders(table.table, condition, set()) == []


def test_files_of_an_earlier_partitioning_too(life: tuple[TopicTable, Ledger]) -> None:
    """What stays of them is in the partitions of now."""
    table, ledger = life
    with table.table.update_spec() as update:
        update.add_field("b", IdentityTransform(), "b")
    table.reload()
    ledger = added(table, ledger, "second")
    condition = rows_where("n = 1", _SCHEMA)
    assert condition is not None
    _, rows = delete(table, ledger, condition)
    assert (sorted(table.table.scan().to_arrow()["n"].to_pylist()), rows) == ([2, 2, 3, 3], 2)
