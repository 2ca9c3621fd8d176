"""The polling of topics behind the server's responses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tabletopic_kernel.faces.jupyter_server.refresher import Refresher
from tests.faces.jupyter_server.live_server import until


class Looks:
    """Counts, and can be paused."""

    def __init__(self) -> None:
        self.begun = self.count = 0
        self.go = threading.Event()
        self.go.set()
        self.errors: list[Exception] = []

    def __call__(self, last: dict[str, Any] | None) -> dict[str, Any]:
        """One more than the last."""
        self.begun += 1
        self.go.wait(240)
        self.count += 1
        if self.errors:
            raise self.errors.pop()
        return {"n": (last or {"n": 0})["n"] + 1}


@pytest.fixture
def refreshed() -> Iterator[Callable[..., tuple[Refresher, Looks]]]:
    """Create a refresher that is closed at the end."""
    made: list[tuple[Refresher, Looks]] = []

    def make(every_s: float, idle_s: float) -> tuple[Refresher, Looks]:
        looks = Looks()
        made.append((Refresher(looks, every_s, idle_s), looks))
        return made[-1]

    yield make
    for refresher, looks in made:
        looks.go.set()
        refresher.close()


def test_it_looks_only_while_somebody_asks(refreshed: Callable[..., tuple[Refresher, Looks]]) -> None:
    """Not before the first question, and not long after the last."""
    refresher, looks = refreshed(0.01, 0.2)
    assert looks.count == 0
    assert refresher.wait(240) is not None
    until(lambda: refresher.kept() and looks.count > 3)
    until(lambda: not _goes_on(looks))
    until(lambda: time.sleep(0.5) or refresher.kept() is None)  # what is known is old
    assert refresher.wait(240) is not None


def test_who_waits_is_served_after_a_long_look(refreshed: Callable[..., tuple[Refresher, Looks]]) -> None:
    """Although the last question is older than what makes it rest by then."""
    refresher, looks = refreshed(0.01, 0.05)
    looks.go.clear()
    until(lambda: refresher.kept() is None and looks.begun == 1)  # its thread may begin after it could rest
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(refresher.wait, 240)
        until(lambda: refresher._waiting == 1)
        time.sleep(0.1)
        looks.go.set()
        assert (answer.result() or {"n": 0})["n"] >= 2
    until(lambda: not _goes_on(looks))


def _goes_on(looks: Looks) -> bool:
    before, deadline = looks.count, time.monotonic() + 0.4
    while time.monotonic() < deadline:
        if looks.count != before:
            return True
    return False


def test_a_look_that_raises_is_not_the_last(refreshed: Callable[..., tuple[Refresher, Looks]]) -> None:
    """Such as on a full disk: the page would show its last figures for ever."""
    refresher, looks = refreshed(60, 60)
    looks.errors = [OSError("no space left"), OSError("no space left")]
    assert refresher.wait(240) is None
    until(lambda: refresher.wait(1) is not None)


def test_asking_never_blocks(refreshed: Callable[..., tuple[Refresher, Looks]]) -> None:
    """What is known is given at once, however long a look takes; waiting for a new one has a limit."""
    refresher, looks = refreshed(60, 60)
    assert refresher.wait(240) == {"n": 1}
    assert refresher.kept() == {"n": 1}
    looks.go.clear()
    refresher.hurry()
    assert refresher.wait(0.05) is None
    assert refresher.kept() == {"n": 1}
    looks.go.set()
    assert until(lambda: (refresher.kept() or {})["n"] > 1)
