"""What keeping a table's columns needs of the process around it: ``Services`` has it, and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tabletopic_kernel.clients.registry import Registry
from tabletopic_kernel.model.progress.events import ControlEvent


class EventWriter(Protocol):
    """Where events go."""

    def write(self, event: ControlEvent) -> None:
        """Send an event. Raises nothing: events are for people, a table does not wait for them."""


class SchemaServices(Protocol):
    """The registry, a clock, and somebody to report to."""

    @property
    def registry(self) -> Registry:
        """Where schemas come from."""

    @property
    def control(self) -> EventWriter:
        """Where changes of the table are reported."""

    @property
    def host(self) -> str:
        """Who reports them."""

    @property
    def now_ms(self) -> Callable[[], int]:
        """The clock, in ms since 1970."""
