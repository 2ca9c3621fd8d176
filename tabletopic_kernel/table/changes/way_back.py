"""Files that a table's newest snapshot names and others deleted, and the snapshot to roll back to.

A removal of orphans deletes what the metadata that it once read does not name: also the files of commits made
since. So each commit asks for those of the one before it, and a takeover for all manifests and the newest
data files. The cost is bounded: no commit reads or asks for the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of
from pyiceberg.table.update import AssertRefSnapshotId, SetSnapshotRefUpdate

from tabletopic_kernel.clients.catalog.catalog import lends_keys
from tabletopic_kernel.clients.storage.storage import live_files, unreadable
from tabletopic_kernel.model.dead_letter import DEAD_LETTERS_OF_PROPERTY
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.table.changes.ledger_history import LedgerTable, ledger_of
from tabletopic_kernel.table.changes.metadata import commit_updates, expire

_NEWEST: Final = 64  # data files: those of the last commits, which a removal of orphans may have missed
_FURTHEST: Final = 200  # snapshots


class _Storage:
    """Which files of a table the storage lacks; asks for each once."""

    def __init__(self, table: Table) -> None:
        self._table, self._lent = table, lends_keys(table)
        self._faults: dict[str, str | None] = {}

    def faults(self, snapshot: Snapshot, newest: int) -> list[str]:
        """What is wrong with a snapshot's manifest list, its manifests, or its ``newest`` data files."""
        io = self._table.io
        if lists := self._of({snapshot.manifest_list: 0}):
            return lists
        manifests = sorted(snapshot.manifests(io), key=lambda manifest: -(manifest.sequence_number or 0))
        if gone := self._of({manifest.manifest_path: manifest.manifest_length for manifest in manifests}):
            return gone
        files: dict[str, int] = {}
        for manifest in manifests:
            if len(files) >= newest:
                break
            for _, live in live_files(io, [manifest]):
                files |= live
        return self._of(dict(islice(files.items(), newest)))

    def _of(self, files: Mapping[str, int]) -> list[str]:
        unknown = {path: size for path, size in files.items() if path not in self._faults}
        if unknown:
            self._faults |= dict.fromkeys(unknown) | unreadable(self._table.io, unknown, lent=self._lent)
        return [fault for path in files if (fault := self._faults[path])]


def missing_files(table: Table, newest: int = _NEWEST) -> list[str]:
    """What is wrong with the files of the head: its manifests, and its ``newest`` data files.

    Raises:
        RetryableError, ActionNeededError: the storage does not respond, or refuses.
    """
    head = table.metadata.current_snapshot()
    return _Storage(table).faults(head, newest) if head else []


@dataclass(frozen=True)
class WayBack:
    """The snapshot ``to`` roll back to, with its ledger; None if no remaining one has all its files.

    ``faults``: what is wrong with the head's files; ``over``: the snapshots on the way, newest first.
    """

    table: LedgerTable
    faults: tuple[str, ...]
    over: tuple[Snapshot, ...]
    to: Snapshot | None
    ledger: Ledger | None

    def obstacle(self) -> str | None:
        """Why records that are read again would not bring back all that is lost; None if they would."""
        ledgers = [ledger_of(snapshot) for snapshot in self.over]
        if self.to is None or self.ledger is None:
            return "no snapshot that is left has all its files and a ledger"
        if None in ledgers:
            foreign = self.over[ledgers.index(None)]
            return f"it would undo snapshot {foreign.snapshot_id}, which another program made"
        if any(ledger and ledger.replay_id != self.ledger.replay_id for ledger in ledgers):
            return "it would undo a replay of dead letters"
        if self._has_letters and any(_removes(snapshot) for snapshot in self.over):
            return "dead letters that became rows would come back"
        return None

    def error(self, obstacle: str) -> ActionNeededError:
        """The error of a table that a person must roll back, or give up."""
        name, why = self.table.identifier, f"{self.what}. It is not rolled back by itself: {obstacle}"
        if self.to is None or self.ledger is None:
            return ActionNeededError(
                f"{why}. Restore the files from a copy and resume the topic, or enable it with another "
                "--table, which is filled from `start`"
            )
        call = f"CALL {self.table.table.catalog.name}.system.rollback_to_snapshot"
        offsets = ", ".join(f"{p}: {offset}" for p, offset in sorted(self.ledger.next_offsets.items()))
        return ActionNeededError(
            f"{why}. Restore the files, or roll back to snapshot {self.to.snapshot_id} with Spark: `{call}"
            f"('{name}', {self.to.snapshot_id})`. Then `tabletopic resume {self.ledger.topic}` reads from "
            f"the offsets of that snapshot ({offsets})"
        )

    @property
    def what(self) -> str:
        """What happened."""
        more = f", and {len(self.faults) - 1} more" if len(self.faults) > 1 else ""
        return (
            "another program, perhaps a removal of orphan files, has deleted files of the newest snapshot "
            f"of {self.table.identifier} ({self.faults[0]}{more})"
        )

    def go(self) -> None:
        """Make ``to`` the head; raises HeadMovedError if another writer was first."""
        metadata = self.table.table.metadata
        assert self.to is not None
        branch = metadata.refs[MAIN_BRANCH].model_copy(update={"snapshot_id": self.to.snapshot_id})
        back = SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, **branch.model_dump(by_alias=True))
        head = AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=metadata.current_snapshot_id)
        commit_updates(self.table, (back,), (head,))

    def forget(self, planned: Ledger) -> None:
        """Remove the snapshots on the way, which nobody can read, unless somebody has named them.

        ``planned``: the table's ledger. Raises as ``TopicTable.expire``.
        """
        over = {snapshot.snapshot_id for snapshot in self.over}

        def choose(metadata: TableMetadata) -> list[int]:
            gone = over - {ref.snapshot_id for ref in metadata.refs.values()}
            return [one.snapshot_id for one in metadata.snapshots if one.snapshot_id in gone]

        expire(self.table, planned, choose)

    @property
    def _has_letters(self) -> bool:
        return DEAD_LETTERS_OF_PROPERTY in self.table.table.properties


def _removes(snapshot: Snapshot) -> bool:
    return snapshot.summary is None or snapshot.summary.operation is not Operation.APPEND


def way_back(table: LedgerTable, limit: Ledger | None = None) -> WayBack | None:
    """The way back to the newest snapshot that has its files, and is not ahead of ``limit``.

    None: that is the head. Raises as ``missing_files``.
    """
    metadata, storage = table.table.metadata, _Storage(table.table)
    head = metadata.current_snapshot()
    over: list[Snapshot] = []
    faults: list[str] = []
    for snapshot in islice(ancestors_of(head, metadata), _FURTHEST) if head else ():
        ledger = next(filter(None, map(ledger_of, ancestors_of(snapshot, metadata))), None)
        wrong = storage.faults(snapshot, _NEWEST)
        if not wrong and not (limit and ledger and ledger.is_ahead_of(limit)):
            return WayBack(table, tuple(faults), tuple(over), snapshot, ledger) if over else None
        faults = faults or wrong
        over.append(snapshot)
    return WayBack(table, tuple(faults), tuple(over), None, None) if over else None
