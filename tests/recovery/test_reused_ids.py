"""The embedded registry loses its data and is filled again: its ids mean other texts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabletopic_kernel.faces.operations import inspection
from tabletopic_kernel.host.host import Host
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender, rows_by_offset
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration


def _record(name: str, amount: str) -> str:
    fields = [{"name": "id", "type": "long"}, {"name": amount, "type": "long"}]
    return json.dumps({"type": "record", "name": name, "fields": fields})


ORDER, PAYMENT = _record("Order", "cents"), _record("Payment", "euros")


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[StackInfo]:
    """Servers of its own: no other test has schemas in this registry."""
    local = LocalStack(tmp_path / "state")
    yield local.up(die_with_parent=True)
    local.down()


@pytest.fixture
def bench(stack: StackInfo) -> Workbench:
    """A workbench on them."""
    return Workbench(Settings(state_dir=str(stack.state_dir)))


@pytest.fixture
def host(bench: Workbench) -> Iterator[Host]:
    """A host in this process."""
    running = bench.host()
    running.start()
    yield running
    running.stop()


def _sender(stack: StackInfo) -> Sender:
    return Sender(stack, "payments")


@pytest.mark.usefixtures("host")
def test_no_payment_is_read_as_an_order(stack: StackInfo, bench: Workbench) -> None:
    """The table of orders waits, shows both texts, and reads on once a person has said which is right."""
    bench.broker.ensure_topic("payments", 1, {})
    orders = _sender(stack)
    orders.avro(ORDER, *({"id": number, "cents": 100} for number in range(10)))
    topic = bench.topic("payments")
    topic.enable(commit_interval_ms="500ms")
    topic.wait(180)
    (before,) = topic.schema().versions
    topic.pause()
    wait_until("it is paused", lambda: topic.status().state == "paused")
    local = LocalStack(stack.state_dir)
    local.down(["registry"])
    shutil.rmtree(stack.state_dir / "registry")
    local.up(die_with_parent=True)
    payments = _sender(stack)
    payments.avro(PAYMENT, *({"id": number, "euros": 1} for number in range(100)))
    assert payments.register(PAYMENT) == before.id
    topic.resume()
    wait_until("it has stopped", lambda: topic.status().state == "failed")
    error = topic.status().error or ""
    assert f"`tabletopic schema payments --accept {before.id}`" in error
    assert len(rows_by_offset(bench, "payments")) == 10
    two_texts, *changes = topic.schema().reused_ids
    assert two_texts in error
    assert any("euros" in change for change in changes)
    inspection.schema(bench, "payments", accept=int(before.id))
    topic.wait(180)
    rows = [row for _, row in sorted(rows_by_offset(bench, "payments").items())]
    assert [(row["cents"], row["euros"]) for row in rows] == [(100, None)] * 10 + [(None, 1)] * 100
    assert topic.schema().reused_ids == []
    for sender in (orders, payments):
        sender.registry.close()
