"""Which topics of a host have something to read: one question to the broker for all that wait (ADR 0035)."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Final

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.model.errors import BROKER, RetryableError, TableTopicError
from tabletopic_kernel.model.ledger import Offsets
from tabletopic_kernel.model.topic_names import kafka_topic

_LOG = logging.getLogger(__name__)
# A topic whose batch is not due yet is looked at this often: so many records may wait that one begins early.
_LOOK_S: Final = 1.0
# How long the number of a topic's partitions is believed, and how long a topic may have no answer: its
# partitions may be getting other leaders.
_PARTITIONS_S: Final = 10.0
_SILENCE_S: Final = 10.0


@dataclass(eq=False)
class Wait:
    """A worker's wait for records after ``position``: for any from ``due_s`` on, before that for ``least``.

    ``look_s`` is when to look next; looks are multiples of ``every_s``, so that topics share a question.
    ``ends``: the newest answer. ``error``: why there is none.
    """

    topic: str
    position: Offsets
    due_s: float
    least: int
    every_s: float
    look_s: float = 0.0
    ends: Offsets = field(default_factory=dict)
    heard_s: float | None = None
    error: TableTopicError | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def ends_with(self, ends: Offsets, now_s: float) -> bool:
        """Whether to read."""
        self.ends, self.heard_s = ends, now_s
        moved = [end - self.position.get(partition, 0) for partition, end in ends.items()]
        return sum(moved) >= self.least or (now_s >= self.due_s and any(moved))

    def fails_with(self, error: TableTopicError | None, now_s: float) -> bool:
        """Whether there has been no answer for too long; ``error``: why there is none for any topic."""
        self.heard_s = now_s if self.heard_s is None else self.heard_s
        if now_s - self.heard_s < _SILENCE_S:
            return False
        self.error = error or RetryableError(
            f"the broker does not say where {self.topic} ends, retrying", system=BROKER
        )
        return True

    def look_after(self, now_s: float) -> None:
        """Choose when to look next: once it is due, but within a second."""
        looks = min(max(self.due_s, now_s), now_s + _LOOK_S) / self.every_s
        looks = math.ceil(looks - 1e-6)  # a due time that is a look's may be a rounding error after it
        self.look_s = max(looks, now_s // self.every_s + 1) * self.every_s


class Ends:
    """The end offsets of the topics that wait on this host. Thread-safe; a thread runs while any waits."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._changed = threading.Condition()
        self._waiting: list[Wait] = []
        self._runs = False
        self._partitions: dict[str, int] = {}
        self._partitions_s = float("-inf")  # when they were asked for

    def wait(self, broker: Broker, wait: Wait, given_up: Callable[[], bool]) -> None:
        """Wait for something to read, ``end``, or ``given_up`` before it; raises if there is no answer."""
        with self._changed:
            if given_up():
                return
            if not wait.over.is_set():
                self._waiting.append(wait)
                if not self._runs:
                    threading.Thread(target=self._watch, args=(broker,), name="ends", daemon=True).start()
                    self._runs = True
                self._changed.notify()
        wait.over.wait()
        if wait.error is not None:
            raise wait.error

    def end(self, wait: Wait) -> None:
        """End a wait, if it has begun."""
        with self._changed:
            if wait in self._waiting:
                self._waiting.remove(wait)
            wait.over.set()
            self._changed.notify()

    def _watch(self, broker: Broker) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._runs = False
                    return
                now_s = self.clock()
                due = [wait for wait in self._waiting if wait.look_s <= now_s]
                if not due:
                    self._changed.wait(min(wait.look_s for wait in self._waiting) - now_s)
                    continue
            self._tell(due, *self._ask(broker, {wait.topic for wait in due}))

    def _ask(
        self, broker: Broker, topics: Set[str]
    ) -> tuple[dict[str, dict[int, int]], TableTopicError | None]:
        try:
            is_old = self.clock() - self._partitions_s > _PARTITIONS_S
            if is_old or not self._partitions.keys() >= set(map(kafka_topic, topics)):
                self._partitions, self._partitions_s = broker.partition_counts(), self.clock()
            counts = {topic: self._partitions.get(kafka_topic(topic), 0) for topic in topics}
            return broker.ends_now(counts), None
        except TableTopicError as error:
            return {}, error
        except Exception as error:  # of librdkafka: no answer, and the thread goes on for all topics
            _LOG.warning("end offsets: %s", error)
            return {}, None

    def _tell(
        self, waits: list[Wait], ends: dict[str, dict[int, int]], error: TableTopicError | None
    ) -> None:
        for wait in waits:
            now_s, answer = self.clock(), ends.get(wait.topic)
            if answer is None:
                self._partitions = {}  # with them, librdkafka learns who leads
            if wait.fails_with(error, now_s) if answer is None else wait.ends_with(answer, now_s):
                self.end(wait)
            else:
                wait.look_after(now_s)
