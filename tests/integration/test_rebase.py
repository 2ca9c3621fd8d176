"""A topic moves to another cluster: its table goes on with the copy, without a duplicate or a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.faces.operations import BY_NAME
from tabletopic_kernel.host.host import Host
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender
from tests.integration.rows import FAST, V1, row_v1
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration

PARTITIONS = 3
OLD_MS = 1_600_000_000_000  # of records in the copy's partitions before those that were copied


@pytest.fixture(scope="module")
def there(stack: StackInfo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """A workbench on another cluster, with the same registry and catalog."""
    local = LocalStack(tmp_path_factory.mktemp("there"), servers=("kafka",))
    info = local.up(die_with_parent=True)
    yield Workbench(
        Settings(
            state_dir=str(info.state_dir),
            kafka={"bootstrap.servers": info.bootstrap_servers},
            registry={"url": stack.registry_url},
            catalog=stack.catalog,
        )
    )
    local.down()


@pytest.fixture
def host_there(there: Workbench) -> Iterator[Host]:
    """A host of the other cluster, in this process."""
    running = there.host()
    running.start()
    yield running
    running.stop()


@pytest.fixture
def moving(bench: Workbench, host: Host, new_topic: Callable[..., Sender], caught_up: Any) -> Sender:
    """A topic whose 60 records are rows; partition 2 ends with the marker of a transaction."""
    sender = new_topic(PARTITIONS)
    for number in range(60):
        sender.raw(sender.serialize(V1, row_v1(number)), row_v1(number), partition=number % 2)
    sender.flush()
    producer = Producer(
        {
            "bootstrap.servers": sender.stack.bootstrap_servers,
            "transactional.id": sender.topic,
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(60, 65):
        producer.produce(sender.topic, sender.serialize(V1, row_v1(number)), key=b"t", partition=2)
    producer.commit_transaction(60)
    bench.enable(sender.topic, FAST)
    caught_up(sender.topic)
    return sender


def copy(
    there: Workbench,
    sender: Sender,
    *,
    partitions: int = PARTITIONS,
    also: int | None = None,
    times: int = 1,
    keep: Callable[[Message], bool] = lambda _: True,
    change: Callable[[Message], bytes | None] = lambda record: record.value(),
) -> None:
    """Like MirrorMaker: the records with their partition and time, behind others that are there already."""
    here = {"bootstrap.servers": sender.stack.bootstrap_servers}
    facts = Broker(here).facts(sender.topic)
    there.broker.ensure_topic(sender.topic, partitions, {})
    producer = Producer({**there.broker.properties, "log_level": 0})
    for partition in range(partitions):
        for number in range(7 * partition):  # each partition's offsets are shifted by others
            old = sender.serialize(V1, row_v1(-number))
            producer.produce(sender.topic, old, partition=partition, timestamp=OLD_MS + number)
    with Reader(here, "copier") as reader:
        for records in [*reader.read_range(sender.topic, facts.first, facts.end)] * times:
            for record in filter(keep, records):
                producer.produce(
                    sender.topic,
                    change(record),
                    record.key(),
                    partition=record.partition() or 0,
                    timestamp=record.timestamp()[1],
                    headers=record.headers(),
                )
    if also is not None:  # a record of the copy's own
        producer.produce(sender.topic, sender.serialize(V1, row_v1(-1)), partition=also)
    assert producer.flush(60) == 0


def ids(bench: Workbench, topic: str) -> list[int]:
    """The ids of all rows."""
    table = bench.open_catalog().load_table(bench.table_of(topic))
    return sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def ledger_of(bench: Workbench, topic: str) -> Ledger:
    """The table's."""
    head = bench.open_catalog().load_table(bench.table_of(topic)).metadata.current_snapshot()
    assert head is not None
    assert head.summary is not None
    ledger = Ledger.from_summary(head.summary.additional_properties)
    assert ledger is not None
    return ledger


def error_of(bench: Workbench, topic: str) -> str:
    """Why the topic has failed, once it has."""
    wait_until("it fails", lambda: bench.status(topic)[0].state == "failed")
    return str(bench.status(topic)[0].error)


def test_a_table_goes_on_with_a_copy(
    bench: Workbench, there: Workbench, host_there: Host, moving: Sender
) -> None:
    """Each record is a row once, those of the copy alone included; the former cluster's host stops."""
    topic = moving.topic
    copy(there, moving)
    there.enable(topic, FAST)
    why = error_of(there, topic)
    assert "is on another cluster" in why
    assert f"`tabletopic rebase {topic}`" in why

    before = ledger_of(there, topic)
    planned = BY_NAME["rebase"](there, topic)
    assert ledger_of(there, topic) == before
    assert [(move.before, move.after, move.compared) for move in planned.partitions] == [
        (30, 30, 30),
        (30, 37, 30),
        (6, 19, 5),
    ]
    assert [move.without_rows for move in planned.partitions] == [0, 0, 1]
    done = BY_NAME["rebase"](there, topic, yes=True)
    assert (done.partitions, done.done) == (planned.partitions, True)
    after = ledger_of(there, topic)
    assert (after.cluster_id, after.commits) == (there.broker.cluster_id(), before.commits)
    with pytest.raises(UsageError, match="nothing to rebase"):
        there.topic(topic).rebase()

    moving.avro(V1, row_v1(900))  # at the former cluster, whose host may not commit any more
    assert "is on another cluster" in error_of(bench, topic)
    there.resume(topic)
    more = Sender(
        SimpleNamespace(  # type: ignore[arg-type]
            bootstrap_servers=there.servers.kafka["bootstrap.servers"], registry_url=moving.stack.registry_url
        ),
        topic,
    )
    more.avro(V1, *map(row_v1, range(100, 130)))
    more.registry.close()
    there.topic(topic).wait(120)
    assert ids(there, topic) == [*range(65), *range(100, 130)]
    there.disable(topic)


def without(partition: int, offset: int) -> dict[str, Any]:
    """A copy that lacks one record."""
    return {"keep": lambda record: (record.partition(), record.offset()) != (partition, offset)}


def emptied(record: Message) -> bytes | None:
    """One record loses its value."""
    return None if record.offset() == 29 else record.value()


NO_COPIES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"partitions": 4, "also": 3}, "has 4 on this cluster"),
    ({"partitions": 2, "keep": lambda record: record.partition() < 2}, "has 2 on this cluster"),
    (without(1, 20), "newest 9 are there, .* offset 20 of the table"),
    (without(0, 29), "newest 0 are there, .* offset 29 of the table"),
    ({"change": emptied}, "newest 0 are there, .* offset 29 of the table"),
    ({"times": 2}, "its last record is there more than once"),
)


def test_what_is_no_copy(bench: Workbench, there: Workbench, moving: Sender) -> None:
    """Other partitions, or other last records: nothing is changed, and the difference is named."""
    before, topic = ledger_of(bench, moving.topic), there.topic(moving.topic)
    for what, why in NO_COPIES:
        copy(there, moving, **what)
        with pytest.raises(ActionNeededError, match=why):
            topic.rebase()
        there.broker.admin.delete_topics([topic.name])[topic.name].result(30)
        wait_until("it is gone", lambda: topic.name not in there.broker.topics())
    assert ledger_of(bench, moving.topic) == before
    with pytest.raises(UsageError, match="nothing to rebase"):
        bench.topic(moving.topic).rebase()
