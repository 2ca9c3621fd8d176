"""Consumers that a process keeps between its tasks.

A new connection, with TLS and a login, costs more than a small batch.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tabletopic_kernel.clients.kafka.idle_clients import IDLE_CLIENTS
from tabletopic_kernel.clients.kafka.ranges.consumer import RangeConsumer

Connect = Callable[[Mapping[str, str]], RangeConsumer]
_IDLE_S: Final = 60.0


@dataclass(eq=False)
class _Idle:
    properties: Mapping[str, str] = field(repr=False)  # with the login
    connect: Connect
    consumer: RangeConsumer
    since: float = field(default_factory=time.monotonic)

    def close_if_refused(self) -> None:
        """See ``IdleClient``; it is closed, too, if no task has come for it."""
        if not IDLE_CONSUMERS.remove(self):
            return
        self.consumer.pull(0)  # runs the callback of errors
        if self.consumer.errors.is_hopeless() or time.monotonic() - self.since > _IDLE_S:
            self.consumer.close()
        else:
            IDLE_CONSUMERS.add(self)


class IdleConsumers:
    """Of one process: a task takes one that nobody else uses, and gives it back unless it failed."""

    def __init__(self) -> None:
        self._idle: list[_Idle] = []
        self._lock = threading.Lock()
        self._of_parents: list[list[_Idle]] = []
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A child has no threads of librdkafka; it must not free its parent's consumers, or it crashes."""
        self._of_parents.append(self._idle)
        self._idle, self._lock = [], threading.Lock()

    def take(self, properties: Mapping[str, str], connect: Connect) -> RangeConsumer | None:
        """A consumer that was made so, if one is idle."""
        with self._lock:
            for idle in reversed(self._idle):
                if (idle.properties, idle.connect) == (properties, connect):
                    self._idle.remove(idle)
                    return idle.consumer
        return None

    def give(self, properties: Mapping[str, str], connect: Connect, consumer: RangeConsumer) -> None:
        """Keep a consumer for the next task."""
        idle = _Idle(dict(properties), connect, consumer)
        self.add(idle)
        IDLE_CLIENTS.add(idle)

    def add(self, idle: _Idle) -> None:
        with self._lock:
            self._idle.append(idle)

    def remove(self, idle: _Idle) -> bool:
        """Whether it was idle, and now belongs to the caller."""
        with self._lock:
            if idle not in self._idle:
                return False
            self._idle.remove(idle)
            return True


IDLE_CONSUMERS: Final = IdleConsumers()
