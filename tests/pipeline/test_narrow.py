"""Exceptions that nobody foresaw: narrowed down to their records, whatever step they come from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.registry.registry import RegisteredSchema
from tabletopic_kernel.formats.arrays import Bodies
from tabletopic_kernel.formats.avro import decoder as decode_avro
from tabletopic_kernel.formats.avro import exact as avro_exact
from tabletopic_kernel.formats.avro import fast as avro_fast
from tabletopic_kernel.formats.json import decoder as decode_json
from tabletopic_kernel.formats.json import decoder as json_payload
from tabletopic_kernel.formats.json import exact as json_exact
from tabletopic_kernel.formats.json import fast as json_fast
from tabletopic_kernel.formats.protobuf import decoder as decode_protobuf
from tabletopic_kernel.formats.protobuf import exact as protobuf_exact
from tabletopic_kernel.formats.protobuf import fast as protobuf_fast
from tabletopic_kernel.formats.rejection import MIN_ALIKE, isolated
from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.model.dead_letter import INTERNAL_ERROR
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline import conform, decode, stage
from tabletopic_kernel.pipeline.decode import LoadedPlan
from tabletopic_kernel.pipeline.plan import StageResult
from tabletopic_kernel.pipeline.transform import transform
from tabletopic_kernel.pipeline.transform.projection import projection as sql_projection
from tests.pipeline.source import SOURCE
from tests.pipeline.whole_path import Path, avro_values
from tests.table.samples import FakeRegistry

AVRO = {"type": "record", "name": "R", "fields": [{"name": "text", "type": "string"}]}
PROTO = 'syntax = "proto3"; message R { string text = 1; }'
JSON = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", AVRO], "default": None},
        {"name": "after", "type": ["null", "R"], "default": None},
        {"name": "op", "type": "string"},
    ],
}
POISON = "poison"


class Panic(BaseException):
    """As native code raises it."""


ERRORS: list[BaseException] = [
    KeyError("x"),
    RecursionError("too deep"),
    OverflowError("too big"),
    pa.ArrowNotImplementedError("no kernel"),
    Panic("index out of bounds"),
]


@dataclass
class OneSchema(FakeRegistry):
    """A registry with one schema, of a kind."""

    kind: str = "AVRO"

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """That schema."""
        return replace(super().by_id(schema_id), kind=self.kind)


@dataclass(frozen=True)
class Form:
    """A format: settings, the registry's schema and a record of a text."""

    kind: str
    schema: str
    value: Callable[[str], bytes]
    settings: dict[str, Any]


def _change(text: str) -> bytes:
    event = {"before": None, "after": {"text": text}, "op": "c"}
    return avro_values(1, ENVELOPE, event)[0]


FORMS = {
    "avro": Form("AVRO", json.dumps(AVRO), lambda text: avro_values(1, AVRO, {"text": text})[0], {}),
    "protobuf": Form(
        "PROTOBUF", PROTO, lambda text: prefix(1) + b"\0\x0a" + bytes([len(text)]) + text.encode(), {}
    ),
    "json_schema": Form(
        "JSON", json.dumps(JSON), lambda text: prefix(1) + json.dumps({"text": text}).encode(), {}
    ),
    "json": Form("", "", lambda text: json.dumps({"text": text}).encode(), {"value_format": "json"}),
    "debezium": Form("AVRO", json.dumps(ENVELOPE), _change, {"transform": "flatten_debezium"}),
    "debezium_json": Form(
        "",
        "",
        lambda text: json.dumps({"after": {"text": text}, "op": "c"}).encode(),
        {"value_format": "json", "transform": "flatten_debezium"},
    ),
    "projection": Form(
        "AVRO",
        json.dumps(AVRO),
        lambda text: avro_values(1, AVRO, {"text": text})[0],
        {"projection": "SELECT text FROM batch"},
    ),
    "whole": Form(
        "AVRO",
        json.dumps(AVRO),
        lambda text: avro_values(1, AVRO, {"text": text})[0],
        {"transform": "none"},
    ),
}
# Form, how many records (few are left to the exact engines), where the function is, its name.
PLACES: list[tuple[str, int, Any, str]] = [
    ("avro", 30, avro_exact.ExactEngine, "row"),
    ("avro", 30, avro_exact.ExactEngine, "batch"),
    ("avro", 120, decode_avro.AvroDecoder, "decode"),
    ("avro", 120, stage, "split"),
    ("avro", 120, stage, "decode_keys"),
    ("avro", 120, transform, "flatten"),
    ("avro", 120, conform, "conform"),
    ("avro", 120, decode, "kafka_columns"),
    ("protobuf", 30, protobuf_exact.ExactEngine, "row"),
    ("protobuf", 120, decode_protobuf.ProtobufDecoder, "decode"),
    ("json_schema", 10, json_exact.ExactEngine, "row"),
    ("json_schema", 120, decode_json.JsonSchemaDecoder, "decode"),
    ("json", 120, stage, "split_connect"),
    ("json", 120, decode_json.JsonDecoder, "decode"),
    ("json", 10, json_exact.ExactEngine, "row"),
    ("debezium", 120, transform.Unwrap, "rows"),
    ("debezium_json", 120, json_payload.PayloadDecoder, "decode"),
    ("projection", 120, sql_projection.SqlProjection, "rows"),
    ("whole", 120, transform, "whole_value"),
]


@pytest.fixture(scope="module")
def topic_of(catalog: Catalog) -> Callable[[str], Path]:
    """A topic of a form that has had its first record; one for each form."""
    made: dict[str, Path] = {}

    def topic(form: str) -> Path:
        if form not in made:
            one = FORMS[form]
            registry = OneSchema({1: one.schema} if one.schema else {}, kind=one.kind)
            made[form] = Path(catalog, TopicSettings(**one.settings), registry)
            assert len(made[form].send(one.value("first"))) == 1
        return made[form]

    return topic


def _is_poisoned(args: Any) -> bool:
    return any(POISON in _told(arg) for arg in args)


def _told(arg: Any) -> str:
    match arg:
        case pa.Buffer():
            return arg.to_pybytes().decode("latin-1")
        case memoryview() | bytes():
            return bytes(arg).decode("latin-1")
        case pa.Array() | pa.RecordBatch():
            return str(arg.to_pylist())
        case dict():
            return str([_told(value) for value in arg.values()])
        case Bodies():
            return str([arg.body(at) for at in range(len(arg))])
    return str(arg) if isinstance(arg, list) else ""


def _inject(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, error: BaseException) -> None:
    """Let the function raise whenever a poisoned record is among what it is given."""
    real = getattr(where, name)

    def work(*args: Any, **more: Any) -> Any:
        if _is_poisoned(args):
            raise error
        return real(*args, **more)

    monkeypatch.setattr(where, name, work)


@pytest.mark.parametrize(
    ("form", "count", "where", "name"), PLACES, ids=lambda one: getattr(one, "__name__", one)
)
def test_an_exception_of_any_type_costs_its_records_alone(
    form: str, count: int, where: Any, name: str, topic_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each engine and step: the poisoned records are letters with the last line, the others are rows."""
    topic = topic_of(form)
    bad = {0, count // 2, count // 2 + 1, count - 1}
    for error in ERRORS if name in ("decode", "flatten") and form == "avro" else ERRORS[-2:]:
        with monkeypatch.context() as patch:
            _inject(patch, where, name, error)
            texts = [POISON if at in bad else f"t{at}" for at in range(count)]
            begin = topic._offset
            rows = topic.send(*(FORMS[form].value(text) for text in texts))
        assert [row["@"] - begin for row in rows] == [at for at in range(count) if at not in bad]
        assert topic.dead_letters == {begin + at: INTERNAL_ERROR for at in bad}
        assert f"{type(error).__name__}: " in topic.messages[begin]
        assert topic.result.failed == {type(error).__name__: len(bad)}
        assert topic.result.traces


@pytest.mark.parametrize(
    ("form", "engine"),
    [("avro", avro_fast.FastEngine), ("protobuf", protobuf_fast.FastEngine), ("json", json_fast.FastEngine)],
)
def test_what_a_fast_engine_cannot_do_the_exact_one_does(
    form: str, engine: Any, topic_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of a fast engine costs nothing but time: its part is read record by record."""
    topic = topic_of(form)
    for error in ERRORS:
        with monkeypatch.context() as patch:
            _inject(patch, engine, "rows", error)
            texts = [POISON if at in (7, 100) else f"t{at}" for at in range(300)]
            assert [row["text"] for row in topic.send(*map(FORMS[form].value, texts))] == texts


@pytest.mark.parametrize("error", [MemoryError(), OSError("disk"), RetryableError("later")])
def test_trouble_is_no_records_fault(
    error: BaseException, topic_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory, storage and dependencies: the batch fails as a whole and is tried again (I9)."""
    topic = topic_of("avro")
    _inject(monkeypatch, transform, "flatten", error)
    with pytest.raises(type(error)):
        topic.send(*(FORMS["avro"].value(text) for text in ("a", POISON, "b")))


def _staged(topic: Path, texts: list[str], errors: str = "skip", **more: Any) -> StageResult:
    batch = pa.RecordBatch.from_pylist(
        [
            {"value": FORMS["avro"].value(text), "partition": 0, "offset": 10_000 + at, "timestamp": at}
            for at, text in enumerate(texts)
        ],
        schema=SOURCE,
    )
    loaded = LoadedPlan(replace(topic.keeper.plan().with_settings(errors=errors), **more))
    return stage.stage_files(loaded, [batch])


def test_where_all_fail_alike_nothing_is_taken(topic_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch in which everything fails alike is known as such after a few tries, not by all."""
    topic, tries = topic_of("avro"), []
    real = transform.flatten

    def rows(batch: pa.RecordBatch, offsets: pa.Array, has_key: Any = None) -> Any:
        tries.append(len(batch))
        if _is_poisoned([batch]):
            raise KeyError("x")
        return real(batch, offsets, has_key)

    monkeypatch.setattr(transform, "flatten", rows)
    result = _staged(topic, [POISON] * 5_000)
    assert result.all_fail_alike
    assert (result.alike, result.failed, result.rows, result.refused_count) == (
        True,
        {"KeyError": 5_000},
        0,
        0,
    )
    assert len(tries) < 200
    assert result.samples[0].reason == INTERNAL_ERROR
    result = _staged(topic, [POISON] * 100, patient=True)
    assert (result.alike, result.refused) == (False, {INTERNAL_ERROR: 100})
    # The first fail alike, and one of the others does not.
    result = _staged(topic, [POISON] * 1_000 + ["good"])
    assert not result.all_fail_alike
    if result.alike:  # it was not among those that were tried
        result = _staged(topic, [POISON] * 1_000 + ["good"], patient=True)
    assert (result.rows, result.refused) == (1, {INTERNAL_ERROR: 1_000})


def test_a_few_that_fail_alike_are_letters(topic_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record, or a handful, say nothing about a program, however alike they fail."""
    topic = topic_of("avro")
    _inject(monkeypatch, transform, "flatten", KeyError("x"))
    for count in (1, MIN_ALIKE - 1):
        result = _staged(topic, [POISON] * count)
        assert (result.all_fail_alike, result.refused) == (False, {INTERNAL_ERROR: count})


@pytest.mark.parametrize("errors", ["skip", "stop", "dead_letter"])
def test_what_becomes_of_them_is_as_the_settings_say(
    errors: str, topic_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left out and counted, a reason to stop, or in need of a dead-letter table."""
    _inject(monkeypatch, transform, "flatten", KeyError("x"))
    result = _staged(topic_of("avro"), ["a", POISON, "b"], errors=errors)
    assert result.refused == {INTERNAL_ERROR: 1}
    assert result.needs.dead_letters == (errors == "dead_letter")
    assert len(result.files) == (1 if errors == "skip" else 0)


def test_nothing_is_done_twice_where_nothing_fails() -> None:
    """One call for the whole range."""
    calls: list[range] = []
    assert isolated(calls.append, 1_000).failures == []
    assert calls == [range(1_000)]
