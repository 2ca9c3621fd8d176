"""Bad records on the real broker, registry, Spark and catalog: kept, explained, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema

from tabletopic_kernel.model.dead_letter import SUFFIX
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import METADATA, Sender, dead_letters_by_offset, rows_by_offset
from tests.integration.rows import FAST, V1, field, record, row_v1
from tests.integration.together import Story, together
from tests.recovery.waiting import wait_until

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]
INT, TEXT = record(field("a", "int")), record(field("a", "string"))
UNKNOWN = b"\x00\x7f\x00\x00\x01abc"


@together(partitions=2)
def test_bad_records_of_every_kind_become_letters(bench: Workbench, sender: Sender) -> Story:
    """Good neighbours are rows; letters keep the whole record; counts are in status, ledger and events."""
    good = sender.serialize(V1, row_v1(1))
    headers = [("a", b"1"), ("a", b"\x00\xff"), ("b", b"")]
    bad = {
        b"not framed": "no_schema_id",
        b"\x00\x00": "no_schema_id",
        UNKNOWN: "unknown_schema",
        good[:-3]: "avro",
        good + b"\x00": "avro",
    }
    for number, data in enumerate(bad):
        sender.avro(V1, row_v1(number), row_v1(number + 100))
        sender.raw(data, key=None, headers=headers)
    sender.flush()
    yield FAST
    sender.avro(V1, row_v1(1000))
    sender.raw(UNKNOWN, b"again")
    sender.flush()
    status = yield None
    rows, dead_letters = rows_by_offset(bench, sender.topic), dead_letters_by_offset(bench, sender.topic)
    sent_by_offset = {(sent.partition, sent.offset): sent for sent in sender.sent}
    assert rows.keys() | dead_letters.keys() == sent_by_offset.keys()
    assert not rows.keys() & dead_letters.keys()
    assert len(dead_letters) == len(bad) + 1
    for position, letter in dead_letters.items():
        if letter["key"] is None:
            assert bad[letter["value"]] in letter["reason"]
            assert [(one["key"], one["value"]) for one in letter["headers"]] == headers
        assert letter["topic"] == sender.topic
        assert round(letter["timestamp"].timestamp() * 1000) == sent_by_offset[position].timestamp_ms
        assert letter["message"]
    counts = Counter(letter["reason"] for letter in dead_letters.values())
    assert status.state in ("running", "staged", "committing")
    assert (status.refused, status.dead_letters) == (dict(counts), len(dead_letters))
    told: Counter[str] = Counter()
    for event in bench.events(sender.topic):
        if event.type == "DeadLettered":
            told.update(event.counts)
    assert told == counts
    bench.compact(sender.topic)
    wait_until("letters are in one file", lambda: _letter_files(bench, sender.topic) == 1)
    assert dead_letters_by_offset(bench, sender.topic) == dead_letters


def _letter_files(bench: Workbench, topic: str) -> int:
    table = bench.open_catalog().load_table(bench.table_of(topic) + SUFFIX)
    return len(list(table.scan().plan_files()))


def test_a_schema_that_is_registered_later_is_found(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """An id that was unknown once is asked for again: its later records are rows."""
    sender = new_topic()
    sender.avro(V1, row_v1(0))
    bench.enable(sender.topic, FAST)
    caught_up(sender.topic)
    framed = sender.serialize(V1, row_v1(0))
    # The registry gives ids in order, but not without holes.
    newest = max(_ids(sender))
    soon = range(newest + 1, newest + 40)
    for schema_id in soon:
        sender.raw(b"\x00" + schema_id.to_bytes(4, "big") + framed[5:])
    sender.flush()
    caught_up(sender.topic)
    reasons = [letter["reason"] for letter in dead_letters_by_offset(bench, sender.topic).values()]
    assert reasons == ["unknown_schema"] * len(soon)
    made = sender.register(V1.replace('"name": "note"', '"name": "later"'))
    assert made in soon
    sender.raw(b"\x00" + made.to_bytes(4, "big") + framed[5:])
    sender.flush()
    caught_up(sender.topic)
    assert len(dead_letters_by_offset(bench, sender.topic)) == len(soon)
    assert len(rows_by_offset(bench, sender.topic)) == 2


def _ids(sender: Sender) -> list[int]:
    """Ids of every schema there is."""
    client = sender.registry
    return [
        client.get_version(subject, version).schema_id or 0
        for subject in client.get_subjects()
        for version in client.get_versions(subject)
    ]


@pytest.mark.parametrize("on_incompatible", ["dead_letter", "new_column", "stop"])
@together()
def test_a_schema_that_does_not_fit(bench: Workbench, sender: Sender, on_incompatible: str) -> Story:
    """Text where the table has a number is never coerced: letters, a column of its own, or a stop."""
    sender.avro(INT, {"a": 1})
    yield {**FAST, "on_incompatible": on_incompatible}
    sender.registry.set_compatibility(f"{sender.topic}-value", "NONE")
    sender.avro(TEXT, {"a": "x"})
    sender.avro(INT, {"a": 2})
    if on_incompatible == "stop":
        status = yield None, "failed"
        assert "a is int in the table and string in the new schema" in status.error
        bench.disable(sender.topic)
        return
    yield None
    rows = rows_by_offset(bench, sender.topic)
    if on_incompatible == "dead_letter":
        assert {row["a"] for row in rows.values()} == {1, 2}
        (letter,) = dead_letters_by_offset(bench, sender.topic).values()
        assert letter["reason"] == "incompatible_schema"
        assert "a is int in the table and string in the new schema" in letter["message"]
    else:
        ordered = [rows[place] for place in sorted(rows)]
        assert [(row["a"], row["a_string"]) for row in ordered] == [(1, None), (None, "x"), (2, None)]


@together()
def test_keys_that_are_no_text(bench: Workbench, sender: Sender) -> Story:
    """A record whose key shall be text and is not UTF-8 is a letter."""
    sender.avro(V1, row_v1(0), key="schön".encode())
    sender.avro(V1, row_v1(1), key=b"\xff\x00")
    yield {**FAST, "key_format": "string"}
    assert {row["_kafka_key"] for row in rows_by_offset(bench, sender.topic).values()} == {"schön"}
    (letter,) = dead_letters_by_offset(bench, sender.topic).values()
    assert (letter["reason"], letter["key"]) == ("key_not_text", b"\xff\x00")


@together()
def test_skipped_records_are_counted(bench: Workbench, sender: Sender) -> Story:
    """With errors skip there is no dead-letter table, and the count by reason survives in the ledger."""
    sender.avro(V1, row_v1(0))
    sender.raw(b"bad")
    sender.flush()
    status = yield {**FAST, "errors": "skip"}
    assert (status.rows, status.refused, status.dead_letter_table) == (1, {"no_schema_id": 1}, None)
    assert not bench.open_catalog().table_exists(bench.table_of(sender.topic) + "__dead_letters")


@together()
def test_a_topic_of_which_most_records_are_refused_stops(bench: Workbench, sender: Sender) -> Story:
    """A wrong setting does not pour a topic into letters; with the limit lifted they all are."""
    sender.avro(V1, row_v1(0))
    for number in range(1500):
        sender.raw(b"plain text %d" % number)
    sender.flush()
    status = yield FAST, "failed"
    assert "more than 50%" in status.error
    assert "max_refused_share" in status.error
    assert status.next_offsets.get(0, 0) == 0
    assert not bench.open_catalog().table_exists(bench.table_of(sender.topic) + "__dead_letters")
    status = yield {**FAST, "max_refused_share": 1}
    assert (status.rows, status.dead_letters) == (1, 1500)


@pytest.mark.parametrize(("count", "stops"), [(20, False), (100, True)])
@together()
def test_a_topic_without_a_single_row_stops_soon(
    bench: Workbench, sender: Sender, count: int, stops: bool
) -> Story:
    """A hundred records are enough where none is a row; fewer become letters."""
    sender.serialize(V1, row_v1(0))  # registers the schema
    for number in range(count):
        sender.raw(b"plain text %d" % number)
    sender.flush()
    if stops:
        status = yield FAST, "failed"
        assert "none of the newest 100 records" in status.error
    else:
        status = yield FAST
        assert status.dead_letters == count


@together()
def test_letters_are_replayed(bench: Workbench, sender: Sender) -> Story:
    """Letters that today's settings can read are rows then, once; others stay; a plan says so first."""
    sender.avro(INT, {"a": 1})
    yield FAST
    sender.registry.set_compatibility(f"{sender.topic}-value", "NONE")
    sender.avro(TEXT, {"a": "x"}, {"a": "y"})
    sender.raw(b"bad")
    sender.flush()
    status = yield None
    assert status.dead_letters == 3
    yield {**FAST, "on_incompatible": "new_column"}
    plan = bench.plan_replay(sender.topic)
    assert (plan.letters, plan.rows, plan.stayed) == (3, 2, {"no_schema_id": 1})
    assert plan.changes == ["relax a to optional", "add a_string string"]
    chosen = bench.replay(sender.topic, "offset = 1")
    assert chosen is not None
    assert (chosen.rows, chosen.stayed) == (1, {})
    outcome = bench.replay(sender.topic)
    assert outcome is not None
    assert (outcome.rows, outcome.stayed, outcome.error) == (1, {"no_schema_id": 1}, None)
    sender.avro(INT, {"a": 2})
    status = yield None
    rows = rows_by_offset(bench, sender.topic)
    assert [(row["a"], row["a_string"]) for _, row in sorted(rows.items())] == [
        (1, None),
        (None, "x"),
        (None, "y"),
        (2, None),
    ]
    assert [offset for _, offset in dead_letters_by_offset(bench, sender.topic)] == [3]
    assert status.dead_letters == 1
    with pytest.raises(UsageError, match="for example"):
        bench.replay(sender.topic, "nowhere = 1")


@pytest.mark.parametrize("value_format", ["string", "raw"])
@together()
def test_values_without_a_schema(bench: Workbench, sender: Sender, value_format: str) -> Story:
    """Text or bytes fill one column; a tombstone is a row of null."""
    values = ["grün".encode(), b"", None, b"\xff\xfe"]
    for value in values:
        sender.raw(value)
    sender.flush()
    yield {**FAST, "value_format": value_format}
    found = {
        row[METADATA]["offset"]: row["_kafka_value"] for row in rows_by_offset(bench, sender.topic).values()
    }
    if value_format == "raw":
        assert found == dict(enumerate(values))
    else:
        assert found == {0: "grün", 1: "", 2: None}
        (letter,) = dead_letters_by_offset(bench, sender.topic).values()
        assert (letter["reason"], letter["value"]) == ("not_text", b"\xff\xfe")


@together()
def test_a_schema_that_cannot_be_read(bench: Workbench, sender: Sender) -> Story:
    """Records of schemas that no decoder can be built for are letters with the reason; the others go on."""
    sender.avro(V1, row_v1(0))
    yield {**FAST, "subjects": "any"}
    register = sender.registry.register_schema
    deep = '{"type": "array", "items": ' * 70 + '"int"' + "}" * 70
    wide = " ".join(f"int32 f{at} = {at + 20_000};" for at in range(9_000))
    made = [
        register(f"other-{sender.topic}", Schema(deep, "AVRO")),
        register(f"wide-{sender.topic}", Schema(f'syntax = "proto3"; message Wide {{ {wide} }}', "PROTOBUF")),
    ]
    for one in made:
        sender.raw(b"\x00" + one.to_bytes(4, "big") + b"\x00")
    sender.avro(V1, row_v1(1))
    yield None
    dead_letters = dead_letters_by_offset(bench, sender.topic)
    assert {letter["schema_id"]: letter["reason"] for letter in dead_letters.values()} == dict.fromkeys(
        made, "bad_schema"
    )
    assert len(rows_by_offset(bench, sender.topic)) == 2
    assert [bool(one.error) for one in bench.topic(sender.topic).peek(3)].count(True) == 2


def test_records_of_another_topics_schema(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> None:
    """The columns stay, until the settings say that any schema of the registry will do."""
    sender, other = new_topic(), new_topic()
    sender.avro(V1, row_v1(0))
    foreign = record(field("money", "double"), field("why", "string"))
    good = other.serialize(foreign.replace("Row", "Refund"), {"money": 1.5, "why": "late"})
    bench.enable(sender.topic, FAST)
    caught_up(sender.topic)
    before = bench.open_catalog().load_table(bench.table_of(sender.topic)).schema()
    sender.raw(good)
    sender.raw(good[:5] + b"\xff")
    sender.flush()
    caught_up(sender.topic)
    dead_letters = dead_letters_by_offset(bench, sender.topic).values()
    assert [letter["reason"] for letter in dead_letters] == ["bad_schema"] * 2
    assert all(f"{other.topic}-value" in one["message"] for one in dead_letters)
    assert bench.open_catalog().load_table(bench.table_of(sender.topic)).schema() == before
    assert f"{other.topic}-value" in str([one.error for one in bench.topic(sender.topic).peek(2)])
    bench.alter(sender.topic, {"subjects": "any"})
    sender.avro(V1, row_v1(1))
    caught_up(sender.topic)
    sender.raw(good)
    sender.flush()
    caught_up(sender.topic)
    assert "why" in bench.open_catalog().load_table(bench.table_of(sender.topic)).schema().column_names
    bench.disable(sender.topic)
