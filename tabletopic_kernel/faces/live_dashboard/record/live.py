"""The progress record of this process: kept by a few threads, looked at by every session."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException

from tabletopic_kernel.faces.live_dashboard.record import control
from tabletopic_kernel.faces.live_dashboard.record.known import Known, words
from tabletopic_kernel.faces.live_dashboard.record.polls import BrokerPolls, TablePolls
from tabletopic_kernel.faces.live_dashboard.record.view import View
from tabletopic_kernel.faces.operations.next_steps import Face, for_face
from tabletopic_kernel.faces.render.words import event_text
from tabletopic_kernel.host.control_topic import CONTROL_TOPIC
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Servers, Workbench, find_servers

_LOG = logging.getLogger(__name__)
_TICK_S = 1.0
_IDLE_TICK_S = 5.0  # nobody looks; the end offsets are still wanted for the history
_AGAIN_S = 2.0
LoadSettings = Callable[[], Settings]


class Live:
    """Keeps ``known`` up to date from ``start`` to ``stop``; finds its servers again after any outage."""

    def __init__(self, load_settings: LoadSettings) -> None:
        self._load_settings = load_settings
        self.known = Known()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dashboard", daemon=True)

    def start(self) -> Live:
        """Begin; returns at once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End all threads, which takes as long as a question that is under way."""
        self._stop.set()
        self._thread.join()

    @contextmanager
    def look(self) -> Iterator[View]:
        """Everything as of now; nothing changes as long as the block is open, so keep it short."""
        known = self.known
        with known.lock:
            yield View(
                record=known.record,
                now_ms=now_ms(),
                desired_topics=known.desired_topics,
                hosts=known.hosts,
                tables=known.tables,
                retention=known.retention,
                troubles=dict(known.troubles),
                history_read=known.history_read,
            )

    def watch(self, topic: str) -> None:
        """A page of this topic was opened; empty: the overview."""
        with self.known.lock:
            self.known.watched[topic] += 1

    def unwatch(self, topic: str) -> None:
        """It was closed."""
        with self.known.lock:
            self.known.watched[topic] -= 1

    def replay(self, topic: str) -> str:
        """Let the topic's host try its dead letters again; waits, and says what became of them."""
        try:
            outcome = Workbench(self._load_settings()).replay(topic)
        except (TableTopicError, KafkaException) as error:
            return for_face(words(error), Face.DASHBOARD)
        return (
            for_face(event_text(outcome), Face.DASHBOARD)
            if outcome
            else "It takes longer; what became of them will be an event."
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                workbench = Workbench(self._load_settings())
            except TableTopicError as error:
                self.known.trouble("servers", error)
                self._stop.wait(_AGAIN_S)
                continue
            self.known.begin_again()
            self._serve(workbench)

    def _serve(self, workbench: Workbench) -> None:
        """One set of servers, until others are to be used."""
        over = threading.Event()
        threads = [
            threading.Thread(target=task, args=(workbench, over), name=name, daemon=True)
            for name, task in (
                ("control topic", self._follow),
                ("broker", self._ask_broker),
                ("tables", self._ask_tables),
            )
        ]
        for thread in threads:
            thread.start()
        while not over.is_set() and not self._stop.wait(_AGAIN_S):
            if self._moved(workbench.servers):
                break
        over.set()
        for thread in threads:
            thread.join()

    def _moved(self, servers: Servers) -> bool:
        """Whether the settings lead to other servers now; not while they lead to none: they may come back."""
        try:
            found = find_servers(self._load_settings())
        except TableTopicError as error:
            self.known.trouble("servers", error)
            return False
        self.known.trouble("servers", None)
        return found != servers

    def _follow(self, workbench: Workbench, over: threading.Event) -> None:
        properties = workbench.servers.kafka
        while not over.is_set():
            try:
                if CONTROL_TOPIC in workbench.broker.topics():
                    log = control.find_log(properties)
                    break
                self.known.read(1.0)  # no host has ever run here
            except (TableTopicError, KafkaException) as error:
                _LOG.info("control topic: %s", error)
            over.wait(_AGAIN_S)
        else:
            return
        past = threading.Thread(
            target=control.recall,
            args=(properties, log, self.known.take, over, self.known.read),
            name="past",
            daemon=True,
        )
        past.start()
        control.follow(properties, log, self.known.take, over)
        past.join()

    def _ask_broker(self, workbench: Workbench, over: threading.Event) -> None:
        polls = BrokerPolls(workbench, self.known)
        while not over.is_set():
            try:
                if not polls.step(time.monotonic(), now_ms()):
                    over.set()  # another cluster answers at this address
                    return
                self.known.trouble("broker", None)
            except (TableTopicError, KafkaException) as error:
                self.known.trouble("broker", error)
            over.wait(_TICK_S if self.known.is_watched() else _IDLE_TICK_S)

    def _ask_tables(self, workbench: Workbench, over: threading.Event) -> None:
        polls = TablePolls(workbench, self.known)
        while not over.is_set():
            try:
                polls.step(time.monotonic(), now_ms())
                self.known.trouble("catalog", None)
            except (TableTopicError, KafkaException) as error:
                self.known.trouble("catalog", error)
            over.wait(_TICK_S)
