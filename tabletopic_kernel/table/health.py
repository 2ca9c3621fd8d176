"""A table's health: file sizes, deleted rows, snapshots, and the size of its metadata.

Read only from the metadata and the head's manifests; no data file is opened. What compaction will do next
depends on which rows are deleted, so ``next_work`` also reads delete files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.types import TimestampType, TimestamptzType

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.catalog.engine_properties import maintains_itself
from tabletopic_kernel.model.columns.wrong_units import wrong_unit
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import in_sql
from tabletopic_kernel.table.changes.ledger_history import ledger_of
from tabletopic_kernel.table.changes.old_rows import old_rows
from tabletopic_kernel.table.compaction import plan as compaction
from tabletopic_kernel.table.compaction.deleted_rows import Head
from tabletopic_kernel.table.expiry import Retention, reaches_back_to, to_expire

# A file smaller than the target divided by this costs a reader about as much as a whole one.
SMALL_SHARE = 4
# Upper bounds of the bars, in bytes; each is eight times the one before.
_BOUNDS = tuple(1024 * 16 * 8**step for step in range(6))
_PATIENCE_MS = 3 * 86_400_000
_MANY_SNAPSHOTS = 2_000  # a commit costs several times as much as one to a new table


Work = Literal["compact", "expire", "delete"]


@dataclass(frozen=True)
class FileSizes:
    """Data files of at most ``up_to_bytes`` (None: any size), but larger than those of the entry before."""

    up_to_bytes: int | None
    files: int
    bytes: int


@dataclass(frozen=True)
class NextWork:
    """What maintenance will do next, or why it does nothing."""

    work: Work
    due: bool
    why: str


@dataclass(frozen=True)
class TableHealth:
    """The health of a table. Sizes in bytes, times in ms since 1970, shares from 0 to 1.

    ``small_files`` are files below a quarter of ``target_bytes``. ``metadata_bytes`` is the size of the
    newest metadata file, ``manifest_bytes`` that of the head's manifests. ``refs``: branches and tags.
    ``deleted_rows`` counts the entries of delete files of any kind: a row that two entries delete counts
    twice. ``reaches_back_to_ms``: the earliest time that time travel reaches; a tag may keep older snapshots.
    """

    topic: str
    table: str
    rows: int
    files: int
    bytes: int
    target_bytes: int
    small_files: int
    partitions: int
    sizes: list[FileSizes]
    delete_files: int
    deleted_rows: int
    snapshots: int
    oldest_snapshot_ms: int | None
    reaches_back_to_ms: int | None
    refs: list[str]
    manifests: int
    manifest_bytes: int
    metadata_bytes: int
    metadata_files: int
    next_work: list[NextWork] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)  # columns whose times are probably in another unit

    @property
    def small_share(self) -> float:
        return self.small_files / self.files if self.files else 0.0

    @property
    def delete_share(self) -> float:
        """The share of the files' rows that are deleted."""
        return self.deleted_rows / self.rows if self.rows else 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"small_share": self.small_share, "delete_share": self.delete_share}


def table_health(
    topic: str, table: Table, next_work: Iterable[NextWork] = (), catalog: str | None = None
) -> TableHealth:
    """The health of a table as it was loaded."""
    metadata = table.metadata
    target = compaction.target_bytes(table)
    head = metadata.current_snapshot()
    with reachable("the storage", lent=lends_keys(table)):
        manifests = head.manifests(table.io) if head else []
        head_files = Head(table)
        metadata_bytes = len(table.io.new_input(table.metadata_location))
    data, deletes = ([entry.data_file for entry in kind] for kind in (head_files.data, head_files.deletes))
    return TableHealth(
        topic=topic,
        table=in_sql(table.name(), catalog),
        rows=sum(file.record_count for file in data),
        files=len(data),
        bytes=sum(file.file_size_in_bytes for file in data),
        target_bytes=target,
        small_files=sum(file.file_size_in_bytes * SMALL_SHARE < target for file in data),
        partitions=len({(file.spec_id, file.partition) for file in data}),
        sizes=_sizes(data),
        delete_files=len(deletes),
        deleted_rows=sum(file.record_count for file in deletes),
        snapshots=len(metadata.snapshots),
        oldest_snapshot_ms=min((snapshot.timestamp_ms for snapshot in metadata.snapshots), default=None),
        reaches_back_to_ms=reaches_back_to(metadata),
        refs=[
            f"{'branch' if ref.snapshot_ref_type is SnapshotRefType.BRANCH else 'tag'} {name}"
            for name, ref in sorted(metadata.refs.items())
        ],
        manifests=len(manifests),
        manifest_bytes=sum(manifest.manifest_length for manifest in manifests),
        metadata_bytes=metadata_bytes,
        metadata_files=1 + len(metadata.metadata_log),
        next_work=list(next_work),
        doubts=_doubts(metadata.schema(), data),
    )


def _doubts(schema: Schema, files: Iterable[DataFile]) -> list[str]:
    """The columns with doubtful times, by the bounds of files: both must be doubtful."""
    doubts: list[str | None] = []
    for column in schema.fields:
        kind, times = column.field_type, list[tuple[int, int]]()
        if not isinstance(kind, TimestampType | TimestamptzType):
            continue
        for file in files:
            lower = (file.lower_bounds or {}).get(column.field_id)
            upper = (file.upper_bounds or {}).get(column.field_id)
            if lower and upper:
                low, high = int(from_bytes(kind, lower)), int(from_bytes(kind, upper))
                rows = file.record_count - (file.null_value_counts or {}).get(column.field_id, 0)
                times += [(low, rows), (high, rows)]
        doubts.append(wrong_unit(column.name, times))
    return [doubt for doubt in doubts if doubt]


def next_work(table: Table, settings: TopicSettings, now_ms: int) -> list[NextWork]:
    """What the table's owner will do next, or why it will not."""

    def unless_idle(work: Work, next_of: Callable[[], NextWork]) -> NextWork:
        idle = idle_because(table, settings, work, now_ms)
        return next_of() if idle is None else NextWork(work, due=False, why=idle)

    works = [
        unless_idle("compact", lambda: _compaction(table)),
        unless_idle("expire", lambda: _expiry(table, settings, now_ms)),
    ]
    return works if settings.keep_ms is None else [*works, _deletion(table, settings, now_ms)]


def _deletion(table: Table, settings: TopicSettings, now_ms: int) -> NextWork:
    try:
        old = old_rows(settings, table.schema(), table.spec(), now_ms)
        assert old is not None
        return NextWork("delete", *old.text(table))
    except ActionNeededError as error:
        return NextWork("delete", due=False, why=str(error))


def idle_because(table: Table, settings: TopicSettings, work: Work, now_ms: int) -> str | None:
    """Why a table's owner does not do this work by itself; None if it does.

    A catalog that maintains its tables is trusted until, for days, it has left what the settings no longer
    keep, or no snapshot of that time is one of another program that rewrote files.
    """
    if settings.maintenance == "off":
        return "switched off"
    if settings.maintenance == "on" or not maintains_itself(table.catalog.properties):
        return None
    metadata, since = table.metadata, now_ms - _PATIENCE_MS
    if work == "expire":
        kept = Retention(settings.snapshots_kept_ms, settings.keep_snapshots)
        is_left = bool(to_expire(metadata, kept, since))
    else:
        is_left = any(snapshot.timestamp_ms < since for snapshot in metadata.snapshots) and not any(
            snapshot.timestamp_ms >= since and ledger_of(snapshot) is None and _rewrites(snapshot)
            for snapshot in metadata.snapshots
        )
    return None if is_left else "the catalog does it itself"


def _rewrites(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE


def _compaction(table: Table) -> NextWork:
    plan = compaction.plan_compaction(table)
    if plan.refused is not None:
        return NextWork("compact", due=False, why=plan.refused)
    if not plan.groups:
        why = (
            f"nothing to do: no partition has {compaction.MIN_FILES} small files of similar size "
            f"({compaction.SPREAD_FILES}, if that saves {compaction.SPREAD_SAVES:,} files) or more than "
            f"{compaction.MAX_DELETE_FILES} delete files; no file has "
            f"{compaction.DELETED_SHARE:.0%} deleted rows"
        )
        return NextWork("compact", due=False, why=why)
    files = sum(len(group.files) for group in plan.groups)
    deleted = sum(group.deleted_rows for group in plan.groups)
    if deleted:
        why = f"{files:,} files can become {len(plan.groups):,}, without {deleted:,} deleted rows"
    else:
        why = f"{files:,} small files can become {len(plan.groups):,}"
    return NextWork("compact", due=True, why=why)


def _expiry(table: Table, settings: TopicSettings, now_ms: int) -> NextWork:
    expiring = len(to_expire(table.metadata, Retention.of(settings), now_ms))
    if expiring:
        return NextWork("expire", due=True, why=f"{expiring:,} snapshots are older than the settings keep")
    count = len(table.metadata.snapshots)
    why = f"nothing to do: all {count:,} snapshots are kept"
    if (limit := settings.snapshot_limit) is not None and count >= limit:
        why += f", because max_snapshots is {limit:,}; a larger limit lets time travel reach further back"
    elif count > _MANY_SNAPSHOTS:
        why += "; every commit writes a list of them, so a smaller max_snapshots makes commits faster"
    return NextWork("expire", due=False, why=why)


def _sizes(files: Iterable[DataFile]) -> list[FileSizes]:
    """One bar per bound, without empty ones at either end."""
    counts: Counter[int] = Counter()
    weights: Counter[int] = Counter()
    for file in files:
        bar = bisect_left(_BOUNDS, file.file_size_in_bytes)
        counts[bar] += 1
        weights[bar] += file.file_size_in_bytes
    if not counts:
        return []
    return [
        FileSizes(_BOUNDS[bar] if bar < len(_BOUNDS) else None, counts[bar], weights[bar])
        for bar in range(min(counts), max(counts) + 1)
    ]
