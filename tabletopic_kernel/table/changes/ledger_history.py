"""A loaded table with the history of its ledger: the newest one, its owner, rollbacks."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import NamedTuple

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from tabletopic_kernel.clients.catalog.catalog import reachable
from tabletopic_kernel.model.dead_letter import DEAD_LETTERS_OF_PROPERTY
from tabletopic_kernel.model.errors import ActionNeededError, HeadMovedError, LostOwnershipError, ResumeError
from tabletopic_kernel.model.ledger import KEPT_PROPERTY, PREFIX, SEQUENCE, TAG, Ledger
from tabletopic_kernel.table.changes.lineage import has_newest_rows

_Mark = tuple[str | None, int]  # a snapshot's commit id and epoch; None and 0 if another writer made it


class Written(NamedTuple):
    """Files of a commit, with their least bytes: its metadata, some of its data files, some older files."""

    snapshot_id: int
    metadata: Mapping[str, int]
    data: Mapping[str, int]
    older: Mapping[str, int]

    @property
    def files(self) -> dict[str, int]:
        return {**self.metadata, **self.data, **self.older}


class LedgerTable:
    """A table as it was last read. Not thread-safe: only for the coordinator's thread."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._loaded = table.metadata  # while it is held, the catalog's own load does not parse it again
        self._marks: dict[int, _Mark] = {}
        self._marked: TableMetadata | None = None  # the metadata with these snapshots; immutable
        self.written: Written | None = None  # by the newest commit through this object
        self.foreign_changes = 0  # found by commits; the owner reads its own changes again

    def written_at_head(self) -> Written | None:
        """What the newest commit wrote, if it was made through this object and is the head."""
        is_head = self.written and self.written.snapshot_id == self.table.metadata.current_snapshot_id
        return self.written if is_head else None

    @property
    def identifier(self) -> str:
        """Namespace and name, dotted."""
        return ".".join(self.table.name())

    def reload(self) -> None:
        """Read the table's current metadata; raises ResumeError if it was dropped or replaced (I8)."""
        uuid = self.table.metadata.table_uuid
        try:
            with reachable("the catalog"):
                fresh = self.table.catalog.load_table(self.table.name())
        except NoSuchTableError as error:
            raise self.gone_error() from error
        if fresh.metadata.table_uuid != uuid:
            raise ResumeError(f"the table {self.identifier} was replaced by another one; resume to adopt it")
        self.table = fresh

    def ledger_snapshot(self) -> tuple[Ledger, Snapshot | None] | None:
        """The newest ledger among the ancestors of the head; foreign snapshots in between are skipped.

        Its snapshot is None if that has expired, and a property has kept the ledger.
        """
        metadata = self.table.metadata
        head = metadata.current_snapshot()
        for snapshot in ancestors_of(head, metadata) if head else ():
            if ledger := ledger_of(snapshot):
                return ledger, snapshot
        # The ancestors up to a foreign head have expired: the tag kept the ledger's snapshot.
        tag = metadata.refs.get(TAG)
        kept = metadata.snapshot_by_id(tag.snapshot_id) if tag else None
        ledger = ledger_of(kept) if kept else Ledger.from_summary(_kept(self.table))
        return (ledger, kept) if ledger else None

    @property
    def ledger(self) -> Ledger | None:
        """See ``ledger_snapshot``."""
        newest = self.ledger_snapshot()
        return newest[0] if newest else None

    def ledger_of_rows(self) -> Ledger | None:
        """The newest ledger, None without rows; raises ActionNeededError if others have removed all (I8)."""
        head = self.table.metadata.current_snapshot()
        ledger = self.ledger
        if head is None or ledger is not None or summary(head).get("total-records") == "0":
            return ledger
        raise ActionNeededError(
            f"{self.identifier} has rows but no ledger: another program has left no snapshot with one, nor "
            f"the tag {TAG}, so where to resume is unknown. Enable the topic with another --table, which is "
            "filled from `start`, or drop this one"
        )

    @property
    def newest_epoch(self) -> int:
        """See ``newest_epoch``."""
        return max((epoch for _, epoch in self._marks_of_all()), default=0)

    def has_commit(self, commit_id: str) -> bool:
        """Whether a snapshot of the history carries this commit id (I4)."""
        return any(known_id == commit_id for known_id, _ in self._marks_of_all())

    def _marks_of_all(self) -> Collection[_Mark]:
        """Commit id and epoch of every snapshot; snapshots never change, so each summary is read once."""
        metadata, known = self.table.metadata, self._marks
        if metadata is not self._marked:
            self._marks = {
                snapshot.snapshot_id: known.get(snapshot.snapshot_id)
                or (summary(snapshot).get(f"{PREFIX}commit-id"), epoch_of(snapshot))
                for snapshot in metadata.snapshots
            }
            self._marked = metadata
        return self._marks.values()

    def gone_error(self) -> ActionNeededError:
        """The error of a table that is no longer in the catalog."""
        has_letters = DEAD_LETTERS_OF_PROPERTY in self.table.properties
        new = (
            "begin a new one, without the lost dead letters" if has_letters else "fill a new one from `start`"
        )
        return ResumeError(f"the table {self.identifier} no longer exists; resume the topic to {new}")

    def check_not_over(self, epoch: int) -> None:
        """Raise LostOwnershipError if a higher epoch is in the table (I5)."""
        if self.newest_epoch > epoch:
            raise LostOwnershipError(f"{self.identifier} has epoch {self.newest_epoch}, ours is {epoch}")

    def check_planned_on(self, planned: Ledger | None, epoch: int) -> None:
        """Check that the ledger is ``planned``, and that no higher epoch is in the table (I3, I5)."""
        ledger, newest = self.ledger_of_rows(), self.newest_epoch
        if newest > epoch or (ledger and ledger.epoch > (planned.epoch if planned else 0)):
            raise LostOwnershipError(f"{self.identifier} has epoch {newest}, ours is {epoch}")
        if (ledger and ledger.commit_id) != (planned and planned.commit_id):
            if planned and planned.epoch < epoch:  # until a claim goes through, the previous owner commits
                raise HeadMovedError(f"the ledger of {self.identifier} advanced during the takeover")
            raise ResumeError(
                f"the ledger of {self.identifier} has moved: expected "
                f"{dict(planned.next_offsets) if planned else 'none'}, found "
                f"{dict(ledger.next_offsets) if ledger else 'none'}; was the table rolled back? "
                "Resume the topic to continue from the table's ledger"
            )

    def check_not_behind(self) -> None:
        """Check that the rows of the ledger that the tag kept were not rolled back (I8).

        After others have expired the ledger's ancestors, a rollback to one of their snapshots leaves a head
        without a ledger; the tag's ledger is newer, and its rows are no longer in the table. The
        oldest remaining ancestor is older than the tag's snapshot then; the head may not be, as somebody may
        have appended. If the snapshot that the table was rolled back to has expired too, only rows can tell
        (``lineage``).
        """
        metadata = self.table.metadata
        newest, oldest = self.ledger_snapshot(), None
        for oldest in ancestors_of(metadata.current_snapshot(), metadata) if newest else ():
            if ledger_of(oldest):
                return
        if not newest or not oldest:
            return
        kept = newest[1]
        number = kept.sequence_number if kept else int(_kept(self.table).get(SEQUENCE, 0))
        is_behind = (number or 0) > (oldest.sequence_number or 0)
        if is_behind or (kept and not has_newest_rows(self.table, kept)):
            why = (
                "was rolled back to a snapshot whose ledger others have expired"
                if is_behind
                else "lacks rows of its newest commit, and others have expired the snapshots that would show "
                "whether it was rolled back"
            )
            to = f"{kept.snapshot_id}, which the tag {TAG} has kept" if kept else "of its ledger"
            raise ActionNeededError(
                f"{self.identifier} {why}: where to resume is unknown. Roll it forward to snapshot "
                f"{to}, and delete again what others deleted on purpose, or enable the topic with another "
                "--table"
            )


def newest_epoch(metadata: TableMetadata) -> int:
    """The highest epoch in any snapshot, 0 if there is none: all lower ones are over (I5).

    Not only the head's ancestors count: a rollback removes the newest owner's claim from these, and that
    owner's files, or its predecessor's, may be gone by then. Expiry keeps the snapshot that the tag names.
    """
    return max(map(epoch_of, metadata.snapshots), default=0)


def epoch_of(snapshot: Snapshot) -> int:
    """The epoch of a snapshot's owner; 0 if another program made it."""
    return int(summary(snapshot).get(f"{PREFIX}epoch", 0))


def summary(snapshot: Snapshot) -> Mapping[str, str]:
    """A snapshot's summary; empty if it has none."""
    return snapshot.summary.additional_properties if snapshot.summary else {}


def live_rows(totals: Mapping[str, str]) -> int:
    """The rows that readers get, by a snapshot's summary: a lower bound, but with rows deleted by value."""
    records, positions = (int(totals.get(f"total-{name}", 0)) for name in ("records", "position-deletes"))
    return max(records - positions, 0)


def ledger_of(snapshot: Snapshot) -> Ledger | None:
    """The ledger in a snapshot; None if another writer made it."""
    return Ledger.from_summary(summary(snapshot))


def _kept(table: Table) -> dict[str, str]:
    kept: dict[str, str] = json.loads(table.properties.get(KEPT_PROPERTY, "{}"))
    return kept


def kept_keys(table: Table) -> tuple[str, ...]:
    """Files with deleted keys that the ledger in a property names."""
    kept = Ledger.from_summary(_kept(table))
    return kept.deleted_keys if kept else ()


def locations(table: Table, ledger: Ledger) -> list[str]:
    """Where the files with the deleted keys are that a ledger names."""
    names = ledger.deleted_keys
    return [f"{_keys_root(table)}{name}" if name.startswith("epoch-") else name for name in names]


def key_file_name(table: Table, location: str) -> str:
    """How a ledger names a file with deleted keys: whole if it is elsewhere, by ``write.data.path``.

    So it is found again if somebody changes that property.
    """
    return location.removeprefix(_keys_root(table))


def _keys_root(table: Table) -> str:
    return f"{table.metadata.location.rstrip('/')}/data/{table.metadata.table_uuid}/"
