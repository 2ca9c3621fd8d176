"""Live reads: a table's snapshot and what is behind it, as one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from tabletopic_kernel.clients.kafka.broker import TopicFacts
from tabletopic_kernel.clients.registry.registry import RegisteredSchema
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    GapError,
    RetryableError,
    UnknownTopicError,
    UsageError,
)
from tabletopic_kernel.model.settings.sections import LiveSettings, TopicSettings
from tabletopic_kernel.query.answer import LiveRead
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.render.words import freshness
from tabletopic_kernel.table.schemas.covered import BATCH_PROPERTY
from tests.formats.test_types_page import SENT
from tests.pipeline.whole_path import avro_values
from tests.table.samples import FakeRegistry
from tests.workbench.live_histories import SCHEMAS, Life, play


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    """A topic with three records in its table and two behind it."""
    made = Life(tmp_path)
    values = avro_values(1, SCHEMAS[1], *({"n": n, "name": f"no. {n}"} for n in range(5)))
    for value in values[:3]:
        made.put(value)
    made.commit_all()
    for value in values[3:]:
        made.put(value)
    yield made
    made.lake.close()


def numbers(life: Life, sql: str = "SELECT n FROM clicks$live", **more: Any) -> list[Any]:
    """The first column of a query, in order."""
    return sorted(life.lake.query(sql, **more).rows.column(0).to_pylist())


def read(life: Life, **more: Any) -> LiveRead:
    """What a query says that it has read behind the table."""
    (table,) = life.lake.query("SELECT n FROM clicks", live=True, **more).tables
    assert table.live is not None
    return table.live


@pytest.mark.parametrize("seed", range(2))
def test_each_row_is_in_a_live_answer_once(tmp_path: Path, seed: int) -> None:
    """Whatever is sent, committed, evolved, deleted and rewritten, also between snapshot and end offsets."""
    play(tmp_path, seed)


@pytest.mark.integration
@pytest.mark.timeout(1800)
def test_80_histories(tmp_path: Path) -> None:
    """As above; ``python -m tests.workbench.live_histories 0 1000`` plays more."""
    for seed in range(100, 180):
        play(tmp_path, seed)


def test_settings_that_did_not_fill_the_table(life: Life) -> None:
    """Those at hand may make other columns, or show what the projection of a disabled topic hid."""
    life.enabled = False
    assert numbers(life) == [0, 1, 2, 3, 4]
    refused = r"clicks is not enabled.*write them into \[topics.clicks\]"
    life.settings = TopicSettings(transform="none")
    with pytest.raises(ActionNeededError, match=refused):
        read(life)
    life.settings = TopicSettings()
    table = life.keeper.needed_table().table
    batch = Schema(*(column for column in table.schema().fields if not column.name.startswith("_kafka_")))
    with table.transaction() as change:
        change.set_properties({BATCH_PROPERTY: batch.model_dump_json()})
    with pytest.raises(ActionNeededError, match=refused):
        read(life)
    life.settings = TopicSettings(projection="SELECT n FROM batch WHERE n <> 4")
    assert numbers(life) == [0, 1, 2, 3]


def test_columns_that_the_table_lacks(life: Life) -> None:
    """Records are rows without them: a field that became text, and Kafka's key where nobody keeps it."""
    life.settings = TopicSettings(on_incompatible="new_column")
    text = {**SCHEMAS[1], "fields": [{"name": "n", "type": "string"}, SCHEMAS[1]["fields"][1]]}
    life.registry.schemas[9] = json.dumps(text)
    life.put(avro_values(9, text, {"n": "nine", "name": "no. 9"})[0])
    with life.keeper.needed_table().table.update_schema() as change:
        change.delete_column("_kafka_key")
    rows = life.lake.sql("SELECT n, name FROM clicks$live WHERE n > 2 OR n IS NULL ORDER BY name")
    assert rows.to_pylist() == [{"n": n, "name": f"no. {n or 9}"} for n in (3, 4, None)]


def test_a_view_beside_the_table(life: Life) -> None:
    """``clicks$live`` has the records behind the table and ``clicks`` has not, by one snapshot."""
    assert numbers(life) == [0, 1, 2, 3, 4]
    assert numbers(life, "SELECT n FROM clicks") == [0, 1, 2]
    life.meanwhile = ["commit_all"]
    behind = "SELECT n FROM clicks$live EXCEPT SELECT n FROM clicks WHERE n < $most"
    answer = life.lake.query(behind, params={"most": 9})
    assert sorted(answer.rows["n"].to_pylist()) == [3, 4]
    assert [table.live is None for table in answer.tables] == [True, False]
    assert numbers(life, "SELECT n FROM clicks") == [0, 1, 2, 3, 4]


def test_a_statement_asks_for_end_offsets_once(life: Life) -> None:
    """A join of a live table with itself, under several names, reads one set of records."""
    life.asked.clear()
    others = 'JOIN lake."default".clicks b USING (n) JOIN "default"."clicks$live" USING (n)'
    sql = f"SELECT count(*) FROM clicks$live a {others}"
    assert life.lake.query(sql, live=True).rows.column(0).to_pylist() == [5]
    assert life.asked == ["clicks"]


class _TypesRegistry(FakeRegistry):
    def __init__(self, kind: str, text: str) -> None:
        super().__init__({7: text})
        self.kind = kind

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        return replace(super().by_id(schema_id), kind=self.kind)


@pytest.mark.parametrize("format_name", ["avro", "protobuf", "json_schema"])
def test_every_type_is_live_as_it_is_in_the_table(tmp_path: Path, format_name: str) -> None:
    """DuckDB has the same types and values before a record is committed and afterwards."""
    _, writer, record = SENT[format_name]()
    life = Life(tmp_path, registry=_TypesRegistry(writer.kind, writer.text))
    life.put(record)
    types = "SELECT column_name, column_type FROM (DESCRIBE clicks$live)"
    before, types_before = life.lake.sql("FROM clicks$live"), life.lake.sql(types)
    assert before.num_rows == 1
    life.commit_all()
    assert types_before.equals(life.lake.sql(types))
    assert str(before.to_pylist()) == str(life.lake.sql("FROM clicks").to_pylist())  # NaN, too
    life.put(record)
    assert types_before.equals(life.lake.sql(types))
    life.lake.close()


def test_records_whose_schema_the_registry_does_not_give_wait(life: Life) -> None:
    """They are left out and counted, and are rows as soon as it responds; known schemas are not asked for."""

    class _Away(FakeRegistry):
        def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
            raise RetryableError("the registry is away")

    assert numbers(life) == [0, 1, 2, 3, 4]
    life.put(avro_values(2, SCHEMAS[2], {"n": 2**40, "name": None, "extra": 1.5})[0])
    life.put(b"\x00\x00\x00\x00\x63garbage")
    there, away = dict(life.registry.schemas), _Away(dict(life.registry.schemas))
    life.registry.by_id = away.by_id  # type: ignore[method-assign]
    assert numbers(life) == [0, 1, 2, 3, 4]
    assert read(life).refused == {"waiting": 2}
    del life.registry.by_id  # type: ignore[method-assign]
    assert life.registry.schemas == there
    assert numbers(life) == [0, 1, 2, 3, 4, 2**40]
    assert read(life).refused == {"unknown_schema": 1}


def test_garbage_asks_the_registry_little(life: Life) -> None:
    """Of thousands of unknown schema ids a query looks up a few, the smallest."""
    asked: list[int] = []
    by_id = life.registry.by_id

    def counted(schema_id: int, subject: str = "") -> RegisteredSchema:
        asked.append(schema_id)
        return by_id(schema_id, subject)

    life.registry.by_id = counted  # type: ignore[method-assign]
    for schema_id in (*range(1000, 1500), 2):
        life.put(b"\x00" + schema_id.to_bytes(4, "big") + b"?")
    assert read(life).refused["waiting"] == 401
    assert 2 in asked
    assert len(asked) < 110


@pytest.mark.parametrize(
    ("limit", "live_to", "unread"),
    [({"records": 1}, 4, 21), ({"bytes": 1024**2}, 7, 18), ({"timeout_ms": 1_000}, 25, 0)],
)
def test_a_limit_ends_the_reading_and_is_said(
    tmp_path: Path, limit: dict[str, int], live_to: int, unread: int
) -> None:
    """The oldest records are read, and the answer says what was left out and why."""
    life = Life(tmp_path, limits=LiveSettings(**limit))
    values = avro_values(1, SCHEMAS[1], *({"n": n, "name": "x" * 300_000} for n in range(25)))
    for value in values[:3]:
        life.put(value)
    life.commit_all()
    for value in values[3:]:
        life.put(value)
    answer = life.lake.query("SELECT n FROM clicks", live=True)
    live = answer.tables[0].live
    assert live is not None
    assert (live.live_to[0], live.unread) == (live_to, unread)
    assert sorted(answer.rows["n"].to_pylist()) == list(range(live_to))
    (name,) = limit if unread else ("",)
    assert live.cut_by == name
    assert (f"; {unread} more are left out by [live] {name}" in freshness(answer.tables[0])) == bool(unread)
    life.lake.close()


def test_a_topic_that_was_deleted(life: Life) -> None:
    """Its table is as committed, and the answer says why; other tables of the statement are live."""
    (other,) = life.lake.query("SELECT n FROM clicks", live=True).tables
    assert other.live is not None

    def facts(topic: str) -> TopicFacts:
        raise UnknownTopicError(f"there is no topic {topic!r}")

    life.facts = facts  # type: ignore[method-assign]
    assert numbers(life) == [0, 1, 2]
    (table,) = life.lake.query("SELECT n FROM clicks", live=True).tables
    assert freshness(table).endswith("0 records; the table alone: there is no topic 'clicks'")


def test_what_is_said_of_an_answer(life: Life) -> None:
    """The offsets of table and topic, how many records were read, and what became of those without a row."""
    life.put(b"no schema id")
    life.put(None, partition=1)
    answer = life.lake.query("SELECT n FROM clicks", live=True)
    said = freshness(answer.tables[0])
    snapshot = answer.tables[0].snapshot_id
    begin = f"default.clicks: table to offset 3 + 0 of snapshot {snapshot}, live to 6 + 1, 4 records, newest "
    assert said.startswith(begin)
    assert said.endswith("; refused: 1 no_schema_id")


def test_a_log_that_was_cut_is_not_read_on(life: Life) -> None:
    """Another record where the last committed one was is an error, as when the topic starts."""
    life.log[0][2] = replace(life.log[0][2], timestamp_ms=5)
    with pytest.raises(ActionNeededError, match=r"cut after .* \(partition 0: another"):
        numbers(life)
    del life.log[0][2:]
    with pytest.raises(ActionNeededError, match="the table is ahead of clicks"):
        numbers(life)


def test_records_that_retention_deleted(life: Life) -> None:
    """A gap behind the table is an error, or passed over, as the settings say."""
    life.first = {0: 4, 1: 0}
    with pytest.raises(GapError, match="partition 0: 1 records from offset 3"):
        numbers(life)
    life.settings = life.settings.model_copy(update={"on_gap": "go_on"})
    assert numbers(life) == [0, 1, 2, 4]


def test_another_topic_is_not_read(life: Life) -> None:
    """A topic of the same name that was made anew has other records."""
    life.topic_id = "another"
    with pytest.raises(ActionNeededError, match="was re-created"):
        numbers(life)
    assert numbers(life, "FROM clicks") == [0, 1, 2]


def test_tables_of_nobody(life: Life) -> None:
    """A table that no topic fills is as committed in a live statement, and has no live view."""
    life.catalog.create_table("default.plain", pa.schema([("n", pa.int32())])).append(
        pa.table({"n": pa.array([1, 7], pa.int32())})
    )
    answer = life.lake.query("SELECT n FROM plain JOIN clicks USING (n)", live=True)
    assert answer.rows["n"].to_pylist() == [1]
    assert [table.live is None for table in answer.tables] == [False, True]
    with pytest.raises(UsageError, match=r"default\.plain is not filled by a topic"):
        numbers(life, "FROM plain$live")
    with pytest.raises(UsageError, match="there is no table nowhere"):
        numbers(life, "FROM nowhere$live")
    with pytest.raises(UsageError, match="begins at the newest snapshot"):
        numbers(life, at=1)
    alone = DuckLake(life.catalog)
    with pytest.raises(UsageError, match="use a workbench"):
        alone.sql("FROM clicks$live")
    alone.close()


def test_the_table_part_is_pruned_as_ever(life: Life) -> None:
    """Filters and columns of a query reach the scan of the table's files."""
    plan = life.lake.sql("EXPLAIN SELECT name FROM clicks$live WHERE n = 1").to_pylist()[0]["explain_value"]
    scan = plan[plan.index("ICEBERG_SCAN") :]
    assert "n=1" in scan
    assert "_kafka" not in plan
