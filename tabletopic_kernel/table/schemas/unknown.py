"""Schemas that the registry does not have, or not for a topic, and may have any time: asked for again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tabletopic_kernel.formats.wire import SchemaKey

# Asked for again with the next batch, then after a second, and so on up to this; garbage names many ids.
_LONGEST_MS: Final = 60_000
# Remembered from batch to batch; of more, the oldest are asked for again when a record names them.
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
        """Refuse a schema for now."""
        _, wait = self._due.get(key, (0, 0))
        self._reasons[key] = (reason, message)
        self._due[key] = (now_ms + wait, min(_LONGEST_MS, max(1_000, 2 * wait)))

    def clear(self, key: SchemaKey) -> None:
        """The registry has it."""
        self._reasons.pop(key, None)
        self._due.pop(key, None)

    def due(self, wanted: Iterable[SchemaKey], now_ms: int) -> frozenset[SchemaKey]:
        """A batch begins: those of ``wanted`` to ask for now. Too many are forgotten, the oldest first."""
        for key in list(self._reasons)[: max(0, len(self._reasons) - _MOST)]:
            self.clear(key)
        return frozenset(key for key in wanted if key not in self._reasons or self._due[key][0] <= now_ms)
