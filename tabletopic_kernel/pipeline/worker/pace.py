"""When a topic's batches begin: at once, with many records, or an interval after the last one (ADR 0035)."""

from __future__ import annotations

from collections.abc import Callable

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.model.ledger import Offsets
from tabletopic_kernel.pipeline.source import MIN_RECORDS, SourceSpec, poll_interval_ms
from tabletopic_kernel.pipeline.worker.ends import Ends, Wait


class Pace:
    """Of one worker: ``wait`` is its batches', ``ask`` and ``end`` any thread's.

    ``given_up``: whether no batch is wanted any more; call ``end`` after that becomes true.
    """

    def __init__(self, spec: SourceSpec, broker: Broker, ends: Ends, given_up: Callable[[], bool]) -> None:
        self._topic, self._broker, self._ends, self._given_up = spec.topic, broker, ends, given_up
        self._interval_s = self._shortest_s = spec.settings.commit_interval_ms / 1000
        self._every_s = poll_interval_ms(spec.settings.commit_interval_ms) / 1000
        self._least = min(MIN_RECORDS, spec.max_records)
        self._position = spec.start
        self._begun_s = float("-inf")  # when the newest batch was to begin: delays do not add up
        self._asked: Offsets = {}  # to be read at once up to here
        self._hurried: Offsets | None = None  # where the newest batch began, if that was at once
        self._wait: Wait | None = None

    def wait(self, position: Offsets, *, is_behind: bool) -> Offsets:
        """When a batch is to begin, return its position, which has new partitions, too.

        ``is_behind``: there may be as much to read again. Raises if the broker does not say where it ends.
        """
        self._position = position
        if position == self._hurried:  # nothing was there: the log was cut before what was asked for
            self._asked = {}
        now_s, due_s = self._ends.clock(), self._begun_s + self._interval_s
        self._wait = wait = Wait(self._topic, position, due_s, self._least, self._every_s, now_s)
        if not is_behind:
            wait.look_after(now_s)
        self._ends.wait(self._broker, wait, self._is_at_once)
        self._hurried = position if self._is_at_once() else None
        self._begun_s = min(wait.look_s, self._ends.clock())
        return {**dict.fromkeys([*wait.ends, *self._asked], 0), **position}  # Spark needs each partition's

    def rest(self, seconds: float) -> None:
        """Let batches begin at least so far apart, as commits do: an earlier one would only wait."""
        self._interval_s = max(self._shortest_s, seconds)

    def ask(self, ends: Offsets) -> None:
        """Let a batch begin at once, unless all below ``ends`` has been read."""
        self._asked = {**self._asked, **ends}
        if self._is_at_once():
            self.end()

    def end(self) -> None:
        if (wait := self._wait) is not None:
            self._ends.end(wait)

    def _is_at_once(self) -> bool:
        position = self._position
        return self._given_up() or any(position.get(p, 0) < end for p, end in self._asked.items())
