"""Rows of records that the topic's log no longer has: which they may be, and their deletion (I8)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import BinaryType, StringType

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.model.columns.evolution import KEY, METADATA
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.pipeline.write import REWRITTEN, DataFileWriter
from tabletopic_kernel.table.changes.change import TableChange, file_rows, rewritten
from tabletopic_kernel.table.topic_table import TopicTable

Lost = Mapping[int, tuple[int, int]]  # partition → first and next offset


def keys_and_times(
    table: TopicTable, partition: int, start: int, end: int
) -> dict[int, set[tuple[bytes | None, int | None]]]:
    """Key and timestamp in ms of the rows by offset, ascending; the key is None where it was decoded."""
    schema = table.table.schema()
    has_keys = KEY in schema.column_names and isinstance(schema.find_type(KEY), BinaryType | StringType)
    names = (METADATA, KEY) if has_keys else (METADATA,)
    with reachable("the storage", lent=lends_keys(table.table)):
        scan = table.table.scan(row_filter=_where({partition: (start, end)}), selected_fields=names)
        rows = scan.to_arrow()
    keys = rows[KEY].cast(pa.large_binary()).to_pylist() if has_keys else [None] * len(rows)
    offsets, times = (pc.struct_field(rows[METADATA], name) for name in ("offset", "timestamp"))
    stamps = (None if us is None else us // 1000 for us in times.cast(pa.int64()).to_pylist())
    by_offset: dict[int, set[tuple[bytes | None, int | None]]] = {}
    for offset, *row in zip(offsets.to_pylist(), keys, stamps, strict=True):
        by_offset.setdefault(offset, set()).add((row[0], row[1]))  # with a marked one, there are two
    return dict(sorted(by_offset.items()))


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


def _where(lost: Lost) -> str:
    place = (f"{METADATA}.partition = {{}}", f"{METADATA}.offset >= {{}}", f"{METADATA}.offset < {{}}")
    return " or ".join(f"({' and '.join(place)})".format(p, *cut) for p, cut in lost.items())
