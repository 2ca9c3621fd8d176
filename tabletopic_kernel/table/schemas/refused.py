"""Schemas whose records are refused: for good, or until the registry is asked again.

The registry may get an unknown schema, or get it for the topic, at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tabletopic_kernel.formats.wire import SchemaKey
from tabletopic_kernel.model.dead_letter import INCOMPATIBLE_SCHEMA
from tabletopic_kernel.model.errors import ActionNeededError, BadRecordError
from tabletopic_kernel.model.settings.sections import TopicSettings

# Looked up again with the next batch, then after a second, and so on up to this; garbage names many ids.
_LONGEST_MS: Final = 60_000
# How many are remembered between batches; the oldest beyond are looked up again when a record names them.
_MOST: Final = 10_000


class UnknownSchemas:
    """Refused schemas by id, each with reason and message."""

    def __init__(self) -> None:
        self._reasons: dict[SchemaKey, tuple[str, str]] = {}
        self._due: dict[SchemaKey, tuple[int, int]] = {}  # when to ask again, and how long to wait then

    @property
    def refused(self) -> Mapping[SchemaKey, tuple[str, str]]:
        """Reason and message by id."""
        return self._reasons

    def add(self, key: SchemaKey, reason: str, message: str, now_ms: int) -> None:
        """Refuse a schema until its next lookup."""
        _, wait = self._due.get(key, (0, 0))
        self._reasons[key] = (reason, message)
        self._due[key] = (now_ms + wait, min(_LONGEST_MS, max(1_000, 2 * wait)))

    def clear(self, key: SchemaKey) -> None:
        """The registry has it."""
        self._reasons.pop(key, None)
        self._due.pop(key, None)

    def due(self, wanted: Iterable[SchemaKey], now_ms: int) -> frozenset[SchemaKey]:
        """Those of ``wanted`` to look up now, as a batch begins. Forgets the oldest beyond the limit."""
        for key in list(self._reasons)[: max(0, len(self._reasons) - _MOST)]:
            self.clear(key)
        return frozenset(key for key in wanted if key not in self._reasons or self._due[key][0] <= now_ms)


class RefusedSchemas:
    """Refused schemas of one topic's values, or of its keys; none if the settings say stop.

    Args:
        topic: for messages.
        settings: of the topic.
        damage: what a refused schema does, as the beginning of the message of a stop.
        now_ms: the clock.
    """

    def __init__(self, topic: str, settings: TopicSettings, damage: str, now_ms: Callable[[], int]) -> None:
        self._topic = topic
        self._settings = settings
        self._damage = damage
        self._now_ms = now_ms
        self._unknown = UnknownSchemas()
        self.for_good: dict[SchemaKey, tuple[str, str]] = {}  # reason and message by id

    @property
    def unknown(self) -> frozenset[SchemaKey]:
        """Those that the registry may have by now, for the topic."""
        return frozenset(self._unknown.refused)

    @property
    def reasons(self) -> dict[SchemaKey, tuple[str, str]]:
        """Reason and message of all refused schemas, by id."""
        return self.for_good | dict(self._unknown.refused)

    def refuse(self, schema_id: SchemaKey, reason: str, message: str) -> None:
        """Refuse a schema for good. Raises BadRecordError if errors stop the topic."""
        self._check_stop(reason, message)
        self.for_good[schema_id] = (reason, message)

    def refuse_for_now(self, schema_id: SchemaKey, reason: str, message: str) -> None:
        """Refuse a schema until its next lookup; raises as ``refuse``."""
        self._check_stop(reason, message)
        self._unknown.add(schema_id, reason, message, self._now_ms())

    def refuse_incompatible(self, schema_id: SchemaKey, message: str) -> None:
        """Refuse a schema that does not fit the table. Raises ActionNeededError if that stops the topic."""
        if "stop" in (self._settings.on_incompatible, self._settings.errors):
            raise ActionNeededError(
                f"{self._topic}: {message}. Enable the topic with on_incompatible new_column or with another "
                "--table, or register a compatible schema"
            )
        self.for_good[schema_id] = (INCOMPATIBLE_SCHEMA, message)

    def due(self, wanted: frozenset[SchemaKey]) -> frozenset[SchemaKey]:
        """Those of ``wanted`` to look up now, as a batch begins."""
        return self._unknown.due(wanted, self._now_ms())

    def clear(self, schema_id: SchemaKey) -> None:
        """The registry has it."""
        self._unknown.clear(schema_id)

    def forget_unknown(self) -> None:
        """Ask the registry again for unknown schemas when a record needs them, due or not."""
        self._unknown = UnknownSchemas()

    def _check_stop(self, reason: str, message: str) -> None:
        if self._settings.errors == "stop":
            raise BadRecordError(f"{self._damage}: {reason}: {message}")
