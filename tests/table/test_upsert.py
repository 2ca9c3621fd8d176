"""A table that is kept by key has the newest row of each, whatever comes in which order, split or twice."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from tabletopic_kernel.model.columns.table_columns import metadata_columns
from tabletopic_kernel.model.columns.upsert_columns import upsert_columns
from tabletopic_kernel.model.errors import ActionNeededError, HeadMovedError
from tabletopic_kernel.model.ledger import CLOCK_TOLERANCE_MS, StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.transform.columns import CDC_STRUCT
from tabletopic_kernel.pipeline.transform.deletes import ALL_KEYS, deletes_schema
from tabletopic_kernel.pipeline.write import DataFileWriter, KeysWriter
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.changes.ledger_history import ledger_of, locations
from tabletopic_kernel.table.changes.lineage import has_newest_rows
from tabletopic_kernel.table.changes.upsert.leaves import FILE, POSITION, LiveRows, read_rows, rows_schema
from tabletopic_kernel.table.changes.upsert.lookup import open_lookup
from tabletopic_kernel.table.changes.upsert.staged import Upsert
from tabletopic_kernel.table.changes.upsert.upserted import (
    MOST_FILES,
    remembering,
    upserted,
    with_fewer_files,
)
from tabletopic_kernel.table.dead_letters import DeadLetters
from tabletopic_kernel.table.expiry import only_reached_by
from tabletopic_kernel.table.layout import names_before
from tabletopic_kernel.table.sweep import sweep
from tests.table.foreign_deletes import delete_files
from tests.table.lake import Lake, read_file
from tests.table.samples import TOPIC, FlakyCatalog, refused, sqlite_catalog

PARTITIONS = 3


class Event(NamedTuple):
    """A record: ``key`` None truncates, ``value`` None deletes."""

    key: int | None
    value: int | None
    lsn: int | None
    partition: int
    offset: int
    ms: int
    text: str | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it is, as far as places can be compared."""
        return self.ms, self.partition, self.offset


def newest(events: Sequence[Event]) -> dict[int, int]:
    """What a table of these has, by key."""
    deletes = [event for event in events if event.key is not None and event.value is None]
    gone = {(event.key, event.partition, event.offset + 1) for event in deletes if event.lsn is not None}
    follow = [e for e in deletes if e.lsn is None and (e.key, e.partition, e.offset) in gone]
    events = [event for event in events if event not in follow]
    cuts = [event for event in events if event.key is None]
    rows: dict[int, int] = {}
    for key in {event.key for event in events if event.key is not None}:
        of_key = [event for event in events if event.key == key]
        ordered = max((e for e in of_key if e.lsn is not None), key=lambda e: (e.lsn, e.place), default=None)
        others = max((e for e in of_key if e.lsn is None), key=lambda e: e.place, default=None)
        last = max(filter(None, (ordered, others)), key=lambda e: e.place)
        if last.value is not None and not any(_is_older(last, cut) for cut in cuts):
            rows[key] = last.value
    return rows


def _is_older(event: Event, cut: Event) -> bool:
    if event.lsn is not None and cut.lsn is not None:
        return event.lsn < cut.lsn
    return event.place < cut.place


@dataclass
class Upserts:
    """A table topic's table that is kept by key, and all that was committed to it."""

    catalog: Catalog
    by: tuple[str, ...] = ()
    order_by: str | None = "lsn"
    events: list[Event] = field(default_factory=list)
    foreign: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings = TopicSettings(mode="upsert", key=("id",), order_by=self.order_by)
        names = {"id": LongType(), "value": IntegerType(), "lsn": LongType(), "text": StringType()}
        value = [
            NestedField(at, name, kind, required=False) for at, (name, kind) in enumerate(names.items(), 1)
        ]
        number = iter(range(5, 99))
        metadata = [column for column in metadata_columns(self.settings) if column.name == "_kafka_metadata"]
        schema = _numbered([*value, *metadata], number)
        self.lake = Lake(self.catalog, schema, self.by, mode="upsert", key=("id",), order_by=self.order_by)
        self.letters = DeadLetters(self.catalog, self.lake.topic.table.name(), TOPIC)

    @property
    def columns(self) -> Any:
        """Of the table as it is now."""
        return upsert_columns(self.settings, self.lake.topic.table.schema())

    def staged(self, events: Sequence[Event]) -> tuple[list[DataFile], list[DataFile]]:
        """As a task stages them."""
        self.lake.topic.reload()
        plan = self.lake.topic.plan()
        writer = DataFileWriter(plan.metadata, plan.io_properties, self.lake.ledger.epoch)
        rows = [event for event in events if event.value is not None]
        files = writer.write(self._table(rows, writer.target)) if rows else []
        gone = [event for event in events if event.value is None]
        deletes = KeysWriter(writer.io, writer.folder).write(self._deletes(gone)) if gone else []
        return files, deletes

    def _table(self, events: Sequence[Event], target: pa.Schema) -> pa.Table:
        columns = {
            "id": pa.array([event.key for event in events], pa.int64()),
            "value": pa.array([event.value for event in events], pa.int32()),
            "lsn": pa.array([event.lsn for event in events], pa.int64()),
            "text": pa.array([event.text for event in events], pa.large_string()),
            "_kafka_metadata": pa.array(
                [
                    {"partition": event.partition, "offset": event.offset, "timestamp": event.ms * 1000}
                    for event in events
                ],
                target.field("_kafka_metadata").type,
            ),
        }
        return pa.Table.from_batches([conform(columns, len(events), target)])

    def _deletes(self, events: Sequence[Event]) -> pa.Table:
        schema, columns = deletes_schema(self.columns), self.columns
        values: dict[str, Any] = {ALL_KEYS.name: [event.key is None for event in events]}
        values[f"column_{columns.key[0].field_id}"] = [event.key for event in events]
        for leaf in columns.order:
            values[f"column_{leaf.field_id}"] = [event.lsn for event in events]
        for leaf, name in zip(columns.place, ("partition", "offset", "ms"), strict=True):
            factor = 1000 if name == "ms" else 1
            values[f"column_{leaf.field_id}"] = [getattr(event, name) * factor for event in events]
        return pa.table(values, schema=schema)

    def commit(self, *batches: Sequence[Event], meanwhile: Callable[[], None] | None = None) -> None:
        """One commit of several batches; ``meanwhile``: between its plan and its request."""
        parts = [self.staged(batch) for batch in batches]
        files, deletes = ([file for part in parts for file in part[at]] for at in (0, 1))
        events = [event for batch in batches for event in batch]
        newest_ms = {p: max((e.ms for e in events if e.partition == p), default=0) for p in range(PARTITIONS)}
        start = {p: self.lake.ledger.next_offsets.get(p, 0) for p in newest_ms}
        end = {p: max([start[p], *(e.offset + 1 for e in events if e.partition == p)]) for p in newest_ms}
        after = self.lake.ledger.advanced(StagedOffsets(start, end, newest_ms), str(uuid.uuid4()))
        topic = self.lake.topic
        has_text = any(event.text is not None for event in events)
        lacking = {topic.table.schema().find_field("text").field_id} if has_text else ()
        upsert = Upsert(self.settings, tuple(files), tuple(deletes), frozenset(lacking))
        change = upserted(remembering(topic.table, after, deletes), upsert)
        newest_ms = self.lake.ledger.newest_ms
        change = with_fewer_files(topic.table, change, upsert, newest_ms, self.letters)
        if meanwhile is not None:
            meanwhile()
        topic.commit(self.lake.ledger, change)
        self.lake.ledger = change.ledger
        self.events += events
        if any(event.key is None for event in events):
            self.foreign.clear()  # what comes from nowhere is older than a truncate

    def claim(self) -> None:
        """Another owner takes over, who knows the table alone."""
        self.lake.topic.reload()
        before = self.lake.topic.ledger
        assert before is not None
        self.lake.ledger = before.for_next_owner(before.epoch)
        self.lake.topic.claim(self.lake.ledger, before)

    def append_foreign(self, key: int, value: int) -> None:
        """Another program's row, which comes from no record."""
        self.foreign[key] = value
        target = file_schema(self.lake.table.schema())
        columns = {"id": pa.array([key]), "value": pa.array([value], pa.int32())}
        self.lake.table.append(pa.Table.from_batches([conform(columns, 1, target)]))

    def expected(self) -> list[tuple[int, int]]:
        """What each reader should get."""
        known = {event.key for event in self.events}
        others = {key: value for key, value in self.foreign.items() if key not in known}
        return sorted({**others, **newest(self.events)}.items())

    def rows(self, at: int | None = None) -> list[tuple[int, int]]:
        """As PyIceberg reads them, of a snapshot."""
        rows = self.lake.table.scan(selected_fields=("id", "value"), snapshot_id=at).to_arrow()
        return sorted(zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True))

    def rows_of_duckdb(self, at: int | None = None) -> list[tuple[int, int]]:
        """As DuckDB reads them, of a snapshot."""
        rows = DuckLake(self.catalog).sql("SELECT id, value FROM clicks", at).to_pydict()
        return sorted(zip(rows["id"], rows["value"], strict=True))

    def check(self) -> None:
        """PyIceberg reads what the model has, and the summary counts it."""
        self.lake.topic.reload()
        assert self.rows() == self.expected()
        assert self.lake.topic.rows == len(self.expected())


def _numbered(fields: Sequence[NestedField], _: Iterator[int]) -> Schema:
    return assign_fresh_schema_ids(Schema(*fields))


@pytest.fixture
def table(tmp_path: Path) -> Upserts:
    """A table by ``lsn``."""
    return Upserts(sqlite_catalog(tmp_path))


KINDS = ["write", "write", "write", "write", "delete", "again", "truncate"]
STEPS = ["commit", "commit", "commit", "two", "foreign", "compact", "moved", "crash"]


@pytest.mark.parametrize("seed", range(6))
def test_any_history(seed: int, tmp_path: Path) -> None:
    """Writes, deletes, repeats and truncates in any split, among appends, compactions and conflicts."""
    table = played(seed, sqlite_catalog(tmp_path))
    assert table.rows_of_duckdb() == table.expected()


def played(seed: int, real: Catalog) -> Upserts:
    """A random history, compared with the model after each commit.

    By an order, by place, or by an order that some events lack.
    """
    dice = Random(seed)
    by = [(), ("bucket(2, id)",), ("value",)][seed % 3]
    catalog = FlakyCatalog(real)
    table = Upserts(catalog, by, "lsn" if seed % 2 else None)  # type: ignore[arg-type]
    logs = _logs(dice, has_order=bool(seed % 2), mixed=seed % 4 == 3)
    read = [0] * PARTITIONS
    while any(read[p] < len(log) for p, log in enumerate(logs)):
        step = dice.choice(STEPS)
        if step == "foreign":
            table.append_foreign(dice.randrange(100, 10**6), 7)
            continue
        if step == "compact":
            table.lake.compact()
            table.check()
            continue
        batches = [_next_batch(dice, logs, read) for _ in range(2 if step == "two" else 1)]
        if step == "crash":
            table.staged(batches[0])  # nobody commits them; the next owner reads them again
            table.claim()
        if step == "moved":
            catalog.faults = [refused]
            with pytest.raises(HeadMovedError):
                table.commit(*batches)
        table.commit(*batches)
        table.check()
    return table


def _logs(dice: Random, *, has_order: bool, mixed: bool) -> list[list[Event]]:
    """Records in partitions at random, some hours apart; what is sent again soon has its old order.

    Where some lack an order, none is sent again: what a later event without order has replaced is forgotten.
    """
    logs: list[list[Event]] = [[] for _ in range(PARTITIONS)]
    ms = 0
    for lsn in range(dice.randint(30, 80)):
        partition = dice.randrange(PARTITIONS)
        log, kind = logs[partition], dice.choice(KINDS)
        ms += 3 * CLOCK_TOLERANCE_MS if dice.random() < 0.1 else dice.randint(int(mixed), 3)
        recent = [event for event in log if event.ms > ms - CLOCK_TOLERANCE_MS]
        if kind == "again" and recent and has_order and not mixed:
            log.append(dice.choice(recent)._replace(partition=partition, offset=len(log), ms=ms))
            continue
        key = None if kind == "truncate" and dice.random() < 0.3 else dice.randrange(9)
        value = None if key is None or kind == "delete" else dice.randrange(4)
        order = lsn if has_order and not (mixed and dice.random() < 0.3) else None
        log.append(Event(key, value, order, partition, len(log), ms))
    return logs


def _next_batch(dice: Random, logs: list[list[Event]], read: list[int]) -> list[Event]:
    """Some more of the partitions: perhaps of one alone."""
    events: list[Event] = []
    for partition, log in enumerate(logs):
        end = min(len(log), read[partition] + dice.choice([0, 0, 3, 9]))
        events += log[read[partition] : end]
        read[partition] = end
    return events


def _write(key: int, value: int | None, lsn: int, partition: int = 0, ms: int = 0) -> Event:
    return Event(key, value, lsn, partition, lsn, ms)


def test_a_truncate_deletes_no_row_of_its_order() -> None:
    """If its order lacks the second value, which ranks below any."""
    schema = Schema(
        NestedField(1, "_cdc", CDC_STRUCT, required=False),
        *metadata_columns(TopicSettings(metadata_columns=("metadata",))),
    )
    settings = TopicSettings(mode="upsert", key=("_cdc.snapshot",), transform="flatten_debezium")
    columns = upsert_columns(settings, assign_fresh_schema_ids(schema))
    names = [f"column_{leaf.field_id}" for leaf in (*columns.key, *columns.order, *columns.place)]
    names += [ALL_KEYS.name, FILE, POSITION]
    rows = [("k", 5, 1, 0, 0, None, False, 0, 0), (None, 5, None, 0, 1, None, True, None, 0)]
    batch = pa.RecordBatch.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], rows_schema(columns)
    )
    with open_lookup(columns) as lookup:
        assert lookup.superseded([batch], [], lambda _: []) == {}


@pytest.mark.parametrize("splits", [(1,), (1, 2), (2,)])
def test_what_only_follows_a_delete_has_its_order(splits: tuple[int, ...], table: Upserts) -> None:
    """A record without a value, when both are sent again behind newer changes: in any split into batches."""
    table.commit([_write(1, 1, 7, ms=1)])
    events = [Event(1, None, 5, 0, 8, 2), Event(1, None, None, 0, 9, 2), Event(2, 2, 8, 0, 10, 2)]
    for start, end in zip((0, *splits), (*splits, None), strict=True):
        table.commit(events[start:end])
    assert table.rows() == [(1, 1), (2, 2)]


def test_a_deleted_key_stays_deleted(table: Upserts) -> None:
    """What is older comes from a partition that is read later, after a change of owner and a sweep."""
    table.commit([_write(1, None, 9)])
    table.claim()
    assert sweep(table.lake.table, after_epoch=0, before_epoch=2, catalog=table.catalog) == 0
    table.commit([_write(1, 5, 7, partition=1), _write(2, 5, 8, partition=1)])
    table.check()
    assert table.rows() == [(2, 5)]


def test_changes_that_lose_though_they_are_later_are_said(
    table: Upserts, caplog: pytest.LogCaptureFixture
) -> None:
    """By the positions of another database; what Connect sends again within the hour is no matter."""
    table.commit([_write(1, 1, 90), _write(2, None, 91)])
    table.commit([_write(1, 2, 5)._replace(offset=100, ms=9)])
    assert not caplog.records
    late = [_write(key, 3, key)._replace(offset=200 + key, ms=2 * CLOCK_TOLERANCE_MS) for key in (1, 2, 3)]
    table.commit(late)
    (record,) = caplog.records
    assert record.getMessage().startswith("2 changes lost to rows of the table that are later by lsn")
    table.check()


def test_a_rollback_has_the_deletes_of_its_time(table: Upserts) -> None:
    """They are in the ledger of its snapshot, so what came later is as if it had never been."""
    table.commit([_write(1, 1, 1), _write(2, None, 2)])
    head = table.lake.table.metadata.current_snapshot_id
    table.commit([_write(1, None, 5)])
    table.lake.table.manage_snapshots().set_current_snapshot(snapshot_id=head).commit()
    del table.events[-1]
    table.claim()
    table.commit([_write(1, 3, 3), _write(2, 3, 1, partition=1)])
    assert table.rows() == table.expected() == [(1, 3)]


def test_delete_files_and_deleted_keys_are_merged(table: Upserts) -> None:
    """What is deleted stays so, and readers open few files: positions are in one until it is much larger."""
    table.commit([_write(key, 0, key) for key in range(1, 60)])
    for lsn in range(100, 101 + 2 * MOST_FILES):
        table.commit([_write(lsn % 50, lsn, lsn), _write(lsn + 1000, None, lsn)])
        assert len(delete_files(table.lake.table)) <= 2
        assert len(table.lake.ledger.deleted_keys) <= MOST_FILES
    table.check()
    table.commit([_write(1105, 1, 99, partition=1)])
    table.check()


def test_manifests_stay_few(table: Upserts) -> None:
    """However many commits replace rows: those without files go, and small ones are merged."""
    for lsn in range(1, 3 * MOST_FILES):
        table.commit([_write(lsn % 7, lsn, lsn)])
        snapshot = table.lake.table.current_snapshot()
        assert snapshot is not None
        manifests = snapshot.manifests(table.lake.table.io)
        assert len(manifests) <= 2 * MOST_FILES + 4
    table.check()
    assert table.rows_of_duckdb() == table.expected()


def test_what_nothing_older_can_follow_is_forgotten(table: Upserts) -> None:
    """Once all partitions were read to a newer time, unless a refused record may be replayed, or kept."""
    hours = 3 * CLOCK_TOLERANCE_MS
    for lsn in range(1, MOST_FILES + 1):
        table.commit([_write(lsn, None, lsn, ms=hours)])
    later = [_write(90 + p, None, 90 + p, partition=p, ms=3 * hours) for p in range(PARTITIONS)]
    topic, letters = table.lake.topic, table.letters
    _, deletes = table.staged(later)
    newest_ms = dict.fromkeys(range(PARTITIONS), 3 * hours)
    ledger = replace(table.lake.ledger, newest_ms=newest_ms, refused={"no_key": 1})  # since it was created
    upsert = Upsert(table.settings, (), tuple(deletes))
    letters.ensure(topic, table.lake.ledger)
    assert letters.table is not None
    target = file_schema(letters.table.table.schema())
    letter = {"topic": pa.array([TOPIC]), "partition": pa.array([0], pa.int32()), "offset": pa.array([7])}
    letter |= {"reason": pa.array(["no_key"]), "message": pa.array(["it has no key"])}
    letter["at"] = pa.array([0], pa.timestamp("us", "UTC"))
    letters.table.table.append(pa.Table.from_batches([conform(letter, 1, target)]))
    letters.refresh()
    kept = {}
    for name in ("all", "forever", "newest"):
        kept_for = "forever" if name == "forever" else "needed"
        upsert = replace(upsert, settings=table.settings.model_copy(update={"deleted_keys": kept_for}))
        change = upserted(remembering(topic.table, ledger, deletes), upsert)
        merged = with_fewer_files(topic.table, change, upsert, newest_ms, letters)
        (path,) = locations(topic.table, merged.ledger)
        kept[name] = len(read_file(path))
        if name == "all":
            letters.table.table.delete()
            letters.refresh()
    assert kept == {"all": MOST_FILES + PARTITIONS, "forever": MOST_FILES + PARTITIONS, "newest": PARTITIONS}


def test_many_deleted_keys_are_written_again_rarely(table: Upserts) -> None:
    """Small files are merged with one another; the large one waits until there is as much beside it."""
    table.commit([_write(key, None, key) for key in range(1, 5_000)])
    (large,) = table.lake.ledger.deleted_keys
    for lsn in range(5_000, 5_002 + 2 * MOST_FILES):
        table.commit([_write(lsn, None, lsn)])
        assert len(table.lake.ledger.deleted_keys) <= MOST_FILES
    assert table.lake.ledger.deleted_keys[0] == large
    table.commit([_write(key, 1, 0, partition=1) for key in (1, 4_000, 5_001, 9_000)])
    assert table.rows() == table.expected() == [(9_000, 1)]


def test_files_of_deleted_keys_go_with_their_snapshots(table: Upserts) -> None:
    """Those that no ledger names any more, and no others."""
    for lsn in range(1, 2 * MOST_FILES):
        table.commit([_write(lsn, None, lsn)])
    loaded = table.lake.table
    ids = {snapshot.snapshot_id for snapshot in loaded.snapshots()[:-1]}
    gone = {path for path in only_reached_by(loaded, ids).data if path.endswith("-keys.parquet")}
    named = {
        path for ledger in map(ledger_of, loaded.snapshots()) if ledger for path in locations(loaded, ledger)
    }
    kept = set(locations(loaded, table.lake.ledger))
    assert kept
    assert gone == named - kept


def test_a_partition_that_catches_up_brings_no_row_back(table: Upserts) -> None:
    """Its batch begins with what is older than a delete, and ends with what is newer by hours."""
    hour = CLOCK_TOLERANCE_MS
    table.commit([_write(90 + p, 1, p, partition=p, ms=hour) for p in range(PARTITIONS)])
    late = [_write(20 + p, 1, 300 + p, partition=p, ms=20 * hour) for p in (0, 2)]
    table.commit([_write(1, None, 100, ms=5 * hour)], late)
    for lsn in range(101, 101 + MOST_FILES - 1):
        table.commit([_write(lsn, None, lsn, ms=20 * hour)])
    older = _write(1, 5, 50, partition=1, ms=4 * hour)
    newer = [_write(50, value, 400, partition=1, ms=20 * hour) for value in (1, None)]
    table.commit([older, *newer])
    table.check()


def test_deleted_keys_that_others_removed_are_said(table: Upserts) -> None:
    """The topic stops with the way to go on; there the file is left out."""
    table.commit([_write(1, None, 9)])
    (path,) = locations(table.lake.table, table.lake.ledger)
    assert path.rpartition("/")[2].startswith("_")  # Spark's removal of orphans passes over it
    Path(path.removeprefix("file://")).unlink()
    with pytest.raises(ActionNeededError, match=r"deleted 1 files with deleted keys.*--on-gap go_on"):
        table.commit([_write(2, 1, 10)])
    table.settings = table.settings.model_copy(update={"on_gap": "go_on"})
    table.commit([_write(2, 1, 11)])
    assert table.rows() == [(2, 1)]


def test_deleted_keys_are_found_in_another_folder(table: Upserts, tmp_path: Path) -> None:
    """Somebody sets where data is written, and unsets it: files stay where they were."""
    table.commit([_write(1, None, 9)])
    for key, lsn in ((2, 19), (3, 29)):
        with table.lake.table.transaction() as transaction:
            if key == 2:
                transaction.set_properties({"write.data.path": f"file://{tmp_path}/elsewhere"})
            else:
                transaction.remove_properties("write.data.path")
        table.commit([_write(key, None, lsn)])
    table.commit([_write(key, 5, 7, partition=1) for key in (1, 2, 3, 4)])
    table.check()
    assert table.rows() == [(4, 5)]


def test_only_delete_files_of_the_keys_are_read(tmp_path: Path) -> None:
    """Not those of other partitions, if these are made of the key."""
    table = Upserts(sqlite_catalog(tmp_path), ("id",))
    for lsn in (1, 2):
        table.commit([_write(1, lsn, lsn), _write(2, lsn, lsn)])
    for file in delete_files(table.lake.table):
        if file.partition[0] == 2:
            Path(file.file_path.removeprefix("file://")).rename(tmp_path / "aside")
            away = file.file_path
    table.commit([_write(1, 3, 3)])
    (tmp_path / "aside").rename(away.removeprefix("file://"))
    table.check()


def test_files_without_the_keys_are_not_read(table: Upserts, tmp_path: Path) -> None:
    """By the bounds of a column of the key."""
    table.commit([_write(key, 1, key) for key in (1, 2, 3)])
    (other,) = table.lake.files()
    table.commit([_write(key, 1, key) for key in (7, 8, -9)])
    table.commit([_write(key, 1, key) for key in (70, 80)])
    Path(other.file_path.removeprefix("file://")).rename(tmp_path / "aside")
    table.commit([_write(-10, 2, 90), _write(-9, 2, 91)])
    table.commit([_write(80, 2, 92), _write(75, 2, 93)])
    (tmp_path / "aside").rename(other.file_path.removeprefix("file://"))
    table.check()


def test_replaced_newest_rows_are_no_rollback(table: Upserts) -> None:
    """Of the snapshot that the tag kept, once others have rewritten all files and expired the others."""
    table.commit([_write(1, 1, 1), _write(2, 2, 2)])
    table.commit([_write(1, 3, 3), _write(1, 4, 4)])
    kept = table.lake.table.current_snapshot()
    rows = table.lake.table.scan().to_arrow()
    table.lake.table.overwrite(rows.cast(file_schema(table.lake.table.schema())))
    table.lake.topic.reload()
    assert kept is not None
    assert has_newest_rows(table.lake.table, kept)
    table.lake.table.delete("id = 1")
    assert not has_newest_rows(table.catalog.load_table(table.lake.table.name()), kept)


def test_renamed_and_wider_keys_are_the_same(table: Upserts) -> None:
    """Columns are found by field id in files of each time."""
    table.commit([_write(1, 1, 1), _write(2, 2, 2)])
    with table.lake.table.update_schema() as update:
        update.rename_column("id", "number")
    table.lake.topic.reload()
    live = LiveRows(table.lake.table)
    columns = upsert_columns(table.settings, table.lake.table.schema(), names_before(table.lake.topic))
    (entry,) = live.head.data
    (rows,) = read_rows(table.lake.table.io, entry.data_file.file_path, columns, 0)
    assert rows.column(0).to_pylist() == [1, 2]


@pytest.mark.parametrize("required", [True, False])
def test_a_required_key_is_icebergs_identifier(tmp_path: Path, required: bool) -> None:
    """Until its column becomes optional, which a new schema may do."""
    fields = [NestedField(at, name, LongType(), required=required) for at, name in enumerate(("b", "a"), 1)]
    given = TopicSettings(metadata_columns=("metadata",))
    schema = assign_fresh_schema_ids(Schema(*fields, *metadata_columns(given)))
    lake = Lake(sqlite_catalog(tmp_path), schema, mode="upsert", key=("a",))
    assert lake.table.schema().identifier_field_ids == ([2] if required else [])
    optional = [field.model_copy(update={"required": False}) for field in lake.table.schema().fields]
    lake.topic.evolve(Schema(*optional), {}, lake.ledger.epoch)
    assert lake.table.schema().identifier_field_ids == []
