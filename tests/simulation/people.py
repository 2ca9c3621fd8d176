"""Actions of people and circumstances: orders to the topic, records, retention, the hosts' group, outages."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tabletopic_kernel.model.ledger import Ledger, StagedOffsets
from tabletopic_kernel.model.settings.desired import DesiredTopic, MaintenanceRequest, ReplayRequest
from tabletopic_kernel.pipeline.plan import ASK_AGAIN_MS
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.topic_table import TopicTable
from tests.simulation import keyed
from tests.simulation.faults import OUTAGES
from tests.simulation.kafka import ACCEPTED, BAD, HOLE, LEARNED, UNKNOWN
from tests.simulation.lake import NEIGHBOUR
from tests.simulation.store import place

if TYPE_CHECKING:
    from tests.simulation.world import World

_VIEWS = Schema(NestedField(1, "n", LongType(), required=False))
_KINDS = {"plain": 12, "with b": 3, "with c": 2, UNKNOWN: 3, BAD: 2, HOLE: 1}


def produce(world: World, dice: random.Random) -> None:
    """Some records come in."""
    kinds = list(_KINDS) if dice.random() < 0.5 else ["plain"]
    if world.setting.many_letters:
        kinds = ["plain", UNKNOWN, BAD, BAD]
    weights = [_KINDS[kind] for kind in kinds]
    unknown = next((one for one in LEARNED if one not in world.learned), LEARNED[-1])
    for _ in range(dice.randint(1, 12)):
        kind = dice.choices(kinds, weights)[0]
        if kind == "with b" and world.refilled.is_known:
            kind = "with z"
        partition = dice.choice(list(world.topic.records))
        if world.setting.keyed:
            keyed.produce(world, dice, partition, kind, unknown)
        else:
            world.topic.produce(partition, kind, unknown)


def partition(world: World, dice: random.Random) -> None:
    """The topic gets one more partition."""
    if len(world.topic.records) < 4:
        world.topic.grow()


def retention(world: World, dice: random.Random) -> None:
    """The oldest records of a partition go, read or not."""
    chosen = dice.choice([0, 1])
    if world.topic.cuts:  # of what retention took, nothing tells whether it was the record that was read
        return
    first, end = world.topic.first[chosen], len(world.topic.records[chosen])
    world.topic.first[chosen] = dice.choice([dice.randint(first, end), end])


def cut(world: World, dice: random.Random) -> None:
    """A partition's log loses its newest records, read or not, and grows beyond where it was."""
    topic, chosen = world.topic, dice.choice([0, 1])
    if (
        not world.setting.keyed
        and topic.records[chosen]
        and not any(topic.first.values())
        and topic.cuts < 99
    ):
        topic.cut(chosen, dice.randrange(len(topic.records[chosen])), dice.randint(1, 6))


def topic_anew(world: World, dice: random.Random) -> None:
    """The topic is deleted and made again."""
    world.topic.made_anew()


def learn(world: World, dice: random.Random) -> None:
    """The registry gets a schema that records have named before."""
    world.learned |= {next((one for one in LEARNED if one not in world.learned), LEARNED[-1])}


def refill(world: World, dice: random.Random) -> None:
    """The registry is emptied and filled again, an id is another text's, and nobody writes for a minute."""
    world.refilled.is_so = not world.setting.keyed
    world.now_ms += ASK_AGAIN_MS


def accept(world: World, dice: random.Random) -> None:
    """%topic schema --accept."""
    if world.refilled.is_so:
        world.settings = world.settings.model_copy(update=ACCEPTED)
        _wish(world, settings=world.settings)


def rebalance(world: World, dice: random.Random) -> None:
    """The group assigns the topic to a host, which learns it when it polls, as does the other."""
    world.holder = dice.choice(["A", "B"])


def outage(world: World, dice: random.Random) -> None:
    """A system does not respond for a while."""
    world.outside.down[dice.choice(OUTAGES)] = world.now_ms + dice.randint(1_000, 40_000)


def arrive(world: World, dice: random.Random) -> None:
    """Requests considered lost arrive."""
    world.outside.deliver()


def lose_a_file(world: World, dice: random.Random) -> None:
    """A staged file is not where its task wrote it, or truncated: executors that do not share the storage.

    Not one that an owner has checked and is about to commit: nothing can help against that.
    """
    if world.outside.later or any(process.busy for process in world.processes.values()):
        return
    # Deleted keys that a host has merged, and a commit was sent with, were never where others write.
    named = world.reader.tables.named() | world.reader.key_files
    named |= {place(one) for process in world.processes.values() for one in keyed.sent(process)}
    staged = [file for file in sorted(world.lake.store.files) if "/epoch-" in file and file not in named]
    if staged and dice.random() < 0.5:
        name = dice.choice(staged)
        world.lost.add(name)
        world.lake.store.remove(name)
    elif staged:
        name = dice.choice(staged)
        world.lake.store.files[name] = world.lake.store.files[name][:100]


def _wish(world: World, **more: object) -> None:
    if world.wish is not None:
        world.wish = world.wish.model_copy(update={"replay": None, "maintenance": None, **more})


def pause(world: World, dice: random.Random) -> None:
    """%topic pause."""
    _wish(world, run="paused")


def resume(world: World, dice: random.Random) -> None:
    """%topic resume."""
    _wish(world, run="on")


def commit(world: World, dice: random.Random) -> None:
    """%topic commit."""
    _wish(world, commit_asked_ms=world.now_ms)


def replay(world: World, dice: random.Random) -> None:
    """%topic replay, at times after a look at why these are letters."""
    if dice.random() < 0.5:
        learn(world, dice)
    _wish(world, replay=ReplayRequest(id=f"replay-{world.now_ms}", asked_ms=world.now_ms))


def compact(world: World, dice: random.Random) -> None:
    """%topic compact."""
    asked = MaintenanceRequest(id=f"compact-{world.now_ms}", asked_ms=world.now_ms, work="compact")
    _wish(world, maintenance=asked)


def expire(world: World, dice: random.Random) -> None:
    """%topic expire."""
    name, orphans = f"expire-{world.now_ms}", dice.random() < 0.3
    asked = MaintenanceRequest(id=name, asked_ms=world.now_ms, work="expire", orphans=orphans)
    _wish(world, maintenance=asked)


def alter(world: World, dice: random.Random) -> None:
    """%topic alter: other settings, so another coordinator."""
    changed = dice.choice(
        [
            {"commit_interval_ms": dice.randint(200, 3_000)},
            {"on_gap": dice.choice(["stop", "go_on"])},
            {"partition_by": dice.choice([(), ("bucket(3, a)",), ("truncate(50, a)",)])},
            {"sort_by": dice.choice([(), ("none",), ("a",), ("a desc",), ("truncate(10, a) desc", "a")])},
        ]
    )
    world.settings = world.settings.model_copy(update=changed)
    _wish(world, settings=world.settings)


def disable(world: World, dice: random.Random) -> None:
    """%topic disable."""
    world.wish = None


def enable(world: World, dice: random.Random) -> None:
    """%topic enable."""
    world.wish = DesiredTopic(topic="clicks", settings=world.settings)


def neighbour(world: World, dice: random.Random) -> None:
    """Another topic's owner, in another process, commits rows to its own table in the shared folder."""
    catalog, folder = world.lake.catalog, {"write.data.path": world.shared_folder}
    settings = world.settings.model_copy(update={"table_properties": folder})
    table = TopicTable.load(catalog, NEIGHBOUR, "views")
    if table is None:
        table = TopicTable.create(catalog, NEIGHBOUR, _VIEWS, UNPARTITIONED_PARTITION_SPEC, "views", settings)
        table.claim(Ledger("views", "cluster", "views-id", {0: 0}, 1, "claim"), None)
    before = table.ledger
    if before is None:
        return  # no owner claims anything, in a product that was broken on purpose
    epoch = dice.randint(before.epoch, before.epoch + 1)
    if epoch > before.epoch:
        claimed = before.claimed(epoch, f"claim-{world.now_ms}")
        table.claim(claimed, before)
        before = claimed
    start = before.next_offsets[0]
    plan = table.plan()
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
    files = DataFileWriter(plan.metadata, plan.io_properties, epoch).write(rows)
    offsets = StagedOffsets({0: start}, {0: start + 3})
    table.commit(before, appended(before.advanced(offsets, f"commit-{world.now_ms}"), files))


# What they do, and how often.
DO: dict[str, Callable[[World, random.Random], None]] = {
    "produce": produce,
    "add a partition": partition,
    "retention": retention,
    "make the topic anew": topic_anew,
    "cut the log": cut,
    "learn a schema": learn,
    "refill the registry": refill,
    "accept the new text": accept,
    "rebalance": rebalance,
    "outage": outage,
    "late requests arrive": arrive,
    "a staged file is lost": lose_a_file,
    "pause": pause,
    "resume": resume,
    "commit": commit,
    "replay": replay,
    "compact": compact,
    "expire": expire,
    "alter": alter,
    "disable": disable,
    "enable": enable,
    "neighbour commits": neighbour,
}
# After these a topic may stop until a person has looked.
STOPS = ("retention", "make the topic anew", "cut the log", "refill the registry")
