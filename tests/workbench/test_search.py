"""Searches for records: what they find and in which order, and how far they looked."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pytest

from tabletopic_kernel.clients.kafka.broker import Broker, TopicFacts
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.source import SOURCE_SCHEMA, KafkaRanges
from tabletopic_kernel.workbench.peek.search import Records, follow, look
from tabletopic_kernel.workbench.peek.wanted import Bounds, Search
from tests.pipeline.whole_path import avro_values
from tests.table.test_foreign_schemas import FIRST
from tests.workbench.test_peek import KEY, registry

JSON = {"value_format": "json"}


class Log:
    """A topic's records, by partition; a broker that has them."""

    properties: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, *partitions: list[dict[str, Any]], first: int = 0) -> None:
        self.partitions, self.first = partitions, first

    def facts(self, topic: str) -> TopicFacts:
        """Its offsets."""
        ends = {p: len(records) for p, records in enumerate(self.partitions)}
        return TopicFacts(topic, "cluster", "id", dict.fromkeys(ends, self.first), ends)

    def end_offsets(self, topics: list[str]) -> dict[str, dict[int, int]]:
        """Of the topic."""
        return {topics[0]: self.facts("t").end}

    def offsets_at(self, _: str, partitions: list[int], at_ms: int) -> dict[int, int]:
        """By the records' times."""
        stamps = {p: [partition["timestamp"] for partition in self.partitions[p]] for p in partitions}
        return {p: sum(stamp < at_ms * 1000 for stamp in of_one) for p, of_one in stamps.items()}

    def read(self, batch: Any) -> Iterator[pa.RecordBatch]:
        """The records of a range; some offsets have none."""
        for p, start in batch.start.items():
            assert self.first <= start <= batch.end[p] <= len(self.partitions[p])
            rows = [
                {"partition": p, "offset": at, "key": b"k", **self.partitions[p][at]}
                for at in range(start, batch.end[p])
                if "gap" not in self.partitions[p][at]
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources read the log that is their properties."""
    monkeypatch.setattr(
        KafkaRanges, "read", lambda source, batch: cast(Any, source.properties).log.read(batch)
    )


def found(log: Log, bounds: Bounds | None = None, settings: Any = None, **wanted: Any) -> Records:
    """The records of a search."""
    log.properties = type("Properties", (dict,), {"log": log})()
    broker, known = cast(Broker, log), cast(Registry, registry())
    return look(
        "clicks", TopicSettings(**(settings or JSON)), broker, known, Search(**wanted), bounds or Bounds()
    )


def at(records: list[Any]) -> list[tuple[int, int]]:
    """Their places."""
    return [(record.partition, record.offset) for record in records]


def number(n: int, time: int | None = None, **more: Any) -> dict[str, Any]:
    """A record with a number."""
    return {"value": json.dumps({"n": n}).encode(), "timestamp": n if time is None else time, **more}


LOG = Log([number(n) for n in range(0, 20, 2)], [number(n) for n in range(1, 21, 2)])
ORDERS: list[tuple[dict[str, Any], list[tuple[int, int]]]] = [
    ({"limit": 3}, [(1, 9), (0, 9), (1, 8)]),
    ({"limit": 3, "start": "oldest"}, [(0, 0), (1, 0), (0, 1)]),
    ({"limit": 3, "start": "8"}, [(0, 8), (1, 8), (0, 9)]),
    ({"limit": 3, "start": "0:9,1:7"}, [(1, 7), (1, 8), (0, 9)]),
    ({"limit": 2, "before": "5"}, [(1, 4), (0, 4)]),
    ({"limit": 9, "partition": 1, "start": "8"}, [(1, 8), (1, 9)]),
    ({"limit": 2, "at": "1970-01-01T00:00:00"}, [(0, 0), (1, 0)]),
    ({"limit": 2, "where": "n % 7 = 0"}, [(0, 7), (1, 3)]),
    ({"limit": 2, "where": "n % 7 = 0", "start": "oldest"}, [(0, 0), (1, 3)]),
    ({"where": "_kafka_metadata.offset = 4 AND _kafka_metadata.partition = 1"}, [(1, 4)]),
    ({"where": "false"}, []),
]


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize(("wanted", "places"), ORDERS, ids=str)
def test_places_and_orders(wanted: dict[str, Any], places: list[tuple[int, int]]) -> None:
    """By time across partitions, by offset within one."""
    assert at(found(LOG, **wanted)) == places


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize("seed", range(8))
def test_what_a_search_leaves_out_the_next_one_finds(seed: int) -> None:
    """Whatever ends each, together they give every matching record once, in the order of each partition."""
    chance = random.Random(seed)
    log = Log(
        *(
            [number(chance.randrange(9), chance.randrange(50), **{"gap": 1} if chance.random() < 0.2 else {})
             for _ in range(chance.randrange(40))]
            for _ in range(3)
        )
    )  # fmt: skip
    bounds = Bounds(records=chance.choice([1, 7, 1000]))
    wanted = {"start": chance.choice(["newest", "oldest"]), "limit": chance.randint(1, 9), "where": "n < 5"}
    looked, records = 0, list[Any]()
    while wanted:
        part = found(log, bounds, **wanted)
        records += part
        looked += part.looked.looked
        wanted = vars(part.looked.go_on) if part.looked.go_on else {}
        assert bool(part.looked.cut_by) == bool(wanted)
    assert looked == sum(map(len, log.partitions))
    for p, of_one in enumerate(log.partitions):
        match = [n for n, one in enumerate(of_one) if "gap" not in one and json.loads(one["value"])["n"] < 5]
        places = [offset for partition, offset in at(records) if partition == p]
        assert (places if places == sorted(places) else places[::-1]) == match


@pytest.mark.usefixtures("read")
def test_how_far_it_looked() -> None:
    """Bounds, and places outside the log, are in the answer, with the command that goes on."""
    records = found(LOG, Bounds(records=4), start="oldest", where="n > 100 -- '", limit=5)
    looked = records.looked
    assert (looked.looked, looked.records, looked.cut_by) == (4, 20, "records")
    assert looked.ranges == {0: (0, 2), 1: (0, 2)}
    assert (
        looked.command("clicks")
        == """tabletopic peek clicks --from 0:2,1:2 --where 'n > 100 -- '"'"'' -n 5"""
    )
    assert found(LOG, Bounds(bytes=1), where="false", limit=1).looked.cut_by == "bytes"
    assert found(LOG, Bounds(seconds=0), where="false").looked.cut_by == "seconds"
    late = Log([number(n) for n in range(9)], first=5)
    for start, note in (("2", "partition 0 begins at offset 5"), ("99", "partition 0 ends at offset 9")):
        assert found(late, start=start).looked.notes == (note,)
    assert at(found(late, start="2", limit=1)) == [(0, 5)]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"partition": 7}, "clicks has no partition 7; it has 0 to 1"),
    (
        {"start": "soon"},
        "'soon' is no place in a topic: write newest, oldest, an offset, or PARTITION:OFFSET,…",
    ),
    ({"before": "newest"}, "'newest' is no place in a topic: write an offset"),
    ({"start": "-1"}, "'-1' is no place"),
    ({"at": "noon"}, "'noon' is no time"),
    ({"at": "2026-01-01", "start": "3"}, "at a time or at an offset"),
    ({"where": "m = 1"}, 'column "m" not found'),
    ({"where": "hit"}, 'column "hit" not found'),
    ({"where": "n ="}, "syntax error"),
    ({"where": "n = 'x'"}, "it fails on a record"),
    ({"where": "true) UNION SELECT (1"}, "it must be one condition. Write"),
    ({"where": "n IN (SELECT 1)"}, "a subquery is not allowed. Write"),
    ({"where": "true) LIMIT (1"}, "it has LIMIT"),
    ({"where": "read_text('/etc/passwd') = ''"}, "read_text"),
    ({"where": "n IN (FROM read_csv('/etc/passwd'))"}, "a subquery is not allowed"),
    ({"where": "1; SET enable_external_access = true"}, "syntax error"),
    ({"where": "current_setting('threads') = ''"}, "reads data outside the record"),
    ({"where": "getenv('HOME') = ''"}, "getenv"),
    ({"where": "sum(n) > 1"}, "combines rows"),
]


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize(("wanted", "message"), WRONG, ids=str)
def test_wrong_searches(wanted: dict[str, Any], message: str) -> None:
    """Each says what is wrong; SQL reads nothing but the records, and changes nothing."""
    with pytest.raises(UsageError) as error:
        found(LOG, **wanted)
    assert message in str(error.value)


OLD = json.dumps({"n": 1, "s": {"a": ["x"]}}).encode()
MIXED = Log(
    [
        {"value": OLD, "key": b"a\n<b>"},
        {"value": b"poison", "key": b"\xff"},
        {"value": None, "key": None},
        {"value": json.dumps({"n": 2, "note": "x" * 9_000_000}).encode()},
        {"value": b'{"n": 3}', "headers": [{"key": "trace", "value": b"7"}]},
    ]
)
CONDITIONS: list[tuple[dict[str, Any], list[int]]] = [
    ({"key": "a\n<b>"}, [0]),
    ({"key": "\udcff"}, [1]),  # a byte that is not UTF-8, as a shell gives it
    ({"key": "k", "where": "n > 2"}, [4]),
    ({"where": "_kafka_key = 'k'"}, [3, 4]),
    ({"where": "_kafka_key IS NULL"}, [2]),
    ({"where": "_kafka_error LIKE 'json_syntax%'"}, [1]),
    ({"where": "n IS NULL"}, [1, 2]),
    ({"where": "s.a[1] = 'x'"}, [0]),
    ({"where": "length(note) = 9000000"}, [3]),
    ({"where": "_kafka_header[1].value = '7'::BLOB"}, [4]),
    ({"where": "_kafka_metadata.offset BETWEEN 1 AND 2"}, [1, 2]),
    ({"where": "N = 1 -- the first"}, [0]),
]


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize(("wanted", "offsets"), CONDITIONS, ids=str)
def test_conditions(wanted: dict[str, Any], offsets: list[int]) -> None:
    """On values of several forms, poison, records without a value, keys, headers and places."""
    records = found(MIXED, start="oldest", **wanted)
    assert [record.offset for record in records] == offsets
    assert [one.headers for one in records if one.offset == 4] in ([], [MIXED.partitions[0][4]["headers"]])


@pytest.mark.usefixtures("read")
def test_typed_keys_and_schemas() -> None:
    """A key is what its schema says; a column that a registered schema has is no mistake."""
    values = [avro_values(1, FIRST, {"id": n})[0] for n in range(3)]
    keys = [avro_values(3, KEY, {"user": n})[0] for n in (5, 6, 5)]
    log = Log([{"value": v, "key": k} for v, k in zip(values, keys, strict=True)] + [{"value": prefix(77)}])
    typed = {"key_format": "by_schema_id"}
    assert at(found(log, settings=typed, key="5")) == [(0, 2), (0, 0)]
    assert at(found(log, settings=typed, where="_kafka_key = 6 OR id = 0")) == [(0, 1), (0, 0)]
    assert at(found(log, where="id > 1", settings=typed)) == [(0, 2)]
    (text,) = avro_values(5, cast(Any, "string"), cast(Any, "a"))
    log.partitions[0][0]["key"] = text
    assert at(found(log, settings=typed, key="5")) == [(0, 2)]


@pytest.mark.usefixtures("read")
def test_records_as_they_come() -> None:
    """From now on, or from a place; what matches comes once."""
    log = Log([number(n) for n in range(5)])
    log.properties = type("Properties", (dict,), {"log": log})()
    rounds = iter(range(5))

    def going() -> bool:
        return next(rounds, None) is not None

    def later() -> None:
        log.partitions[0].extend(number(n) for n in (5, 6, 7))

    broker, known = cast(Broker, log), cast(Registry, registry())
    wanted = Search(where="n <> 6")
    groups = list(follow("clicks", TopicSettings(**JSON), broker, known, wanted, going, later))
    assert at(groups[0]) == [(0, 5), (0, 7)]
    rounds = iter(range(1))
    (all_of_them,) = follow("clicks", TopicSettings(**JSON), broker, known, Search(start="3"), going, later)
    assert at(all_of_them)[:2] == [(0, 3), (0, 4)]


@pytest.mark.usefixtures("read")
def test_records_of_a_topic_that_is_created_again() -> None:
    """Its offsets begin again: from then on its records come."""
    log = Log([number(n) for n in range(5)])
    log.properties = type("Properties", (dict,), {"log": log})()
    rounds, changes = iter(range(4)), iter((0, 2, 3))

    def going() -> bool:
        return next(rounds, None) is not None

    def later() -> None:
        log.partitions[0][:] = [number(n) for n in range(next(changes))]

    broker, known = cast(Broker, log), cast(Registry, registry())
    groups = list(follow("clicks", TopicSettings(**JSON), broker, known, Search(), going, later))
    assert [at(group) for group in groups] == [[(0, 0), (0, 1)]]
