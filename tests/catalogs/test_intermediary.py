"""A gateway between host and catalog answers in its place: each kind of commit stays exact, and goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.host.maintenance import compaction
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.progress.events import Compacted, Expired, Failed, Replayed
from tabletopic_kernel.model.settings.desired import MaintenanceRequest, ReplayRequest
from tabletopic_kernel.pipeline.plan import Needs
from tests.catalogs.conftest import LakeRig
from tests.catalogs.lakes import Lake
from tests.host.rig import drain, order
from tests.servers.http_proxy import Answer, HttpProxy, Request
from tests.servers.jvm_servers import ReferenceRest
from tests.table.samples import AVRO, batch
from tests.table.test_dead_letters import ask, staged

pytestmark = [pytest.mark.integration, pytest.mark.servers]

LATE = 9  # a schema that is registered after its records
PAGE = b"<html><body><h1>upstream</h1></body></html>"
HTML = [("Content-Type", "text/html")]
Send = Callable[[], Answer]


def _twice(send: Send) -> Answer:
    send()
    again = send()
    assert again.status == 409
    return again


def _cut(send: Send) -> Answer:
    answer = send()
    answer.cut = True
    return answer


def _instead(status: int, send: Send) -> Answer:
    assert send().status in (200, 204)
    return Answer(status, PAGE, HTML)


TROUBLES: dict[str, Callable[[Send], Answer]] = {
    "forwarded twice": _twice,
    "504 after it": lambda send: _instead(504, send),
    "half an answer": _cut,
    "502 before it": lambda _: Answer(502, PAGE, HTML),
    "200 and a page after it": lambda send: _instead(200, send),
    "200 and a page before it": lambda _: Answer(200, PAGE, HTML),
}


@dataclass
class Gateway:
    """Troubles the next commit whose table ends in ``table``, and whose request contains ``marker``."""

    trouble: Callable[[Send], Answer] | None = None
    table: str = ""
    marker: bytes = b""
    troubled: int = 0
    proxy: HttpProxy = field(init=False)

    def arm(self, trouble: str, marker: bytes, table: str = "/clicks") -> None:
        """Trouble one such commit."""
        self.trouble, self.marker, self.table, self.troubled = TROUBLES[trouble], marker, table, 0

    def judge(self, request: Request) -> Answer | None:
        """Answer in the place of the catalog."""
        is_it = request.method == "POST" and request.path.endswith(self.table) and self.marker in request.body
        if self.trouble is None or not is_it:
            return None
        trouble, self.trouble = self.trouble, None
        self.troubled += 1
        return trouble(lambda: self.proxy.pass_on(request))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """In front of Iceberg's reference server."""
    made = Gateway()
    with (
        ReferenceRest(tmp_path_factory.mktemp("lake") / "rest") as server,
        HttpProxy(server.uri, made.judge) as proxy,
    ):
        made.proxy = proxy
        yield made


@pytest.fixture(scope="module")
def lake(gateway: Gateway) -> Lake:
    """The catalog behind it."""
    return Lake({"name": "lake", "type": "rest", "uri": gateway.proxy.url})


@pytest.fixture(params=TROUBLES)
def trouble(request: pytest.FixtureRequest) -> str:
    """What the gateway does."""
    return str(request.param)


def goes_on(rig: LakeRig, coordinator: Coordinator, gateway: Gateway, rows: list[int]) -> None:
    """The commit was troubled once; the topic runs without a failure, has these rows, and takes others."""
    for _ in range(8):
        rig.after(20_000, coordinator)
    assert gateway.troubled == 1
    assert coordinator.state is State.RUNNING, coordinator.progress().error
    assert [event for event in rig.control.written if isinstance(event, Failed) and not event.waits] == []
    assert values(rig) == rows
    before = rig.offset()
    rig.worker.listener.staged(batch(rig.table, before, before + 2, epoch=epoch(rig)))
    rig.after(60_000, coordinator)
    assert len(values(rig)) == len(rows) + 2
    ids = [snapshot.summary["tabletopic.commit-id"] for snapshot in rig.table.table.metadata.snapshots]  # type: ignore[index]
    assert len(ids) == len(set(ids))


def values(rig: LakeRig) -> list[int]:
    """Of the rows."""
    return sorted(rig.table.table.scan().to_arrow()["a"].to_pylist())


def epoch(rig: LakeRig) -> int:
    """Of the newest owner."""
    ledger = rig.table.ledger
    return ledger.epoch


def test_rows(rig: LakeRig, gateway: Gateway, trouble: str) -> None:
    """An append becomes visible once (I4)."""
    coordinator = rig.running(commit_interval_ms="1s")
    gateway.arm(trouble, b"add-snapshot")
    rig.committed(coordinator, 0, 3)
    goes_on(rig, coordinator, gateway, [0, 1, 2])


def test_a_claim(rig: LakeRig, gateway: Gateway, trouble: str) -> None:
    """A host takes its topic over (I5)."""
    rig.committed(rig.running(commit_interval_ms="1s"), 0, 3)
    gateway.arm(trouble, b"add-snapshot")
    coordinator = rig.make(commit_interval_ms="1s")
    order(coordinator, Event.START)
    goes_on(rig, coordinator, gateway, [0, 1, 2])


def _with_letters(rig: LakeRig) -> Coordinator:
    coordinator = rig.running(commit_interval_ms="100ms")
    ask(coordinator, rig.worker.listener, Needs(dead_letters=True))
    value: Callable[[int], bytes] = lambda offset: prefix(LATE) + bytes([2, 2 * offset])  # noqa: E731
    rig.worker.listener.staged(staged(coordinator, 0, 6, {2, 4}, value))
    return coordinator


def _letters(rig: LakeRig) -> list[int]:
    table = rig.catalog.real.load_table((rig.namespace, "clicks__dead_letters"))
    return sorted(table.scan().to_arrow()["offset"].to_pylist())


def test_dead_letters(rig: LakeRig, gateway: Gateway, trouble: str) -> None:
    """Letters are kept once, beside the rows of their commit (I7)."""
    coordinator = _with_letters(rig)
    gateway.arm(trouble, b"add-snapshot", "__dead_letters")
    rig.after(60_000, coordinator)
    goes_on(rig, coordinator, gateway, [0, 1, 3, 5])
    assert _letters(rig) == [2, 4]


@pytest.mark.parametrize("table", ["/clicks", "__dead_letters"])
def test_a_replay(rig: LakeRig, gateway: Gateway, trouble: str, table: str) -> None:
    """Letters become rows once, whichever table's commit is troubled (I7)."""
    coordinator = _with_letters(rig)
    rig.after(60_000, coordinator)
    rig.registry.schemas[LATE] = AVRO
    gateway.arm(trouble, b"add-snapshot", table)
    coordinator.carry_out(ReplayRequest(id="r", asked_ms=rig.now_ms))
    drain(coordinator)
    goes_on(rig, coordinator, gateway, [0, 1, 2, 3, 4, 5])
    (outcome,) = [event for event in rig.control.written if isinstance(event, Replayed)]
    assert (outcome.error, outcome.rows, _letters(rig)) == (None, 2, [])


def test_a_schema(rig: LakeRig, gateway: Gateway, trouble: str) -> None:
    """The table has the new column before the first row that needs it, and has it once."""
    coordinator = rig.running(commit_interval_ms="1s")
    rig.registry.schemas[2] = AVRO.replace(
        "}]", '}, {"name": "b", "type": ["null", "string"], "default": null}]'
    )
    gateway.arm(trouble, b"add-schema")
    for _ in range(2):  # a batch whose question failed runs again
        ask(coordinator, rig.worker.listener, Needs(frozenset({2})))
        ask(coordinator, rig.worker.listener, Needs(proved=frozenset({2})))
    rig.committed(coordinator, 0, 3)
    goes_on(rig, coordinator, gateway, [0, 1, 2])
    assert rig.table.table.schema().column_names.count("b") == 1


def to_its_end(rig: LakeRig, coordinator: Coordinator, tasks: list[Callable[[], None]]) -> None:
    """The coordinator's turns, with what it leaves to other threads in between."""
    for _ in range(16):
        rig.now_ms += 5_000
        coordinator.step()
        while tasks:
            tasks.pop(0)()


def test_a_compaction(rig: LakeRig, gateway: Gateway, trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files become one, and each row stays once."""
    tasks: list[Callable[[], None]] = []
    rig.spawn = lambda _, work: tasks.append(work)
    monkeypatch.setattr(compaction, "run_task", lambda _spark, _topic, task: task.run())
    coordinator = rig.running(commit_interval_ms="1s")
    for start in (0, 2, 4):
        rig.committed(coordinator, start, start + 2)
    gateway.arm(trouble, b"replace")
    coordinator.carry_out(MaintenanceRequest(id="r", asked_ms=rig.now_ms, work="compact"))
    to_its_end(rig, coordinator, tasks)
    goes_on(rig, coordinator, gateway, [0, 0, 0, 1, 1, 1])
    (outcome,) = [event for event in rig.control.written if isinstance(event, Compacted)]
    assert (outcome.error, outcome.files_before, outcome.files) == (None, 3, 1)


def test_an_expiry(rig: LakeRig, gateway: Gateway, trouble: str) -> None:
    """Snapshots go once, and no row with them."""
    tasks: list[Callable[[], None]] = []
    rig.spawn = lambda _, work: tasks.append(work)
    rig.now_ms = int(time.time() * 1000) + 3_600_000
    settings: dict[str, Any] = {"commit_interval_ms": "1s", "time_travel_ms": 60_000, "keep_snapshots": 1}
    coordinator = rig.running(**settings)
    for start in (0, 2, 4):
        rig.committed(coordinator, start, start + 2)
    gateway.arm(trouble, b"remove-snapshots")
    coordinator.carry_out(MaintenanceRequest(id="r", asked_ms=rig.now_ms, work="expire"))
    to_its_end(rig, coordinator, tasks)
    goes_on(rig, coordinator, gateway, [0, 0, 0, 1, 1, 1])
    outcomes = [event for event in rig.control.written if isinstance(event, Expired)]
    assert [outcome.error for outcome in outcomes] == [None]
    assert rig.table.table.metadata.snapshots
