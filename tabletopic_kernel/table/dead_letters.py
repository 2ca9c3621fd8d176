"""The dead-letter table of a table topic: it has its own ledger, and is committed before the table (I7)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual, Or
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import FileScanTask

from tabletopic_kernel.clients.catalog.catalog import create_table, lends_keys, reachable
from tabletopic_kernel.model.dead_letter import DEAD_LETTERS_OF_PROPERTY, SCHEMA, dead_letter_identifier
from tabletopic_kernel.model.errors import ActionNeededError, OutdatedError, TableTopicError
from tabletopic_kernel.model.ledger import Ledger, Offsets, is_same_topic
from tabletopic_kernel.model.moved_rows import Mask
from tabletopic_kernel.pipeline.plan import Replaced, TablePlan
from tabletopic_kernel.pipeline.write import REWRITTEN, DataFileWriter
from tabletopic_kernel.table.changes.change import appended, file_rows, rewritten
from tabletopic_kernel.table.compaction.replace import compacted
from tabletopic_kernel.table.topic_table import TopicTable, base_properties


class LetterTable:
    """One topic's letters, if it has any."""

    def __init__(self, catalog: Catalog, table: tuple[str, ...], topic: str) -> None:
        self._catalog = catalog
        self._topic = topic
        self.identifier = dead_letter_identifier(table)
        self.table: TopicTable | None = None

    @property
    def name(self) -> str:
        """Namespace and name, dotted."""
        return ".".join(self.identifier)

    @property
    def count(self) -> int:
        return self.table.rows if self.table else 0

    @property
    def epoch(self) -> int:
        """The newest epoch that wrote or claimed letters; 0 if none did."""
        return self.table.newest_epoch if self.table else 0

    def load(self) -> bool:
        """Load the table; returns whether there is one. Raises ActionNeededError if it is another topic's."""
        try:
            with reachable("the catalog"):
                table = self._catalog.load_table(self.identifier)
        except NoSuchTableError:
            self.table = None
            return False
        if table.properties.get(DEAD_LETTERS_OF_PROPERTY) != self._topic:
            raise ActionNeededError(
                f"the table {self.name} exists but holds no dead letters of {self._topic}; rename it, or "
                "choose another --table"
            )
        self.table = TopicTable(table)
        return True

    def check_writable(self) -> None:
        """As ``TopicTable.check_writable``, with all columns of letters, which keep records whole."""
        if self.table is not None:
            self.table.check_writable(SCHEMA.fields)

    def check_same_topic(self, topic_id: str, cluster_id: str) -> None:
        """Raise ActionNeededError if the letters are an earlier topic's (I8): the offsets collide.

        They are kept, as nothing else has those records. A table without letters is taken over.
        """
        ledger = self.table.ledger if self.table else None
        if ledger is None:
            return
        if ledger.cluster_id == cluster_id and is_same_topic(ledger.topic_id, topic_id):
            return
        if self.tasks(AlwaysTrue()):
            raise ActionNeededError(
                f"the dead letters in {self.name} belong to an earlier topic {self._topic}; "
                "rename that table, or enable the topic with another --table"
            )

    def plan(self) -> TablePlan | None:
        """What tasks need to write letters; None without a table."""
        return self.table.plan() if self.table else None

    def tasks(self, where: BooleanExpression) -> list[FileScanTask]:
        """Data files that may contain letters that match ``where``."""
        assert self.table is not None
        with reachable("the storage", lent=lends_keys(self.table.table)):
            return list(self.table.table.scan(row_filter=where).plan_files())

    def refresh(self) -> None:
        """Read what others have done to the letters; raises as ``TopicTable.reload``."""
        if self.table is not None:
            self.table.reload()

    def read(self, task: FileScanTask, where: BooleanExpression) -> pa.Table:
        """The letters of one data file that match ``where``, in the columns of the table."""
        assert self.table is not None
        return file_rows(self.table.table, task, where)


class DeadLetters(LetterTable):
    """One topic's letters; the first one creates the table. Only for the coordinator's thread.

    Letters above the table's ledger belong to a commit whose rows never came: ``settle`` removes them,
    because their records are read again. So between two commits, a record is in only one of the tables (I1).
    """

    def __init__(self, catalog: Catalog, table: tuple[str, ...], topic: str) -> None:
        super().__init__(catalog, table, topic)
        self.ledger: Ledger | None = None  # as this owner left it; None while the letters are unsettled

    def adopt(self, owned: Ledger) -> None:
        """Take over the letters, if any, for the owner of the table's ledger ``owned``."""
        if self.load():
            self.settle(owned)

    def ensure(self, main: TopicTable, owned: Ledger) -> None:
        """Create the table if it does not exist, and take it over; raises as ``adopt``."""
        if self.table is None and not self.load():
            properties = base_properties() | {DEAD_LETTERS_OF_PROPERTY: self._topic}
            spec = UNPARTITIONED_PARTITION_SPEC
            self.table = TopicTable(create_table(self._catalog, self.identifier, SCHEMA, spec, properties))
        self.settle(owned)
        # The new owner's claim did not fence a host that lost the topic before it made this table.
        main.reload()
        main.check_not_over(owned.epoch)

    def settle(self, owned: Ledger) -> None:
        """Remove letters above the table's ledger, or whose replay is in the table; claim the rest (I5, I7).

        Raises ActionNeededError if they are another topic's, LostOwnershipError if they have a higher epoch.
        """
        table = self.table
        assert table is not None
        if self.ledger is None:
            table.reload()
        ledger = table.ledger
        if ledger is not None:
            table.check_not_over(owned.epoch)
            self.check_same_topic(owned.topic_id, owned.cluster_id)
            settled = ledger.replay_id is None and not ledger.is_ahead_of(owned)
            if settled and ledger.epoch == owned.epoch and ledger == self.ledger:
                return
            if not settled:
                self._remove(ledger, owned)
                return
        self._commit((), replace(owned, replay_id=None), remove=())

    def commit(self, files: Sequence[DataFile], owned: Ledger, after: Ledger) -> None:
        """Append letters under the id of the table's next commit, which moves its ledger to ``after``."""
        assert self.table is not None
        if self.ledger is None:
            self.settle(owned)
        after = replace(after, replay_id=self.ledger.replay_id if self.ledger else None)
        self.table.commit(self.ledger, appended(after, files))
        self.ledger = after

    def commit_compaction(self, files: Sequence[DataFile], replaced: Replaced, owned: Ledger) -> None:
        """Replace the files of ``replaced`` by ``files`` with the same letters; offsets stay.

        Why this is safe: a letter is settled, marked and replayed by its content, whichever file it is in. So
        only a round of a replay, which has read some files, depends on them: this is not done while letters
        are marked, and files that a round or a settling removed are not replaced. OutdatedError: nothing was
        sent.
        """
        if self.ledger is not None and self.ledger.replay_id is not None:
            raise OutdatedError(f"dead letters of {self.name} are being replayed")
        try:
            self.settle(owned)
            table, ledger = self.table, self.ledger
            assert table is not None
            assert ledger is not None
            after = replace(ledger, commit_id=str(uuid.uuid4()))
            table.commit(ledger, compacted(after, files, replaced))
        except TableTopicError as error:
            if not isinstance(error, OutdatedError):
                self.unsettle()
            raise
        self.ledger = after

    def unsettle(self) -> None:
        """Settle before the next commit, because the table's state is unknown (I4)."""
        self.ledger = None

    def replace(
        self, old: Sequence[FileScanTask], new: Sequence[pa.Table], owned: Ledger, replay_id: str | None
    ) -> None:
        """Replace the files ``old``, as they were read (I1), by files with the letters of ``new``."""
        plan = self.plan()
        assert plan is not None
        writer = DataFileWriter(plan.metadata, plan.io_properties, owned.epoch, suffix=REWRITTEN)
        files = [file for dead_letters in new if len(dead_letters) for file in writer.write(dead_letters)]
        self._commit(files, replace(owned, replay_id=replay_id), remove=old)

    def _remove(self, ledger: Ledger, owned: Ledger) -> None:
        done = ledger.replay_id if ledger.replay_id == owned.replay_id else None
        where: BooleanExpression = _above({**dict.fromkeys(ledger.next_offsets, 0), **owned.next_offsets})
        if ledger.replay_id is not None:
            where = Or(where, EqualTo(term="replay_id", value=ledger.replay_id))
        old: list[FileScanTask] = []
        kept: list[pa.Table] = []
        for task in self.tasks(where):
            dead_letters = self.read(task, AlwaysTrue())
            orphaned = _orphaned(dead_letters, owned, done)
            if orphaned.any():
                old.append(task)
                kept.append(dead_letters.filter(pa.array(~orphaned)))
        self.replace(old, kept, owned, None)

    def _commit(self, files: Sequence[DataFile], owned: Ledger, *, remove: Sequence[FileScanTask]) -> None:
        """Commit letters only: offsets stay, the commit id is new."""
        table = self.table
        assert table is not None
        ledger = table.ledger
        after = replace(owned, commit_id=str(uuid.uuid4()))
        table.commit(ledger, rewritten(after, remove, files))
        self.ledger = after


def _above(next_offsets: Offsets) -> BooleanExpression:
    conditions: list[BooleanExpression] = [
        And(EqualTo(term="partition", value=partition), GreaterThanOrEqual(term="offset", value=offset))
        for partition, offset in next_offsets.items()
    ]
    return Or(*conditions) if len(conditions) > 1 else (conditions or [AlwaysTrue()])[0]


def _orphaned(dead_letters: pa.Table, owned: Ledger, done: str | None) -> Mask:
    """A mask of letters that are above the ledger, or of the replay ``done``, whose rows are in the table."""
    partitions, offsets = dead_letters["partition"].to_numpy(), dead_letters["offset"].to_numpy()
    orphaned = np.zeros(len(dead_letters), dtype=bool)
    for partition in np.unique(partitions).tolist():
        orphaned |= (partitions == partition) & (offsets >= owned.next_offsets.get(partition, 0))
    if done is not None:
        orphaned |= np.array([letter == done for letter in dead_letters["replay_id"].to_pylist()], dtype=bool)
    return orphaned
