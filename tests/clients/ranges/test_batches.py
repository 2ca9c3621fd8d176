"""Records that librdkafka reads have the columns that a task takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tabletopic_kernel.clients.kafka.ranges.batches import batch_of
from tests.pipeline.source import SOURCE

NANOSECONDS = 1_750_000_000_000_000_000


class Record:
    """A message of librdkafka."""

    def __init__(self, offset: int, timestamp_ms: int, **fields: Any) -> None:
        self._offset, self._timestamp_ms, self._fields = offset, timestamp_ms, fields

    def value(self) -> bytes | None:
        """As librdkafka's."""
        return self._fields.get("value")

    def key(self) -> bytes | None:
        """As librdkafka's."""
        return self._fields.get("key")

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """As librdkafka's."""
        return self._fields.get("headers")

    def partition(self) -> int:
        """As librdkafka's."""
        return 3

    def offset(self) -> int:
        """As librdkafka's."""
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        """As librdkafka's: the kind, and milliseconds."""
        return 1, self._timestamp_ms


RECORDS: list[Any] = [
    Record(7, 1_750_000_000_123, value=b"v", key=b"k", headers=[("a", b"1"), ("a", None)]),
    Record(9, NANOSECONDS, headers=[]),
    Record(10, -1),
]


def test_columns_are_those_that_a_task_takes() -> None:
    """Nulls stay nulls, doubled headers stay doubled, a time that nothing can hold is null."""
    batch = batch_of(RECORDS, headers=True)
    assert batch.schema == SOURCE
    first, second, third = batch.to_pylist()
    assert first == {
        "value": b"v",
        "key": b"k",
        "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        "partition": 3,
        "offset": 7,
        "timestamp": datetime(2025, 6, 15, 15, 6, 40, 123_000, UTC),
    }
    assert (second["value"], second["headers"], second["timestamp"]) == (None, None, None)
    assert third["timestamp"] == datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)


@pytest.mark.parametrize("headers", [True, False])
def test_headers_are_left_out_where_nobody_wants_them(headers: bool) -> None:
    """A batch has no such column then."""
    assert ("headers" in batch_of(RECORDS, headers=headers).schema.names) is headers


@pytest.mark.parametrize("edge", [2**63 - 1, -(2**63), (2**63 - 1) // 1000 + 1])
def test_any_number_is_a_timestamp(edge: int) -> None:
    """None of them raises."""
    (row,) = batch_of([Record(1, edge)], headers=False).to_pylist()  # type: ignore[list-item]
    assert row["timestamp"] is None
