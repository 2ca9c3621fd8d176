"""Changes of a table topic's desired state by the workbench."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tabletopic_kernel.clients.storage import probe
from tabletopic_kernel.model.errors import UnknownTopicError, UsageError
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.sections import Settings, TopicSettings
from tabletopic_kernel.workbench.topics.topic import TableTopic
from tabletopic_kernel.workbench.workbench import Workbench


class Topic(TableTopic):
    """Of the workbench below; waits no longer than it must."""

    _workbench: Bench
    look_every_s = 0.001

    def change_desired(self, change: Callable[[DesiredTopic | None], DesiredTopic]) -> DesiredTopic:
        """The newest one."""
        self._workbench.changed.append(self.name)
        return change(self._workbench.newest)


class Bench(Workbench):
    """Kafka has the topic clicks; a host tells these states of it, one after another, the last one on.

    ``newest`` is the settings topic's last message.
    """

    broker: Any = SimpleNamespace(topics=list, end_offsets=lambda _: {})
    registry: Any = SimpleNamespace(versions=lambda _: [], latest=lambda _: None)

    def __init__(self, folder: Path, *enabled: str, states: tuple[str, ...] = (), error: str | None = None):
        servers = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "registry": {"url": "http://127.0.0.1:1"}}
        place = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
        super().__init__(Settings(state_dir=str(folder), catalog=place, **servers))
        self.enabled = {topic: DesiredTopic(topic=topic) for topic in enabled}
        self.newest: DesiredTopic | None = DesiredTopic(topic="clicks")
        self.states, self.error = list(states), error
        self.read: list[int] = []
        self.changed: list[str] = []

    def topic(self, name: str) -> TableTopic:
        """Which waits for nothing if its state does not change."""
        made = Topic(name, self)
        made.resume_s = 5.0 if len(self.states) > 1 else 0.0
        return made

    def kafka_topics(self) -> dict[str, int]:
        """One."""
        return {"clicks": 1}

    def desired_topics(self) -> dict[str, DesiredTopic]:
        """Counts who reads them."""
        self.read.append(1)
        return dict(self.enabled)

    def hosts(self) -> list[str]:
        """One."""
        return ["a"]

    def statuses(self, desired_topics: Mapping[str, DesiredTopic]) -> list[Any]:
        """Of one topic."""
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return [SimpleNamespace(state=state, error=self.error)]


@pytest.mark.parametrize("order", [Workbench.pause, Workbench.resume, Workbench.commit])
def test_a_topic_that_is_disabled_meanwhile_is_not_enabled_again(
    tmp_path: Path, order: Callable[[Workbench, str], object]
) -> None:
    """The newest message may be the one that this program is about to take back."""
    bench = Bench(tmp_path, "clicks", "views")
    bench.newest = None
    with pytest.raises(UnknownTopicError, match="clicks is not enabled; enabled: views"):
        order(bench, "clicks")


def test_a_topic_that_is_not_enabled_is_told_with_a_few_that_are(tmp_path: Path) -> None:
    """The message stays readable with hundreds of topics."""
    bench = Bench(tmp_path, *(f"t{n:03}" for n in range(500)))
    bench.newest = None
    with pytest.raises(UnknownTopicError, match=r"; enabled: t000, .*, t009, …\. Enable it with"):
        bench.pause("clicks")


@pytest.mark.parametrize("ask", [Workbench.newest_events, lambda bench, topic: bench.logs(topic=topic)])
def test_a_topic_that_is_not_there_has_no_empty_history(
    tmp_path: Path, ask: Callable[[Workbench, str], list[object]]
) -> None:
    """One that is in Kafka, or enabled although somebody deleted it, may have one later."""
    bench = Bench(tmp_path, "gone")
    assert ask(bench, "clicks") == ask(bench, "gone") == []
    with pytest.raises(UnknownTopicError, match="Kafka has no such topic; did you mean clicks"):
        ask(bench, "click")


def test_a_pattern_does_not_undo_what_somebody_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host's plan takes seconds; what was set meanwhile stays."""

    monkeypatch.setattr(probe, "try_table", lambda *_: None)
    monkeypatch.setattr(Topic, "_planned", lambda *_: SimpleNamespace(check=lambda: None))
    bench = Bench(tmp_path)
    bench.broker = SimpleNamespace(facts=lambda _: None)
    topic, given = Topic("clicks", bench), TopicSettings(commit_interval_ms=1_000)
    bench.newest = None
    made = topic.enable(given.model_dump(exclude_unset=True), pattern="c*")
    assert (made.settings, made.requested_by) == (given, "the pattern c*")
    bench.newest = DesiredTopic(topic="clicks", run="paused")
    assert topic.enable(pattern="c*") == bench.newest


@pytest.mark.parametrize("ask", [Workbench.compact, Workbench.expire, Workbench.replay])
@pytest.mark.parametrize(("state", "error"), [("paused", None), ("failed", "the table is gone")])
def test_work_of_a_topic_that_does_not_run_is_not_waited_for(
    tmp_path: Path, ask: Callable[[Workbench, str], object], state: str, error: str | None
) -> None:
    """The host would begin it once the topic runs: who asks is told so, and why it does not."""
    bench = Bench(tmp_path, "clicks", states=(state,), error=error)
    with pytest.raises(UsageError, match=f"clicks is {state}.*`tabletopic resume clicks`") as told:
        ask(bench, "clicks")
    assert error is None or error in str(told.value)
    assert bench.changed == []


@pytest.mark.parametrize("state", ["paused", "failed"])
def test_a_host_may_take_a_moment_to_resume(tmp_path: Path, state: str) -> None:
    """What is asked right after a resume is not refused for the host's last report."""
    bench = Bench(tmp_path, "clicks", states=(state, state, "running"))
    bench.ask_for_replay("clicks")
    assert bench.changed == ["clicks"]
