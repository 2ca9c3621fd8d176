"""The state of a table topic's owner: the table, its dead letters, the ledger and the pending commit."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile

from pyiceberg.manifest import DataFile

from tabletopic_kernel.clients.storage.locations import file_name
from tabletopic_kernel.host.ownership.files import OwnedFiles
from tabletopic_kernel.model.errors import (
    HeadMovedError,
    OutcomeUnknownError,
    OutdatedError,
    RetryableError,
    StartOverError,
    TableTopicError,
    UnreadableFilesError,
)
from tabletopic_kernel.model.ledger import Ledger, Offsets, added
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.pipeline.plan import (
    CompactedBatch,
    Needs,
    OwnCommit,
    ReplayedBatch,
    StagedBatch,
    StagePlan,
)
from tabletopic_kernel.table.changes.change import TableChange, appended
from tabletopic_kernel.table.changes.ledger_history import locations, summary
from tabletopic_kernel.table.changes.row_deletes import DeletingBatch, deleted
from tabletopic_kernel.table.changes.upsert.staged import Upsert
from tabletopic_kernel.table.changes.upsert.upserted import remembering, upserted, with_fewer_files
from tabletopic_kernel.table.compaction.replace import compacted
from tabletopic_kernel.table.dead_letters import DeadLetters
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tabletopic_kernel.table.topic_table import TopicTable


@dataclass(frozen=True)
class PendingCommit:
    """A planned commit, kept until its outcome is known, so that a retry is the same commit.

    ``sent``: the catalog was asked to commit it, whatever the answer. ``unsure``: its outcome is unknown.
    ``dead_letters_sent``: its letters are in their table.
    """

    batches: tuple[StagedBatch, ...]
    change: TableChange
    sent: bool = False
    unsure: bool = False
    dead_letters_sent: bool = False
    upsert: Upsert | None = None  # of a table that is kept by key

    @property
    def after(self) -> Ledger:
        """The table's ledger after the commit."""
        return self.change.ledger

    @property
    def files(self) -> Sequence[DataFile]:
        """Data files of the table."""
        return self.change.add

    @property
    def dead_letters(self) -> list[DataFile]:
        """Data files of the dead-letter table."""
        return [file for batch in self.batches for file in batch.dead_letters]


class Owner:
    """One ownership of a table topic. Only for the coordinator's thread, except ``files``."""

    def __init__(
        self, keeper: SchemaKeeper, dead_letters: DeadLetters, ledger: Ledger, start: Offsets
    ) -> None:
        self.keeper = keeper
        self.dead_letters = dead_letters
        self.ledger = ledger
        self.start = start
        self.files = OwnedFiles(keeper, dead_letters, ledger)
        self.pending: PendingCommit | None = None
        self._left_open = False  # this owner gave up a commit that may still arrive
        # Records deleted before this ownership began, or lost by the log, if the settings say go on (I8).
        self.gap: Mapping[int, tuple[int, int]] = {}
        self.mended: str | None = None  # what the takeover repaired
        self.truncated: Mapping[int, tuple[int, int]] = {}

    @property
    def table(self) -> TopicTable | None:
        """The topic's table; None while it has no columns."""
        return self.keeper.table

    def took_from(self, before: Owner) -> bool:
        """Whether it owns another epoch, table or start than ``before``."""
        table, table_before = (
            owner.table.table.metadata.table_uuid if owner.table else None for owner in (self, before)
        )
        is_other = table != table_before or self.ledger.epoch != before.ledger.epoch
        return is_other or bool(self.gap or self.truncated)

    def still_owns(self, ledger: Ledger, newest_epoch: int) -> bool:
        """Whether the table is as this owner left it: then no new epoch is needed after an outage."""
        is_unsure = self._left_open or (self.pending is not None and self.pending.unsure)
        is_unchanged = ledger.commit_id == self.ledger.commit_id and newest_epoch == self.ledger.epoch
        return is_unchanged and not is_unsure

    def plan(self) -> StagePlan:
        return replace(self.keeper.plan(), dead_letters=self.dead_letters.plan())

    def satisfy(self, needs: Needs, *, recheck: bool) -> StagePlan:
        """Make a batch stageable; raises as ``cover``, ``DeadLetters.ensure`` and ``check_writable``."""
        self.keeper.cover(needs, recheck=recheck)
        if needs.dead_letters:
            self.dead_letters.ensure(self.keeper.needed_table(), self.ledger)
        self.keeper.check_writable()
        self.dead_letters.check_writable()
        self.files.claim_once()
        return self.plan()

    def plan_commit(self, batches: Sequence[StagedBatch], now_ms: int | None = None) -> PendingCommit | None:
        """The pending commit, else a new commit of ``batches``; None without batches.

        A compaction, or a deletion, is a commit of its own, with unchanged offsets. ``now_ms`` bounds the
        ledger's times.
        """
        if self.pending is None and batches:
            first, swept_epoch = batches[0], self.files.swept_epoch
            after = replace(self.ledger, commit_id=str(uuid.uuid4()), swept_epoch=swept_epoch)
            if isinstance(first, CompactedBatch):
                batches, change = [first], compacted(after, first.files, first.replaced)
            elif isinstance(first, DeletingBatch):
                batches, change = [first], deleted(after, first)
            else:
                batches = list(takewhile(lambda batch: not isinstance(batch, OwnCommit), batches))
                self.pending = _rows(self.keeper, _advanced(after, batches, now_ms), tuple(batches))
                return self.pending
            self.pending = PendingCommit(tuple(batches), change)
        return self.pending

    def send(self) -> None:
        """Send the pending commit: dead letters first, then rows with the same commit id (I7).

        Raises: as ``TopicTable.commit``; OutdatedError also if a compaction's files cannot be read.
        """
        pending = self.pending
        assert pending is not None
        table = self.keeper.needed_table()
        reach(Step.COMMIT)
        try:
            if pending.dead_letters:
                self.dead_letters.commit(pending.dead_letters, self.ledger, pending.after)
                self.pending = pending = replace(pending, dead_letters_sent=True)
                reach(Step.LETTERS)
            if pending.upsert is not None and not pending.sent:
                newest, letters = self.ledger.newest_ms, self.dead_letters
                change = with_fewer_files(table.table, pending.change, pending.upsert, newest, letters)
                self.pending = pending = replace(pending, change=change)
            table.commit(self.ledger, pending.change)
        except UnreadableFilesError as error:
            if not pending.change.keeps_rows:
                raise
            raise OutdatedError(str(error)) from error
        except (HeadMovedError, OutcomeUnknownError):  # others are raised before anything is sent
            self.pending = replace(pending, sent=True)
            raise

    def answer_lost(self) -> None:
        """Note that it is unknown whether the pending commit is in the table."""
        if self.pending is not None:
            self.pending = replace(self.pending, unsure=True)

    def give_up(self) -> Sequence[DataFile]:
        """Drop the pending compaction, which no longer matches the table; returns its files, to ``discard``.

        None of them if a request may name them. Raises StartOverError if the commit may still arrive: another
        epoch must begin (I5).
        """
        pending = self.pending
        assert pending is not None
        if pending.unsure:
            raise StartOverError(
                "other programs changed files of a compaction whose commit was unconfirmed; the topic "
                "restarts where its table ends"
            )
        self.pending = None
        return () if pending.sent else pending.files

    def is_in_table(self) -> bool:
        """Look for the pending commit in the table's history (I4); raises as ``TopicTable.reload``."""
        reach(Step.SETTLE)
        table = self.keeper.needed_table()
        table.reload()
        return self.pending is not None and table.has_commit(self.pending.after.commit_id)

    def done(self) -> PendingCommit:
        """Adopt the ledger of the pending commit, which is in the table.

        Deletes that were merged before it was sent are in no request: their files go.
        """
        pending, self.pending = self.pending, None
        assert pending is not None
        self.ledger = pending.after
        if pending.upsert is not None and self.table is not None:
            in_table = self.table.ledger  # with the changes that the look-up counted
            if in_table is not None and in_table.commit_id == self.ledger.commit_id:
                self.ledger = in_table
            # By name: others may have spelled the table's location in another way since.
            named = set(map(file_name, locations(self.table.table, self.ledger)))
            merged = [file for file in pending.upsert.deletes if file_name(file.file_path) not in named]
            if merged:
                with suppress(RetryableError):  # the next owner's sweep takes what is left
                    self.files.discard(merged, ())
        return pending

    def settle_letters(self) -> None:
        """Remove replayed dead letters; raises as ``DeadLetters.settle``, and the next commit tries again."""
        if self.dead_letters.table is None:
            return
        try:
            self.dead_letters.settle(self.ledger)
        except TableTopicError:
            self.dead_letters.unsettle()
            raise

    def commit_letters_compaction(self, batch: CompactedBatch) -> tuple[int, int]:
        """Commit a compaction of the dead letters; returns ``delete_file_counts``.

        Raises OutdatedError if it is not committed. Its files are deleted, unless a request that may still
        arrive names them: then the next owner's sweep decides.
        """
        try:
            self.dead_letters.commit_compaction(batch.files, batch.replaced, self.ledger)
        except TableTopicError as error:
            if not isinstance(error, HeadMovedError | OutcomeUnknownError):
                with suppress(RetryableError):
                    self.files.discard((), batch.files)
            raise OutdatedError(str(error)) from error
        return delete_file_counts(self.dead_letters.table)

    def drop(self, batches: Sequence[StagedBatch]) -> None:
        """Delete the files of batches that will not be committed.

        Files that a request to the catalog named stay, even if it refused: the request may have been sent
        twice on the way, and only the second answered. Letters committed ahead of their rows stay, too. The
        next owner's sweep decides on both.
        """
        pending, self.pending = self.pending, None
        self._left_open = self._left_open or bool(pending and pending.unsure)
        planned = set(map(id, pending.batches)) if pending else set()
        sent = planned if pending and pending.sent else set()
        letters_sent = planned if pending and (pending.sent or pending.dead_letters_sent) else set()
        self.files.discard(
            [file for batch in batches if id(batch) not in sent for file in batch.own_files],
            [file for batch in batches if id(batch) not in letters_sent for file in batch.dead_letters],
        )


def _advanced(ledger: Ledger, batches: Sequence[StagedBatch], now_ms: int | None) -> Ledger:
    """The ledger with the offsets and counts of a commit of these batches."""
    offsets, refused, passed_over = batches[0].offsets, batches[0].refused, batches[0].passed_over
    for batch in batches[1:]:
        offsets, refused = offsets.then(batch.offsets), added(refused, batch.refused)
        passed_over = added(passed_over, batch.passed_over)
    after = ledger.advanced(offsets, ledger.commit_id, refused, passed_over, now_ms)
    failures = after.expectation_failures
    for batch in batches:
        failures = added(failures, batch.expectation_failures)
    after = replace(after, expectation_failures=failures)
    replays = [batch.replay_id for batch in batches if isinstance(batch, ReplayedBatch)]
    return replace(after, replay_id=replays[-1]) if replays else after


def _rows(keeper: SchemaKeeper, after: Ledger, batches: tuple[StagedBatch, ...]) -> PendingCommit:
    """The commit of staged rows: added, or instead of those with their keys."""
    files = tuple(file for batch in batches for file in batch.files)
    if keeper.settings.mode == "append":
        return PendingCommit(batches, appended(after, files))
    deletes = tuple(file for batch in batches for file in batch.deletes)
    unavailable = frozenset[int]().union(*(batch.unavailable for batch in batches))
    upsert = Upsert(keeper.settings, files, deletes, unavailable)
    after = remembering(keeper.needed_table().table, after, deletes)
    return PendingCommit(batches, upserted(after, upsert), upsert=upsert)


def delete_file_counts(table: TopicTable | None) -> tuple[int, int]:
    """The numbers of delete files that a table's newest commit removed and added."""
    newest = table.ledger_snapshot() if table is not None else None
    figures = summary(newest[1]) if newest and newest[1] else {}
    return int(figures.get("removed-delete-files", 0)), int(figures.get("added-delete-files", 0))
