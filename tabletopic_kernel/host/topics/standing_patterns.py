"""Standing patterns: topics that come later and match are enabled by the host that has the pattern.

A pattern is a message of the settings topic with the key ``pattern:shop.*``. As a topic's, its partition says
which host has it. A topic that somebody disables although a pattern matches it is marked by the key
``off:shop.carts`` first. No topic can have these names: older hosts pass such messages over.
"""

from __future__ import annotations

import logging
import time

from confluent_kafka import Message
from pydantic import ValidationError

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.host.topics.settings_topic import read_desired, read_messages, write_value
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    TableTopicError,
    UnknownTopicError,
    UsageError,
)
from tabletopic_kernel.model.progress.events import EnableRefused
from tabletopic_kernel.model.settings.desired import StandingPattern
from tabletopic_kernel.model.settings.options import explained

_LOG = logging.getLogger(__name__)
LOOK_S = 10.0  # between two looks for new topics
_PATTERN, _OFF = "pattern:", "off:"


def read_standing(broker: Broker) -> tuple[dict[str, StandingPattern], set[str]]:
    """The standing patterns by their text, sorted, and the topics that are marked as off."""
    patterns: dict[str, StandingPattern | None] = {}
    marks: dict[str, bytes | None] = {}
    for message in read_messages(broker):
        key = _key(message)
        if key.startswith(_PATTERN):
            text = key.removeprefix(_PATTERN)
            patterns[text] = _parsed(text, message)
        elif key.startswith(_OFF):
            marks[key.removeprefix(_OFF)] = message.value()
    standing = {text: pattern for text, pattern in sorted(patterns.items()) if pattern is not None}
    return standing, {topic for topic, mark in marks.items() if mark is not None}


def keep_pattern(broker: Broker, pattern: StandingPattern) -> None:
    """Have the hosts enable topics as they come, also those that somebody disabled before."""
    for topic in filter(pattern.matches, read_standing(broker)[1]):
        write_value(broker, f"{_OFF}{topic}", None)
    write_value(broker, f"{_PATTERN}{pattern.pattern}", pattern.to_json())


def forget_pattern(broker: Broker, text: str) -> StandingPattern:
    """End a pattern, and return it; raises UsageError if there is no such one."""
    patterns, _ = read_standing(broker)
    if text not in patterns:
        known = f"; there are {', '.join(patterns)}" if patterns else ""
        raise UsageError(f"{text!r} is no standing pattern{known}")
    write_value(broker, f"{_PATTERN}{text}", None)
    return patterns[text]


def leave_off(broker: Broker, topic: str) -> None:
    """Before a topic is disabled: no standing pattern that matches it now enables it again."""
    if any(pattern.matches(topic) for pattern in read_standing(broker)[0].values()):
        write_value(broker, f"{_OFF}{topic}", b"{}")


def _key(message: Message) -> str:
    key = message.key()
    return "" if message.error() is not None or key is None else bytes(key).decode(errors="replace")


def _parsed(text: str, message: Message) -> StandingPattern | None:
    """What a message of the pattern ``text`` says; None: it ended, or a newer program wrote it."""
    if (value := message.value()) is None:
        return None
    try:
        pattern = StandingPattern.model_validate_json(bytes(value))
    except ValidationError as error:
        _LOG.warning("the pattern %s does not count: %s", text, explained(error)[:300])
        return None
    return pattern if pattern.pattern == text else None


class StandingPatterns:
    """The patterns of one host, whose thread alone calls ``take``, ``release`` and ``look``."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._kept: dict[str, tuple[int, StandingPattern]] = {}  # by text; with the settings partition
        self._handled: set[str] = set()  # topics that are on, or off for good
        self._is_looking = False
        self._next_s = 0.0

    def take(self, message: Message) -> bool:
        """Whether a message is for it, and not about a topic's desired state."""
        key, partition = _key(message), message.partition()
        if partition is None or not key.startswith((_PATTERN, _OFF)):
            return False
        if key.startswith(_PATTERN):
            text = key.removeprefix(_PATTERN)
            self._kept.pop(text, None)
            if (pattern := _parsed(text, message)) is not None:
                self._kept[text] = partition, pattern
            self._handled = set()  # what was refused may go with other settings
        return True

    def release(self, partitions: set[int]) -> None:
        """Leave the patterns of these settings partitions to another host."""
        self._kept = {text: kept for text, kept in self._kept.items() if kept[0] not in partitions}

    def look(self) -> None:
        """Look for new topics in a thread, unless it did so lately."""
        if self._kept and not self._is_looking and time.monotonic() >= self._next_s:
            self._is_looking = True
            self._services.spawn("new topics", self._look)

    def _look(self) -> None:
        try:
            self._enable_new()
        except TableTopicError as error:  # the next look comes soon
            _LOG.warning("host %s: no look for new topics: %s", self._services.host, error)
        finally:
            self._next_s = time.monotonic() + LOOK_S
            self._is_looking = False

    def _enable_new(self) -> None:
        """Enable the topics that match and were never handled; most looks find none, and ask one question."""
        broker, handled = self._services.broker, self._handled
        topics = broker.partition_counts()
        handled.intersection_update(topics)  # a topic that is deleted may come again
        new = [name for name in topics if name not in handled and self._pattern_of(name)]
        if not new:
            return
        # In this order: a topic that is disabled between the two has its mark before.
        enabled, (standing, off) = read_desired(broker), read_standing(broker)
        for name in new:
            pattern = self._pattern_of(name)
            if pattern is None or standing.get(pattern.pattern) != pattern:
                continue  # it was changed meanwhile
            if name in enabled or name in off or self._is_settled(name, pattern):
                handled.add(name)

    def _pattern_of(self, topic: str) -> StandingPattern | None:
        patterns = (pattern for _, pattern in list(self._kept.values()))
        return next((pattern for pattern in patterns if pattern.matches(topic)), None)

    def _is_settled(self, topic: str, pattern: StandingPattern) -> bool:
        """Enable a topic; whether that is done, or refused for good, which is reported once."""
        try:
            self._services.enable(topic, pattern)
        except (UsageError, ActionNeededError) as error:
            if isinstance(error, UnknownTopicError):  # not all brokers know it yet
                return False
            at_ms, host, text = self._services.now_ms(), self._services.host, pattern.pattern
            event = EnableRefused(topic=topic, at_ms=at_ms, host=host, pattern=text, reason=str(error))
            self._services.control.write(event)
        except TableTopicError as error:
            _LOG.warning("host %s: %s is enabled later: %s", self._services.host, topic, error)
            return False
        return True
