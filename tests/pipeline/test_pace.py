"""When the batches of a topic begin."""

from __future__ import annotations

from typing import Any, cast

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.source import SourceSpec
from tabletopic_kernel.pipeline.worker.ends import Ends, Wait
from tabletopic_kernel.pipeline.worker.pace import Pace


class NoBroker(Ends):
    """Notes which waits would have begun; none takes any time."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.begun: list[bool] = []
        self.due_s: list[float] = []

    def wait(self, broker: Any, wait: Wait, given_up: Any) -> None:
        """As the real one's."""
        self.begun.append(not given_up())
        self.due_s.append(wait.due_s)


def test_a_request_behind_a_cut_log_is_forgotten() -> None:
    """One batch begins at once for it; if that moved nothing, the next ones wait as ever."""
    ends = NoBroker()
    spec = SourceSpec("t", {}, {0: 5}, TopicSettings())
    pace = Pace(spec, cast(Broker, None), ends, lambda: False)
    pace.wait({0: 5}, is_behind=False)
    pace.ask({0: 9})
    for position in (5, 7, 7, 7):
        pace.wait({0: position}, is_behind=False)
    pace.ask({0: 9})
    pace.wait({0: 7}, is_behind=False)
    assert ends.begun == [True, False, False, True, True, False]


def test_batches_begin_no_more_often_than_commits() -> None:
    """An earlier batch would wait, and lack the newest records; a short rest changes nothing."""
    ends = NoBroker()
    settings = TopicSettings(commit_interval_ms=1_000)
    pace = Pace(SourceSpec("t", {}, {0: 5}, settings), cast(Broker, None), ends, lambda: False)
    pace.wait({0: 5}, is_behind=True)
    for seconds in (3.0, 0.5):
        pace.rest(seconds)
        pace.wait({0: 5}, is_behind=True)
    assert ends.due_s[1:] == [3.0, 1.0]
