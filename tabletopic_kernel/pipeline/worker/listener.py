"""Who hears of what a worker stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyiceberg.manifest import DataFile

from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.pipeline.plan import Needs, StagedBatch, StagePlan


class Listener(Protocol):
    """The receiver of a worker's reports; called from the worker's threads."""

    def staged(self, batch: StagedBatch) -> None:
        """Take a batch; blocks while too much is uncommitted."""

    def plan_for(self, needs: Needs, *, recheck: bool = False) -> StagePlan:
        """Provide what a batch needs, or raise; ``recheck``: look up unknown schemas that are due again."""
        ...

    def discard(self, files: Sequence[DataFile], dead_letters: Sequence[DataFile]) -> None:
        """Delete files that will never be committed (I10)."""

    def ended(self, error: TableTopicError | None) -> None:
        """Note that the query is over; None after ``stop``."""
