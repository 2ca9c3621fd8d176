"""A state folder of an earlier version is opened by this one; ``make.py`` wrote it with commit da41df11."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema

from tabletopic_kernel.local.stack import LocalStack
from tabletopic_kernel.model.progress.events import Expired
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender, dead_letters_by_offset, rows_by_offset
from tests.old_state.make import V2, click
from tests.recovery.checks import check_history, load, unreferenced_files, wait_until_swept
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration
_ARCHIVE = Path(__file__).with_name("state.tar.xz")
CLICKS = 23


@pytest.fixture
def bench(tmp_path: Path, class_archive: None) -> Iterator[Workbench]:
    """The folder's servers run; it was made elsewhere, so its tables are moved here."""
    state = tmp_path / "state"
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(state, filter="data")
    stack = LocalStack(state)
    stack.up(die_with_parent=True)
    yield Workbench(Settings(state_dir=str(state)))
    stack.down()


def test_an_earlier_versions_folder_goes_on(bench: Workbench) -> None:
    """Settings and events are read; each record is a row or letter once; replay, compaction, expiry work."""
    wishes = bench.desired_topics()
    assert {topic: wish.run for topic, wish in wishes.items()} == {"clicks": "on", "orders": "paused"}
    clicks, orders = wishes["clicks"].settings, wishes["orders"].settings
    assert (clicks.commit_interval_ms, clicks.key_format) == (3_600_000, "string")
    assert (clicks.partition_by, clicks.sort_by) == (("day",), ("id",))
    assert (orders.value_format, orders.errors) == ("json", "skip")
    types = Counter(event.type for event in bench.events("clicks"))
    assert types["Enabled"] >= 2
    assert types["Committed"] >= 7
    assert types.keys() >= {"DeadLettered", "SchemaEvolved", "FilesStaged", "Paused", "Resumed"}
    assert len(rows_by_offset(bench, "clicks")) == 20
    assert unreferenced_files(load(bench, "clicks"))  # the killed host's

    host = bench.host()
    host.start()
    try:
        bench.alter("clicks", {"commit_interval_ms": "500ms"})
        bench.resume("orders")
        for topic in ("clicks", "orders"):
            wait_until(f"lag 0 of {topic}", lambda t=topic: bench.status(t)[0].lag_records == 0)
        check_clicks(bench, range(CLICKS))
        check_history(load(bench, "clicks"), bench.broker.end_offsets(["clicks"])["clicks"])
        assert sorted(row["id"] for row in rows_by_offset(bench, "orders").values()) == [1, 2, 3]
        assert bench.status("orders")[0].refused == {"json_syntax": 1}
        replay(bench)
        check_clicks(bench, [*range(CLICKS), 15])
        wait_until_swept(bench, "clicks")
        maintain(bench)
        check_clicks(bench, [*range(CLICKS), 15])
    finally:
        host.stop()
    assert unreferenced_files(load(bench, "clicks")) == set()


def check_clicks(bench: Workbench, numbers: range | list[int]) -> None:
    """Each is a row once, as PyIceberg and DuckDB read it; an older version has no note."""
    rows = list(rows_by_offset(bench, "clicks").values())
    assert sorted(row["id"] for row in rows) == sorted(numbers)
    for row in rows:
        expected = click(row["id"])
        assert (row["day"], row["count"]) == (expected["day"], expected["count"])
        assert row["note"] in (None, expected["note"])
    (answer,) = bench.query("SELECT count(*) AS n FROM clicks").rows.to_pylist()
    assert answer["n"] == len(rows)


def replay(bench: Workbench) -> None:
    """One letter's schema is registered by now, the other is no record."""
    letters = dead_letters_by_offset(bench, "clicks")
    assert Counter(one["reason"] for one in letters.values()) == {"no_schema_id": 1, "unknown_schema": 1}
    stack = LocalStack(Path(bench.servers.state_dir)).info()
    assert stack is not None
    sender = Sender(stack, "clicks")
    text = V2.replace('"name": "note"', '"name": "remark"')
    made = sender.registry.register_schema("clicks-value", Schema(text, "AVRO"))
    sender.registry.close()
    (named,) = (letter["value"] for letter in letters.values() if letter["reason"] == "unknown_schema")
    assert made == int.from_bytes(named[1:5], "big")
    outcome = bench.replay("clicks")
    assert outcome is not None
    assert (outcome.rows, outcome.stayed, outcome.error) == (1, {"no_schema_id": 1}, None)


def maintain(bench: Workbench) -> None:
    """The tables' old snapshots and files are merged and expired."""
    before = len(load(bench, "clicks").inspect.files())
    done = bench.compact("clicks")
    assert done is not None
    assert done.error is None
    assert len(load(bench, "clicks").inspect.files()) < before
    expired = bench.expire("clicks")
    assert expired is not None
    assert {event.error for event in expired if isinstance(event, Expired)} == {None}
