"""What must hold of a table whatever happened: read by plain PyIceberg, independently of the product."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlparse

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.workbench.workbench import Workbench
from tests.drill.foreign import reachable_files
from tests.integration.conftest import dead_letters_by_offset, rows_by_offset
from tests.recovery.stream import V3, Stream, value_of
from tests.recovery.waiting import LIMIT_S, wait_until


def load(bench: Workbench, topic: str) -> Table:
    """The topic's table as it is now."""
    return bench.catalog.load_table(table_identifier(topic, TopicSettings()))


def ledgers(table: Table) -> list[tuple[Ledger, int]]:
    """Every ledger of the history, oldest first, with the rows that the table had at that moment.

    But for those of compactions, which have the ledger as it was.
    """
    found = []
    for snapshot in sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0):
        summary = dict(snapshot.summary.additional_properties) if snapshot.summary else {}
        if snapshot.summary and snapshot.summary.operation is Operation.REPLACE:
            continue
        if ledger := Ledger.from_summary(summary):
            found.append((ledger, int(summary["total-records"])))
    return found


def newest_ledger(bench: Workbench, topic: str) -> Ledger | None:
    """The table's ledger; None while there is no table or none in it."""
    try:
        history = ledgers(load(bench, topic))
    except NoSuchTableError:
        return None
    return history[-1][0] if history else None


def epoch(bench: Workbench, topic: str) -> int:
    """Epoch of the table's owner, 0 before the first one."""
    ledger = newest_ledger(bench, topic)
    return ledger.epoch if ledger else 0


def commits(bench: Workbench, topic: str) -> int:
    """Commits with records so far."""
    ledger = newest_ledger(bench, topic)
    return ledger.commits if ledger else 0


def wait_for_commits(bench: Workbench, topic: str, count: int = 1) -> int:
    """Wait for ``count`` more commits of a running topic; the epoch they came under."""
    before = commits(bench, topic)
    wait_until(f"{count} more commits of {topic}", lambda: commits(bench, topic) >= before + count)
    return epoch(bench, topic)


def wait_until_lag_is_0(bench: Workbench, *topics: str, limit_s: float = LIMIT_S) -> None:
    """Wait until the tables have read their topics to the end."""
    ends = bench.broker.end_offsets(topics)
    for topic in topics:

        def reached(topic: str = topic) -> bool:
            ledger = newest_ledger(bench, topic)
            return ledger is not None and dict(ledger.next_offsets) == ends[topic]

        try:
            wait_until(f"lag 0 of {topic}", reached, limit_s)
        except AssertionError as late:
            raise AssertionError(f"{late}: {bench.status(topic)}") from None


def check_exact(bench: Workbench, stream: Stream) -> None:
    """Every record of the topic is a row or a letter, once; each acknowledged one with its value (I1)."""
    rows = rows_by_offset(bench, stream.topic)
    dead_letters = {}
    if any(sent.value is None for sent in stream.sent):
        dead_letters = dead_letters_by_offset(bench, stream.topic)
    ends = bench.broker.end_offsets([stream.topic])[stream.topic]
    assert rows.keys() | dead_letters.keys() == {
        (p, offset) for p, end in ends.items() for offset in range(end)
    }
    assert not rows.keys() & dead_letters.keys()
    columns = value_of(0, V3).keys() & next(iter(rows.values())).keys()
    by_id = {(partition, row["id"]): row for (partition, _), row in rows.items()}
    for sent in stream.sent:
        if sent.value is None:
            assert sent.offset is None or dead_letters[sent.partition, sent.offset]["reason"]
            continue
        if sent.offset is None:
            row = by_id[sent.partition, sent.value["id"]]
        else:
            row = rows[sent.partition, sent.offset]
        expected = {name: sent.value.get(name) for name in columns}
        assert {name: row[name] for name in columns} == expected, sent
    check_history(load(bench, stream.topic), ends)


def check_history(table: Table, ends: dict[int, int]) -> None:
    """The ledger ends where the topic does; in every snapshot it accounts for the rows of that time (I2)."""
    history = ledgers(table)
    assert dict(history[-1][0].next_offsets) == ends
    for ledger, rows in history:
        assert sum(ledger.next_offsets.values()) == rows + sum(ledger.refused.values())
    epochs = [ledger.epoch for ledger, _ in history]
    # Each owner begins with a claim that is one higher, and nobody commits under an older epoch (I5).
    assert epochs[0] == 1
    assert {after - before for before, after in pairwise(epochs)} <= {0, 1}
    for (before, _), (after, _) in pairwise(history):
        claim = after.epoch > before.epoch
        assert (after.commits == before.commits) is claim
        assert (dict(after.next_offsets) == dict(before.next_offsets)) is claim


def check_owners(bench: Workbench, topics: Iterable[str]) -> dict[tuple[str, int], str]:
    """Every epoch of a topic had one host, the only one to commit under it; hosts by topic and epoch."""
    wanted = set(topics)
    owners: dict[tuple[str, int], str] = {}
    for event in bench.events():
        if event.topic not in wanted:
            continue
        if event.type == "Enabled":
            assert owners.setdefault((event.topic, event.epoch), event.host) == event.host
        elif event.type == "Committed":
            assert owners[event.topic, event.progress.epoch] == event.host
    return owners


def unreferenced_files(table: Table) -> set[str]:
    """Files in the table's data folder that no snapshot refers to."""
    there = {str(path) for path in Path(urlparse(table.location()).path, "data").rglob("*") if path.is_file()}
    referenced = {urlparse(path).path for path in reachable_files(table)}
    assert referenced <= there
    return there - referenced


def stray_letters(bench: Workbench, topic: str) -> set[str]:
    """Files in the dead-letter table's folder that none of its snapshots refers to."""
    try:
        table = bench.open_catalog().load_table(bench.table_of(topic) + "__dead_letters")
    except NoSuchTableError:
        return set()
    there = {str(path) for path in Path(urlparse(table.location()).path, "data").rglob("*") if path.is_file()}
    kept = {
        urlparse(entry.data_file.file_path).path
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }
    return there - kept


def wait_until_swept(bench: Workbench, topic: str) -> None:
    """Wait until no uncommitted file is left (I10); the topic must be idle."""

    def is_swept() -> bool:
        return not unreferenced_files(load(bench, topic)) and not stray_letters(bench, topic)

    try:
        wait_until("no unreferenced files", is_swept, limit_s=60)
    except AssertionError:
        assert unreferenced_files(load(bench, topic)) | stray_letters(bench, topic) == set()
