"""A log that was cut and has grown again: noticed before a row is committed, mended as people say (I8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tabletopic_kernel.clients.kafka.reader import KafkaRecord
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.ownership.cut_log import lost_part
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError
from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.model.progress.events import GapDetected
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import conform, file_schema, note_last
from tabletopic_kernel.pipeline.plan import StagedBatch
from tabletopic_kernel.pipeline.write import DataFileWriter
from tests.host.rig import Rig, order

OLD, NEW = 1_000_000, 2_000_000  # values of the records before and after the cut


def log(count: int, cut: int | None = None, partition: int = 0) -> list[KafkaRecord]:
    """Records of a log, which from offset ``cut`` on are others than before."""
    bases = (OLD if cut is None or offset < cut else NEW for offset in range(count))
    return [
        KafkaRecord(partition, at, b"k%d" % (base + at), b"v%d" % (base + at), base + at)
        for at, base in enumerate(bases)
    ]


def third() -> list[KafkaRecord]:
    """Records from offset 8 on that are like none of the others."""
    return [KafkaRecord(0, at, None, b"third", 3_000_000 + at) for at in range(8, 20)]


def send(rig: Rig, records: Sequence[KafkaRecord]) -> None:
    """Make these the topic's log."""
    rig.broker.log = list(records)
    rig.broker.change(end={p: sum(r.partition == p for r in records) for p in (0, 1)})


def stage(rig: Rig, start: int, end: int, epoch: int = 1) -> None:
    """Stage rows of the records of partition 0 that the log has now."""
    records = rig.broker.log[start:end]
    plan = rig.table.plan()
    writer = DataFileWriter(plan.metadata, plan.io_properties, epoch)
    source: dict[str, Any] = {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "partition": pa.array([record.partition for record in records], pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "timestamp": pa.array([r.timestamp_ms * 1000 for r in records], pa.timestamp("us", "UTC")),
    }
    last: dict[int, tuple[int, str]] = {}
    note_last(pa.RecordBatch.from_pydict(source), last)
    places = pa.StructArray.from_arrays(
        [source[name] for name in ("partition", "offset", "timestamp")], ["partition", "offset", "timestamp"]
    )
    columns = {"_kafka_key": source["key"], "_kafka_metadata": places}
    columns["a"] = pa.array([record.timestamp_ms for record in records], pa.int32())
    schema = file_schema(writer.schema)
    there = {name: columns[name] for name in schema.names if name in columns}
    rows = pa.Table.from_batches([conform(there, len(records), schema)])
    offsets = StagedOffsets({0: start}, {0: end}, last_records=last)
    rig.worker.listener.staged(StagedBatch(offsets, tuple(writer.write(rows)), len(records), 0.1))


def commit(rig: Rig, coordinator: Coordinator) -> None:
    """Let the interval pass."""
    rig.after(1000, coordinator)


def filled(rig: Rig, **settings: Any) -> Coordinator:
    """A topic with ten committed records, in two files."""
    send(rig, log(10))
    coordinator = rig.running(commit_interval_ms="100ms", **settings)
    for start, end in ((0, 7), (7, 10)):
        stage(rig, start, end)
        commit(rig, coordinator)
    return coordinator


def again(rig: Rig, **settings: Any) -> Coordinator:
    """The topic's next owner."""
    coordinator = rig.make(commit_interval_ms="100ms", **settings)
    order(coordinator, Event.START)
    return coordinator


def values(rig: Rig) -> list[int]:
    """The table's rows."""
    return sorted(rig.table.table.scan().to_arrow()["a"].to_pylist())


@pytest.mark.parametrize("cut", [0, 1, 6, 7, 9])
def test_a_log_that_was_cut_and_grew_again_stops_the_topic(rig: Rig, cut: int) -> None:
    """The next owner names the first difference and the choice, whatever the topic's ends."""
    filled(rig)
    send(rig, log(16, cut))
    coordinator = again(rig)
    assert coordinator.state is State.FAILED
    reason = str(coordinator.progress().error)
    assert f"partition 0: {cut} to 9" in reason
    assert "another record at offset 9" in reason
    assert "`tabletopic resume clicks --on-truncation mark`" in reason
    assert rig.offset() == 10


@pytest.mark.parametrize("choice", ["stop", "mark", "rewind"])
@pytest.mark.parametrize("order_by", [None, "a"])
def test_a_table_by_key_has_fewer_choices(rig: Rig, choice: str, order_by: str | None) -> None:
    """Rows that were replaced cannot come back, and without an order lost records look newer."""
    filled(rig)
    send(rig, log(16, 6))
    settings = TopicSettings(mode="upsert", key=("a",), order_by=order_by, on_truncation=choice)
    facts, ledger = rig.broker.facts("clicks"), rig.table.ledger
    if order_by and choice == "mark":
        assert lost_part(ledger, facts, settings, rig.table, rig.broker) == {0: (6, 10)}
        return
    with pytest.raises(ActionNeededError) as raised:
        lost_part(ledger, facts, settings, rig.table, rig.broker)
    text = str(raised.value)
    assert ("--on-truncation mark" in text) == bool(order_by)
    assert "--on-truncation rewind" not in text


def test_a_log_that_is_as_it_was_goes_on(rig: Rig) -> None:
    """Also if retention or compaction removed the last committed record: the rest is trusted."""
    filled(rig)
    for records in (log(16), log(9) + log(16)[10:]):
        send(rig, records)
        rig.broker.change(end={0: 16, 1: 0})
        assert again(rig).state is State.RUNNING
    rig.broker.change(first={0: 10, 1: 0})
    assert again(rig).state is State.RUNNING


@pytest.mark.parametrize(("choice", "rows"), [("mark", 10), ("rewind", 6)])
@pytest.mark.parametrize("end", [6, 8, 16])
def test_reading_goes_back_to_the_cut(rig: Rig, choice: str, rows: int, end: int) -> None:
    """Rows of lost records stay, marked in the ledger, or go in the commit that sets the ledger back."""
    filled(rig)
    send(rig, log(end, 6))
    coordinator = again(rig, on_truncation=choice)
    assert coordinator.state is State.RUNNING, coordinator.progress().error
    ledger = rig.table.ledger
    assert (rig.offset(), rig.worker.spec.start[0], len(values(rig))) == (6, 6, rows)
    assert dict(ledger.truncated) == ({0: ((6, 10, 2),)} if choice == "mark" else {})
    (gap,) = [event for event in rig.control.written if isinstance(event, GapDetected)]
    assert (gap.missing, gap.on_truncation) == ({0: (6, 10)}, choice)
    if end > 6:
        stage(rig, 6, end, ledger.epoch)
        commit(rig, coordinator)
    new = [record.timestamp_ms for record in log(end, 6)]
    assert values(rig) == sorted(new + ([OLD + at for at in range(6, 10)] if choice == "mark" else []))
    again(rig, on_truncation=choice)
    assert rig.offset() == end


def test_a_log_is_cut_again(rig: Rig) -> None:
    """Marked rows of an earlier cut do not hide which records are the topic's."""
    filled(rig)
    send(rig, log(16, 6))
    coordinator = again(rig, on_truncation="mark")
    stage(rig, 6, 16, 2)
    commit(rig, coordinator)
    send(rig, log(16, 6)[:8] + third())
    assert again(rig, on_truncation="mark").state is State.RUNNING
    ledger = rig.table.ledger
    assert dict(ledger.truncated) == {0: ((6, 10, 2), (8, 16, 3))}


@pytest.mark.parametrize("earlier", ["mark", "rebase"])
def test_rows_of_an_earlier_log_are_not_deleted(rig: Rig, earlier: str) -> None:
    """Rows that a mark or a rebase has left have offsets of the log of now: a rewind would take them, too."""
    filled(rig)
    if earlier == "mark":
        send(rig, log(16, 6))
        coordinator = again(rig, on_truncation="mark")
    else:
        ledger = rig.table.ledger
        rig.table.claim(ledger.for_next_owner(1).moved("cluster", "topic-id", {0: 6, 1: 0}), ledger)
        send(rig, log(16, 0))
        coordinator = again(rig)
    assert (coordinator.state, rig.offset()) == (State.RUNNING, 6)
    stage(rig, 6, 16, rig.table.ledger.epoch)
    commit(rig, coordinator)
    before = values(rig)
    send(rig, rig.broker.log[:8] + third())
    coordinator = again(rig, on_truncation="rewind")
    assert coordinator.state is State.FAILED
    assert "rows that an earlier log left (partition 0)" in str(coordinator.progress().error)
    assert values(rig) == before
    assert again(rig, on_truncation="mark").state is State.RUNNING
    assert values(rig) == before


def test_a_batch_after_a_cut_is_never_staged(rig: Rig) -> None:
    """A running host notices as soon as it has read records behind the cut, and the take-over decides."""
    coordinator = filled(rig)
    send(rig, log(16, 6))
    with pytest.raises(RetryableError, match="was cut"):
        stage(rig, 10, 16)
    assert (rig.offset(), coordinator.state) == (10, State.RUNNING)


def test_a_cut_behind_a_staged_batch_is_noticed(rig: Rig) -> None:
    """The record before a batch is compared even if it is not committed yet."""
    filled(rig)
    send(rig, log(14))
    stage(rig, 10, 14)
    send(rig, log(20, 12))
    with pytest.raises(RetryableError, match="was cut"):
        stage(rig, 14, 20)


def test_an_older_table_learns_it(rig: Rig) -> None:
    """A ledger without fingerprints is trusted, and has one with its next commit."""
    coordinator = rig.running(commit_interval_ms="100ms")
    rig.stage(0, 4)
    commit(rig, coordinator)
    send(rig, log(9))
    stage(rig, 4, 9)
    commit(rig, coordinator)
    ledger = rig.table.ledger
    assert ledger.last_records[0][0] == 8


def test_a_table_without_places_can_only_stop(rig: Rig) -> None:
    """Without the column ``_kafka_metadata`` nobody knows which rows to mark or to delete."""
    filled(rig, metadata_columns=("key",))
    send(rig, log(16, 6))
    coordinator = again(rig, on_truncation="rewind", metadata_columns=("key",))
    assert coordinator.state is State.FAILED
    assert "no column _kafka_metadata" in str(coordinator.progress().error)
