"""The threads behind the pages: their behaviour while servers are unavailable."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tabletopic_kernel.faces.live_dashboard import live as module
from tabletopic_kernel.faces.live_dashboard.live import Live
from tabletopic_kernel.faces.live_dashboard.view import Known
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import DesiredTopic, Settings


def test_no_servers_is_told_and_looked_for_again(tmp_path: Path) -> None:
    """A dashboard that was started before the stack says what to do, and ends at once when it is asked to."""
    reader = Live(lambda: Settings(state_dir=str(tmp_path))).start()
    deadline = time.monotonic() + 240
    while True:
        with reader.look() as view:
            if "tabletopic up" in view.troubles.get("servers", ""):
                break
        assert time.monotonic() < deadline
        time.sleep(0.01)
    reader.stop()
    with reader.look() as view:
        assert view.desired_topics is None


def test_pages_are_counted() -> None:
    """A topic is asked about in detail as long as a page of it is open."""
    known = Known()
    known.watched["clicks"] += 2
    known.watched[""] += 1
    known.watched["clicks"] -= 1
    assert known.watched_topics() == ["clicks"]
    known.watched["clicks"] -= 1
    assert known.watched_topics() == []
    assert known.is_watched()


def test_other_servers_are_another_record() -> None:
    """Nothing of the servers before is shown beside what the new ones tell."""
    known = Known()
    known.record.observe_ends(1, {"clicks": {0: 1}})
    known.trouble("broker", RuntimeError("away"))
    known.begin_again()
    assert (known.record.topics, known.troubles, known.desired_topics) == ({}, {}, None)


def test_a_replay_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the error: its page asks for the outcome again and again."""
    for error, told in ((UsageError("no host"), "no host"), (KeyError("x"), "unexpected KeyError: 'x'")):
        monkeypatch.setattr(module, "Workbench", Mock(return_value=Mock(replay=Mock(side_effect=error))))
        assert Live(Settings).replay("clicks").startswith(told)


def test_a_damaged_table_ends_no_thread_and_hides_no_other_table(tmp_path: Path) -> None:
    """The pages would show the last figures of every table for ever, without a word."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("default")
    rows = pa.table({"n": [1, 2, 3]})
    for topic in ("damaged", "sound"):
        catalog.create_table(f"default.{topic}", rows.schema).append(rows)
    head = catalog.load_table("default.damaged").current_snapshot()
    assert head is not None
    Path(head.manifest_list.removeprefix("file://")).write_bytes(b"no manifest list")
    live = Live(Settings)
    live.known.desired_topics = {topic: DesiredTopic(topic=topic) for topic in ("damaged", "sound")}
    live.known.history_read = 1.0
    for topic in live.known.desired_topics:
        live.watch(topic)
    over, workbench = threading.Event(), Mock(open_catalog=lambda _: catalog)
    tables = threading.Thread(target=live._ask_tables, args=(workbench, over))
    tables.start()
    try:
        deadline = time.monotonic() + 20
        while "sound" not in live.known.tables or "catalog" not in live.known.troubles:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert live.known.troubles["catalog"].startswith("unexpected ")
        assert tables.is_alive()
    finally:
        over.set()
        tables.join()
