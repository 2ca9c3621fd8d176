"""Changes of a table topic's desired state by the workbench."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tabletopic_kernel.host.topics import settings_topic
from tabletopic_kernel.model.errors import UnknownTopicError, UsageError
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.table import health, history
from tabletopic_kernel.table.topic_table import TopicTable
from tabletopic_kernel.workbench import status as status_module
from tabletopic_kernel.workbench.workbench import Workbench


@pytest.mark.parametrize("order", [Workbench.pause, Workbench.resume, Workbench.commit])
def test_a_topic_that_is_disabled_meanwhile_is_not_enabled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, order: Callable[[Workbench, str], object]
) -> None:
    """The newest message may be the one that this program is about to take back."""
    ours = {"clicks": DesiredTopic(topic="clicks"), "views": DesiredTopic(topic="views")}
    monkeypatch.setattr(Workbench, "desired_topics", lambda _: dict(ours))
    monkeypatch.setattr(Workbench, "kafka_topics", lambda _: {"clicks": 1})
    monkeypatch.setattr(settings_topic, "change_desired", _disabled)
    bench = _bench(tmp_path)
    with pytest.raises(UnknownTopicError, match="clicks is not enabled; enabled: views"):
        order(bench, "clicks")


def test_a_topic_that_is_not_enabled_is_told_with_a_few_that_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The message stays readable with hundreds of topics."""
    enabled = {f"t{n:03}": DesiredTopic(topic=f"t{n:03}") for n in range(500)}
    monkeypatch.setattr(Workbench, "desired_topics", lambda _: enabled)
    monkeypatch.setattr(Workbench, "kafka_topics", lambda _: {"clicks": 1})
    monkeypatch.setattr(settings_topic, "change_desired", _disabled)
    with pytest.raises(UnknownTopicError, match=r"; enabled: t000, .*, t009, …\. Enable it with"):
        _bench(tmp_path).pause("clicks")


@pytest.mark.parametrize("ask", [Workbench.newest_events, lambda bench, topic: bench.logs(topic=topic)])
def test_a_topic_that_is_not_there_has_no_empty_history(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ask: Callable[[Workbench, str], list[object]]
) -> None:
    """One that is in Kafka, or enabled although somebody deleted it, may have one later."""
    monkeypatch.setattr(Workbench, "broker", SimpleNamespace(topics=list))
    monkeypatch.setattr(Workbench, "desired_topics", lambda _: {"gone": DesiredTopic(topic="gone")})
    monkeypatch.setattr(Workbench, "kafka_topics", lambda _: {"clicks": 1})
    bench = _bench(tmp_path)
    assert ask(bench, "clicks") == ask(bench, "gone") == []
    with pytest.raises(UnknownTopicError, match="Kafka has no such topic; did you mean clicks"):
        ask(bench, "click")


def test_settings_are_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each reading is a consumer that reads the whole topic."""
    read: list[int] = []
    found: dict[str, DesiredTopic] = {"clicks": DesiredTopic(topic="clicks")}
    monkeypatch.setattr(Workbench, "desired_topics", lambda _: read.append(1) or found)
    monkeypatch.setattr(Workbench, "open_catalog", lambda *_: None)
    monkeypatch.setattr(Workbench, "registry", None)
    monkeypatch.setattr(TopicTable, "load", lambda *_: SimpleNamespace(table=None))
    for name, module in (("topic_schema", history), ("next_work", health), ("table_health", health)):
        monkeypatch.setattr(module, name, lambda *_: None)
    topic = _bench(tmp_path).topic("clicks")
    topic.schema()
    topic.health()
    assert len(read) == 2


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a container the user may be a number that the system does not know."""
    monkeypatch.setattr(Workbench, "desired_topics", lambda _: {"clicks": DesiredTopic(topic="clicks")})
    monkeypatch.setattr(
        settings_topic, "change_desired", lambda _, topic, change: change(DesiredTopic(topic=topic))
    )
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert _bench(tmp_path).pause("clicks").requested_by == str(os.getuid())


@pytest.mark.parametrize("ask", [Workbench.compact, Workbench.expire, Workbench.replay])
@pytest.mark.parametrize(("state", "error"), [("paused", None), ("failed", "the table is gone")])
def test_work_of_a_topic_that_does_not_run_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ask: Callable[[Workbench, str], object],
    state: str,
    error: str | None,
) -> None:
    """The host would begin it once the topic runs: who asks is told so, and why it does not."""
    desired = DesiredTopic(topic="clicks", run="paused" if state == "paused" else "on")
    monkeypatch.setattr(Workbench, "desired_topics", lambda _: {"clicks": desired})
    monkeypatch.setattr("tabletopic_kernel.workbench.topics.requests._RESUME_S", 0.0)
    monkeypatch.setattr(Workbench, "hosts", lambda _: ["a"])
    status = SimpleNamespace(state=state, error=error)
    monkeypatch.setattr(Workbench, "broker", None)
    monkeypatch.setattr(status_module, "statuses", lambda *_: [status])
    with pytest.raises(UsageError, match=f"clicks is {state}.*`tabletopic resume clicks`") as told:
        ask(_bench(tmp_path), "clicks")
    assert error is None or error in str(told.value)


@pytest.mark.parametrize("state", ["paused", "failed"])
def test_a_host_may_take_a_moment_to_resume(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: str
) -> None:
    """What is asked right after a resume is not refused for the host's last report."""
    monkeypatch.setattr(Workbench, "desired_topics", lambda _: {"clicks": DesiredTopic(topic="clicks")})
    monkeypatch.setattr(Workbench, "hosts", lambda _: ["a"])
    states = iter([state, state, "running"])
    monkeypatch.setattr(
        status_module, "statuses", lambda *_: [SimpleNamespace(state=next(states), error=None)]
    )
    asked: list[str] = []
    broker = SimpleNamespace(end_offsets=lambda _: {})
    monkeypatch.setattr(Workbench, "broker", broker)
    monkeypatch.setattr(settings_topic, "change_desired", lambda _, topic, change: asked.append(topic))
    _bench(tmp_path).ask_for_replay("clicks")
    assert asked == ["clicks"]


def _disabled(_broker: Any, _topic: str, change: Callable[[DesiredTopic | None], object]) -> object:
    return change(None)


def _bench(state_dir: Path) -> Workbench:
    return Workbench(
        Settings(
            state_dir=str(state_dir),
            kafka={"bootstrap.servers": "127.0.0.1:1"},
            registry={"url": "http://127.0.0.1:1"},
            catalog={"uri": "sqlite://"},
        )
    )
