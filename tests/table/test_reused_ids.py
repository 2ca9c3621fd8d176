"""A registry gives an id a second time: no record is decoded by a text that may not be its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.registry.registry import RegisteredSchema, Registry, UnknownSchemaError
from tabletopic_kernel.formats.wire import fingerprint
from tabletopic_kernel.model.errors import RetryableError, ReusedIdError
from tabletopic_kernel.model.ledger import PREFIX
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.values import AcceptedText
from tabletopic_kernel.pipeline.plan import ASK_AGAIN_MS, Needs
from tabletopic_kernel.table.schemas.covered import CoveredSchema
from tabletopic_kernel.table.schemas.reused import is_in_question, reused_ids
from tests.pipeline.whole_path import Path, avro_values
from tests.table.samples import FakeRegistry


def _record(name: str, *columns: tuple[str, str]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": column, "type": kind} for column, kind in columns],
    }


# The same bytes, and other words.
ORDER = _record("Order", ("id", "long"), ("cents", "long"))
PAYMENT = _record("Payment", ("id", "long"), ("euros", "long"))


@dataclass
class CountingRegistry(FakeRegistry):
    """A registry that counts the texts it gives, and may not respond."""

    asked: list[int] = field(default_factory=list)
    trouble: Exception | None = None

    def text_of(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """A schema by id, counted."""
        self.asked.append(schema_id)
        if self.trouble is not None:
            raise self.trouble
        if schema_id not in self.schemas:
            raise UnknownSchemaError(f"no {schema_id}")
        return self.by_id(schema_id)


class Orders(Path):
    """A topic of orders with id 1, and a clock."""

    def __init__(self, catalog: Catalog) -> None:
        self.now_ms = 1_000_000
        self.texts = CountingRegistry({1: json.dumps(ORDER)})
        super().__init__(catalog, TopicSettings(), self.texts, clock=lambda: self.now_ms)

    def ask(self, after_ms: int = ASK_AGAIN_MS) -> None:
        """A batch begins."""
        self.now_ms += after_ms
        self.keeper.cover(Needs(), recheck=True)

    def answer(self, *answers: AcceptedText) -> None:
        """A person says which text records mean, and the host reads on with that setting."""
        self.settings = self.settings.model_copy(update={"accepted_texts": tuple(map(str, answers))})
        self.restart()

    @property
    def noted(self) -> Any:
        """The table's record of its schemas."""
        return json.loads(self.keeper.needed_table().table.properties[f"{PREFIX}schemas"])


@pytest.fixture
def topic(catalog: Catalog) -> Orders:
    """A topic with its first record."""
    orders = Orders(catalog)
    assert orders.send(*avro_values(1, ORDER, {"id": 1, "cents": 500})) == [{"id": 1, "cents": 500, "@": 0}]
    return orders


def _text(schema: dict[str, Any]) -> str:
    return fingerprint("AVRO", json.dumps(schema), ())


def _payments(*euros: int) -> list[bytes]:
    return avro_values(1, PAYMENT, *({"id": 2, "euros": euro} for euro in euros))


def _empty_and_fill(topic: Orders) -> None:
    topic.texts.schemas = {1: json.dumps(PAYMENT), 2: json.dumps(ORDER)}


def test_a_running_host_notices_within_a_minute(topic: Orders) -> None:
    """Payments under the id of orders stop the topic; the message names both texts and the commands."""
    _empty_and_fill(topic)
    topic.ask(ASK_AGAIN_MS - 1)
    with pytest.raises(ReusedIdError) as stopped:
        topic.ask(1)
    for part in (_text(ORDER), _text(PAYMENT), f"tabletopic schema {topic.topic} --accept 1", "--as ID"):
        assert part in str(stopped.value)


@pytest.mark.parametrize("replays", [False, True])
def test_a_wrong_text_that_decoded_nothing_is_forgotten(topic: Orders, *, replays: bool) -> None:
    """Within a minute, or once a person replays the letters: the registry's text of today counts."""
    topic.texts.schemas[2] = json.dumps(_record("Order", ("id", "string"), ("cents", "string")))
    values = avro_values(2, ORDER, {"id": 7, "cents": 500})
    assert topic.send(*values) == []
    topic.texts.schemas[2] = json.dumps(ORDER)
    if replays:
        topic.keeper.forget_unknown()
    else:
        topic.ask()
    assert topic.send(*values) == [{"id": 7, "cents": 500, "@": 2}]


def test_known_texts_cost_a_request_a_minute(topic: Orders) -> None:
    """However often batches begin; the layout of JSON is no other text."""
    topic.texts.schemas[1] = json.dumps(ORDER, indent=2)
    for _ in range(120):
        topic.ask(1_000)
    assert topic.texts.asked == [1, 1]


@pytest.mark.parametrize("trouble", [RetryableError("not now"), UnknownSchemaError("none")])
def test_a_registry_that_knows_nothing_stops_nothing(topic: Orders, trouble: Exception) -> None:
    """Neither an outage nor an empty registry says anything about records."""
    topic.texts.trouble = trouble
    topic.ask()
    topic.texts.trouble = None
    _empty_and_fill(topic)
    with pytest.raises(ReusedIdError):
        topic.ask()


def test_a_restarted_host_does_not_decode(topic: Orders) -> None:
    """The table has the fingerprint; what needs no such record goes on."""
    _empty_and_fill(topic)
    topic.restart()
    assert topic.send(*avro_values(2, ORDER, {"id": 3, "cents": 7})) == [{"id": 3, "cents": 7, "@": 1}]
    with pytest.raises(ReusedIdError):
        topic.send(*_payments(5))


def test_records_of_a_restored_registry_wait_too(topic: Orders) -> None:
    """The registry has the old text again, and the backlog was written with the other one in between."""
    _empty_and_fill(topic)
    with pytest.raises(ReusedIdError):
        topic.ask()
    topic.texts.schemas = {1: json.dumps(ORDER)}
    topic.restart()
    with pytest.raises(ReusedIdError, match=f"had {_text(PAYMENT)} in between"):
        topic.send(*_payments(5))


PROTO = 'syntax = "proto3";\nmessage Order {\n  int64 id = 1; // the number\n}\n'


def test_the_layout_of_protobuf_is_no_other_text() -> None:
    """A registry that was moved or upgraded may write it anew; what counts is told apart."""
    same = fingerprint("PROTOBUF", 'syntax="proto3"; /* * */ message Order{int64 id=1;}', ())
    assert fingerprint("PROTOBUF", PROTO, ()) == same
    for other in ("message Order { int64 id = 12; }", "message Order { int64 i d = 1; }"):
        assert fingerprint("PROTOBUF", f'syntax = "proto3"; {other}', ()) != same
    before = CoveredSchema(1, "s", 1, 0, texts=("0123456789abcdef",))  # as it was when layout counted
    assert before.may_be(same)
    assert not is_in_question(same, before, None)
    assert is_in_question(same, replace(before, texts=("0123456789abcdef01",)), None)
    assert AcceptedText.of(f"1=2:{same}").text == same


def test_a_person_answers_with_the_text(topic: Orders) -> None:
    """Records are read with it, by processes that knew the old one, and the table knows it from then on."""
    _empty_and_fill(topic)
    topic.restart()
    topic.answer(AcceptedText(1, 1, _text(PAYMENT)))
    assert topic.send(*_payments(5)) == [{"id": 2, "cents": None, "euros": 5, "@": 1}]
    assert topic.noted["1"][4:] == [_text(PAYMENT)]
    topic.texts.schemas = {1: json.dumps(ORDER)}
    topic.restart()
    with pytest.raises(ReusedIdError):
        topic.send(*_payments(5))


def test_a_person_says_where_the_old_text_is(topic: Orders) -> None:
    """The records of an id were written with what the registry has under another id now."""
    _empty_and_fill(topic)
    topic.answer(AcceptedText(1, 2, _text(ORDER)))
    assert topic.send(*avro_values(1, ORDER, {"id": 4, "cents": 8})) == [{"id": 4, "cents": 8, "@": 1}]
    topic.ask()
    assert (
        reused_ids(topic.keeper.needed_table(), topic.topic, cast(Registry, topic.texts), topic.settings)
        == []
    )


def test_an_old_table_learns_its_texts(topic: Orders) -> None:
    """A table of a version without fingerprints has them with its next commit, and is asked about nothing."""
    noted = topic.noted
    noted["1"] = noted["1"][:3]
    topic.keeper.needed_table().evolve(None, {f"{PREFIX}schemas": json.dumps(noted)}, epoch=1)
    topic.restart()
    assert topic.send(*avro_values(1, ORDER, {"id": 5, "cents": 9})) == [{"id": 5, "cents": 9, "@": 1}]
    assert topic.noted["1"][4:] == [_text(ORDER)]


def test_both_texts_and_the_difference_are_shown(topic: Orders) -> None:
    """What the registry's text would change in the table, beside the two fingerprints."""
    table, registry = topic.keeper.needed_table(), cast(Registry, topic.texts)
    assert reused_ids(table, topic.topic, registry, topic.settings) == []
    _empty_and_fill(topic)
    first, *changes = reused_ids(table, topic.topic, registry, topic.settings)
    assert _text(ORDER) in first
    assert _text(PAYMENT) in first
    assert any("euros" in change for change in changes)


@pytest.mark.parametrize("spelled", ["1", "1=2", "1=2:xyz", "1=2:1f2e3d4c5b6a79880"])
def test_an_answer_has_a_form(spelled: str) -> None:
    """The command writes it; people who write it themselves are told so."""
    with pytest.raises(ValueError, match="--accept"):
        AcceptedText.of(spelled)
