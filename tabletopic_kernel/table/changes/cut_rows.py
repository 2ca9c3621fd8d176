"""Rows of records that the topic's log no longer has: which they may be, and their deletion (I8)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    LessThan,
    Or,
)
from pyiceberg.types import BinaryType, StringType

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.model.columns.evolution import KEY, METADATA
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.pipeline.write import REWRITTEN, DataFileWriter
from tabletopic_kernel.table.changes.change import TableChange, file_rows, rewritten
from tabletopic_kernel.table.topic_table import TopicTable

Lost = Mapping[int, tuple[int, int]]  # partition → first and next offset


def has_places(table: TopicTable) -> bool:
    """Whether its rows say which records they were."""
    return METADATA in table.table.schema().column_names


def keys_and_times(
    table: TopicTable, partition: int, start: int, end: int
) -> dict[int, tuple[bytes | None, int | None]]:
    """Key and timestamp in ms by offset, ascending; the key is None where the table has it decoded."""
    schema = table.table.schema()
    has_keys = KEY in schema.column_names and isinstance(schema.find_type(KEY), BinaryType | StringType)
    names = (METADATA, KEY) if has_keys else (METADATA,)
    with reachable("the storage", lent=lends_keys(table.table)):
        scan = table.table.scan(row_filter=_where({partition: (start, end)}), selected_fields=names)
        rows = scan.to_arrow()
    keys = rows[KEY].cast(pa.large_binary()).to_pylist() if has_keys else [None] * len(rows)
    offsets, times = (pc.struct_field(rows[METADATA], name) for name in ("offset", "timestamp"))
    stamps = (None if us is None else us // 1000 for us in times.cast(pa.int64()).to_pylist())
    return dict(sorted(zip(offsets.to_pylist(), zip(keys, stamps, strict=True), strict=True)))


def without_rows(table: TopicTable, ledger: Ledger, lost: Lost) -> TableChange:
    """The deletion of the rows of these offsets: their files are written anew, without them."""
    plan = table.plan()
    writer = DataFileWriter(plan.metadata, plan.io_properties, ledger.epoch, suffix=REWRITTEN)
    with reachable("the storage", lent=lends_keys(table.table)):
        tasks = list(table.table.scan(row_filter=_where(lost)).plan_files())
    old, files = [], []
    for task in tasks:
        rows = file_rows(table.table, task)
        kept = rows.filter(pc.invert(_are_lost(rows, lost)))
        if len(kept) < len(rows):
            old.append(task)
            files += writer.write(kept) if len(kept) else []
    return rewritten(ledger, old, files)


def _are_lost(rows: pa.Table, lost: Lost) -> pa.ChunkedArray:
    partitions, offsets = (pc.struct_field(rows[METADATA], name) for name in ("partition", "offset"))
    masks = [
        pc.and_(pc.equal(partitions, p), pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, end)))
        for p, (first, end) in lost.items()
    ]
    return pc.fill_null(reduce(pc.or_, masks), False)  # another writer's rows are from nowhere


def _where(lost: Lost) -> BooleanExpression:
    conditions: list[BooleanExpression] = [
        And(
            EqualTo(term=f"{METADATA}.partition", value=p),
            GreaterThanOrEqual(term=f"{METADATA}.offset", value=first),
            LessThan(term=f"{METADATA}.offset", value=end),
        )
        for p, (first, end) in lost.items()
    ]
    return conditions[0] if len(conditions) == 1 else Or(*conditions)
