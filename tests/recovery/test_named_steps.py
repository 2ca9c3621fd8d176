"""A host dies at each named step of the protocol; the next one leaves each record as a row or letter once.

The host's process, coordinator, catalog and files are real; see ``model_host``.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tabletopic_kernel.local.crash_points import Act, Order
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.steps import Step
from tests.drill.crash_points import CrashPoints
from tests.recovery import model_host
from tests.recovery.checks import unreferenced_files
from tests.recovery.model_host import COMPACT, EXPIRE, LEAVE, REPLAY, catalog_of, the_topic
from tests.recovery.waiting import wait_until
from tests.simulation.kafka import BAD
from tests.simulation.lake import LETTERS, MAIN

pytestmark = pytest.mark.story

# Each host is forked from a process that has imported everything, which takes most of its time.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([model_host.__name__])

# The phase of the story in which a host dies at the step: the first one, or where more is at stake.
PHASES = {
    **dict.fromkeys((Step.COMMIT, Step.LETTERS, Step.MANIFEST, Step.TAGGED, Step.SENT), 2),
    **dict.fromkeys((Step.STAGE, Step.STAGED, Step.BATCH, Step.SETTLE), 3),
    **dict.fromkeys((Step.EVOLVE, Step.EVOLVED, Step.DISCARD), 1),
    **dict.fromkeys((Step.COMPACT, Step.COMPACTED), COMPACT),
    **dict.fromkeys((Step.REPLAY, Step.MARKED, Step.REPLAYED), REPLAY),
    **dict.fromkeys((Step.EXPIRE, Step.EXPIRED), EXPIRE),
    Step.DRAIN: LEAVE,
}
# The operating system can raise errors there, which the host itself must survive.
FAILING = (Step.STAGE, Step.STAGED, Step.MANIFEST, Step.SENT)
# Of an owner that finds files of an earlier one.
SWEEPING = (Step.SWEEP, Step.DELETE, Step.SWEPT)


class Runs:
    """The hosts of one folder, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.points = CrashPoints(folder / "points")
        self._count = 0

    def host(self, phase: int, *orders: Order, meanwhile: Callable[[], None] = lambda: None) -> int:
        """Run the next host, which carries out all orders; returns its exit code."""
        for order in orders:
            self.points.arm(order)
        given = (self.folder, self._count, phase, self.points.environment())
        process = _PROCESSES.Process(target=model_host.run, args=given)
        process.start()
        meanwhile()
        process.join()
        self._count += 1
        output = (self.folder / "output").read_text("utf-8")
        assert all(map(self.points.hit, orders)), output
        assert process.exitcode in (0, -signal.SIGKILL), output
        return process.exitcode


def kill(step: Step) -> Order:
    """``kill -9`` there."""
    return Order(f"kill-{step}", step, Act.KILL)


@pytest.mark.parametrize("step", [step for step in Step if step not in SWEEPING])
def test_a_host_dies_at_a_step(tmp_path: Path, step: Step) -> None:
    """The next owner finds out what became of it (I1, I2, I4, I7, I10)."""
    runs = Runs(tmp_path)
    lost = [Order("answer lost", Step.SENT, Act.FAIL)] if step is Step.SETTLE else []
    assert runs.host(PHASES.get(step, 0), *lost, kill(step)) == -signal.SIGKILL
    assert runs.host(0) == 0
    check(tmp_path)


@pytest.mark.parametrize("step", SWEEPING)
def test_two_hosts_die_in_turn(tmp_path: Path, step: Step) -> None:
    """One leaves staged files, the next one dies while it removes them (I10)."""
    runs = Runs(tmp_path)
    assert runs.host(3, kill(Step.STAGED)) == -signal.SIGKILL
    assert runs.host(0, kill(step)) == -signal.SIGKILL
    assert runs.host(0) == 0
    check(tmp_path)


@pytest.mark.parametrize("step", FAILING)
def test_an_error_at_a_step(tmp_path: Path, step: Step) -> None:
    """The same host goes on: nothing is lost, nothing is there twice (I4, I9)."""
    runs = Runs(tmp_path)
    assert runs.host(PHASES[step], Order("fails", step, Act.FAIL)) == 0
    check_records(tmp_path)
    assert runs.host(0) == 0  # removes what the failed batch left
    check(tmp_path)


def cut_off(path: Path) -> None:
    """The end of a file never arrived."""
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("damage", [Path.unlink, cut_off])
def test_a_staged_file_that_is_not_whole_is_never_committed(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Its batch is dropped whole, and the same host reads its records again (I1, I6)."""
    runs = Runs(tmp_path)
    hold = Order("held", Step.COMMIT, Act.HOLD, 240)

    def harm() -> None:
        wait_until("a commit is about to be sent", lambda: runs.points.hit(hold))
        catalog = catalog_of(tmp_path)
        damage(Path(min(unreferenced_files(catalog.load_table(MAIN)))))
        catalog.close()
        runs.points.release(hold)

    assert runs.host(3, hold, meanwhile=harm) == 0
    check_records(tmp_path)


def check_records(folder: Path) -> tuple[Table, Table]:
    """Rows and letters are the topic's records, once each, up to the ledger (I1, I2); returns the tables."""
    catalog = catalog_of(folder)
    main, letters = catalog.load_table(MAIN), catalog.load_table(LETTERS)
    topic = the_topic()
    rows = Counter(
        (row["_kafka_metadata"]["partition"], row["_kafka_metadata"]["offset"], row["a"])
        for row in main.scan().to_arrow().to_pylist()
    )
    bad = Counter((row["partition"], row["offset"]) for row in letters.scan().to_arrow().to_pylist())
    records = [(p, o, record) for p, some in topic.records.items() for o, record in enumerate(some)]
    assert rows == Counter((p, o, record.value) for p, o, record in records if record.kind != BAD)
    assert bad == Counter((p, o) for p, o, record in records if record.kind == BAD)
    snapshot = main.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    ledger = Ledger.from_summary(snapshot.summary.additional_properties)
    assert ledger is not None
    assert dict(ledger.next_offsets) == topic.end()
    catalog.close()
    return main, letters


def check(folder: Path) -> None:
    """Check records; and no file is left over or missing (I10)."""
    for table in check_records(folder):
        assert unreferenced_files(table) == set()
