"""Changes of a table topic's desired state by the workbench."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.host.topics import settings_topic
from tabletopic_kernel.model.errors import UnknownTopicError
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

    def disabled(_broker: Any, _topic: str, change: Callable[[DesiredTopic | None], object]) -> object:
        return change(None)

    monkeypatch.setattr(settings_topic, "change_desired", disabled)
    servers = {"bootstrap.servers": "127.0.0.1:1"}
    bench = Workbench(
        Settings(
            state_dir=str(tmp_path),
            kafka=servers,
            registry={"url": "http://127.0.0.1:1"},
            catalog={"uri": "sqlite://"},
        )
    )
    with pytest.raises(UnknownTopicError, match="clicks is not enabled; enabled: views"):
        order(bench, "clicks")
