"""A server of the local stack is killed: only it is missing, all faces say so, and ``up`` restarts it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.progress.events import Failed
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.checks import check_exact, wait_until_lag_is_0
from tests.recovery.hosts import HostProcess, Hosts
from tests.recovery.stream import Stream
from tests.recovery.terminal import run
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration
FAST = {"commit_interval_ms": "500ms"}


@pytest.fixture
def host(hosts: Hosts) -> Iterator[HostProcess]:
    """The only host."""
    hosts.exactly(0)
    started = hosts.start()
    hosts.exactly(1)
    yield started
    code, _ = started.stop()
    assert code == 0, started.last_words()


def _kill(stack: StackInfo, name: str) -> None:
    os.kill(stack.pids[name], signal.SIGKILL)
    found = LocalStack(stack.state_dir)

    def has_ended() -> bool:
        known = found.known()
        return known is not None and name in known.ended

    wait_until(f"{name} has ended", has_ended)


def _check_advice(stack: StackInfo, folder: Path, server: str, *commands: tuple[str, ...]) -> None:
    """Each command fails, names the server that has ended, and says how to start it."""
    for words in commands:
        failed = run(stack.state_dir, folder, *words)
        assert failed.returncode != 0
        assert f"{server} has ended" in failed.stdout
        assert "tabletopic up" in failed.stdout
        assert "no servers" not in failed.stdout


def test_without_the_registry_all_else_goes_on(
    stack: StackInfo,
    bench: Workbench,
    host: HostProcess,
    new_stream: Callable[..., Stream],
    tmp_path: Path,
) -> None:
    """Records of known schemas become rows, questions are answered; who needs it is told how to start it."""
    stream = new_stream(2)
    stream.send(100)
    bench.enable(stream.topic, FAST)
    wait_until_lag_is_0(bench, stream.topic)
    _kill(stack, "registry")
    stream.send(100)
    wait_until_lag_is_0(bench, stream.topic)
    status = run(stack.state_dir, tmp_path, "status")
    assert (status.returncode, stream.topic in status.stdout) == (0, True), status.stdout
    query = run(stack.state_dir, tmp_path, "query", f"SELECT count(*) AS n FROM {stream.topic}")
    assert (query.returncode, "200" in query.stdout) == (0, True), query.stdout
    _check_advice(stack, tmp_path, "registry", ("doctor",), ("plan", stream.topic))
    again = run(stack.state_dir, tmp_path, "up", "--detach")
    assert again.returncode == 0, again.stdout
    assert run(stack.state_dir, tmp_path, "doctor").returncode == 0
    assert host.is_alive
    check_exact(bench, stream)


@pytest.mark.story
def test_without_the_broker_hosts_wait(
    stack: StackInfo,
    bench: Workbench,
    hosts: Hosts,
    host: HostProcess,
    new_stream: Callable[..., Stream],
    tmp_path: Path,
) -> None:
    """Also one that starts meanwhile; once it is back all go on, and each record is a row once."""
    stream = new_stream(2)
    stream.send(100)
    bench.enable(stream.topic, FAST)
    wait_until_lag_is_0(bench, stream.topic)
    _kill(stack, "kafka")
    _check_advice(stack, tmp_path, "kafka", ("status",), ("plan", stream.topic), ("doctor",))
    query = run(stack.state_dir, tmp_path, "query", f"SELECT count(*) AS n FROM {stream.topic}")
    assert (query.returncode, "100" in query.stdout) == (0, True), query.stdout
    late = hosts.start(quiet=False)
    wait_until("the host says that it waits", lambda: "waiting: " in late.last_words())
    assert late.is_alive
    again = run(stack.state_dir, tmp_path, "up", "--detach")
    assert again.returncode == 0, again.stdout
    hosts.exactly(2)
    stream.send(100)
    wait_until_lag_is_0(bench, stream.topic)
    assert host.is_alive
    assert all(event.waits for event in bench.events(stream.topic) if isinstance(event, Failed))
    assert late.stop()[0] == 0, late.last_words()
    check_exact(bench, stream)
