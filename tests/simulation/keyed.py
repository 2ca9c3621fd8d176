"""Tables kept by key: records with keys, orders and deletes, and what the table must have of them: a dict.

With ``place`` the newest change of a key is found by offset and time, and deletes have no value. With
``order`` it is found by a column, deletes are rows with ``__deleted``, and changes are sent again.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa

from tabletopic_kernel.host import schedule
from tabletopic_kernel.model.ledger import CLOCK_TOLERANCE_MS
from tabletopic_kernel.table.changes.change import file_rows
from tabletopic_kernel.table.changes.ledger_history import locations
from tabletopic_kernel.table.changes.upsert import upserted
from tests.simulation.kafka import BAD, HOLE, Record
from tests.simulation.tables import LedgerRead, Row
from tests.table.test_upsert import Event, newest

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

    from tests.simulation.process import Process
    from tests.simulation.world import World

Place = tuple[int, int]  # partition, offset; of a key: its number, -1
_KEYS = 9
WRONG = "I1 a key's row is not its newest change"
LOST = "I1 a record is nowhere"


def settings(keyed: str) -> dict[str, Any]:
    """Of such a topic."""
    more = {"order_by": "o"} if keyed == "order" else {}
    return {"mode": "upsert", "key_format": "string", "metadata_columns": ("key", "metadata"), **more}


def few_files(patches: ExitStack) -> None:
    """Files are merged early, and no rest depends on how much CPU time a commit takes here."""
    patches.enter_context(mock.patch.object(upserted, "MOST_FILES", 1))
    patches.enter_context(mock.patch.object(schedule, "_REST_FACTOR", 0))


def produce(world: World, dice: random.Random, partition: int, kind: str, learned: int) -> None:
    """One more record: a write, a delete, or one that is sent again within an hour."""
    topic = world.topic
    topic.clock_ms += dice.choice([0, 1, 60_000, CLOCK_TOLERANCE_MS // 2])
    topic.order += 1
    log = topic.records[partition]
    recent = [one for one in log if one.ms is not None and one.ms > topic.clock_ms - CLOCK_TOLERANCE_MS]
    key, order, deletes = f"k{dice.randrange(_KEYS)}".encode(), topic.order, dice.random() < 0.3
    if world.setting.keyed == "place":
        topic.produce(partition, kind, learned, key=key, ms=topic.clock_ms, deletes=deletes)
        return
    if recent and dice.random() < 0.15:
        again = dice.choice(recent)
        assert again.key is not None
        assert again.order is not None
        key, order, deletes = again.key, again.order, again.deletes
    topic.produce(partition, kind, learned, key=key, ms=topic.clock_ms, deletes=deletes, order=order)


def rows_of(table: Table, tasks: list[FileScanTask]) -> pa.Table:
    """The rows that live in files: a rewrite that brought deleted ones back would be its writer's fault."""
    return pa.concat_tables([file_rows(table, task) for task in tasks])


def wrong(
    world: World, begins: dict[int, int], ledger: LedgerRead, rows: Counter[Row], letters: Counter[Place]
) -> set[tuple[str, Place]]:
    """Keys whose rows are not what a dict of the records below the ledger has; and lost records."""
    found: set[tuple[str, Place]] = set()
    events: list[Event] = []
    topic = world.topic
    for partition, end in ledger.offsets.items():
        for offset, record in enumerate(topic.records.get(partition, [])[:end]):
            where = partition, offset
            if offset < begins.get(partition, 0) or where in world.reader.skipped or record.kind == HOLE:
                continue
            if record.kind == BAD and record.raw is not None:
                found |= {(LOST, where)} - {(LOST, place) for place in letters}
            elif where not in letters:
                events.append(_event(record, partition, offset))
    expected = {int(key): (place // 10**6, place % 10**6) for key, place in newest(events).items()}
    actual: dict[int, list[Place]] = {}
    for _, partition, offset in rows.elements():
        key = topic.records[partition][offset].key
        actual.setdefault(_number(key), []).append((partition, offset))
    for key in expected.keys() | actual.keys():
        if actual.get(key, []) != ([expected[key]] if key in expected else []):
            found.add((WRONG, (key, -1)))
    return found


def _event(record: Record, partition: int, offset: int) -> Event:
    assert record.ms is not None
    value = None if record.deletes else partition * 10**6 + offset
    return Event(_number(record.key), value, record.order, partition, offset, record.ms)


def _number(key: bytes | None) -> int:
    return int((key or b"k-1")[1:])


def sent(process: Process) -> list[str]:
    """Files that a host has merged deleted keys into, for a commit that it has sent."""
    owner = process.running.owner if process.running else None
    if owner is None or owner.pending is None or owner.pending.upsert is None or owner.table is None:
        return []
    staged = {file.file_path for file in owner.pending.upsert.deletes}
    return [path for path in locations(owner.table.table, owner.pending.after) if path not in staged]
