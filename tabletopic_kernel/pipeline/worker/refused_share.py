"""The limit on refused records: a wrong setting must not pour a whole topic into dead letters."""

from __future__ import annotations

from collections import deque
from typing import Final

# Fewer say nothing about a topic: a handful of bad records in a row is what dead letters are for.
MIN_RECORDS: Final = 1_000
# Unless none of the records since the beginning is a row: that is no bad luck.
MIN_IF_ALL: Final = 100


class RefusedShare:
    """Watches the newest batches that together have at least ``MIN_RECORDS`` records.

    Before there are so many, ``MIN_IF_ALL`` are enough if all of them were refused.

    >>> watch = RefusedShare(limit=0.5)
    >>> watch.is_over(records=900, refused=850)
    False
    >>> watch.is_over(records=100, refused=0), watch.share
    (True, 0.85)
    >>> RefusedShare(limit=0.5).is_over(records=100, refused=100)
    True
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._batches: deque[tuple[int, int]] = deque()

    @property
    def records(self) -> int:
        """Records that are looked at now."""
        return sum(records for records, _ in self._batches)

    @property
    def share(self) -> float:
        """How many of them were refused, 0 to 1."""
        return sum(refused for _, refused in self._batches) / max(1, self.records)

    def is_over(self, records: int, refused: int) -> bool:
        """Take in a batch; whether more than ``limit`` of the newest records were refused."""
        self._batches.append((records, refused))
        while self.records - self._batches[0][0] >= MIN_RECORDS:
            self._batches.popleft()
        enough = MIN_IF_ALL if self.share == 1 else MIN_RECORDS
        return self.records >= enough and self.share > self._limit
