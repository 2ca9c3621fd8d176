"""The threads behind the pages: their behaviour while servers are unavailable."""

from __future__ import annotations

import time
from pathlib import Path

from tabletopic_kernel.faces.live_dashboard.live import Live
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
