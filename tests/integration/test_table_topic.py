"""A table topic on the real broker, registry, Spark and catalog."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from tabletopic_kernel.host.host import Host
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.progress.delay import Delay
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import METADATA, Sender, rows_by_offset
from tests.integration.rows import FAST, V1, V2, check_rows, row_v1, row_v2
from tests.integration.together import Story, together

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]


@together(partitions=3)
def test_records_that_waited_become_rows(bench: Workbench, sender: Sender) -> Story:
    """Records that were there before the topic was enabled are rows, value by value."""
    sender.avro(V1, *(row_v1(n) for n in range(300)))
    sender.avro(V1, row_v1(1000), key=None, headers=[("a", b"1"), ("b", b"\x00\xff"), ("a", b"2")])
    yield FAST
    status = yield None, "running"
    check_rows(bench, sender)
    assert status.rows == 301
    assert status.next_offsets == status.end_offsets
    assert status.lag_seconds == 0
    assert [version["version"] for version in status.schema_versions] == [1]


@together(partitions=2)
def test_the_schema_evolves_while_running(bench: Workbench, sender: Sender) -> Story:
    """Fields are added at depth, a type widens, a field is relaxed; older and newer records mix."""
    sender.avro(V1, *(row_v1(n) for n in range(20)))
    yield FAST
    sender.avro(V2, *(row_v2(n) for n in range(20, 40)))
    yield None
    for number in range(40, 60):
        schema, row = (V1, row_v1(number)) if number % 2 else (V2, row_v2(number))
        sender.avro(schema, row)
    status = yield None
    rows = check_rows(bench, sender)
    # By the topic's own subject: other topics have registered the same schemas.
    assert [version["version"] for version in status.schema_versions] == [1, 2]
    older = next(row for row in rows.values() if row["id"] == 5)
    assert older["extra"] is None
    assert older["place"]["zip"] is None
    changes = [
        change
        for event in bench.events(sender.topic)
        if event.type == "SchemaEvolved" and event.cause and event.cause.version == 2
        for change in event.changes
    ]
    assert changes == [
        "relax name to optional",
        "widen count int → long",
        "add place.zip string",
        "add extra map<string, double>",
    ]


@pytest.mark.parametrize(
    "partition_by",
    [
        ["hour(at)"],
        ["bucket(4, id)", "truncate(name, 3)"],
        ["identity(place.city)", "bucket(note, 2)"],
        ["day(_kafka_metadata.timestamp)", "count"],
    ],
    ids=" ".join,
)
@together()
def test_partitioned_tables(bench: Workbench, sender: Sender, partition_by: list[str]) -> Story:
    """Files carry the partition values of exactly their rows, nulls included."""
    sender.avro(V1, *(row_v1(n * 997) for n in range(60)))
    yield {**FAST, "partition_by": partition_by}
    check_rows(bench, sender)
    table = bench.open_catalog().load_table(bench.table_of(sender.topic))
    assert len(table.spec().fields) == len(partition_by)
    check_partition_values(table)


def check_partition_values(table: Any) -> None:
    """Each file has, as its partition, what the spec makes of each of its rows."""
    for task in table.scan().plan_files():
        rows = _rows_of(table, task.file.file_path)
        for position, part in enumerate(table.spec().fields):
            source = table.schema().find_field(part.source_id)
            path = (table.schema().find_column_name(part.source_id) or "").split(".")
            transform = part.transform.transform(source.field_type)
            values = {transform(_iceberg(_at(row, path))) for row in rows}
            assert values == {task.file.partition[position]}


def _rows_of(table: Any, path: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return pq.read_table(path.removeprefix("file://")).to_pylist()


def _at(row: Any, path: list[str]) -> Any:
    for name in path:
        row = row[name]
    return row


def _iceberg(value: Any) -> Any:
    return int(value.timestamp() * 1_000_000) if isinstance(value, datetime) else value


@together()
def test_tombstones_are_rows_without_values(bench: Workbench, sender: Sender) -> Story:
    """A record without a value becomes a row of nulls, and required columns become optional for it."""
    sender.avro(V1, *(row_v1(n) for n in range(3)))
    sender.raw(None, key=b"gone")
    sender.flush()
    yield FAST
    rows = check_rows(bench, sender)
    (dead,) = [row for row in rows.values() if row["_kafka_key"] == b"gone"]
    assert all(value is None for name, value in dead.items() if not name.startswith("_kafka"))


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        (lambda _: b"not framed", "no_schema_id"),
        (lambda _: b"\x00\x00", "no_schema_id"),
        (lambda _: b"\x00\x7f\x00\x00\x01abc", "unknown_schema"),
        (lambda good: good[:-3], "offset 2"),
        (lambda good: good + b"\x00", "offset 2"),
    ],
)
@together()
def test_a_bad_record_stops_its_topic_and_loses_nothing(
    bench: Workbench, sender: Sender, spoiled: Callable[[bytes], bytes], reason: str
) -> Story:
    """With errors stop: the reason names the problem; the ledger stays before the batch; no row is lost."""
    sender.avro(V1, row_v1(0))
    yield {**FAST, "errors": "stop"}
    sender.avro(V1, row_v1(1))
    sender.raw(spoiled(sender.serialize(V1, row_v1(1))))
    sender.flush()
    status = yield None, "failed"
    assert reason in status.error
    assert status.next_offsets[0] <= 2
    rows = rows_by_offset(bench, sender.topic)
    assert set(rows) == {(0, offset) for offset in range(status.next_offsets[0])}


@together()
def test_transactions(bench: Workbench, sender: Sender) -> Story:
    """Aborted records are no rows, and the lag reaches 0 although control records end the topic."""
    producer = Producer(
        {
            "bootstrap.servers": sender.stack.bootstrap_servers,
            "transactional.id": sender.topic,
            "log_level": 0,
        }
    )
    producer.init_transactions()
    for number, keep in enumerate([True, False, True]):
        producer.begin_transaction()
        for place in range(5):
            producer.produce(sender.topic, sender.serialize(V1, row_v1(number * 10 + place)))
        producer.flush()  # what is aborted before it was sent never reaches the broker
        producer.commit_transaction() if keep else producer.abort_transaction()
    _wait(lambda: bench.broker.facts(sender.topic).end == {0: 18})  # the markers come after the answer
    status = yield FAST
    rows = rows_by_offset(bench, sender.topic)
    assert sorted(row["id"] for row in rows.values()) == [0, 1, 2, 3, 4, 20, 21, 22, 23, 24]
    assert status.end_offsets == {0: 18}


@together()
def test_an_open_transaction(bench: Workbench, sender: Sender) -> Story:
    """Status names the transaction that keeps records from the table, and how to end it; then it is gone."""
    properties = {"bootstrap.servers": sender.stack.bootstrap_servers, "log_level": 0}
    # Open for longer than other stories may take, with which this one waits.
    producer = Producer({**properties, "transactional.id": sender.topic, "transaction.timeout.ms": 900_000})
    producer.init_transactions()
    producer.begin_transaction()
    since = round(time.time()) - 3600  # the broker deletes records of more than a week
    producer.produce(sender.topic, sender.serialize(V1, row_v1(0)), timestamp=1000 * since)
    producer.flush()
    sender.avro(V1, row_v1(1))
    sender.flush()
    status = yield FAST
    _wait(lambda: bench.status(sender.topic)[0].delay is Delay.OPEN_TRANSACTION)
    (status,) = bench.status(sender.topic)
    assert (status.lag_records, status.waiting_records) == (0, 2)
    (opened,) = status.open_transactions
    assert (opened.partition, opened.offset, opened.since_ms) == (0, 0, 1000 * since)
    assert status.delay_reason is not None
    began = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert f"2 records wait behind an open transaction since {began}" in status.delay_reason
    abort = f"abort --topic {sender.topic} --partition 0 --start-offset 0"
    assert status.delay_reason.endswith(abort)
    producer.abort_transaction()
    _wait(lambda: bench.status(sender.topic)[0].end_offsets == {0: 3})
    status = bench.topic(sender.topic).wait(30)
    assert (status.waiting_records, status.open_transactions) == (0, [])
    assert [row["id"] for row in rows_by_offset(bench, sender.topic).values()] == [1]


def test_a_quiet_topic_makes_one_file_per_commit_and_empty_intervals_make_none(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """Small batches of many partitions share a file; without records there is no snapshot."""
    sender = new_topic(partitions=6)
    sender.register(V1)
    bench.enable(sender.topic, {"commit_interval_ms": "2s"})
    for burst in range(3):
        for partition in range(6):
            sender.raw(sender.serialize(V1, row_v1(burst)), row_v1(burst), partition=partition)
        sender.flush()
        caught_up(sender.topic)
    table = bench.open_catalog().load_table(bench.table_of(sender.topic))
    snapshots = [s for s in table.metadata.snapshots if s.summary["added-records"]]
    assert len(snapshots) >= 3
    # Of each batch: on a slow machine the records of a burst may be two.
    assert {e.files for e in bench.events(sender.topic) if e.type == "FilesStaged"} == {1}
    time.sleep(3)
    table.refresh()
    assert [s for s in table.metadata.snapshots if s.summary["added-records"]] == snapshots


def test_pause_resume_disable(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """Pausing commits what is staged; records sent meanwhile wait; disabling keeps the table."""
    sender = new_topic()
    sender.avro(V1, *(row_v1(n) for n in range(5)))
    bench.enable(sender.topic, {"commit_interval_ms": "1h"})
    _wait(lambda: bench.status(sender.topic)[0].staged_rows == 5)
    bench.pause(sender.topic)
    status = caught_up(sender.topic, state="paused")
    assert status.rows == 5
    sender.avro(V1, *(row_v1(n) for n in range(5, 9)))
    assert bench.status(sender.topic)[0].lag_records == 4
    assert bench.status(sender.topic)[0].lag_seconds > 0
    bench.resume(sender.topic)
    _wait(lambda: bench.status(sender.topic)[0].staged_rows == 4)
    table = bench.table_of(sender.topic)
    bench.disable(sender.topic)
    _wait(lambda: bench.open_catalog().load_table(table).scan().count() == 9)
    with pytest.raises(UsageError, match="not enabled"):
        bench.status(sender.topic)
    topic = bench.topic(sender.topic)
    done = topic.compact()  # in this process: nobody owns the table
    assert done is not None
    assert (done.files_before, done.files, done.rows, done.error) == (2, 1, 9, None)
    request = topic.ask_for_maintenance("expire")
    _wait(lambda: any(getattr(event, "request_id", "") == request.id for event in topic.events()))
    assert bench.open_catalog().load_table(table).scan().count() == 9


def test_settings_change_while_running(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """Enabling again with other settings applies them without a gap."""
    sender = new_topic()
    sender.avro(V1, *(row_v1(n) for n in range(5)))
    bench.enable(sender.topic, {"commit_interval_ms": "1h"})
    _wait(lambda: bench.status(sender.topic)[0].staged_rows == 5)
    bench.enable(sender.topic, FAST)
    sender.avro(V1, row_v1(9))
    caught_up(sender.topic)
    check_rows(bench, sender)


def test_partitions_added_later(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """Records of a partition that was added while running are read from its beginning."""
    sender = new_topic()
    sender.avro(V1, row_v1(1))
    bench.enable(sender.topic, FAST)
    caught_up(sender.topic)
    admin = AdminClient({"bootstrap.servers": sender.stack.bootstrap_servers})
    admin.create_partitions([NewPartitions(sender.topic, 3)])[sender.topic].result()
    _wait(lambda: len(bench.broker.facts(sender.topic).end) == 3)
    sender.look_again()
    for partition in range(3):
        sender.avro(V1, row_v1(partition), partition=partition)
    caught_up(sender.topic)
    check_rows(bench, sender)


@together()
def test_large_records(bench: Workbench, sender: Sender) -> Story:
    """Records near the broker's limit pass, small ones after them too."""
    sender.avro(V1, *({**row_v1(n), "name": "x" * 900_000} for n in range(40)))
    sender.avro(V1, *(row_v1(n) for n in range(100)))
    yield FAST
    check_rows(bench, sender)


def test_start_settings(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """A new table begins at the earliest record, at a time, or with what comes next."""
    senders = [new_topic() for _ in range(3)]
    for sender in senders:
        sender.avro(V1, row_v1(0))
    time.sleep(0.05)
    middle = int(time.time() * 1000)
    time.sleep(0.05)
    for sender in senders:
        sender.avro(V1, row_v1(1))
    for sender, start in zip(senders, ("latest", str(middle), "earliest"), strict=True):
        bench.enable(sender.topic, {**FAST, "start": start})
    for sender in senders:
        caught_up(sender.topic)
        sender.avro(V1, row_v1(2))
    for sender, expected in zip(senders, ({2}, {1, 2}, {0, 1, 2}), strict=True):
        caught_up(sender.topic)
        assert {row["id"] for row in rows_by_offset(bench, sender.topic).values()} == expected


@together()
def test_the_whole_value_in_one_column(bench: Workbench, sender: Sender) -> Story:
    """Transform none keeps the record in _kafka_value; other columns can be switched off."""
    sender.avro(V1, row_v1(4))
    yield {**FAST, "transform": "none", "metadata_columns": ["metadata"]}
    (row,) = rows_by_offset(bench, sender.topic).values()
    assert set(row) == {"_kafka_value", METADATA}
    assert row["_kafka_value"] == row_v1(4)


@together()
def test_a_value_that_is_no_record(bench: Workbench, sender: Sender) -> Story:
    """A schema that is no record fills one column."""
    sender.avro('"string"', "a", "b")
    yield {**FAST, "key_format": "string", "table": "Words"}
    assert bench.table_of(sender.topic) == "default.Words"
    rows = rows_by_offset(bench, sender.topic).values()
    assert [(row["_kafka_value"], row["_kafka_key"]) for row in rows] == [("a", "k"), ("b", "k")]


def test_a_foreign_commit_in_between(
    bench: Workbench, host: Host, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """Somebody else's snapshot neither breaks the ledger nor is it lost."""
    sender = new_topic()
    sender.avro(V1, row_v1(1))
    bench.enable(sender.topic, FAST)
    caught_up(sender.topic)
    table = bench.open_catalog().load_table(bench.table_of(sender.topic))
    table.append(table.scan().to_arrow())
    sender.avro(V1, row_v1(2))
    caught_up(sender.topic)
    found = bench.open_catalog().load_table(bench.table_of(sender.topic)).scan().to_arrow()["id"].to_pylist()
    assert sorted(found) == [1, 1, 2]


def test_a_killed_jvm_is_replaced(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """Spark's JVM dies alone: the host starts another and goes on, nothing is lost or doubled."""
    sender = new_topic()
    sender.avro(V1, *(row_v1(n) for n in range(10)))
    bench.enable(sender.topic, FAST)
    caught_up(sender.topic)
    bench.spark().sparkContext._gateway.proc.kill()
    sender.avro(V1, *(row_v1(n) for n in range(10, 20)))
    caught_up(sender.topic)
    check_rows(bench, sender)


def _wait(done: Callable[[], bool], timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)
