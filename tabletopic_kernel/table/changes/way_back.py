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

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.storage.storage import live_files, unreadable
from tabletopic_kernel.model.dead_letter import DEAD_LETTERS_OF_PROPERTY
from tabletopic_kernel.model.errors import ActionNeededError, ResumeError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.table.changes.ledger_history import LedgerTable, ledger_of
from tabletopic_kernel.table.changes.metadata import commit_updates, expire

_NEWEST: Final = 64  # data files: those of the last commits, which a removal of orphans may have missed
_FURTHEST: Final = 200  # snapshots


def missing_files(table: Table, newest: int = _NEWEST) -> list[str]:
    """What is wrong with the files of the head: its manifests, and its ``newest`` data files."""
    head = table.metadata.current_snapshot()
    return _faults(table, head, newest, {}) if head else []


def _faults(table: Table, snapshot: Snapshot, newest: int, known: dict[str, str | None]) -> list[str]:
    """The same for any snapshot; asks for no file that is ``known``, with its fault, and adds the others."""

    def faults_of(files: Mapping[str, int]) -> list[str]:
        new = {path: size for path, size in files.items() if path not in known}
        known.update(dict.fromkeys(new) | unreadable(table.io, new, lent=lends_keys(table)) if new else {})
        return [fault for path in files if (fault := known[path])]

    if faults := faults_of({snapshot.manifest_list: 0}):
        return faults
    files: dict[str, int] = {}
    with reachable("the storage", lent=lends_keys(table)):
        manifests = sorted(snapshot.manifests(table.io), key=lambda file: -(file.sequence_number or 0))
        if faults := faults_of({manifest.manifest_path: manifest.manifest_length for manifest in manifests}):
            return faults
        while manifests and len(files) < newest:
            files |= next(iter(live_files(table.io, [manifests.pop(0)])))[1]
    return faults_of(dict(islice(files.items(), newest)))


@dataclass(frozen=True)
class WayBack:
    """The snapshot ``to`` roll back to, with its ledger; None if no remaining one has all its files.

    ``faults``: what is wrong with the head's files; ``over``: the snapshots on the way, newest first.
    """

    table: LedgerTable
    faults: tuple[str, ...]
    over: tuple[Snapshot, ...]
    to: Snapshot | None = None
    ledger: Ledger | None = None

    @property
    def has_letters(self) -> bool:
        """Whether it is a dead-letter table's."""
        return DEAD_LETTERS_OF_PROPERTY in self.table.table.properties

    @property
    def obstacle(self) -> str | None:
        """Why records that are read again would not bring back all that is lost; None if they would."""
        if self.to is None or self.ledger is None:
            return "no snapshot that is left has all its files and a ledger"
        for snapshot in self.over:
            if (ledger := ledger_of(snapshot)) is None:
                return f"it would undo snapshot {snapshot.snapshot_id}, which another program made"
            appends = snapshot.summary is not None and snapshot.summary.operation is Operation.APPEND
            if ledger.replay_id != self.ledger.replay_id or (self.has_letters and not appends):
                return "it would undo a replay of dead letters"
        return None

    def error(self, obstacle: str) -> ActionNeededError:
        """The error of a table that a person must roll back, or give up."""
        way, name = "", self.table.identifier
        if self.to is not None and self.ledger is not None:
            call = f"CALL {self.table.table.catalog.name}.system.rollback_to_snapshot"
            offsets = ", ".join(f"{p}: {offset}" for p, offset in sorted(self.ledger.next_offsets.items()))
            way = (
                f"roll back to snapshot {self.to.snapshot_id} with Spark (`{call}('{name}', "
                f"{self.to.snapshot_id})`), so that `tabletopic resume {self.ledger.topic}` reads from its "
                f"offsets ({offsets}), or "
            )
        return ResumeError(
            f"{self}. It is not rolled back by itself: {obstacle}. Restore the files from a copy, or {way}"
            "enable the topic with another --table; resume it then"
        )

    def __str__(self) -> str:
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
        """Remove the snapshots on the way that are no branch's or tag's; raises as ``TopicTable.expire``."""
        over = {snapshot.snapshot_id for snapshot in self.over}

        def choose(metadata: TableMetadata) -> list[int]:
            removable = over - {ref.snapshot_id for ref in metadata.refs.values()}
            ids = (snapshot.snapshot_id for snapshot in metadata.snapshots)
            return [snapshot_id for snapshot_id in ids if snapshot_id in removable]

        expire(self.table, planned, choose)


def way_back(table: LedgerTable, limit: Ledger | None = None) -> WayBack | None:
    """The way back to the newest snapshot with its files, not ahead of ``limit``; None: it is the head."""
    metadata, known = table.table.metadata, dict[str, str | None]()
    head = metadata.current_snapshot()
    over: list[Snapshot] = []
    faults: list[str] = []
    for snapshot in islice(ancestors_of(head, metadata), _FURTHEST) if head else ():
        ledger = next(filter(None, map(ledger_of, ancestors_of(snapshot, metadata))), None)
        wrong = _faults(table.table, snapshot, _NEWEST, known)
        if not wrong and (limit is None or (ledger and not ledger.is_ahead_of(limit))):
            return WayBack(table, tuple(faults), tuple(over), snapshot, ledger) if over else None
        faults = faults or wrong
        over.append(snapshot)
    return WayBack(table, tuple(faults), tuple(over)) if over else None
