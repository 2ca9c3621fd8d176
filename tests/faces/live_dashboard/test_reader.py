"""The threads behind the pages: their behaviour while servers are unavailable."""

from __future__ import annotations

import time
from pathlib import Path

from tabletopic_kernel.faces.live_dashboard.live import Live
from tabletopic_kernel.faces.live_dashboard.view import Known
from tabletopic_kernel.model.settings.sections import Settings


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
