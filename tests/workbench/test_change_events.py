"""What plan says of change events: only what the newest records show, with the remedy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.workbench.peek import PeekedRecord
from tabletopic_kernel.workbench.peek.change_events import advice
from tests.pipeline.test_debezium import ANNE, event, with_schema

JSON = TopicSettings(transform="flatten_debezium", value_format="json")
AVRO = TopicSettings(transform="flatten_debezium")


def peeked(value: dict[str, Any] | None, key: bytes | None = b"k", raw: bytes | None = None) -> PeekedRecord:
    """A record as peek has it."""
    body = raw or json.dumps(value).encode()
    return PeekedRecord(0, 0, 0, key, None, value, None, body if value else None)


def of_table(name: str) -> dict[str, Any]:
    """An insert into another table."""
    change = event("c", None, ANNE)
    return change | {"source": change["source"] | {"table": name}}


CASES: list[tuple[TopicSettings, list[PeekedRecord], list[str]]] = [
    (AVRO, [peeked(event("c", None, ANNE)), peeked(event("d", ANNE, None)), peeked(None)], []),
    (JSON, [peeked(event("c", None, ANNE))], ["JSON without a schema"]),
    (JSON, [peeked({"payload": event("c", None, ANNE)}, raw=with_schema(event("c", None, ANNE)))], []),
    (
        AVRO,
        [peeked(event("d", {"id": 1, "email": None}, None)), peeked(event("d", None, None))],
        ["2 of 2 deletes in the newest records have a partial row or none"],
    ),
    (
        AVRO,
        [peeked(event("u", None, {**ANNE, "email": "__debezium_unavailable_value"}))],
        ["large values that an update left unchanged"],
    ),
    (AVRO, [peeked(event("c", None, ANNE), key=None)], ["1 of 1 newest change events have no key"]),
    (
        AVRO,
        [peeked(of_table("p_1")), peeked(of_table("p_2"))],
        ["the newest records are of 2 tables: public.p_1, public.p_2"],
    ),
    (TopicSettings(), [peeked(event("d", None, None), key=None)], []),
    (AVRO, [peeked({"ts_ms": 1})], []),
]


@pytest.mark.parametrize(("settings", "records", "lines"), CASES)
def test_what_the_newest_records_show(
    settings: TopicSettings, records: list[PeekedRecord], lines: list[str]
) -> None:
    """One line each, and none without a reason."""
    notes = advice(records, settings)
    assert [note.startswith(line) for note, line in zip(notes, lines, strict=True)] == [True] * len(lines)
