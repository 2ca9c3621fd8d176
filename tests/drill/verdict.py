"""The verdict: every acknowledged record against rows, dead letters and what was skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder
from pyiceberg.transforms import IdentityTransform

from tabletopic_kernel.model.dead_letter import SUFFIX
from tests.drill.foreign import FOREIGN_PARTITION, reachable_files
from tests.drill.streams import Fate, Sent, newest_of_keys
from tests.drill.tables import newest_ledger, path_of

_METADATA = "_kafka_metadata"
_EXAMPLES = 5  # examples of each difference
Position = tuple[int, int]


@dataclass
class TopicVerdict:
    """The verdict on one topic. ``differences``: in words, empty if all is well.

    ``lost``, ``twice`` and ``changed`` count records; ``skipped`` those that retention deleted before they
    were read, by the ledger's count.
    """

    topic: str
    acknowledged: int = 0
    rows: int = 0
    letters: int = 0
    skipped: int = 0
    lost: int = 0
    twice: int = 0
    changed: int = 0
    files: int = 0
    orphans: int = 0
    snapshots: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every record is where it belongs."""
        return not self.differences

    def differ(self, what: str, positions: Collection[Any]) -> None:
        """Record a difference, with some examples."""
        if positions:
            some = ", ".join(str(position) for position in sorted(positions, key=str)[:_EXAMPLES])
            self.differences.append(
                f"{len(positions):,} {what}: {some}{' …' if len(positions) > _EXAMPLES else ''}"
            )


def judge(
    catalog: Catalog,
    table_name: str,
    topic: str,
    sent: Sequence[Sent],
    ends: Mapping[int, int],
    forgiven_files: Collection[str],
    gone: Mapping[int, int] = MappingProxyType({}),
) -> TopicVerdict:
    """Compare a topic's records with its tables.

    Args:
        sent: the records that the broker acknowledged.
        ends: the topic's end offsets.
        forgiven_files: files that other writers removed from the table; nobody has to delete these.
        gone: partition → the offset below which records may have been deleted before they were read. The
            ledger must count those that are missing there.
    """
    verdict = TopicVerdict(topic, acknowledged=len(sent))
    tables = read_tables(catalog, table_name, sent, verdict)
    if tables is None:
        return verdict
    table, rows, letters = tables
    lost, wrong, stale, changed = [], [], [], []
    for record in newest_of_keys(sent):
        position = (record.partition, record.offset)
        is_row = position in rows
        if not is_row and position not in letters:
            if record.fate in (Fate.GONE, Fate.UNSURE):  # unsure: the broker may have aborted it
                continue
            if record.offset < gone.get(record.partition, 0):
                verdict.skipped += 1
            else:
                lost.append(position)
        elif record.fate is Fate.GONE:
            stale.append(position)
        elif record.fate is not Fate.UNSURE and is_row is (record.fate is Fate.LETTER):
            wrong.append(position)
        elif is_row and not _is_equal(rows[position], record):
            changed.append(position)
    verdict.lost, verdict.changed = len(lost), len(changed) + len(wrong) + len(stale)
    verdict.differ("acknowledged records are lost", lost)
    verdict.differ("records became a row where a dead letter belongs, or vice versa", wrong)
    verdict.differ("rows or dead letters are of records that a newer one of their key replaced", stale)
    verdict.differ("rows have other values than their records", changed)
    check_ledger(table, verdict, ends)
    check_files(table, verdict, forgiven_files)
    return verdict


def read_tables(
    catalog: Catalog, table_name: str, sent: Sequence[Sent], verdict: TopicVerdict
) -> tuple[Table, dict[Position, dict[str, Any]], set[Position]] | None:
    """The table, its rows and its dead letters by partition and offset; None without a table.

    Records differences that do not depend on what was sent: duplicates, and rows of no record.
    """
    try:
        table = catalog.load_table(table_name)
    except NoSuchTableError:
        verdict.differences.append(f"there is no table {table_name}")
        return None
    rows = _rows_in(table, verdict)
    letters = _letters_in(catalog, f"{table_name}{SUFFIX}", verdict)
    both = rows.keys() & letters
    verdict.twice += len(both)
    verdict.differ("records are a row and a dead letter", both)
    known = {(record.partition, record.offset) for record in sent}
    verdict.differ("rows or dead letters belong to no acknowledged record", (rows.keys() | letters) - known)
    return table, rows, letters


def _rows_in(table: Table, verdict: TopicVerdict) -> dict[Position, dict[str, Any]]:
    """Rows of records by partition and offset; records duplicates as differences."""
    rows: dict[Position, dict[str, Any]] = {}
    times: Counter[Position] = Counter()
    for batch in _scan(table, table.schema()):
        for row in batch.to_pylist():
            metadata = row[_METADATA]
            if metadata["partition"] == FOREIGN_PARTITION:
                continue
            position = (metadata["partition"], metadata["offset"])
            times[position] += 1
            rows[position] = row
    verdict.rows = len(rows)
    more = [position for position, count in times.items() if count > 1]
    verdict.twice += len(more)
    verdict.differ("records are rows more than once", more)
    return rows


def _scan(table: Table, columns: Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the head whose files exist: `check_files` reports missing ones."""
    tasks = [task for task in table.scan().plan_files() if Path(path_of(task.file.file_path)).is_file()]
    yield from ArrowScan(table.metadata, table.io, columns, AlwaysTrue()).to_record_batches(tasks)


def letters_of(table: Table) -> list[Position]:
    """Partition and offset of each dead letter that belongs to a record."""
    positions: list[Position] = []
    for batch in _scan(table, table.schema().select("partition", "offset")):
        columns = (batch.column(column).to_pylist() for column in ("partition", "offset"))
        positions += (position for position in zip(*columns, strict=True) if position[0] != FOREIGN_PARTITION)
    return positions


def _letters_in(catalog: Catalog, name: str, verdict: TopicVerdict) -> set[Position]:
    """Positions of the dead letters; records duplicates as differences."""
    try:
        table = catalog.load_table(name)
    except NoSuchTableError:
        return set()
    positions = letters_of(table)
    verdict.letters = len(set(positions))
    more = [position for position, count in Counter(positions).items() if count > 1]
    verdict.twice += len(more)
    verdict.differ("records are dead letters more than once", more)
    _check_snapshots(table, verdict, "dead letters")
    return set(positions)


def _is_equal(row: Mapping[str, Any], sent: Sent) -> bool:
    expected = sent.value
    others = ("_kafka_header", "_kafka_metadata", "_kafka_value", "note_")
    own = {name: value for name, value in row.items() if not name.startswith(others)}
    return all(value == expected.get(name) for name, value in own.items()) and expected.keys() <= own.keys()


def check_ledger(table: Table, verdict: TopicVerdict, ends: Mapping[int, int]) -> None:
    """Record where the ledger is not at the end offsets, or counts other records as skipped."""
    ledger = newest_ledger(table)
    if ledger is None:
        verdict.differences.append("the table has no ledger")
        return
    if verdict.skipped != ledger.skipped:
        gone_early = f"{verdict.skipped:,} records were gone before they were read"
        verdict.differences.append(f"{gone_early}, the ledger counts {ledger.skipped:,}")
    if dict(ledger.next_offsets) != dict(ends):
        verdict.differences.append(
            f"the ledger is at {dict(ledger.next_offsets)}, the topic ends at {dict(ends)}"
        )


def check_files(table: Table, verdict: TopicVerdict, forgiven: Collection[str]) -> None:
    """Record missing files, files that nobody needs, and files not in their declared sort order."""
    reachable = {path_of(file) for file in reachable_files(table)}
    verdict.files = len(reachable)
    data = Path(path_of(table.location())) / "data"
    # Files of other writers are not in the folder of an owner's epoch.
    there = {str(path) for path in data.rglob("*") if path.is_file() and "/epoch-" in str(path)}
    orphans = there - reachable - {path_of(file) for file in forgiven}
    verdict.orphans = len(orphans)
    verdict.differ("data files that no snapshot refers to were not removed", orphans)
    verdict.differ("data files are not in the order that they declare", unsorted_files(table))
    _check_snapshots(table, verdict, "rows")


def unsorted_files(table: Table) -> list[str]:
    """Files of the head that an owner wrote, and whose rows are not in their declared sort order."""
    found = []
    for task in table.scan().plan_files():
        order = table.metadata.sort_order_by_id(task.file.sort_order_id or 0)
        path = Path(path_of(task.file.file_path))
        if order is not None and "/epoch-" in str(path) and path.is_file() and not _is_sorted(path, order):
            found.append(str(path))
    return found


def _is_sorted(path: Path, order: SortOrder) -> bool:
    """Check order by the columns before the first transformed one; a column missing in the file is null."""
    schema = pq.read_schema(path)
    names = {int((one.metadata or {}).get(b"PARQUET:field_id", -1)): one.name for one in schema}
    chosen = [
        (names[one.source_id], one.direction is SortDirection.ASC, one.null_order is NullOrder.NULLS_FIRST)
        for one in takewhile(lambda one: isinstance(one.transform, IdentityTransform), order.fields)
        if one.source_id in names
    ]
    rows = pq.read_table(path, columns=[name for name, *_ in chosen], partitioning=None).to_pylist()
    for (name, rises, nulls_first), before in zip(chosen, range(len(chosen)), strict=True):
        for one, other in pairwise(rows):
            if any(one[known] != other[known] for known, *_ in chosen[:before]):
                continue
            first, second = one[name], other[name]
            if None in (first, second):
                in_order = first == second or (first is None) is nulls_first
            else:
                in_order = first <= second if rises else first >= second
            if not in_order:
                return False
    return True


def _check_snapshots(table: Table, verdict: TopicVerdict, what: str) -> None:
    verdict.snapshots += len(table.metadata.snapshots)
    missing = {path_of(file) for file in reachable_files(table) if not Path(path_of(file)).is_file()}
    verdict.differ(f"data files of {what} that a snapshot refers to are gone", missing)
