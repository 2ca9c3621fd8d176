"""Stories of one topic each that wait together: all are enabled at once, and waited for once.

A story is a generator of a workbench and a sender to a topic of its own::

    @together(partitions=2)
    def test_something(bench: Workbench, sender: Sender) -> Story:
        sender.avro(V1, row_v1(1))
        status = yield {"commit_interval_ms": "500ms"}
        assert status.rows == 1

It yields the settings with which its topic is to be enabled, or ``None`` if it is enabled, or a tuple of
these and the state to wait for. It goes on, with the status, when all stories have got there: without a
state, when no record of the topic is uncommitted. The stories that pytest has chosen take as many rounds as
the longest of them needs.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tabletopic_kernel.workbench.status import TopicStatus
from tabletopic_kernel.workbench.workbench import Workbench

if TYPE_CHECKING:
    from tests.integration.conftest import Sender

Settings = Mapping[str, Any]
Story = Generator[Settings | tuple[Settings | None, str] | None, Any, None]
_LIMIT_S = 240
_AT_ONCE = 6


@dataclass
class _Run:
    """A story on its way; ``state``: what it waits for."""

    story: Story
    topic: str
    state: str | None = None
    status: Any = None
    is_over: bool = False
    error: BaseException | None = None

    def go_on(self, bench: Workbench) -> None:
        """To its next ``yield``."""
        if self.status and self.status.state == "failed" and self.state is None:
            self.fail(bench, f"{self.topic} failed: {self.status.error}")
        else:
            self._step(bench, lambda: self.story.send(self.status))

    def fail(self, bench: Workbench, why: str) -> None:
        """Fail where it waits."""
        self._step(bench, lambda: self.story.throw(AssertionError(why)))

    def has_arrived(self, status: TopicStatus) -> bool:
        """Whether it can go on, or never will."""
        self.status = status
        if self.state is not None:
            return status.state == self.state
        return status.state == "failed" or (status.lag_records == 0 and bool(status.end_offsets))

    def _step(self, bench: Workbench, step: Callable[[], Any]) -> None:
        try:
            asked = step()
            settings, self.state = asked if isinstance(asked, tuple) else (asked, None)
            if settings is not None:
                bench.enable(self.topic, dict(settings))
            return
        except StopIteration:
            pass
        except (Exception, pytest.fail.Exception) as error:
            self.error = error
        self.is_over = True
        if self.topic in bench.desired_topics():
            bench.disable(self.topic)


class Outcomes:
    """How each story ended, by its test's id."""

    def __init__(self, bench: Workbench, new_sender: Callable[..., Sender]) -> None:
        self._bench = bench
        self._new_sender = new_sender
        self._runs: dict[str, _Run] = {}

    def play(self, items: Iterable[pytest.Item]) -> None:
        """Tell the stories among these tests to their ends."""
        for item in items:
            test = getattr(item, "function", None)
            if story := getattr(test, "story", None):
                sender = self._new_sender(*test.topic[0], **test.topic[1])
                given = item.callspec.params if hasattr(item, "callspec") else {}
                self._runs[item.nodeid] = _Run(story(self._bench, sender, **given), sender.topic)
        while waiting := [run for run in self._runs.values() if not run.is_over]:
            # Their requests to broker, registry and catalog are most of their time.
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(lambda run: run.go_on(self._bench), waiting))
            self._wait([run for run in waiting if not run.is_over])

    def of(self, nodeid: str) -> None:
        """Raise what the story of a test has raised."""
        if error := self._runs[nodeid].error:
            raise error

    def _wait(self, waiting: list[_Run]) -> None:
        deadline = time.monotonic() + _LIMIT_S
        while waiting and time.monotonic() < deadline:
            found = {status.topic: status for status in self._bench.status()}
            waiting = [run for run in waiting if not run.has_arrived(found[run.topic])]
            time.sleep(0.2)
        for run in waiting:
            run.fail(self._bench, f"{run.topic} did not get there: {run.status}")


def together(*topic: Any, **config: Any) -> Callable[[Callable[..., Story]], Callable[..., None]]:
    """Make a test of a story; the arguments are those of ``new_topic`` for its topic."""

    def decorate(story: Callable[..., Story]) -> Callable[..., None]:
        def test(request: pytest.FixtureRequest, outcomes: Outcomes, **_: Any) -> None:
            outcomes.of(request.node.nodeid)

        own = list(inspect.signature(story).parameters)[2:]  # of its ``parametrize``
        kind = inspect.Parameter.KEYWORD_ONLY
        names = [inspect.Parameter(name, kind) for name in ("request", "outcomes", *own)]
        more = {"__signature__": inspect.Signature(names), "story": story, "topic": (topic, config)}
        test.__dict__.update(more)
        test.__name__, test.__doc__, test.__module__ = story.__name__, story.__doc__, story.__module__
        return test

    return decorate
