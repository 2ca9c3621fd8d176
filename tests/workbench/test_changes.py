"""Changes of a table topic's desired state by the workbench."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tabletopic_kernel.host.topics import settings_topic
from tabletopic_kernel.model.errors import UnknownTopicError, UsageError
from tabletopic_kernel.model.settings.sections import DesiredTopic, Settings
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


@pytest.mark.parametrize("order", [Workbench.replay, Workbench.compact, Workbench.expire])
@pytest.mark.parametrize(
    ("state", "error", "told"),
    [
        ("paused", None, "clicks is paused.* run `tabletopic resume clicks` first"),
        ("failed", "it was re-created", "clicks is failed.*: it was re-created$"),
    ],
)
def test_what_waits_for_a_resume_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    order: Callable[[Workbench, str], object],
    state: str,
    error: str | None,
    told: str,
) -> None:
    """A host replays, compacts and expires while it runs the topic: nobody waits minutes to learn that."""
    monkeypatch.setattr(Workbench, "status", lambda *_: [SimpleNamespace(state=state, error=error)])
    with pytest.raises(UsageError, match=told):
        order(_bench(tmp_path), "clicks")


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
