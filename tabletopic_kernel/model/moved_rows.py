"""The positions of a file's rows after a compaction."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

Positions = np.ndarray[tuple[int], np.dtype[np.int64]]
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
_PLACE = np.dtype("<u4")


@dataclass(frozen=True)
class MovedRows:
    """The ``rows`` rows of the file at ``path``, without those deleted from it.

    ``products`` are the new files, each with the number of its first row among all rows. Rows of this file
    are numbered from ``base`` in their original order; or, if they were sorted together with others, each has
    one of the ``places``. Without products their positions are unknown. ``dropped`` has a bit per row, and
    is empty if none is set; ``places`` has four bytes per remaining row, and is empty if the order is
    unchanged. Both are compressed.

    >>> moved = MovedRows.of("a", np.array([False, True, False, False]), (("ab", 0),), 10)
    >>> moved.translated(np.array([0, 1, 3, 3, 4])), moved.dropped_rows
    ({'ab': array([10, 12])}, 1)
    >>> moved = MovedRows.of("a", np.array([False, True, False]), (("ab", 0), ("cd", 5)), 0, np.array([7, 3]))
    >>> moved.translated(np.array([0, 1, 2]))
    {'ab': array([3]), 'cd': array([2])}
    """

    path: str
    rows: int
    products: tuple[tuple[str, int], ...]
    base: int
    dropped: bytes = b""
    places: bytes = b""

    @classmethod
    def of(
        cls,
        path: str,
        dropped: Mask,
        products: tuple[tuple[str, int], ...],
        base: int,
        places: np.ndarray[tuple[int], np.dtype[np.integer]] | None = None,
    ) -> MovedRows:
        """``dropped``: whether each row was; ``places``: the numbers of the others."""
        bits = zlib.compress(np.packbits(dropped).tobytes(), 1) if dropped.any() else b""
        numbers = b"" if places is None else zlib.compress(places.astype(_PLACE).tobytes(), 1)
        return cls(path, len(dropped), products, base, bits, numbers)

    @property
    def mask(self) -> Mask:
        """Whether each row was dropped."""
        if not self.dropped:
            return np.zeros(self.rows, np.bool_)
        bits = np.frombuffer(zlib.decompress(self.dropped), np.uint8)
        return np.unpackbits(bits, count=self.rows).astype(np.bool_)

    @property
    def dropped_rows(self) -> int:
        """The number of dropped rows."""
        return int(self.mask.sum())

    def translated(self, positions: Positions) -> dict[str, Positions] | None:
        """Positions by product, ascending, without dropped rows, and beyond the file's; None if unknown."""
        mask = self.mask
        deleted = np.zeros(self.rows, np.bool_)
        deleted[positions[(positions >= 0) & (positions < self.rows)]] = True
        indexes = np.flatnonzero(deleted[~mask])
        if not len(indexes):
            return {}
        if not self.products:
            return None
        numbers = self.base + indexes
        if self.places:
            numbers = np.sort(np.frombuffer(zlib.decompress(self.places), _PLACE)[indexes].astype(np.int64))
        starts = np.array([start for _, start in self.products])
        by_product: dict[str, Positions] = {}
        owners = np.searchsorted(starts, numbers, side="right") - 1
        for index in np.unique(owners).tolist():
            path, start = self.products[index]
            by_product[path] = numbers[owners == index] - start
        return by_product
