"""The threads behind the pages: their behaviour while servers are unavailable."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from pyiceberg.catalog.sql import SqlCatalog

from tabletopic_kernel.faces.live_dashboard import live as module
from tabletopic_kernel.faces.live_dashboard import polls
from tabletopic_kernel.faces.live_dashboard.live import Live
from tabletopic_kernel.faces.live_dashboard.view import Known
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.progress.event_json import event_json
from tabletopic_kernel.model.progress.events import Paused
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.sections import Settings


def test_no_servers_is_told_and_looked_for_again(tmp_path: Path) -> None:
    """A dashboard that was started before the stack says what to do, and ends at once when it is asked to."""
    errors = [OSError("too many open files")]

    def load() -> Settings:
        if errors:
            raise errors.pop()
        return Settings(state_dir=str(tmp_path))

    reader = Live(load).start()
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
    """A topic is asked in detail while a page of it is open; other servers are another record."""
    known = Known()
    known.watched["clicks"] += 2
    known.watched[""] += 1
    known.watched["clicks"] -= 1
    assert known.watched_topics() == ["clicks"]
    known.watched["clicks"] -= 1
    assert known.watched_topics() == []
    assert known.is_watched()
    known = Known()
    known.record.observe_ends(1, {"clicks": {0: 1}})
    known.trouble("broker", RuntimeError("away"))
    known.begin_again()
    assert (known.record.topics, known.troubles, known.desired_topics) == ({}, {}, None)


@pytest.mark.parametrize("error", [RuntimeError("no more threads"), UsageError("a property")])
def test_an_unexpected_error_ends_no_reader(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Neither of recent events nor of the past; what was read once is not read again."""
    monkeypatch.setattr(module, "_REREAD_S", 0.0)
    over, troubles = threading.Event(), [error]

    class Reader:
        def __enter__(self) -> Reader:
            if troubles:
                raise troubles.pop()
            return self

        def __exit__(self, *_: object) -> None: ...

        def follow(self, places: list[TopicPartition], _: object) -> Iterator[list[Mock]]:
            yield from ([message(at)] for at in range(places[0].offset, 7))
            over.set()

        def read_range(
            self, _: str, first: dict[int, int], end: dict[int, int], __: object
        ) -> Iterator[list[int]]:
            yield [message(at) for at in range(first[0], end[0])]

    def message(at: int) -> Mock:
        event = Paused(topic="clicks", at_ms=at)
        return Mock(offset=lambda: at, value=lambda: event_json(event).encode(), error=lambda: None)

    taken: list[int] = []

    def take(events: list[Any]) -> None:
        taken.extend(event.at_ms for event in events)
        if taken in ([4], [0, 1, 2, 3]):  # the first time
            raise error

    module.follow(Reader, module.Log(0, 4), take, over)
    assert taken == [4, 5, 6]
    over.clear()
    taken.clear()
    troubles.append(error)
    shares: list[float] = []
    module.recall(Reader, module.Log(0, 4), take, over, shares.append)
    assert (taken, shares) == ([0, 1, 2, 3], [1.0])


def test_a_replay_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the error: its page asks for the outcome again and again."""
    for error, told in ((UsageError("no host"), "no host"), (KeyError("x"), "unexpected KeyError: 'x'")):
        monkeypatch.setattr(module, "Workbench", Mock(return_value=Mock(replay=Mock(side_effect=error))))
        assert Live(Settings).replay("clicks").startswith(told)


def test_a_damaged_table_ends_no_thread_nor_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages would show the last figures of every table for ever, without a word."""
    for name in ("_HEALTH_S", "_METADATA_S"):  # each look meets it
        monkeypatch.setattr(polls, name, 0.0)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("default")
    rows = pa.table({"n": [1, 2, 3]})
    for topic in ("damaged", "sound"):
        catalog.create_table(f"default.{topic}", rows.schema).append(rows)
    head = catalog.load_table("default.damaged").current_snapshot()
    Path(head.manifest_list.removeprefix("file://")).write_bytes(b"no manifest list")
    live = Live(Settings)
    live.known.desired_topics = {topic: DesiredTopic(topic=topic) for topic in ("damaged", "sound")}
    live.known.history_read = 1.0
    for topic in live.known.desired_topics:
        live.watch(topic)
    over, workbench = threading.Event(), Mock(open_catalog=lambda _: catalog)
    step = polls.TablePolls(workbench, live.known).step
    tables = threading.Thread(target=live._poll, args=("catalog", step, over, 1.0))
    tables.start()
    try:
        deadline = time.monotonic() + 240
        while "sound" not in live.known.tables or "catalog" not in live.known.troubles:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert live.known.troubles["catalog"].startswith("unexpected ")
        assert tables.is_alive()
    finally:
        over.set()
        tables.join()
