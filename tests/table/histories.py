"""Random lives of tables, by us and by others, and a judge who reads tables and disk independently."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.errors import ActionNeededError, LostOwnershipError, OutcomeUnknownError
from tabletopic_kernel.model.ledger import TAG, Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.plan import StagedBatch
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.sweep import sweep
from tabletopic_kernel.table.topic_table import TopicTable
from tests.table.samples import SCHEMA, FlakyCatalog, answer_lost, batch, never_arrived, next_commit

# Ways to write the folder that two tables share; PyIceberg reads each of them right.
SPELLINGS = ("{}", "file:{}", "file://{}", "file:///{}", "file://{}/", "file://{}//")
_ROWS = pa.table({"a": pa.array([1, 2], pa.int32())})


def place_of(location: str) -> Path:
    """Where a file lies on this machine."""
    return Path(os.path.realpath("/" + re.sub("^file:", "", location).lstrip("/")))


@dataclass
class Zombie:
    """An owner that was replaced, with a staged batch."""

    table: TopicTable
    ledger: Ledger
    staged: StagedBatch


class TableLife:
    """One table in a shared folder: our owners, and everybody else who changes it."""

    def __init__(self, catalog: Catalog, name: str, folder: Path) -> None:
        self.catalog = FlakyCatalog(catalog)
        self.identifier = ("default", name)
        self.name = name
        self.folder = folder
        settings = TopicSettings(table_properties={"write.data.path": f"file://{folder}"})
        spec = partition_spec((), SCHEMA)
        TopicTable.create(catalog, self.identifier, SCHEMA, spec, name, settings)
        self.ledger = Ledger(name, "cluster", "topic-id", {0: 0}, 1, "claim")
        self.zombie: Zombie | None = None
        self.own: list[Path] = []  # staged by the owner there is
        self.loaded().claim(self.ledger, None)

    def loaded(self) -> TopicTable:
        """The table as the catalog has it."""
        found = TopicTable.load(self.catalog, self.identifier, self.name)  # type: ignore[arg-type]
        assert found is not None
        return found

    def foreign(self) -> Table:
        """The same table in other hands."""
        return self.catalog.real.load_table(self.identifier)

    def staged(self, rows: int = 2) -> StagedBatch:
        """Files that the owner has staged."""
        start = self.ledger.next_offsets[0]
        found = batch(self.loaded(), start, start + rows, epoch=self.ledger.epoch)
        self.own += [place_of(file.file_path) for file in found.files]
        return found

    # -- what happens; ``n`` chooses among the possibilities

    def commit(self, n: int) -> None:
        """The owner commits; sometimes the answer is lost, or the request."""
        table, staged = self.loaded(), self.staged()
        after = next_commit(self.ledger, staged)
        self.catalog.faults = [answer_lost] if n == 1 else [never_arrived] if n == 2 else []
        try:
            table.commit(self.ledger, appended(after, staged.files))
        except OutcomeUnknownError:
            table.reload()
            if not table.has_commit(after.commit_id):
                return
        except ActionNeededError:  # somebody rolled the table back: a person resumes it
            self.catalog.faults = []  # what was to befall the commit was not sent
            self.claim(0)
            return
        self.ledger = after

    def leave(self, n: int) -> None:
        """A batch is staged that nobody ever commits."""
        self.staged(rows=n + 1)

    def claim(self, n: int) -> None:
        """Another owner takes the table; the old one does not know yet."""
        table = self.loaded()
        found = table.ledger
        self.zombie = Zombie(self.loaded(), self.ledger, self.staged())
        self.ledger = found.for_next_owner(table.newest_epoch)
        try:
            table.claim(self.ledger, found)
        except ActionNeededError:  # rolled back to where the ledger is gone: a person rolls it forward
            foreign = self.foreign()
            kept = foreign.metadata.refs[TAG].snapshot_id
            foreign.manage_snapshots().set_current_snapshot(snapshot_id=kept).commit()
            table.claim(self.ledger, found)
        self.own = []

    def wake(self, n: int) -> None:
        """An old owner comes back and tries to commit what it has staged."""
        zombie = self.zombie
        if zombie is None:
            return
        with pytest.raises((LostOwnershipError, ActionNeededError)):
            zombie.table.commit(
                zombie.ledger, appended(next_commit(zombie.ledger, zombie.staged), zombie.staged.files)
            )

    def append(self, n: int) -> None:
        """Another program adds rows, to the head or to a branch."""
        table = self.foreign()
        branches = [name for name in table.metadata.refs if name.startswith("b")]
        table.append(_ROWS, branch=branches[n % len(branches)] if branches and n else "main")

    def rewrite(self, n: int) -> None:
        """Another program moves all rows into other files, or deletes some."""
        table = self.foreign()
        if n:
            table.overwrite(table.scan().to_arrow())
        else:
            table.delete("a = 1")

    def expire(self, n: int) -> None:
        """Another program expires what no ref holds; files stay."""
        before = (datetime.now(UTC) + timedelta(minutes=1)).replace(tzinfo=None)
        self.foreign().maintenance.expire_snapshots().older_than(before).commit()

    def roll_back(self, n: int) -> None:
        """Somebody makes an ancestor of the head the head."""
        table = self.foreign()
        head = table.metadata.current_snapshot()
        before = list(ancestors_of(head, table.metadata))[:4]
        chosen = before[n % len(before)].snapshot_id
        table.manage_snapshots().set_current_snapshot(snapshot_id=chosen).commit()

    def refer(self, n: int) -> None:
        """Somebody makes a branch or a tag, or takes one away."""
        table = self.foreign()
        others = [name for name in table.metadata.refs if name not in ("main", TAG)]
        manage = table.manage_snapshots()
        if others and n == 0:
            name = others[0]
            (manage.remove_branch(name) if name.startswith("b") else manage.remove_tag(name)).commit()
            return
        chosen = table.metadata.snapshots[n % len(table.metadata.snapshots)].snapshot_id
        name = uuid.uuid4().hex[:6]
        if n % 2:
            manage.create_branch(chosen, f"b{name}").commit()
        else:
            manage.create_tag(chosen, f"t{name}").commit()

    def respell(self, n: int) -> None:
        """Another program writes the data path in another spelling; it is still the same folder."""
        spelt = SPELLINGS[n % len(SPELLINGS)].format(self.folder)
        with self.foreign().transaction() as change:
            change.set_properties({"write.data.path": spelt})

    def sweep(self, n: int) -> None:
        """The owner removes what finished epochs left; the judge checks the result."""
        table = self.loaded()
        if table.newest_epoch > self.ledger.epoch:
            return
        sweep(table.table, after_epoch=0, before_epoch=self.ledger.epoch)
        self.judge(swept=True)

    def judge(self, *, swept: bool = False) -> None:
        """Everything in a snapshot is readable; just after a sweep, finished epochs have nothing else."""
        table = self.foreign()
        reached = {
            place_of(task.file.file_path): task.file.file_size_in_bytes
            for snapshot in table.metadata.snapshots
            for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
        }
        for place, size in reached.items():
            assert place.stat().st_size == size
            pq.read_metadata(place)
        assert all(place.exists() for place in self.own)
        if not swept:
            return
        for place in self.folder.glob(f"{table.metadata.table_uuid}/epoch-*/**/*.parquet"):
            epoch = int(re.search(r"/epoch-(\d+)/", str(place))[1])  # type: ignore[index]
            assert epoch >= self.ledger.epoch or place in reached


STEPS: dict[str, Callable[[TableLife, int], None]] = {
    name: getattr(TableLife, name)
    for name in (
        "commit", "leave", "claim", "wake", "append", "rewrite", "expire", "roll_back", "refer", "respell",
        "sweep",
    )
}  # fmt: skip


def live(lives: list[TableLife], steps: list[tuple[int, str, int]]) -> None:
    """Let the steps happen; then all tables are taken over, swept and judged."""
    for which, step, n in steps:
        STEPS[step](lives[which % len(lives)], n)
    for one in lives:
        one.claim(0)
        one.sweep(0)
    for one in lives:  # what the others' sweeps have left of it
        one.judge()
