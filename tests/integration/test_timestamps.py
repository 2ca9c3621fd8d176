"""Record timestamps beyond any calendar: brokers before Kafka 4 accept any number."""

from __future__ import annotations

import pytest

from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import METADATA, Sender, rows_by_offset
from tests.integration.rows import ANY_TIME, FAST, NANOSECONDS, V1, row_v1
from tests.integration.together import Story, together

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]


@together(partitions=2, **ANY_TIME)
def test_nanoseconds_for_milliseconds_stop_no_topic(bench: Workbench, sender: Sender) -> Story:
    """No calendar has the time of such a record: it is a row without one, among others in the batch."""
    sender.avro(V1, row_v1(0), row_v1(1))
    yield FAST
    for number in range(2, 40):
        at = {5: NANOSECONDS, 11: 2**63 - 1}.get(number, 0)
        headers = [("n", str(number).encode())] if number % 3 else None
        sender.avro(V1, row_v1(number), timestamp_ms=at, partition=number % 2, headers=headers)
    yield None
    rows = rows_by_offset(bench, sender.topic)
    assert rows.keys() == {(sent.partition, sent.offset) for sent in sender.sent}
    assert {row["id"] for row in rows.values() if row[METADATA]["timestamp"] is None} == {5, 11}
    for sent in sender.sent:
        row = rows[sent.partition, sent.offset]
        assert (row["id"], row["_kafka_key"]) == (sent.value["id"], sent.key)
        assert [(one["key"], one["value"]) for one in row["_kafka_header"] or ()] == (sent.headers or [])
