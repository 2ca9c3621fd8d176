"""Looks at the tables after every step and says what promise is broken; knows nothing of the product's code.

It reads metadata, manifests and Parquet files by PyIceberg and PyArrow, the ledger as ARCHITECTURE.md writes
it down, and compares with the model's own record of the topic. What a foreign writer has broken by right
(rows deleted, a rollback) is excused as it is just after his act; the product may not make it worse.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import read_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tabletopic_kernel.core.commit_cycle import State
from tests.simulation.kafka import BAD, GENERATION, HOLE, PARTITION, UNKNOWN
from tests.simulation.lake import LETTERS, MAIN, NEIGHBOUR
from tests.simulation.store import place

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

Place = tuple[int, int]  # partition, offset
_EPOCH = re.compile(r"/epoch-(\d+)")


@dataclass(frozen=True)
class LedgerRead:
    """What a snapshot's summary says, by the keys of ARCHITECTURE.md."""

    offsets: dict[int, int]
    epoch: int
    commit_id: str
    topic_id: str
    lost: dict[int, int]
    replay_id: str | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> LedgerRead | None:
        """The ledger of a snapshot; None where another writer made it."""
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if "tabletopic.offsets" not in summary:
            return None
        return cls(
            _by_partition(summary["tabletopic.offsets"]),
            int(summary["tabletopic.epoch"]),
            summary["tabletopic.commit-id"],
            summary["tabletopic.topic-id"],
            _by_partition(summary.get("tabletopic.lost", "{}")),
            summary.get("tabletopic.replay-id"),
        )


def _by_partition(text: str) -> dict[int, int]:
    return {int(partition): offset for partition, offset in json.loads(text).items()}


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
    begins: dict[str, dict[int, int]] = field(default_factory=dict)  # table's uuid → its first ledger
    claimed: dict[tuple[str, int], str] = field(default_factory=dict)  # uuid and epoch → who claimed it
    snapshots_seen: set[int] = field(default_factory=set)
    epoch: int = 0  # of the table's newest ledger
    _manifests: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    _files: dict[str, Counter[Any]] = field(default_factory=dict)
    _lists: dict[str, tuple[str, ...]] = field(default_factory=dict)

    # -- after every step

    def look(self, *, foreign: bool = False) -> None:
        """Check everything; ``foreign``: the last act was a foreign writer's, who may break rows by right."""
        tables = [table for one in (MAIN, LETTERS, NEIGHBOUR) if (table := self.world.lake.look(one))]
        for table in tables:
            self._files_are_there(table)
        main = next((table for table in tables if table.name() == MAIN), None)
        if main is None or self.world.table_is_foreign:
            self.excused = set()
            return
        letters = next((table for table in tables if table.name() == LETTERS), None)
        wrong = self._wrong_records(main, letters)
        if foreign:
            self.excused = wrong
        elif found := sorted(wrong - self.excused):
            what, where = found[0]
            raise BrokenError(what, f"{len(found)} records, the first at {where}")
        self.excused &= wrong

    def crashed(self, error: Exception) -> None:
        """A coordinator's thread would have ended."""
        raise BrokenError("I8 a bug ended a coordinator", f"{type(error).__name__}: {error}") from error

    def written(self, name: str) -> None:
        """A process wrote this file: whether it is one that no longer owns the topic."""
        found = _EPOCH.search(name)
        if found and int(found[1]) < self.epoch:
            self.world.strays.add(name)

    def committed(self, before: Table | None, after: Table, who: str | None) -> None:
        """The product made this commit of ``before``: the owner's rights, and the way of its ledger."""
        head = after.current_snapshot()
        if head is None or head.snapshot_id in self.snapshots_seen:
            return
        self.snapshots_seen.add(head.snapshot_id)
        ledger = LedgerRead.of(head)
        if ledger is None or who is None or after.name() != MAIN:
            return
        uuid = str(after.metadata.table_uuid)
        then = self.ledger(before) if before else None
        if then is None:
            self.begins[uuid] = dict(ledger.offsets)
        elif ledger.epoch < then.epoch:
            raise BrokenError("I5 an older epoch commits", f"{ledger.epoch} after {then.epoch}, by {who}")
        elif any(ledger.offsets.get(p, 0) < offset for p, offset in then.offsets.items()):
            raise BrokenError("I3 the ledger goes back", f"{then.offsets} to {ledger.offsets}")
        self.epoch = ledger.epoch
        if then is None or ledger.epoch > then.epoch:
            self.claimed[uuid, ledger.epoch] = who
        elif self.claimed.get((uuid, ledger.epoch), who) != who:
            raise BrokenError("I5 who does not own the epoch commits", f"{who} under {ledger.epoch}")

    # -- at the end

    def is_complete(self) -> bool:
        """Whether the table has read all that the topic has."""
        main = self.world.lake.look(MAIN)
        ledger = self.ledger(main) if main else None
        end = self.world.topic.end()
        return ledger is not None and all(ledger.offsets.get(p, 0) == offset for p, offset in end.items())

    def at_the_end(self, last: Process, there: set[str]) -> None:
        """A healthy host had all the time it wanted. ``there``: the files that lay there before it began."""
        main = self.world.lake.look(MAIN)
        ledger = self.ledger(main) if main else None
        state = last.running.state if last.running else None
        told = last.running.progress().error if last.running else None
        if ledger is not None and (why := self._must_stop(ledger)):
            if state is not State.FAILED:
                raise BrokenError(f"I8 {why} is not noticed", f"the topic is {state}")
            return
        if not self.is_complete():
            raise BrokenError("the topic does not go on", f"it is {state}: {told}")
        left = self._orphans(there)
        if left:
            raise BrokenError("I10 orphans are left", f"{len(left)}, the first {left[0]}")

    def _orphans(self, there: set[str]) -> list[str]:
        """Data files of finished epochs, below the tables' data folders, that no snapshot ever named.

        Not among them: what a process staged that had lost the topic, for that may come after the sweep.
        """
        folders: dict[str, int] = {}
        for one in (MAIN, LETTERS):
            table = self.world.lake.look(one)
            ledger = self.ledger(table) if table else None
            if table is not None and ledger is not None:
                root = table.properties.get("write.data.path", f"{table.location()}/data")
                folders[f"{place(root)}/{table.metadata.table_uuid}/"] = ledger.epoch
        gone = self.named() | self.world.left_behind | self.world.strays
        return sorted(
            name for name in (there & self.world.lake.store.files.keys()) - gone
            for root, epoch in folders.items()
            if name.startswith(root) and (found := _EPOCH.search(name)) and int(found[1]) < epoch
        )  # fmt: skip

    def _must_stop(self, ledger: LedgerRead) -> str | None:
        topic = self.world.topic
        if ledger.topic_id != topic.id:
            return "a topic that was made anew"
        if any(ledger.offsets.get(p, 0) > end for p, end in topic.end().items()):
            return "a topic that lost records"
        gap = any(first > ledger.offsets.get(p, first) for p, first in topic.first.items())
        return "a gap" if gap and self.world.settings.on_gap == "stop" else None

    # -- files

    def _files_are_there(self, table: Table) -> None:
        files = self.world.lake.store.files
        for snapshot in table.metadata.snapshots:
            missing = [name for name in self._reached(snapshot) if name not in files]
            if missing:
                raise BrokenError(
                    "I10 a readable snapshot names a file that is gone",
                    f"{'.'.join(table.name())} snapshot {snapshot.sequence_number}: {missing[0]}",
                )
        head = table.current_snapshot()
        for name, size in self._data(head) if head else ():
            if len(files[name]) != size:
                raise BrokenError("I2 a committed file is not what was staged", f"{name}: {len(files[name])}")

    def named(self) -> set[str]:
        """Data files that any snapshot has ever named, as far as was seen."""
        return {name for entries in self._manifests.values() for name, _ in entries}

    def reached(self, table: Table) -> set[str]:
        """Places of all files that any snapshot of the table reaches."""
        return {name for snapshot in table.metadata.snapshots for name in self._reached(snapshot)}

    def _reached(self, snapshot: Snapshot) -> Iterator[str]:
        yield place(snapshot.manifest_list)
        for manifest in self._manifests_of(snapshot):
            yield manifest
            yield from (name for name, _ in self._entries(manifest))

    def _data(self, snapshot: Snapshot) -> Iterator[tuple[str, int]]:
        for manifest in self._manifests_of(snapshot):
            yield from self._entries(manifest)

    def _manifests_of(self, snapshot: Snapshot) -> tuple[str, ...]:
        name = place(snapshot.manifest_list)
        if name not in self._lists:
            if name not in self.world.lake.store.files:
                return ()
            found = list(read_manifest_list(self.world.lake.io.new_input(snapshot.manifest_list)))
            self._lists[name] = tuple(place(one.manifest_path) for one in found)
            for one in found:
                if place(one.manifest_path) in self.world.lake.store.files:
                    self._read_manifest(one)
        return self._lists[name]

    def _read_manifest(self, manifest: Any) -> None:
        name = place(manifest.manifest_path)
        if name not in self._manifests:
            entries = manifest.fetch_manifest_entry(self.world.lake.io, discard_deleted=True)
            self._manifests[name] = tuple(
                (place(one.data_file.file_path), one.data_file.file_size_in_bytes) for one in entries
            )

    def _entries(self, manifest: str) -> tuple[tuple[str, int], ...]:
        return self._manifests.get(manifest, ())

    # -- records

    def ledger(self, table: Table) -> LedgerRead | None:
        """The newest ledger among the ancestors of the head; the tag's, where those have been expired."""
        by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
        one = table.current_snapshot()
        while one is not None:
            if found := LedgerRead.of(one):
                return found
            one = by_id.get(one.parent_snapshot_id) if one.parent_snapshot_id is not None else None
        tag = table.metadata.refs.get("tabletopic-ledger")
        kept = by_id.get(tag.snapshot_id) if tag else None
        return LedgerRead.of(kept) if kept else None

    def _wrong_records(self, main: Table, letters: Table | None) -> set[tuple[str, Place]]:
        ledger = self.ledger(main)
        rows = self._counts(main)
        if ledger is None:
            return {("I2 rows without a ledger", where[1:]) for where in rows}
        generation = int(ledger.topic_id.rsplit("-", 1)[1])
        told = self._letters(letters, ledger) if letters else Counter()
        wrong: set[tuple[str, Place]] = set()
        for (made, *spot), times in rows.items():
            where: Place = (spot[0], spot[1])
            if made != generation:
                wrong.add(("I8 a row of another topic", where))
            if times > 1:
                wrong.add(("I1 a record is a row twice", where))
            if where[1] >= ledger.offsets.get(where[0], 0):
                wrong.add(("I2 a row is ahead of the ledger", where))
        seen = {(p, o) for made, p, o in rows if made == generation}
        wrong |= {("I1 a record is a row and a letter", where) for where in seen & told.keys()}
        wrong |= {("I7 a record is a letter twice", where) for where, times in told.items() if times > 1}
        if generation == self.world.topic.generation:
            wrong |= self._missing(main, ledger, seen | told.keys())
            kinds = self.world.topic.records
            for p, o in told:
                if kinds[p][o].kind not in (UNKNOWN, BAD):
                    wrong.add(("I9 a good record is a letter", (p, o)))
        return wrong

    def _missing(self, main: Table, ledger: LedgerRead, found: set[Place]) -> set[tuple[str, Place]]:
        """Records below the ledger that are nowhere, but for those that it counts as lost."""
        begins = self.begins.get(str(main.metadata.table_uuid), {})
        topic = self.world.topic
        wrong: set[tuple[str, Place]] = set()
        for partition, end in ledger.offsets.items():
            records, lost = topic.records.get(partition, []), ledger.lost.get(partition, 0)
            absent = [
                offset
                for offset in range(begins.get(partition, 0), min(end, len(records)))
                if (partition, offset) not in found
            ]
            # Retention takes from the front, and a gap is skipped as a whole, holes too.
            gone = [offset for offset in absent if offset < topic.first.get(partition, 0)]
            excusable = set(gone) if lost and len(gone) >= lost else set()
            wrong |= {
                ("I1 a record is nowhere", (partition, offset))
                for offset in absent
                if records[offset].kind != HOLE and offset not in excusable
            }
        return wrong

    def _counts(self, table: Table) -> Counter[tuple[int, int, int]]:
        head = table.current_snapshot()
        total: Counter[tuple[int, int, int]] = Counter()
        for name, _ in self._data(head) if head else ():
            if name not in self._files:
                self._files[name] = _rows(self.world.lake.store.files[name])
            total.update(self._files[name])
        return total

    def _letters(self, letters: Table, ledger: LedgerRead) -> Counter[Place]:
        """Letters below the ledger, but for those whose replay is in the table: these are as good as gone."""
        head = letters.current_snapshot()
        total: Counter[Place] = Counter()
        for name, _ in self._data(head) if head else ():
            if name not in self._files:
                self._files[name] = _letters(self.world.lake.store.files[name])
            for (partition, offset, replay), times in self._files[name].items():
                done = replay is not None and replay == ledger.replay_id
                if not done and offset < ledger.offsets.get(partition, 0):
                    total[partition, offset] += times
        return total

    def rows_of(self, location: str) -> pa.Table:
        """The rows of a data file, as they lie there."""
        return pq.read_table(io.BytesIO(self.world.lake.store.files[place(location)]))


@lru_cache(maxsize=4096)
def _rows(content: bytes) -> Counter[tuple[int, int, int]]:
    """Generation, partition and offset of each row that came from the topic; its value must say the same."""
    found = pq.read_table(io.BytesIO(content), columns=["a", "_kafka_metadata"]).to_pylist()
    total: Counter[tuple[int, int, int]] = Counter()
    for row in found:
        where = row["_kafka_metadata"]
        if where is None or where["offset"] is None:
            continue
        generation, rest = divmod(row["a"], GENERATION)
        if rest != where["partition"] * PARTITION + where["offset"]:
            raise BrokenError("I1 a value is not its record's", str(row))
        total[generation, where["partition"], where["offset"]] += 1
    return total


@lru_cache(maxsize=4096)
def _letters(content: bytes) -> Counter[tuple[int, int, str | None]]:
    found = pq.read_table(io.BytesIO(content), columns=["partition", "offset", "replay_id"]).to_pylist()
    return Counter((row["partition"], row["offset"], row["replay_id"]) for row in found)
