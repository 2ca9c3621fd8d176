"""A drill on copies of a topic's own records."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, StructType

from tabletopic_kernel import drill
from tabletopic_kernel.drill.own_topic import OwnTopic, Record, judge_copies, read_own
from tabletopic_kernel.drill.schedule import GROUPS, OWN_FAULTS, OWN_STEPS, PROVOKED_BY, Fault
from tabletopic_kernel.drill.streams import Fate, Sent
from tabletopic_kernel.drill.verdict import TopicVerdict
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import Settings, TopicSettings
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.workbench import Workbench

PLACE = StructType(NestedField(4, "partition", IntegerType()), NestedField(5, "offset", LongType()))
SCHEMA = Schema(
    NestedField(1, "name", StringType()),
    NestedField(2, "size", DoubleType()),
    NestedField(3, "_kafka_metadata", PLACE),
)
LETTERS = Schema(NestedField(1, "partition", IntegerType()), NestedField(2, "offset", LongType()))
# Three records, sent three times: two rows, of which one has NaN; the last is a dead letter.
SENT = [Sent(0, offset, offset % 3, 1, Fate.UNSURE) for offset in range(9)]
VALUES = [{"name": "a", "size": float("nan")}, {"name": "b", "size": 1.5}]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A catalog of its own."""
    found = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    )
    found.create_namespace("default")
    return found


def rows() -> dict[int, dict[str, object]]:
    """Offset → the row of the copy at that offset."""
    return {one.offset: dict(VALUES[one.number]) for one in SENT if one.number < 2}


def judged(
    catalog: Catalog, rows: dict[int, dict[str, object]], letters: list[int], *, passed_over: int = 0
) -> TopicVerdict:
    """The findings in tables with these rows and letters."""
    summary = {
        "tabletopic.offsets": json.dumps({"0": 9}),
        "tabletopic.commit-id": "c",
        "tabletopic.epoch": "1",
        "tabletopic.passed-over": json.dumps({"tombstone": passed_over}),
    }
    data = [row | {"_kafka_metadata": {"partition": 0, "offset": offset}} for offset, row in rows.items()]
    table = catalog.create_table("default.t", SCHEMA)
    table.append(pa.Table.from_pylist(data, schema=SCHEMA.as_arrow()), snapshot_properties=summary)
    dead = [{"partition": 0, "offset": offset} for offset in letters]
    catalog.create_table("default.t__dead_letters", LETTERS).append(
        pa.Table.from_pylist(dead, schema=LETTERS.as_arrow())
    )
    return judge_copies(catalog, "default.t", "t", SENT, {0: 9}, (), TopicSettings())


def test_copies_that_became_the_same_are_well(catalog: Catalog) -> None:
    """NaN is like NaN, and a letter like a letter."""
    found = judged(catalog, rows(), [2, 5, 8])
    assert found.ok, found.differences
    assert (found.acknowledged, found.rows, found.letters) == (9, 6, 3)


def test_a_copy_that_is_gone_changed_or_elsewhere_is_told(catalog: Catalog) -> None:
    """Copy 3 is lost, copy 4 has another value, copy 8 became a row."""
    spoilt = rows() | {4: {"name": "b", "size": 2.5}, 8: {"name": "c", "size": 0.0}}
    del spoilt[3]
    found = judged(catalog, spoilt, [2, 5])
    assert (found.lost, found.changed, found.twice) == (1, 2, 0)
    assert "1 copies are lost: (0, 3)" in found.differences


@pytest.mark.parametrize(("passed_over", "ok"), [(3, True), (2, False)])
def test_copies_without_a_row_are_as_many_as_the_ledger_counts(
    catalog: Catalog, passed_over: int, ok: bool
) -> None:
    """One record asks for no row: each copy of it must be counted once."""
    kept = {offset: row for offset, row in rows().items() if row["name"] == "b"}
    assert judged(catalog, kept, [2, 5, 8], passed_over=passed_over).ok is ok


def test_nothing_happens_to_servers_that_are_not_the_drills() -> None:
    """The registry is the person's; its schemas stay, and no step waits for another one."""
    assert OWN_FAULTS.isdisjoint({Fault.KILL_REGISTRY, Fault.FREEZE_REGISTRY, *GROUPS["topics"]})
    assert {Fault.KILL_HOST, Fault.STOP_HOST, Fault.FREEZE_HOST} <= OWN_FAULTS
    assert not {PROVOKED_BY.get(step) for step in OWN_STEPS} - {
        Fault.ALTER,
        Fault.COMPACT,
        Fault.EXPIRE,
        None,
    }


def test_hosts_get_the_registry_with_its_login(tmp_path: Path) -> None:
    """By a file that nobody else can read."""
    registry = {"url": "http://reg:8081", "basic.auth.user.info": 'me:"\\ü'}
    own = OwnTopic("t", 1, (Record(None, b"1", []),), {}, registry)
    file = own.write_settings(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = load_settings(environ={"TABLETOPIC_CONFIG": str(file)}, cwd=tmp_path)
    assert found.settings.registry == registry
    assert "me:" not in repr(own)


@pytest.mark.integration
@pytest.mark.timeout(2_400)
def test_the_drill_on_ones_own_topic_only_reads_it(stack: StackInfo, tmp_path: Path) -> None:
    """Hosts die over the copies; the topic, the registry and the tables of the person are as before."""
    workbench = Workbench(Settings(state_dir=str(stack.state_dir)))
    workbench.broker.ensure_topic("mine", 2, {})
    with pytest.raises(UsageError, match="no record"):
        read_own(workbench, "mine", 10)
    producer = Producer(workbench.servers.kafka)
    for number in range(60):
        value = b"no JSON" if number % 20 == 7 else json.dumps({"id": number, "name": f"n {number}"}).encode()
        producer.produce("mine", value, b"key", headers=[("trace", b"1")])
    producer.flush()
    workbench.enable("mine", {"value_format": "json", "metadata_columns": ["key"]})
    before = (workbench.broker.end_offsets(["mine"]), workbench.desired_topics(), workbench.registry.check())
    own = read_own(workbench, "mine", 50)
    assert len(own.records) == 50
    assert own.settings["metadata_columns"] == ("key", "metadata")
    told: list[str] = []
    outcome = drill.run(seed=4, rounds=3, heavy=0.3, own=own, state_dir=tmp_path / "drill", say=told.append)
    assert outcome.ok, "\n".join([*told, *outcome.problems, *map(str, outcome.verdicts)])
    (verdict,) = outcome.verdicts
    assert verdict.acknowledged > len(own.records)
    assert verdict.rows + verdict.letters == verdict.acknowledged
    assert verdict.letters
    assert outcome.rounds == 3
    assert (
        workbench.broker.end_offsets(["mine"]),
        workbench.desired_topics(),
        workbench.registry.check(),
    ) == before
    assert not workbench.catalog.table_exists("default.mine")
