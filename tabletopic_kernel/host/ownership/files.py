"""The data files of an owner's tables: claimed once, and removed if they were never part of a commit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from pyiceberg.manifest import DataFile

from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.table.dead_letters import DeadLetters
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tabletopic_kernel.table.sweep import claim_files, load_same, remove_unsent

_LOG = logging.getLogger(__name__)


class OwnedFiles:
    """Of one ownership. ``discard`` is for any thread; ``swept_epoch`` is set by the sweep alone."""

    def __init__(self, keeper: SchemaKeeper, dead_letters: DeadLetters, ledger: Ledger) -> None:
        self._keeper = keeper
        self._dead_letters = dead_letters
        self._topic, self._epoch = ledger.topic, ledger.epoch
        self.swept_epoch = ledger.swept_epoch
        self._claimed: set[str] = set()  # ids of tables whose files were claimed, or whose claim was refused

    def claim_once(self) -> None:
        """Claim the tables' files before a copy of the catalog can; a refused claim only stops deletions."""
        for owned in (self._keeper.table, self._dead_letters.table):
            if owned is None or str(owned.table.metadata.table_uuid) in self._claimed:
                continue
            table = owned.table
            self._claimed.add(str(table.metadata.table_uuid))
            try:
                claim_files(table, partial(load_same, table, table.catalog))
            except TableTopicError as error:
                _LOG.warning("%s: no file will be removed: %s", self._topic, error)
            except Exception:  # such as a storage that permits no other files: rows need no claim
                _LOG.exception("%s: no file will be removed", self._topic)

    def discard(self, files: Sequence[DataFile], dead_letters: Sequence[DataFile]) -> None:
        """Delete files that never were part of a commit; why and what it raises: see ``remove_unsent``."""
        reach(Step.DISCARD)
        for table, discarded in ((self._keeper.table, files), (self._dead_letters.table, dead_letters)):
            if table is not None and discarded:
                remove_unsent(table.table, [file.file_path for file in discarded])

    @property
    def is_sweep_due(self) -> bool:
        """Whether there may be files of earlier epochs."""
        return self._keeper.table is not None and self.swept_epoch < self._epoch - 1
