"""Schemas that do not belong to the topic, or that decoded no record, change no table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry, UnknownSchemaError
from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.model.errors import BadRecordError, RetryableError
from tabletopic_kernel.model.progress.events import SchemaRefused
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.stage import stage_files
from tabletopic_kernel.table.schemas.registered import record_names, why_foreign
from tabletopic_kernel.table.schemas.states import SchemaStates
from tests.pipeline.source import SOURCE
from tests.pipeline.whole_path import Path, avro_values
from tests.table.samples import FakeRegistry


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields]}


FIRST = _record("Click", ("id", "long"))
SECOND = _record("Click", ("id", "long"), ("text", "string"))
FOREIGN = _record("shop.Refund", ("money", "double"), ("why", "string"))


@dataclass
class ManySubjects(FakeRegistry):
    """A registry that tells subjects by id, and counts what it is asked; ``newest`` is the topic's."""

    subjects: dict[int, tuple[str, ...]] = field(default_factory=dict)
    newest: int = 1
    asked: list[int] = field(default_factory=list)
    trouble: bool = False
    encrypted_by: str = ""

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest of the topic's own."""
        return super().by_id(self.newest)

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """A schema with its subjects."""
        self.asked.append(schema_id)
        if self.trouble:
            raise RetryableError("not now")
        if schema_id not in self.schemas:
            raise UnknownSchemaError(f"no {schema_id}")
        found = super().by_id(schema_id)
        subjects = self.subjects[schema_id]
        schema = RegisteredSchema(found.id, found.kind, found.text, (), subjects[0], 1, subjects)
        return replace(schema, encrypted_by=self.encrypted_by)


def _path(catalog: Catalog, topic: str = "clicks", **settings: Any) -> Path:
    registry = ManySubjects(
        {1: json.dumps(FIRST), 2: json.dumps(SECOND), 9: json.dumps(FOREIGN)},
        subjects={1: (f"{topic}-value",), 2: (f"{topic}-value",), 9: ("refunds-value",)},
    )
    path = Path(catalog, TopicSettings(**settings), registry, topic)
    path.send(*avro_values(1, FIRST, {"id": 1}))
    return path


@pytest.fixture
def topic(catalog: Catalog) -> Path:
    """A topic with its first record."""
    return _path(catalog)


def test_a_table_of_one_event_ignores_the_topics_others(catalog: Catalog) -> None:
    """Ignored and counted, even where refused records stop the topic; a foreign schema is refused as ever."""
    paid = _record("shop.Paid", ("price", "double"))
    path = _path(catalog, subjects="value_subject", errors="stop")
    registry = cast(ManySubjects, path.registry)
    registry.schemas[3], registry.subjects[3] = json.dumps(paid), ("clicks-shop.Paid",)
    two = avro_values(3, paid, {"price": 1.0}, {"price": 2.0})
    rows = path.send(*two, *avro_values(1, FIRST, {"id": 2}))
    assert [row["id"] for row in rows] == [2]
    assert path.result.passed_over == {"other_subject": 2}
    assert path.columns() == {"id": "long"}
    with pytest.raises(BadRecordError, match="refunds-value"):
        path.send(*avro_values(9, FOREIGN, {"money": 1.0, "why": "late"}))


def test_a_foreign_schema_changes_nothing(topic: Path) -> None:
    """Neither garbage with its id, nor records that it can read: both are letters that say whose it is."""
    good = avro_values(9, FOREIGN, {"money": 1.5, "why": "late"})[0]
    rows = topic.send(prefix(9) + b"\xff", good, *avro_values(1, FIRST, {"id": 2}))
    assert [row["id"] for row in rows] == [2]
    assert topic.dead_letters == {1: "bad_schema", 2: "bad_schema"}
    assert "refunds-value" in topic.messages[1]
    assert "clicks-value" in topic.messages[1]
    assert 'subjects = "any"' in topic.messages[1]
    assert topic.columns() == {"id": "long"}


def test_any_schema_where_the_settings_say_so(catalog: Catalog) -> None:
    """Records of any subject are rows, or of the one that ``value_subject`` names."""
    topic = _path(catalog, subjects="any")
    topic.send(*avro_values(9, FOREIGN, {"money": 1.5, "why": "late"}))
    assert (topic.dead_letters, sorted(topic.columns())) == ({}, ["id", "money", "why"])


def test_a_schema_changes_the_table_after_a_record_was_decoded_by_it(topic: Path) -> None:
    """Garbage that names one of the topic's own schemas is a letter and brings no columns; a record does."""
    topic.send(prefix(2) + b"\x02", prefix(2))
    assert (len(topic.dead_letters), topic.columns()) == (2, {"id": "long"})
    assert all(reason.startswith("avro_") for reason in topic.dead_letters.values())
    assert topic.control.types() == ["SchemaEvolved"]  # the table was made
    assert 2 not in topic.keeper.needed_table().registered_schemas()
    rows = topic.send(prefix(2) + b"\x02", *avro_values(2, SECOND, {"id": 5, "text": "five"}))
    assert [(row["id"], row["text"]) for row in rows] == [(5, "five")]
    assert (len(topic.dead_letters), sorted(topic.columns())) == (1, ["id", "text"])


@pytest.mark.parametrize(
    "subject",
    ["shop.Refund", "clicks-shop.Refund", ":.other:clicks-value", ":.other:shop.Refund", "clicks-value"],
)
def test_subjects_of_the_record_are_the_topics_own(topic: Path, subject: str) -> None:
    """By each strategy of subject names, in any context."""
    cast(ManySubjects, topic.registry).subjects[9] = ("refunds-value", subject)
    topic.send(*avro_values(9, FOREIGN, {"money": 1.5, "why": "late"}))
    assert (topic.dead_letters, sorted(topic.columns())) == ({}, ["id", "money", "why"])


def test_the_named_subject_is_the_topics_own(catalog: Catalog) -> None:
    """``value_subject``, beside the topic's."""
    topic = _path(catalog, value_subject="refunds-value")
    topic.send(*avro_values(9, FOREIGN, {"money": 1.5, "why": "late"}))
    assert topic.dead_letters == {}


def test_a_schema_may_become_the_topics_own(topic: Path) -> None:
    """One text has one id in all subjects: what was foreign is asked for again, and less and less often."""
    registry = cast(ManySubjects, topic.registry)
    values = avro_values(9, FOREIGN, {"money": 1.5, "why": "late"})
    topic.send(*values)
    assert topic.dead_letters
    registry.subjects[9] = ("refunds-value", "clicks-value")
    topic.keeper.cover(topic.keeper.plan().to_ask_again(0) or pytest.fail("nothing to ask"), recheck=True)
    topic.send(*values)
    assert topic.dead_letters == {}


def test_what_the_registry_does_not_have_is_asked_for_less_and_less_often() -> None:
    """Garbage names many ids: with the next batch, then after 1, 2, 4… seconds, at most each minute."""
    states, now, asked = SchemaStates(), 0, []
    states.refuse_for_now(7, "unknown_schema", "no", now)
    while now < 400_000:
        if states.due([7], now):
            asked.append(now)
            states.refuse_for_now(7, "unknown_schema", "no", now)
        now += 500
    assert asked[:5] == [0, 1_000, 3_000, 7_000, 15_000]
    assert asked[-1] - asked[-2] == 60_000
    for key in range(100, 20_000):
        states.refuse_for_now(key, "unknown_schema", "no", now)
    assert states.due([], now) == frozenset()
    assert len(states) == 10_000


def test_many_unknown_ids_are_asked_once_each(topic: Path) -> None:
    """By several threads; an id that no registry can have is not asked for. Trouble is waited out (I9)."""
    registry = cast(ManySubjects, topic.registry)
    registry.asked.clear()
    ids = [*range(1_000, 1_100), 2**31, 2**32 - 1]
    topic.send(*(prefix(one) + b"\x02" for one in ids))
    assert sorted(registry.asked) == list(range(1_000, 1_100))
    assert set(topic.dead_letters.values()) == {"unknown_schema"}
    registry.trouble = True
    with pytest.raises(RetryableError):
        topic.send(*(prefix(one) + b"\x02" for one in range(2_000, 2_100)))


def test_errors_that_stop_also_stop_at_a_foreign_schema(catalog: Catalog) -> None:
    """The topic stops with the reason."""
    topic = _path(catalog, errors="stop")
    with pytest.raises(BadRecordError, match="refunds-value"):
        topic.send(*avro_values(9, FOREIGN, {"money": 1.5, "why": "late"}))


def test_names_of_records() -> None:
    """As the serializers of each format call them; none where the schema cannot be read."""

    def names(kind: str, text: str) -> list[str]:
        return record_names(RegisteredSchema(1, kind, text, (), "", 0, ()))

    assert names("AVRO", json.dumps(FOREIGN)) == ["shop.Refund"]
    assert names("AVRO", '"string"') == []
    assert names("JSON", '{"title": "Refund", "type": "object"}') == ["Refund"]
    assert names("JSON", "true") == []
    proto = (
        'syntax = "proto3"; package shop; message A { message B { int32 x = 1; } } message C { int32 y = 1; }'
    )
    assert names("PROTOBUF", proto) == ["shop.A", "shop.A.B", "shop.C"]
    assert names("PROTOBUF", "nothing") == names("AVRO", "nothing") == names("JSON", "nothing") == []


class Guids:
    """A registry that tells by subject and text whether a schema is there, and counts what it is asked."""

    def __init__(self, *has: str, others: Sequence[str] = ()) -> None:
        self._has = has
        self._others = others
        self.questions = 0

    def has(self, subject: str, schema: RegisteredSchema) -> bool:
        """As the registry."""
        self.questions += 1
        return subject in self._has

    def subjects(self) -> list[str]:
        """As the registry."""
        self.questions += 1
        return [*self._has, *self._others]


def test_a_guid_is_looked_for_in_the_topics_subjects() -> None:
    """It tells no subjects itself."""
    found = RegisteredSchema("6da3", "AVRO", json.dumps(FOREIGN), (), "", 0, ())
    settings = TopicSettings()
    for subject in ("clicks-value", "shop.Refund", "clicks-shop.Refund"):
        assert why_foreign(cast(Registry, Guids(subject)), found, "clicks", settings) is None
    told = why_foreign(cast(Registry, Guids("refunds-value")), found, "clicks", settings)
    assert told is not None
    assert "6da3" in told


@pytest.mark.parametrize("deleted", ["clicks-value", "refunds-value"])
def test_an_id_without_versions_is_looked_for_in_the_topics_subjects(deleted: str) -> None:
    """A registry tells no versions of a schema that was deleted; that proves nothing about whose it was."""
    found = RegisteredSchema(9, "AVRO", json.dumps(FOREIGN), (), "", 0, ())
    told = why_foreign(cast(Registry, Guids(deleted)), found, "clicks", TopicSettings())
    assert (told is None) is (deleted == "clicks-value")


def test_why_there_is_no_table_is_told(catalog: Catalog) -> None:
    """The newest schema cannot be one: an event says so, and so does what the topic waits for."""
    registry = FakeRegistry({1: json.dumps(_record("Click", ("_kafka_key", "long")))})
    topic = Path(catalog, TopicSettings(), registry, "clicks")
    [event] = topic.control.written
    assert isinstance(event, SchemaRefused)
    assert "_kafka_key" in event.refused["clicks-value"]
    with pytest.raises(RetryableError, match=r"newest schema .* cannot become a table: .*_kafka_key"):
        topic.keeper.needed_table()


def test_a_candidate_alone_writes_nothing(topic: Path) -> None:
    """Until it is proved, no file has a row by it; the proof is asked for in one round."""
    registry = cast(ManySubjects, topic.registry)
    assert registry.schemas
    value = avro_values(2, SECOND, {"id": 5, "text": "five"})[0]
    rows = [{"value": value, "key": None, "partition": 0, "offset": 50, "timestamp": 0}]
    batch = pa.RecordBatch.from_pylist(rows, schema=SOURCE)
    for expected in ({"schema_ids": frozenset({2})}, {"proved": frozenset({2})}):
        result = stage_files(LoadedPlan(topic.keeper.plan()), [batch])
        needs = result.needs
        assert {name: getattr(needs, name) for name in expected} == expected
        assert result.files == []
        topic.keeper.cover(needs)
    assert sorted(topic.columns()) == ["id", "text"]


def test_records_that_are_encrypted_as_a_whole_are_letters(topic: Path) -> None:
    """The reason is the rule, not what the ciphertext happens to look like."""
    registry = cast(ManySubjects, topic.registry)
    registry.encrypted_by = "seal"
    assert topic.send(*avro_values(2, SECOND, {"id": 2, "text": "x"})) == []
    assert topic.dead_letters == {1: "encrypted"}
    assert "rule seal (ENCRYPT_PAYLOAD)" in topic.messages[1]
