"""Change events and a projection, on the real broker, registry, Spark and catalog."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender, dead_letters_by_offset, rows_by_offset
from tests.integration.together import Story, together
from tests.pipeline.test_debezium import COLUMNS, MORE, envelope, event

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]
V1, V2 = json.dumps(envelope(*COLUMNS)), json.dumps(envelope(*COLUMNS, MORE))
FIRST = "SELECT id, CAST(first_name AS INT) AS number, _cdc FROM batch WHERE _cdc.op <> 'D'"
SECOND = (
    "SELECT * EXCLUDE (email, first_name), TRY_CAST(first_name AS INT) AS number FROM batch "
    "WHERE _cdc.op <> 'D' AND first_name <> 'drop'"
)


def row(number: int, name: str) -> dict[str, Any]:
    """A row of the source's table."""
    return {"id": number, "first_name": name, "email": None}


@together()
def test_change_events_under_a_projection(bench: Workbench, sender: Sender) -> Story:
    """Each record is a row, a letter or counted as passed over; another projection takes letters back."""
    sender.avro(V1, event("c", None, row(1, "10")), event("u", row(1, "10"), row(1, "11")))
    wrong = bench.plan(sender.topic, {"projection": "SELECT count(*) AS n FROM batch"})
    assert "combines rows" in wrong.refused[0]
    settings = {"commit_interval_ms": "500ms", "transform": "flatten_debezium", "projection": FIRST}
    assert [column.name for column in bench.plan(sender.topic, settings).columns][:3] == [
        "id",
        "number",
        "_cdc",
    ]
    yield settings
    sender.avro(V1, event("d", row(1, "11"), None))
    sender.raw(None)
    sender.avro(
        V1, event("c", None, row(2, "keep")), event("c", None, row(3, "drop")), event("t", None, None)
    )
    status = yield None
    assert status.passed_over == {"filtered": 1, "tombstone": 1}
    assert (status.rows, status.dead_letters, status.refused) == (3, 2, {"projection_failed": 2})
    assert {place for _, place in dead_letters_by_offset(bench, sender.topic)} == {4, 5}

    bench.alter(sender.topic, {"projection": SECOND})
    sender.avro(V2, event("c", None, {**row(4, "40"), "balance": None}))
    yield None
    outcome = bench.replay(sender.topic)
    assert outcome is not None
    assert (outcome.rows, outcome.stayed, outcome.error) == (1, {}, None)
    status = yield None
    assert status.passed_over == {"filtered": 2, "tombstone": 1}
    assert status.dead_letters == 0
    found = {
        place: (one["id"], one["number"], one["_cdc"]["op"], one["_cdc"]["offset"])
        for (_, place), one in rows_by_offset(bench, sender.topic).items()
    }
    assert found == {
        0: (1, 10, "I", 0),
        1: (1, 11, "U", 1),
        4: (2, None, "I", 4),
        6: (None, None, "T", 6),
        7: (4, 40, "I", 7),
    }
    table = bench.table_of(sender.topic)
    answer = bench.query(
        f"SELECT id, number, _cdc.source, balance FROM {table} ORDER BY id NULLS FIRST, number"
    )
    assert answer.rows.to_pylist()[-1] == {
        "id": 4,
        "number": 40,
        "source": "public.customers",
        "balance": None,
    }


@together()
def test_a_record_that_would_take_all_memory_is_a_letter(bench: Workbench, sender: Sender) -> Story:
    """In the worker, and where it is tried again; a statement that takes it of all is refused before."""
    schema = '{"type":"record","name":"N","fields":[{"name":"n","type":"long"}]}'
    sender.avro(schema, *({"n": n} for n in (1, 900_000_000, 3, 10**18, 5)))
    told = bench.plan(sender.topic, {"projection": "SELECT n, len(range(250000000)) AS b FROM batch"})
    assert "more than 512 MB of memory" in told.refused[0]
    status = yield {"commit_interval_ms": "500ms", "projection": "SELECT n, len(range(n)) AS b FROM batch"}
    assert (status.rows, status.refused) == (3, {"projection_failed": 2})
    outcome = bench.replay(sender.topic)
    assert outcome is not None
    assert (outcome.rows, outcome.stayed, outcome.error) == (0, {"projection_failed": 2}, None)
    assert {row["b"] for row in rows_by_offset(bench, sender.topic).values()} == {1, 3, 5}
