"""What a topic's worker and its maintenance have staged, until it is committed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from tabletopic_kernel.pipeline.plan import StagedBatch

# Limits of what is staged: beyond them the worker waits, so a catalog's outage fills no disk.
_MAX_BATCHES: Final = 64
_MAX_COMMITS: Final = 4  # times commit_bytes


class StagedBatches:
    """Staged batches in the order of their offsets. Thread-safe; ``_room`` guards the list."""

    def __init__(self) -> None:
        self._room = threading.Condition()
        self._batches: list[StagedBatch] = []

    def __len__(self) -> int:
        return len(self.now())

    def now(self) -> tuple[StagedBatch, ...]:
        with self._room:
            return tuple(self._batches)

    @property
    def bytes(self) -> int:
        return sum(batch.bytes for batch in self.now())

    def add(self, batch: StagedBatch) -> None:
        with self._room:
            self._batches.append(batch)

    def remove(self, count: int | None = None) -> list[StagedBatch]:
        """Take the first ``count`` batches out, or all."""
        with self._room:
            removed = self._batches[:count]
            self._batches = self._batches[len(removed) :]
            self._room.notify_all()
        return removed

    def wait_for_room(self, commit_bytes: int, is_over: Callable[[], bool]) -> None:
        """Wait while too much is uncommitted, unless the ownership ``is_over``."""
        limit = _MAX_COMMITS * commit_bytes
        with self._room:
            while not is_over() and (
                len(self._batches) > _MAX_BATCHES or sum(batch.bytes for batch in self._batches) > limit
            ):
                self._room.wait(0.5)
