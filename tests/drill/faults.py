"""Carries out the schedule: one function per fault, in a table.

Longer than other modules, as it is a table: what a fault does is next to the others.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import psutil
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyiceberg.table import Table

from tabletopic_kernel.model.dead_letter import SUFFIX
from tests.drill import foreign
from tests.drill.arena import Arena, java_of, signal_tree, tree, workers_of
from tests.drill.schedule import Fault
from tests.drill.streams import PLANS
from tests.drill.tables import ledger_before, newest_ledger

_MOST_PARTITIONS = 5
# Snapshots; a rollback goes back four, and several may coincide.
_MOST_ROLLED_BACK = 16
_MOST_LOST = 60  # records per partition, each time
_REFUSAL = "CREATE TRIGGER drill BEFORE UPDATE ON iceberg_tables BEGIN SELECT RAISE(FAIL, 'refused'); END"
Doing = Callable[[Arena, str], str]  # the arena and a topic → what was done, in words


def do(fault: Fault, arena: Arena, topic: str) -> bool:
    """Cause a fault, and record it; returns whether it succeeded. Foreign commits may fail, as any may."""
    try:
        detail = _DOINGS[fault](arena, topic)
    except Exception as error:  # a locked catalog, a broker that was just killed
        detail = f"was not possible: {(str(error).strip().splitlines() or [type(error).__name__])[0][:160]}"
        arena.note(fault, topic, detail, is_fault=False)
        return False
    arena.note(fault, topic, detail)
    return True


def _with_host(act: Callable[[Arena, int], str]) -> Doing:
    def doing(arena: Arena, _: str) -> str:
        host = arena.some_host()
        if host is None:
            raise ProcessLookupError("no host runs")
        return act(arena, host.pid)

    return doing


def _kill(_: Arena, pid: int) -> str:
    os.kill(pid, signal.SIGKILL)
    return f"killed host {pid}"


def _terminate(_: Arena, pid: int) -> str:
    os.kill(pid, signal.SIGTERM)
    return f"sent SIGTERM to host {pid}"


def _freeze(arena: Arena, pid: int) -> str:
    seconds = arena.dice.choice((2.0, 4.0, 9.0))  # the last is longer than the group waits
    signal_tree(pid, signal.SIGSTOP)
    time.sleep(seconds)
    signal_tree(pid, signal.SIGCONT)
    return f"froze host {pid} for {seconds:g} s"


def _spark(number: signal.Signals, seconds: float = 0.0) -> Doing:
    def doing(arena: Arena, _: str) -> str:
        java = [one for host in arena.alive for one in java_of(host)]
        if not java:
            raise ProcessLookupError("no JVM runs")
        chosen = arena.dice.choice(java)
        chosen.send_signal(number)
        if seconds:
            time.sleep(seconds)
            chosen.send_signal(signal.SIGCONT)
            return f"froze JVM {chosen.pid} for {seconds:g} s"
        return f"killed JVM {chosen.pid}"

    return doing


def _kill_workers(arena: Arena, _: str) -> str:
    workers = [one for host in arena.alive for one in workers_of(host)]
    for worker in workers:
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.kill()
    if not workers:
        raise ProcessLookupError("no Python worker runs")
    return f"killed {len(workers)} Python workers"


def _kill_server(name: str) -> Doing:
    def doing(arena: Arena, _: str) -> str:
        pid = arena.server_pid(name)
        if pid is None:
            raise ProcessLookupError(f"{name} does not run")
        os.kill(pid, signal.SIGKILL)
        time.sleep(1)
        arena.mend_servers()
        return f"killed {name} {pid} and started it again"

    return doing


def _freeze_server(name: str) -> Doing:
    def doing(arena: Arena, _: str) -> str:
        pid = arena.server_pid(name)
        if pid is None:
            raise ProcessLookupError(f"{name} does not run")
        seconds = arena.dice.choice((1.0, 3.0))
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
        return f"froze {name} for {seconds:g} s"

    return doing


@contextlib.contextmanager
def _database(arena: Arena) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(arena.catalog_file, timeout=10, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def _lock_catalog(arena: Arena, _: str) -> str:
    seconds = arena.dice.uniform(0.5, 3)
    with _database(arena) as database:
        database.execute("BEGIN EXCLUSIVE")
        time.sleep(seconds)
        database.execute("ROLLBACK")
    return f"the catalog was locked for {seconds:.1f} s"


def _slow_catalog(arena: Arena, _topic: str) -> str:
    for _ in range(6):
        with _database(arena) as database:
            database.execute("BEGIN EXCLUSIVE")
            time.sleep(0.3)
            database.execute("ROLLBACK")
        time.sleep(0.1)
    return "the catalog was locked six times for 0.3 s"


def _refuse_commits(arena: Arena, _: str) -> str:
    seconds = arena.dice.uniform(0.5, 2)
    with _database(arena) as database:
        database.execute(_REFUSAL)
        try:
            time.sleep(seconds)
        finally:
            database.execute("DROP TRIGGER drill")
    return f"the catalog refused all commits for {seconds:.1f} s"


def _fill_disk(arena: Arena, _: str) -> str:
    """Let no file of one host's processes grow, as on a full disk."""
    host = arena.some_host()
    if host is None:
        raise ProcessLookupError("no host runs")
    seconds = arena.dice.uniform(0.5, 2.5)
    chosen = tree(host.pid)
    _limit_files(chosen, 0)
    time.sleep(seconds)
    _limit_files([*chosen, *tree(host.pid)], resource.RLIM_INFINITY)
    return f"host {host.pid} could not write any file for {seconds:.1f} s"


def _limit_files(processes: list[psutil.Process], size: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.rlimit(psutil.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _by_others(doing: Callable[[Table, random.Random], str]) -> Doing:
    """Another program's commit; we need not remove files that it takes out of the table."""

    def others(arena: Arena, topic: str) -> str:
        table = arena.load(topic)
        arena.forgiven[topic] |= arena.reached.files(table)
        return doing(table, arena.dice)

    return others


def _foreign_letters(arena: Arena, topic: str) -> str:
    table = arena.catalog().load_table(f"{arena.table_name(topic)}{SUFFIX}")
    doing = arena.dice.choice((foreign.append_letter, foreign.expire))
    return f"dead letters: {doing(table, arena.dice)}"


def _pause(arena: Arena, topic: str) -> str:
    arena.workbench.pause(topic)
    time.sleep(arena.dice.uniform(0, 1.5))
    arena.workbench.resume(topic)
    return "paused and resumed"


def _alter(arena: Arena, topic: str) -> str:
    interval = arena.dice.choice((500, 600, 700, 800, 900, 1000))
    arena.workbench.alter(topic, {"commit_interval_ms": interval})
    return f"commit_interval_ms = {interval}"


def _commit(arena: Arena, topic: str) -> str:
    arena.workbench.commit(topic)
    return "requested a commit"


def _disable(arena: Arena, topic: str) -> str:
    settings = arena.workbench.desired_topic(topic).settings.model_dump(exclude_unset=True)
    arena.workbench.disable(topic)
    time.sleep(arena.dice.uniform(0, 1))
    arena.workbench.enable(topic, settings)
    return "disabled and enabled"


def _replay(arena: Arena, topic: str) -> str:
    known = arena.streams[topic].release()
    arena.workbench.ask_for_replay(topic)
    done = "requested a replay of all dead letters"
    return f"{done}, after registering a schema of some" if known else done


def _compact(arena: Arena, topic: str) -> str:
    arena.workbench.ask_for_compaction(topic)
    return "requested a compaction"


def _expire(arena: Arena, topic: str) -> str:
    arena.workbench.ask_for_maintenance(topic, "expire")
    return "requested an expiry"


def _evolve(arena: Arena, _: str) -> str:
    return f"orders: version {arena.streams['orders'].evolve()} of the schema"


def _admin(arena: Arena) -> AdminClient:
    return AdminClient({**arena.workbench.servers.kafka, "log_level": 0})


def _add_partition(arena: Arena, topic: str) -> str:
    count = len(arena.workbench.broker.end_offsets([topic])[topic]) + 1
    if count > _MOST_PARTITIONS:
        return f"{topic} has its {_MOST_PARTITIONS} partitions"
    admin = _admin(arena)  # kept until the response: its requests end with it
    admin.create_partitions([NewPartitions(topic, count)], request_timeout=10)[topic].result(15)
    arena.streams[topic].add_partition(count)
    return f"{topic} has {count} partitions"


def _retention(arena: Arena, topic: str) -> str:
    """Delete records like retention, but only those that the table keeps even if it is rolled back later.

    Losing others would not be the host's fault, and nobody could restore them.
    """
    ledger = ledger_before(arena.load(topic), _MOST_ROLLED_BACK)
    if ledger is None:
        return "the table has nothing yet"
    _delete_records(arena, topic, ledger.next_offsets)
    return f"records below {dict(ledger.next_offsets)} are gone"


def _gap(arena: Arena, _: str) -> str:
    """Delete unread records of the topic that skips gaps: they are lost, and must be counted."""
    (topic,) = (plan.topic for plan in PLANS if plan.settings.get("on_gap") == "go_on")
    ledger = newest_ledger(arena.load(topic))
    if ledger is None:
        return "the table has nothing yet"
    ends = dict(arena.streams[topic].ends)
    marks = {
        partition: min(ends.get(partition, 0), offset + arena.dice.randint(1, _MOST_LOST))
        for partition, offset in ledger.next_offsets.items()
    }
    _delete_records(arena, topic, marks)
    return f"{topic}: records below {marks} are gone, those from {dict(ledger.next_offsets)} perhaps unread"


def _delete_records(arena: Arena, topic: str, before: Mapping[int, int]) -> None:
    gone = arena.gone[topic]
    gone |= {partition: max(offset, gone.get(partition, 0)) for partition, offset in before.items()}
    places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    admin = _admin(arena)  # as above
    for future in admin.delete_records(places, request_timeout=10).values():
        future.result(15)


_DOINGS: dict[Fault, Doing] = {
    Fault.KILL_HOST: _with_host(_kill),
    Fault.STOP_HOST: _with_host(_terminate),
    Fault.FREEZE_HOST: _with_host(_freeze),
    Fault.KILL_SPARK: _spark(signal.SIGKILL),
    Fault.FREEZE_SPARK: _spark(signal.SIGSTOP, 4),
    Fault.KILL_WORKERS: _kill_workers,
    Fault.KILL_BROKER: _kill_server("kafka"),
    Fault.FREEZE_BROKER: _freeze_server("kafka"),
    Fault.KILL_REGISTRY: _kill_server("registry"),
    Fault.FREEZE_REGISTRY: _freeze_server("registry"),
    Fault.LOCK_CATALOG: _lock_catalog,
    Fault.SLOW_CATALOG: _slow_catalog,
    Fault.REFUSE_COMMITS: _refuse_commits,
    Fault.FILL_DISK: _fill_disk,
    Fault.FOREIGN_APPEND: _by_others(foreign.append),
    Fault.FOREIGN_EXPIRE: _by_others(foreign.expire),
    Fault.FOREIGN_REWRITE: _by_others(foreign.rewrite),
    Fault.FOREIGN_ROLLBACK: _by_others(foreign.rollback),
    Fault.FOREIGN_COLUMN: _by_others(foreign.column),
    Fault.FOREIGN_PARTITION: _by_others(foreign.partition),
    Fault.FOREIGN_ORDER: _by_others(foreign.order),
    Fault.FOREIGN_TAG: _by_others(foreign.tag),
    Fault.FOREIGN_BRANCH: _by_others(foreign.branch),
    Fault.FOREIGN_LETTERS: _foreign_letters,
    Fault.PAUSE: _pause,
    Fault.ALTER: _alter,
    Fault.COMMIT: _commit,
    Fault.DISABLE: _disable,
    Fault.REPLAY: _replay,
    Fault.COMPACT: _compact,
    Fault.EXPIRE: _expire,
    Fault.EVOLVE: _evolve,
    Fault.ADD_PARTITION: _add_partition,
    Fault.RETENTION: _retention,
    Fault.GAP: _gap,
}


def do_later(fault: Fault, arena: Arena, topic: str, seconds: float) -> threading.Thread:
    """Cause a fault after ``seconds``, in its own thread."""

    def wait_and_do() -> None:
        time.sleep(seconds)
        do(fault, arena, topic)

    thread = threading.Thread(target=wait_and_do, name=f"drill {fault}", daemon=True)
    thread.start()
    return thread
