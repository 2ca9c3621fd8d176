"""The common part of the fake workbenches: recorded calls, and shared responses."""

from __future__ import annotations

from typing import Any

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.workbench.status import TopicStatus
from tabletopic_kernel.workbench.topic import TableTopic


class AskedWorkbench:
    """Records its calls in ``asked``, and raises ``error`` if there is one."""

    found: list[TopicStatus]
    live: list[str]
    error: BaseException | None
    asked: list[tuple[str, Any]]

    def _ask(self, what: str, value: Any = None) -> None:
        self.asked.append((what, value))
        if self.error is not None:
            raise self.error

    def disable(self, topic: str) -> None:
        """Disable."""
        self._ask("disable", topic)

    def pause(self, topic: str) -> DesiredTopic:
        """Pause."""
        self._ask("pause", topic)
        return DesiredTopic(topic=topic, run="paused")

    def resume(self, topic: str) -> DesiredTopic:
        """Resume."""
        self._ask("resume", topic)
        return DesiredTopic(topic=topic)

    def table_of(self, topic: str) -> str:
        """The table's name."""
        return f"default.{topic}"

    def status(self, topic: str | None = None) -> list[TopicStatus]:
        """All, or one."""
        self._ask("status", topic)
        chosen = [status for status in self.found if topic in (None, status.topic)]
        if topic is not None and not chosen:
            raise UsageError(f"{topic} is not enabled")
        return chosen

    def topic(self, name: str) -> TableTopic:
        """The real handle."""
        return TableTopic(name, self)  # type: ignore[arg-type]

    def hosts(self) -> list[str]:
        """Live hosts."""
        return self.live
