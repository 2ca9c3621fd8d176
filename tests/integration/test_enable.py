"""Switching topics on: when, with what, and what is refused."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tabletopic_kernel.faces.operations import runs, topics
from tabletopic_kernel.host.topics import standing_patterns
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender, rows_by_offset
from tests.integration.rows import FAST, V1, check_rows, row_v1
from tests.integration.together import Story, together

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]


@together()
def test_enabling_before_the_first_schema(bench: Workbench, sender: Sender) -> Story:
    """Without a schema in the registry the table is made with the first record."""
    yield FAST, "running"
    assert bench.status(sender.topic)[0].snapshot_id is None
    sender.avro(V1, row_v1(1), row_v1(2))
    yield None
    check_rows(bench, sender)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"partition_by": ["week(at)"]}, "not a transform"),
        ({"partition_by": ["hour(nowhere)"]}, "no column 'nowhere'"),
        ({"commit_interval_ms": "soon"}, "allowed: 100ms to 1h"),
        ({"commit_interval": "5s"}, "commit_interval"),
        ({"start": "yesterday"}, "is not a start"),
    ],
)
def test_a_wrong_enable_leaves_nothing(
    bench: Workbench, new_topic: Callable[..., Sender], given: dict[str, Any], told: str
) -> None:
    """Bad settings are refused before anything is written or created."""
    sender = new_topic()
    sender.avro(V1, row_v1(1))
    with pytest.raises(UsageError, match=told):
        bench.enable(sender.topic, given)
    assert sender.topic not in bench.desired_topics()
    assert not bench.catalog.table_exists(f"default.{sender.topic}")


@pytest.mark.parametrize("name", ["__consumer_offsets", "__tabletopic.settings", "_schemas", "no'such", ".."])
def test_topics_that_can_be_no_table_topics_are_refused(bench: Workbench, name: str) -> None:
    """Internal topics, and names that Kafka cannot have: in every call that would switch one on."""
    for ask in (bench.enable, bench.plan):
        with pytest.raises(UsageError, match=r"cannot be a table topic|not a valid topic name"):
            ask(name)
    assert name not in bench.kafka_topics()
    assert name not in bench.desired_topics()


def test_the_broker_tells_its_internal_topics(bench: Workbench, new_topic: Callable[..., Sender]) -> None:
    """The flag is read where the broker has one: some consumer's group has made that topic by now."""
    bench.hosts()
    sender = new_topic()
    sender.raw(b"x")
    sender.flush()
    bench.topic(sender.topic).peek(1)
    assert bench.broker.facts("__consumer_offsets").internal
    assert not bench.broker.facts(sender.topic).internal


def test_a_plan_sees_json_where_ids_are_expected(bench: Workbench, new_topic: Callable[..., Sender]) -> None:
    """The newest record is looked at before there is a table, whatever its format."""
    sender = new_topic()
    sender.raw(b'{"a": 1}')
    sender.flush()
    notes = bench.plan(sender.topic).notes
    assert any("value_format = json" in note for note in notes), notes
    assert not any("newest record" in one for one in bench.plan(sender.topic, {"value_format": "json"}).notes)


def test_a_pattern_enables_topics_as_they_come(
    bench: Workbench,
    new_topic: Callable[..., Sender],
    caught_up: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They fill their tables; one that is disabled stays so, and one that cannot be enabled is an event."""
    monkeypatch.setattr(standing_patterns, "LOOK_S", 0.2)
    shop = f"s{uuid.uuid4().hex[:8]}"

    def wait_until(is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + 120
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    bench.catalog.create_namespace_if_not_exists("default")
    bench.catalog.create_table(f"default.{shop}_foreign", pa.schema([("x", pa.int64())]))
    topics.enable(bench, f"{shop}.*", FAST, "*.test", yes=True, standing=True)
    carts, foreign, _ = (new_topic(name=f"{shop}{end}").topic for end in (".carts", ".foreign", ".test"))
    wait_until(lambda: carts in bench.desired_topics())
    wait_until(lambda: [event.type for event in bench.newest_events(foreign)] == ["EnableRefused"])
    bench.disable(carts)
    bills = new_topic(name=f"{shop}.bills")
    bills.avro(V1, row_v1(1))
    wait_until(lambda: bills.topic in bench.desired_topics())
    caught_up(bills.topic)
    check_rows(bench, bills)
    (pattern,) = runs.patterns(bench)
    assert (pattern.enabled, pattern.disabled, pattern.others) == ([bills.topic], [carts], [foreign])
    runs.forget(bench, f"{shop}.*")


def test_a_missing_topic_and_a_foreign_table(bench: Workbench, new_topic: Callable[..., Sender]) -> None:
    """A topic must exist; a table that is somebody else's is never touched."""
    with pytest.raises(UsageError, match="there is no topic 'nowhere'"):
        bench.enable("nowhere")
    sender = new_topic()
    sender.avro(V1, row_v1(1))
    bench.catalog.create_namespace_if_not_exists("foreign")
    bench.catalog.create_table(f"foreign.{sender.topic}", pa.schema([("x", pa.int64())]))
    with pytest.raises(UsageError, match="was not created by a table topic"):
        bench.enable(sender.topic, {"namespace": "foreign"})
    assert sender.topic not in bench.desired_topics()


def test_enabling_again_may_change_partitions(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """Partitions that are named take the place of the table's; without any named, it keeps its own."""

    def partitions() -> list[str]:
        table = bench.open_catalog().load_table(bench.table_of(sender.topic))
        return [str(field.transform) for field in table.spec().fields]

    sender = new_topic()
    sender.avro(V1, row_v1(1))
    bench.enable(sender.topic, {**FAST, "partition_by": ["day(at)"]})
    caught_up(sender.topic)
    with pytest.raises(UsageError, match="no column 'nope'"):
        bench.enable(sender.topic, {**FAST, "partition_by": ["hour(nope)"]})
    bench.enable(sender.topic, {**FAST, "partition_by": ["hour(at)"]})
    deadline = time.monotonic() + 240
    while partitions() != ["hour"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    bench.enable(sender.topic, FAST)
    sender.avro(V1, row_v1(2))
    caught_up(sender.topic)
    assert partitions() == ["hour"]
    assert len(rows_by_offset(bench, sender.topic)) == 2


@together()
def test_settings_that_shape_the_columns_stay(bench: Workbench, sender: Sender) -> Story:
    """A table does not get other columns by enabling again: that is refused, with what to do."""
    sender.avro(V1, row_v1(1))
    now = {**FAST, "metadata_columns": ["key", "metadata"]}
    yield now
    for other in (
        {"metadata_columns": ["key", "header", "metadata"]},
        {"transform": "none"},
        {"key_format": "string"},
    ):
        with pytest.raises(UsageError, match="another --table"):
            bench.enable(sender.topic, {**now, **other})
