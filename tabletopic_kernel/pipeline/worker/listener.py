"""Whom a worker reports to, and the batches that it hands over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyiceberg.manifest import DataFile

from tabletopic_kernel.model.ledger import StagedOffsets
from tabletopic_kernel.pipeline.plan import Needs, RefusedRecord, StagePlan


@dataclass(frozen=True)
class StagedBatch:
    """Data files that no snapshot refers to yet, and the offsets they stand for.

    ``dead_letters`` are files of the dead-letter table; ``refused`` counts records that became no row,
    by reason, and ``passed_over`` those that asked for none. ``replay_id`` names the replay whose rows
    these are; such a batch stands for no offsets.
    """

    offsets: StagedOffsets
    files: tuple[DataFile, ...]
    rows: int
    seconds: float
    dead_letters: tuple[DataFile, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    samples: tuple[RefusedRecord, ...] = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)
    replay_id: str | None = None

    @property
    def bytes(self) -> int:
        """Size of the files."""
        return sum(file.file_size_in_bytes for file in (*self.files, *self.dead_letters))


class Listener(Protocol):
    """Whom a worker reports to; called from the worker's threads."""

    def staged(self, batch: StagedBatch) -> None:
        """Take a batch; blocks while too much waits for its commit."""

    def plan_for(self, needs: Needs, *, recheck: bool = False) -> StagePlan:
        """Meet the needs of a batch; raises when it cannot be done.

        ``recheck``: a new batch begins, so other schemas that the registry did not know are forgotten.
        """
        ...

    def discard(self, files: Sequence[DataFile], dead_letters: Sequence[DataFile]) -> None:
        """Delete files that no commit will take (I10)."""

    def ended(self, error: Exception | None) -> None:
        """The query is over; None after ``stop``."""
