"""Checks the tables after every step and reports broken promises; independent of the product's code.

It uses what ``tables`` reads from files, the ledger as in docs/reference/ledger.md, and compares it with the
model's own record of the topic. What a foreign writer may break (rows deleted, a rollback) is excused as it
is just after that act; the product may not make it worse.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from tabletopic_kernel.model.commit_cycle import State
from tests.simulation import keyed
from tests.simulation.kafka import BAD, CUT, HOLE, LOGS, UNKNOWN
from tests.simulation.lake import LETTERS, MAIN, NEIGHBOUR
from tests.simulation.store import place
from tests.simulation.tables import LedgerRead, Row, Tables, WrongValueError, head_and_ancestors

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

Place = tuple[int, int]  # partition, offset
NOWHERE = "I1 a record is nowhere"
_EPOCH = re.compile(r"/epoch-(\d+)")


class BrokenError(BaseException):
    """A promise is broken; ``rule`` names the invariant. No ``except Exception`` of the product sees it."""

    def __init__(self, rule: str, told: str) -> None:
        super().__init__(f"{rule}: {told}")
        self.rule = rule


@dataclass
class Reader:
    """One history's reader."""

    world: World
    excused: set[tuple[str, Place]] = field(default_factory=set)
    deleted: set[Place] = field(default_factory=set)  # records whose rows others have taken away by right
    begins: dict[str, dict[int, int]] = field(default_factory=dict)  # table's uuid → its first ledger
    claimed: dict[tuple[str, int], str] = field(default_factory=dict)  # uuid and epoch → who claimed it
    snapshots_seen: set[int] = field(default_factory=set)
    # Every snapshot of the table that there ever was: on which it was built, and its ledger.
    history: dict[int, tuple[int | None, LedgerRead | None]] = field(default_factory=dict)
    epoch: int = 0  # of the table's newest ledger
    key_files: set[str] = field(default_factory=set)  # with deleted keys, that any ledger has ever named
    skipped: set[Place] = field(default_factory=set)  # records that a gap took

    def __post_init__(self) -> None:
        self.tables = Tables(self.world.lake)

    # -- after every step

    def look(self, *, foreign: bool = False) -> None:
        """Check everything; ``foreign``: the last act was a foreign writer's, who may remove rows."""
        self._staged_are_there()
        tables = [table for one in (MAIN, LETTERS, NEIGHBOUR) if (table := self.world.lake.look(one))]
        for table in tables:
            self._remember(table)
            self._files_are_there(table)
            self._ids_are_single(table)
        main = next((table for table in tables if table.name() == MAIN), None)
        if main is None or self.world.table_is_foreign:
            self.excused, self.deleted = set(), set()
            return
        dead_letters = next((table for table in tables if table.name() == LETTERS), None)
        if any(self.lacks_files(table) for table in (main, dead_letters) if table):
            return  # nobody can read the rows
        if lies := next(self.tables.unsorted(main), None):
            raise BrokenError("a file is not in the order that it says", lies)
        wrong = self._wrong_records(main, dead_letters)
        if foreign:
            self.excused = wrong
            self.deleted = {where for what, where in wrong if what == NOWHERE}
        elif found := sorted(wrong - self.excused):
            what, where = found[0]
            raise BrokenError(what, f"{len(found)} records, the first at {where}")
        elif self.world.setting.keyed:
            pass
        elif back := sorted(self.deleted & {(p, o) for _, p, o in self._counts(main)}):
            raise BrokenError("I1 a row is back that others deleted", f"{len(back)}, the first at {back[0]}")
        self.excused &= wrong

    def lacks_files(self, table: Table) -> bool:
        """Whether others deleted files of the newest snapshot."""
        head = table.current_snapshot()
        return head is not None and bool(self.tables.reach(head) & self.world.robbed)

    def stopped(self, process: Process | None) -> None:
        """After a process's turn: no topic stops for the user without a reason."""
        for one in process.coordinators if process and not self.world.may_stop else ():
            if one.state is State.FAILED:
                raise BrokenError("I9 a topic stops for nothing", str(one.progress().error))

    def crashed(self, error: Exception) -> None:
        """A coordinator's thread would have ended."""
        raise BrokenError("I8 a bug ended a coordinator", f"{type(error).__name__}: {error}") from error

    def written(self, name: str) -> None:
        """A process wrote this file: whether it is one that no longer owns the topic."""
        found = _EPOCH.search(name)
        if found and int(found[1]) < self.epoch:
            self.world.strays.add(name)

    def committed(self, before: Table | None, after: Table, who: str | None) -> None:
        """The product committed on ``before``: check the owner's rights, and the ledger's progress."""
        head = after.current_snapshot()
        if before is not None and before.metadata.table_uuid == after.metadata.table_uuid:
            self._expired(before, after, who)
        if head is None or head.snapshot_id in self.snapshots_seen:
            return
        self.snapshots_seen.add(head.snapshot_id)
        ledger = LedgerRead.of(head)
        if ledger is None or who is None:
            return
        if self.lacks_files(after):
            raise BrokenError("I8 a commit on a snapshot whose files are gone", f"{after.name()}, by {who}")
        if after.name() == LETTERS and before and self._is_anothers(before, ledger.topic_id):
            raise BrokenError(
                "I8 letters of another topic are taken over", f"for {ledger.topic_id}, by {who}"
            )
        if after.name() != MAIN:
            return
        then = self._true_ledger(before) if before else None
        # An owner may have read the ledger before others expired it, which moves no head: his claim is right.
        is_claim = then is not None and then.epoch < ledger.epoch and then.offsets == ledger.offsets
        if before and self.tables.is_behind_its_ledger(before) and not is_claim:
            raise BrokenError("I8 a commit to a table that was rolled back behind its ledger", f"by {who}")
        uuid = str(after.metadata.table_uuid)
        if then is None:
            self.begins[uuid] = dict(ledger.offsets)
        elif ledger.epoch < (newest := max(then.epoch, self._newest_claim(uuid))):
            raise BrokenError("I5 an older epoch commits", f"{ledger.epoch} after {newest}, by {who}")
        elif any(ledger.offsets.get(p, 0) < offset for p, offset in then.offsets.items()):
            raise BrokenError("I3 the ledger goes back", f"{then.offsets} to {ledger.offsets}")
        self.skipped |= _skipped(then, ledger)
        self.epoch = ledger.epoch
        if then is None or ledger.epoch > then.epoch:
            self.claimed[uuid, ledger.epoch] = who
        elif self.claimed.get((uuid, ledger.epoch), who) != who:
            raise BrokenError("I5 who does not own the epoch commits", f"{who} under {ledger.epoch}")

    def _remember(self, table: Table) -> None:
        for snapshot in table.metadata.snapshots:
            self.key_files |= self.tables.key_files(table, snapshot)
            if snapshot.snapshot_id not in self.history:
                self.history[snapshot.snapshot_id] = (snapshot.parent_snapshot_id, LedgerRead.of(snapshot))

    def _true_ledger(self, table: Table) -> LedgerRead | None:
        """The newest ledger on the way to the head, also where others have expired its snapshot since."""
        head = table.current_snapshot()
        at = head.snapshot_id if head else None
        while at is not None:
            at, found = self.history.get(at, (None, None))
            if found is not None:
                return found
        return self.tables.ledger(table)

    def _expired(self, before: Table, after: Table, who: str | None) -> None:
        """The product expired snapshots of a table: none young or named, none that the protocol reads."""
        refs = {name: ref.snapshot_id for name, ref in before.metadata.refs.items()}
        if lost := refs.keys() - after.metadata.refs.keys():
            raise BrokenError("I10 a branch or tag goes with a snapshot", f"{min(lost)}, by {who}")
        kept = {snapshot.snapshot_id for snapshot in after.metadata.snapshots}
        gone = [one for one in before.metadata.snapshots if one.snapshot_id not in kept]
        if self.world.robbed:  # snapshots that the table was rolled back from, as their files are gone
            used = {ancestor.snapshot_id for ancestor in head_and_ancestors(before)}
            gone = [one for one in gone if one.snapshot_id in used]
        if not gone:
            return
        youngest = max(one.timestamp_ms for one in gone)
        if youngest > self.world.now_ms - self.world.settings.snapshots_kept_ms:
            raise BrokenError("I10 a young snapshot expires", f"{youngest}, by {who}")
        if self.tables.has_way_to_ledger(before) and not self.tables.has_way_to_ledger(after):
            raise BrokenError("I8 the way to the ledger expires", f"by {who}")
        if self.tables.highest_epoch(before) != self.tables.highest_epoch(after):
            raise BrokenError("I5 the snapshot of the highest epoch expires", f"by {who}")

    def _newest_claim(self, uuid: str) -> int:
        """The highest epoch that the table ever had: a rollback removes its ledger, not the claim."""
        return max((epoch for one, epoch in self.claimed if one == uuid), default=0)

    # -- at the end

    def is_complete(self) -> bool:
        """Whether the table has read everything in the topic."""
        main = self.world.lake.look(MAIN)
        ledger = self.tables.ledger(main) if main else None
        end = self.world.topic.end()
        return ledger is not None and all(ledger.offsets.get(p, 0) == offset for p, offset in end.items())

    def at_the_end(self, last: Process, there: set[str]) -> None:
        """A healthy host had all the time it needed. ``there``: the files that existed before it began."""
        main = self.world.lake.look(MAIN)
        ledger = self.tables.ledger(main) if main else None
        state = last.running.state if last.running else None
        told = last.running.progress().error if last.running else None
        unreadable = "a table whose files others deleted" if self._is_unreadable() else None
        if why := unreadable or self._must_stop(ledger):
            if state is not State.FAILED:
                raise BrokenError(f"I8 {why} is not noticed", f"the topic is {state}")
            return
        if state is State.FAILED and self.world.topic.cuts and "was cut" in str(told):
            return
        if (
            state is State.FAILED
            and self.world.rows_deleted
            and main
            and not self.tables.has_way_to_ledger(main)
        ):
            # Whose rows are missing, of those that were put together? Rows that somebody deleted by right, or
            # the newest ones, which a rollback took back: nobody can tell, and the topic waits for a person.
            return
        if not self.is_complete():
            raise BrokenError("the topic does not go on", f"it is {state}: {told}")
        # Where somebody moved the data folder and back, a sweep has looked in the wrong one.
        left = [] if self.world.folder_moved else self._orphans(there)
        if left:
            raise BrokenError("I10 orphans are left", f"{len(left)}, the first {left[0]}")

    def replayed(self) -> None:
        """All letters were replayed, and the registry knew every schema."""
        main, dead_letters = self.world.lake.look(MAIN), self.world.lake.look(LETTERS)
        ledger = self.tables.ledger(main) if main else None
        if ledger is None or dead_letters is None:
            return
        kinds = self.world.topic.records
        for p, o in self._letters(dead_letters, ledger):
            if o < self.world.topic.cut_at.get(p, o + 1) and kinds[p][o].kind == UNKNOWN:
                raise BrokenError("I7 a letter that can be a row stays one", f"{(p, o)}")

    def _orphans(self, there: set[str]) -> list[str]:
        """Data files of finished epochs, below the tables' data folders, that no snapshot ever named.

        Without files staged by a process that had lost the topic, as those may appear after the sweep.
        """
        folders: dict[str, int] = {}
        for one in (MAIN, LETTERS):
            table = self.world.lake.look(one)
            ledger = self.tables.ledger(table) if table else None
            if table is not None and ledger is not None:
                root = table.properties.get("write.data.path", f"{table.location()}/data")
                folders[f"{place(root)}/{table.metadata.table_uuid}/"] = ledger.epoch
        gone = self.tables.named() | self.world.left_behind | self.world.strays | self.key_files
        return sorted(
            name for name in (there & self.world.lake.store.files.keys()) - gone
            for root, epoch in folders.items()
            if name.startswith(root) and (found := _EPOCH.search(name)) and int(found[1]) < epoch
        )  # fmt: skip

    def _must_stop(self, ledger: LedgerRead | None) -> str | None:
        """A problem that only the user can decide, if there is one."""
        topic, dead_letters = self.world.topic, self.world.lake.look(LETTERS)
        if (
            (ledger is None or ledger.topic_id == topic.id)
            and dead_letters
            and self._is_anothers(dead_letters)
        ):
            return "the letters of a topic that was made anew"
        if ledger is None:
            return None
        main = self.world.lake.look(MAIN)
        if main and ledger.topic_id == topic.id and self.tables.is_behind_its_ledger(main):
            return "a table that was rolled back to where its ledger is gone"
        if ledger.topic_id != topic.id:
            return "a topic that was made anew"
        if any(ledger.offsets.get(p, 0) > end for p, end in topic.end().items()):
            return "a topic that lost records"
        gap = any(first > ledger.offsets.get(p, 0) for p, first in topic.first.items())
        return "a gap" if gap and self.world.settings.on_gap == "stop" else None

    def _is_unreadable(self) -> bool:
        tables = (self.world.lake.look(one) for one in (MAIN, LETTERS))
        return any(self.lacks_files(table) for table in tables if table)

    def _is_anothers(self, dead_letters: Table, topic_id: str | None = None) -> bool:
        """Whether there are letters, and they are of another topic than that one (None: than the topic)."""
        ledger, head = self.tables.ledger(dead_letters), dead_letters.current_snapshot()
        if ledger is None or head is None or ledger.topic_id == (topic_id or self.world.topic.id):
            return False
        return any(self.tables.dead_letters(name) for name, _ in self.tables.data(head))

    def _ids_are_single(self, table: Table) -> None:
        for what, ids in (
            ("schemas", [schema.schema_id for schema in table.metadata.schemas]),
            ("partition specs", [spec.spec_id for spec in table.metadata.partition_specs]),
        ):
            if len(ids) != len(set(ids)):
                raise BrokenError(f"I9 two {what} have one id", f"{'.'.join(table.name())}: {ids}")

    # -- files

    def _files_are_there(self, table: Table) -> None:
        files = self.world.lake.store.files
        for snapshot in table.metadata.snapshots:
            names = self.tables.reach(snapshot) - self.world.robbed
            names |= self.tables.key_files(table, snapshot)
            if not names <= files.keys():
                missing = min(names - files.keys())
                raise BrokenError(
                    "I10 a readable snapshot names a file that is gone",
                    f"{'.'.join(table.name())} snapshot {snapshot.sequence_number}: {missing}",
                )
        head = table.current_snapshot()
        for name, size in self.tables.data(head) if head else ():
            if name not in self.world.robbed and len(files[name]) != size:
                raise BrokenError("I2 a committed file is not what was staged", f"{name}: {len(files[name])}")

    def _staged_are_there(self) -> None:
        """What the owner of the newest epoch has staged, and may commit, but for what circumstances took."""
        files = self.world.lake.store.files
        for process in self.world.processes.values():
            running = process.running if process.alive else None
            owner = running.owner if running else None
            if running is None or owner is None or owner.table is None or owner.ledger.epoch != self.epoch:
                continue
            for batch in running.staged:
                # Of a batch that was just committed, deletes that were merged go.
                is_there = all(owner.ledger.next_offsets.get(p, 0) >= o for p, o in batch.offsets.end.items())
                for file in batch.files if is_there else batch.own_files:
                    name = place(file.file_path)
                    if name not in files and name not in self.world.lost:
                        raise BrokenError("I10 a staged file is gone", f"{name}, of {process.name}")

    # -- records

    def _wrong_records(self, main: Table, dead_letters: Table | None) -> set[tuple[str, Place]]:
        ledger = self.tables.ledger(main)
        rows = self._counts(main)
        if ledger is None:
            return {("I2 rows without a ledger", where[1:]) for where in rows}
        generation = int(ledger.topic_id.rsplit("-", 1)[1])
        told = self._letters(dead_letters, ledger) if dead_letters else Counter()
        wrong: set[tuple[str, Place]] = set()
        for (made, *spot), times in rows.items():
            where: Place = (spot[0], spot[1])
            if made // LOGS != generation:
                wrong.add(("I8 a row of another topic", where))
            if times > 1:
                wrong.add(("I1 a record is a row twice", where))
            if where[1] >= ledger.offsets.get(where[0], 0):
                wrong.add(("I2 a row is ahead of the ledger", where))
        seen = {(p, o) for made, p, o in rows if made // LOGS == generation}
        wrong |= {("I1 a record is a row and a letter", where) for where in seen & told.keys()}
        wrong |= {("I7 a record is a letter twice", where) for where, times in told.items() if times > 1}
        if generation == self.world.topic.generation and self.world.setting.keyed:
            begins = self.begins.get(str(main.metadata.table_uuid), {})
            wrong |= keyed.wrong(self.world, begins, ledger, rows, told)
        if generation == self.world.topic.generation and not self.world.setting.keyed:
            wrong |= self._missing(main, ledger, seen | told.keys())
            wrong |= self._of_both_logs(rows)
            kinds, cut_at = self.world.topic.records, self.world.topic.cut_at
            for p, o in told:
                if o < cut_at.get(p, o + 1) and kinds[p][o].kind not in (UNKNOWN, BAD):
                    wrong.add(("I9 a good record is a letter", (p, o)))
        return wrong

    def _of_both_logs(self, rows: Counter[Row]) -> set[tuple[str, Place]]:
        """New records of a partition whose log was cut, if rows of records that it lost are there, too."""
        topic = self.world.topic
        current = {
            (record.value // CUT, p, o) for p, log in topic.records.items() for o, record in enumerate(log)
        }
        lost = {p for made, p, o in rows if made // LOGS == topic.generation and (made, p, o) not in current}
        newest = {
            p: max(record.value // CUT for record in topic.records[p]) for p in lost if topic.records[p]
        }
        return {
            ("I8 a log that was cut is gone on with", (p, o))
            for made, p, o in rows
            if p in newest and made % LOGS and made == newest[p] and o >= topic.cut_at.get(p, o)
        }

    def _missing(self, main: Table, ledger: LedgerRead, found: set[Place]) -> set[tuple[str, Place]]:
        """Records below the ledger that are nowhere, except those that it counts as lost."""
        begins = self.begins.get(str(main.metadata.table_uuid), {})
        topic = self.world.topic
        wrong: set[tuple[str, Place]] = set()
        for partition, end in ledger.offsets.items():
            records, lost = topic.records.get(partition, []), ledger.lost.get(partition, 0)
            absent = [
                offset
                for offset in range(
                    begins.get(partition, 0), min(end, len(records), topic.cut_at.get(partition, end))
                )
                if (partition, offset) not in found
            ]
            # Retention takes from the front, and a gap is skipped as a whole, holes too.
            gone = [offset for offset in absent if offset < topic.first.get(partition, 0)]
            excusable = set(gone) if lost and len(gone) >= lost else set()
            wrong |= {
                (NOWHERE, (partition, offset))
                for offset in absent
                if records[offset].kind != HOLE and offset not in excusable
            }
        return wrong

    def _counts(self, table: Table) -> Counter[Row]:
        head = table.current_snapshot()
        try:
            return self.tables.rows_left(head) if head else Counter()
        except WrongValueError as error:
            raise BrokenError("I1 a value is not its record's", str(error)) from error

    def _letters(self, dead_letters: Table, ledger: LedgerRead) -> Counter[Place]:
        """Letters below the ledger, except those whose replay is in the table: they are as good as gone."""
        head = dead_letters.current_snapshot()
        total: Counter[Place] = Counter()
        for name, _ in self.tables.data(head) if head else ():
            for (partition, offset, replay), times in self.tables.dead_letters(name).items():
                done = replay is not None and replay == ledger.replay_id
                if not done and offset < ledger.offsets.get(partition, 0):
                    total[partition, offset] += times
        return total


def _skipped(before: LedgerRead | None, after: LedgerRead) -> set[Place]:
    """The records that a gap took."""
    if before is None:
        return set()
    gaps = [p for p, lost in after.lost.items() if lost > before.lost.get(p, 0)]
    return {(p, o) for p in gaps for o in range(before.offsets.get(p, 0), after.offsets[p])}
