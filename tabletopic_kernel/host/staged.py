"""Batches that are staged and wait for their commit."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tabletopic_kernel.pipeline.plan import StagedBatch

# Staged and not committed: beyond this the worker waits, so an outage of the catalog fills no disk.
_MAX_BATCHES = 64
_MAX_COMMITS = 4  # times commit_bytes


class StagedBatches:
    """In the order of their offsets. May be used from any thread; ``_room`` guards the list."""

    def __init__(self) -> None:
        self._room = threading.Condition()
        self._batches: list[StagedBatch] = []

    def __len__(self) -> int:
        return len(self.now())

    def now(self) -> tuple[StagedBatch, ...]:
        """All that wait."""
        with self._room:
            return tuple(self._batches)

    @property
    def bytes(self) -> int:
        """Size of their files."""
        return sum(batch.bytes for batch in self.now())

    def add(self, batch: StagedBatch) -> None:
        """Put a batch at the end."""
        with self._room:
            self._batches.append(batch)

    def remove(self, count: int | None = None) -> list[StagedBatch]:
        """Take the first ``count`` batches out, or all."""
        with self._room:
            gone = self._batches[:count]
            self._batches = self._batches[len(gone) :]
            self._room.notify_all()
        return gone

    def wait_for_room(self, commit_bytes: int, stopping: Callable[[], bool]) -> None:
        """Wait while too much is uncommitted; returns at once when the worker is to stop."""
        limit = _MAX_COMMITS * commit_bytes
        with self._room:
            while not stopping() and (
                len(self._batches) > _MAX_BATCHES or sum(one.bytes for one in self._batches) > limit
            ):
                self._room.wait(0.5)
