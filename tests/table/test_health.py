"""The figures of ``health`` match the table's storage."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.types import NestedField, TimestamptzType

from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table import health
from tabletopic_kernel.table.compaction import plan as compaction
from tabletopic_kernel.table.health import idle_because, next_work, table_health
from tabletopic_kernel.table.topic_table import TopicTable
from tests.table.foreign_deletes import delete_rows
from tests.table.samples import IDENTIFIER, TOPIC, batch, commit_staged


def _grown(owned: tuple[TopicTable, Ledger], commits: int) -> TopicTable:
    table, ledger = owned
    for start in range(0, commits * 10, 10):
        ledger = commit_staged(table, ledger, batch(table, start, start + 10))
    table.reload()
    return table


def test_files_snapshots_and_metadata(owned: tuple[TopicTable, Ledger], tmp_path: Path) -> None:
    """Counts and sizes are those of the folder."""
    table = _grown(owned, 5)
    found = table_health(TOPIC, table.table)
    files = list((tmp_path / "warehouse").rglob("*.parquet"))
    assert (found.files, found.rows, found.small_files, found.small_share) == (5, 50, 5, 1.0)
    assert found.bytes == sum(file.stat().st_size for file in files)
    assert (sum(size.files for size in found.sizes), found.sizes[0].up_to_bytes) == (5, 16 * 1024)
    assert (found.snapshots, found.partitions, found.delete_files) == (6, 1, 0)
    newest = Path(table.table.metadata_location.removeprefix("file://"))
    assert found.metadata_bytes == newest.stat().st_size
    assert found.metadata_files == len(list(newest.parent.glob("*.metadata.json")))
    assert set(found.refs) == {"branch main", "tag tabletopic-ledger"}


def test_what_was_deleted_is_no_file(owned: tuple[TopicTable, Ledger], catalog: Catalog) -> None:
    """Rewritten files count no more; many deleted rows are due, however few files there are."""
    table = _grown(owned, 3)
    catalog.load_table(IDENTIFIER).delete("a < 5")
    table.reload()
    found = table_health(TOPIC, table.table)
    assert (found.files, found.rows) == (3, 15)


def test_what_has_no_sizes_or_no_manifest(table: TopicTable) -> None:
    """Nothing is divided by nothing; what is switched off says so for both works."""
    found = table_health(TOPIC, table.table)
    assert (found.files, found.sizes, found.small_share, found.delete_share) == (0, [], 0.0, 0.0)
    assert (found.oldest_snapshot_ms, found.reaches_back_to_ms) == (None, None)
    off = TopicSettings(maintenance="off")
    assert [(one.work, one.due, one.why) for one in next_work(table.table, off, 0)] == [
        ("compact", False, "switched off"),
        ("expire", False, "switched off"),
    ]


def test_a_manifest_that_is_gone_is_told(owned: tuple[TopicTable, Ledger], tmp_path: Path) -> None:
    """As an error of the storage, with the file's name."""
    table = _grown(owned, 1)
    for one in (tmp_path / "warehouse").rglob("*-m0.avro"):
        one.unlink()
    with pytest.raises(RetryableError):
        table_health(TOPIC, table.table)


def test_what_is_due_has_its_reason(
    owned: tuple[TopicTable, Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enough small files to put together, and snapshots that are older than the settings keep."""
    monkeypatch.setattr(compaction, "MIN_FILES", 4)
    table = _grown(owned, 5).table
    now = table.metadata.last_updated_ms
    settings = TopicSettings(keep_snapshots=1, time_travel_ms=60_000)
    work = {one.work: (one.due, one.why) for one in next_work(table, settings, now)}
    assert work == {
        "compact": (True, "5 small files can become 1"),
        "expire": (False, "nothing to do: all 6 snapshots are kept"),
    }
    monkeypatch.setattr(health, "_MANY_SNAPSHOTS", 5)
    assert next_work(table, settings, now)[1].why.endswith("a smaller max_snapshots makes commits faster")
    bound = TopicSettings(max_snapshots=6)
    assert next_work(table, bound, now)[1].why == (
        "nothing to do: all 6 snapshots are kept, because max_snapshots is 6; a larger limit lets time "
        "travel reach further back"
    )
    assert next_work(table, TopicSettings(max_snapshots=5, keep_snapshots=1), now + 3_600_000)[1].due
    later = next_work(table, settings, now + 3_600_000)[1]
    assert (later.due, later.why) == (True, "5 snapshots are older than the settings keep")


def test_deleted_rows_that_are_due_are_told(owned: tuple[TopicTable, Ledger]) -> None:
    """However few files there are."""
    table = _grown(owned, 2).table
    assert not next_work(table, TopicSettings(), 0)[0].due
    victim = next(iter(table.scan().plan_files())).file
    delete_rows(table, {victim.file_path: range(victim.record_count)})
    found = next_work(table.refresh(), TopicSettings(), 0)[0]
    assert found.due
    assert found.why.endswith(f"without {victim.record_count:,} deleted rows")


def test_a_maintaining_catalog_is_left_to_it(
    owned: tuple[TopicTable, Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the settings say on."""
    table = _grown(owned, 1).table
    monkeypatch.setitem(table.catalog.properties, "rest.signing-name", "s3tables")
    whys = {one.why for one in next_work(table, TopicSettings(), 0)}
    assert whys == {"the catalog does it itself"}
    assert "nothing to do" in next_work(table, TopicSettings(maintenance="on"), 0)[0].why


def test_times_in_january_1970_are_told(catalog: Catalog) -> None:
    """Milliseconds that were read as microseconds are seen in the bounds of files."""
    catalog.create_namespace("default")
    schema = Schema(NestedField(1, "event_time", TimestamptzType(), required=False))
    table = catalog.create_table(("default", "times"), schema)
    rows = pa.table({"event_time": pa.array([1_700_000_000_000, None], pa.timestamp("us", "UTC"))})
    table.append(rows)
    assert table_health(TOPIC, table).doubts == [
        "100 % of event_time lies in January 1970: milliseconds read as microseconds, or seconds as "
        "milliseconds?"
    ]
    table.append(rows.slice(0, 0))
    now = pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    table.append(pa.table({"event_time": now}))
    assert table_health(TOPIC, table).doubts == []


def test_a_catalog_that_maintains_tables_is_trusted_for_days(
    owned: tuple[TopicTable, Ledger], catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner looks at what it really did: it expires and compacts where nobody else has for three days."""
    table, ledger = owned
    staged = batch(table, 0, 3)
    commit_staged(table, ledger, staged)
    loaded = catalog.load_table(IDENTIFIER)
    monkeypatch.setitem(catalog.properties, "rest.signing-name", "s3tables")
    settings = TopicSettings(keep_snapshots=1)
    day, now = 86_400_000, loaded.metadata.last_updated_ms
    kept_days = settings.snapshots_kept_ms // day

    def idle(table: Table, days: int) -> dict[str, bool]:
        at_ms = now + days * day + 1_000
        works = ("compact", "expire")
        return {work: idle_because(table, settings, work, at_ms) is not None for work in works}

    assert idle(loaded, 2) == {"compact": True, "expire": True}
    assert idle(loaded, 3) == {"compact": False, "expire": True}
    assert idle(loaded, kept_days + 3) == {"compact": False, "expire": False}
    head = loaded.metadata.snapshots[-1]
    theirs = head.model_copy(
        update={"summary": Summary(Operation.REPLACE), "timestamp_ms": head.timestamp_ms + day}
    )
    loaded.metadata = loaded.metadata.model_copy(update={"snapshots": [*loaded.metadata.snapshots, theirs]})
    assert idle(loaded, 3) == {"compact": True, "expire": True}
