"""The progress record of this process: maintained by a few threads, read by all sessions.

The control topic is read for current events, and for the past from the newest to the oldest.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaException, Message, TopicPartition

from tabletopic_kernel.clients.kafka.reader import Reader
from tabletopic_kernel.clients.login_gate import REFUSED_S
from tabletopic_kernel.faces.live_dashboard.polls import BrokerPolls, TablePolls
from tabletopic_kernel.faces.live_dashboard.view import Known, View, words
from tabletopic_kernel.faces.operations.next_steps import Face, for_face
from tabletopic_kernel.host.topics.control_topic import parse_event
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import LoginRefusedError, RetryableError, TableTopicError
from tabletopic_kernel.model.progress.event_json import is_heartbeat
from tabletopic_kernel.model.progress.events import ControlEvent
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC
from tabletopic_kernel.render.words import event_text
from tabletopic_kernel.workbench.workbench import Servers, Workbench, find_servers

Take = Callable[[list[ControlEvent]], None]
# For the last minutes heartbeats count too: they show who is alive and what is staged.
_RECENT_MS = 120_000
_CHUNK = 20_000
_REREAD_S = 1.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Log:
    """Offsets of the control topic: its first one, and the start of the part that is read at once."""

    first: int
    recent: int


OpenReader = Callable[[], Reader]


def find_log(open_reader: OpenReader) -> Log:
    """Where the control topic begins; raises RetryableError if that is unavailable."""
    with open_reader() as reader:
        first, end = reader.bounds(CONTROL_TOPIC, 0)
        recent = reader.offset_at(CONTROL_TOPIC, 0, now_ms() - _RECENT_MS)
        return Log(first, end if recent is None else max(first, recent))


def follow(open_reader: OpenReader, log: Log, take: Take, over: threading.Event) -> None:
    """Read recent events and continue until ``over``, across outages; ``take`` gets events in batches."""
    offset = log.recent
    while not over.is_set():
        try:
            with open_reader() as reader:
                position = TopicPartition(CONTROL_TOPIC, 0, offset)
                for messages in reader.follow([position], lambda: not over.is_set()):
                    offset = (messages[-1].offset() or 0) + 1
                    take(_events(messages))
        except Exception as error:  # without this thread the pages would never change again
            _log("control topic", error)
            over.wait(REFUSED_S if isinstance(error, RetryableError) else _REREAD_S)


def recall(
    open_reader: OpenReader, log: Log, take: Take, over: threading.Event, report: Callable[[float], None]
) -> None:
    """Read what ``follow`` does not, backwards, without heartbeats; ``report`` gets the share read so far."""
    upper = log.recent
    while upper > log.first and not over.is_set():
        try:
            with open_reader() as reader:
                while upper > log.first and not over.is_set():
                    lower = max(log.first, upper - _CHUNK)
                    events = _chunk(reader, lower, upper, over)
                    upper = lower
                    take(events)
                    report((log.recent - upper) / (log.recent - log.first))
        except Exception as error:  # as above
            _log("the past", error)
            over.wait(REFUSED_S if isinstance(error, LoginRefusedError) else _REREAD_S)
    report(1.0)


def _log(source: str, error: Exception) -> None:
    """Log an error that does not end the thread, with the trace if it is unexpected."""
    if _is_expected(error):
        _LOG.info("%s: %s", source, error)
    else:
        _LOG.error("%s", source, exc_info=error)


def _is_expected(error: Exception) -> bool:
    return isinstance(error, TableTopicError | KafkaException)


def _chunk(reader: Reader, lower: int, upper: int, over: threading.Event) -> list[ControlEvent]:
    """Events from offset ``lower`` to before ``upper``, without heartbeats: commits contain as much."""
    batches = reader.read_range(CONTROL_TOPIC, {0: lower}, {0: upper}, lambda: not over.is_set())
    return _events(
        [message for batch in batches for message in batch if not is_heartbeat(message.value() or b"")]
    )


def _reader(properties: Mapping[str, str]) -> Reader:
    # Small queues: the past is read once, with bounded memory.
    small = {"queued_max_messages_kbytes": 8192, "fetch_error_backoff_ms": 200}
    return Reader(properties, "tabletopic-dashboard", **small)


def _events(messages: Sequence[Message]) -> list[ControlEvent]:
    return list(filter(None, map(parse_event, messages)))


_TICK_S = 1.0
_IDLE_TICK_S = 5.0  # without an open page; the history still needs end offsets
_RETRY_S = 2.0
LoadSettings = Callable[[], Settings]


class Live:
    """Keeps ``known`` up to date from ``start`` to ``stop``; finds its servers again after any outage."""

    def __init__(self, load_settings: LoadSettings) -> None:
        self._load_settings = load_settings
        self.known = Known()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dashboard", daemon=True)

    def start(self) -> Live:
        """Start; returns at once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End all threads; waits for requests in progress."""
        self._stop.set()
        self._thread.join()

    @contextmanager
    def look(self) -> Iterator[View]:
        """Everything as of now; nothing changes while the block is open, so keep it short."""
        with self.known.lock:
            self.known.now_ms = now_ms()
            yield self.known

    def watch(self, topic: str) -> None:
        """A page of this topic was opened; empty: the overview."""
        with self.known.lock:
            self.known.watched[topic] += 1

    def unwatch(self, topic: str) -> None:
        """A page of this topic was closed."""
        with self.known.lock:
            self.known.watched[topic] -= 1

    def replay(self, topic: str) -> str:
        """Have the topic's host replay its dead letters; waits, and returns the outcome as text."""
        try:
            outcome = Workbench(self._load_settings()).replay(topic)
        except Exception as error:  # the page would raise it with each update
            _LOG.info("replay of %s", topic, exc_info=error)
            return for_face(words(error), Face.DASHBOARD)
        return (
            for_face(event_text(outcome), Face.DASHBOARD)
            if outcome
            else "The replay is still running; an event will report the outcome."
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                workbench = Workbench(self._load_settings())
            except Exception as error:
                self._failed("servers", error)
                self._stop.wait(_RETRY_S)
                continue
            self.known.begin_again()
            self._serve(workbench)

    def _serve(self, workbench: Workbench) -> None:
        """Work with one set of servers, until the settings lead to others."""
        over = threading.Event()
        broker, tables = BrokerPolls(workbench, self.known), TablePolls(workbench, self.known)
        tasks = {
            "control topic": partial(self._follow, workbench, over),
            "broker": partial(self._poll, "broker", broker.step, over, _IDLE_TICK_S),
            "tables": partial(self._poll, "catalog", tables.step, over, _TICK_S),
        }
        threads = [threading.Thread(target=task, name=name, daemon=True) for name, task in tasks.items()]
        for thread in threads:
            thread.start()
        while not over.is_set() and not self._stop.wait(_RETRY_S):
            if self._servers_changed(workbench.servers):
                break
        over.set()
        for thread in threads:
            thread.join()

    def _servers_changed(self, servers: Servers) -> bool:
        """Whether the settings lead to other servers; False while they lead to none, which may come back."""
        try:
            current = find_servers(self._load_settings())
        except Exception as error:
            self._failed("servers", error)
            return False
        self.known.trouble("servers", None)
        return current != servers

    def _follow(self, workbench: Workbench, over: threading.Event) -> None:
        open_reader = partial(_reader, workbench.servers.kafka)
        while not over.is_set():
            try:
                if CONTROL_TOPIC in workbench.broker.topics():
                    log = find_log(open_reader)
                    break
                self.known.know(history_read=1.0)  # no host has ever run here
            except Exception as error:
                _log("control topic", error)
            over.wait(_RETRY_S)
        else:
            return
        past = threading.Thread(
            target=recall,
            args=(open_reader, log, self.known.take, over, lambda share: self.known.know(history_read=share)),
            name="past",
            daemon=True,
        )
        past.start()
        follow(open_reader, log, self.known.take, over)
        past.join()

    def _poll(
        self, source: str, step: Callable[[float, int], bool], over: threading.Event, idle_s: float
    ) -> None:
        while not over.is_set():
            try:
                if not step(time.monotonic(), now_ms()):
                    over.set()
                    return
                self.known.trouble(source, None)
            except Exception as error:
                self._failed(source, error)
            over.wait(_TICK_S if self.known.is_watched() else idle_s)

    def _failed(self, source: str, error: Exception) -> None:
        """Show an error, and log an unexpected one once."""
        if not _is_expected(error) and words(error) != self.known.troubles.get(source):
            _log(source, error)
        self.known.trouble(source, error)
