"""State folders that are copied and moved while their servers run, and another account that names one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.local import machine
from tabletopic_kernel.local.hosts import host_mark, stop_detached
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.errors import StackError
from tests.environment import completed

pytestmark = pytest.mark.integration


@pytest.fixture
def stacks(tmp_path: Path) -> Iterator[Path]:
    """A place for state folders, whose servers are stopped afterwards."""
    yield tmp_path
    for name in ("original", "copy", "moved"):
        LocalStack(tmp_path / name).down()


def _topics(running: StackInfo) -> set[str]:
    client = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
    return {name for name in client.list_topics(timeout=60).topics if not name.startswith("_")}


def test_a_running_folder_is_copied_and_then_moved(stacks: Path) -> None:
    """The copy stops nothing and joins nothing; the moved one stops what still runs, and goes on."""
    original, copy, moved = (stacks / name for name in ("original", "copy", "moved"))
    running = LocalStack(original).up(die_with_parent=True)
    Broker({"bootstrap.servers": running.bootstrap_servers}).ensure_topic("mine", 1, {})
    host = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()", host_mark(original)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert host.stdout is not None
    host.stdout.readline()
    shutil.copytree(original, copy)

    with pytest.raises(StackError, match="is a copy of"):
        LocalStack(copy).up(die_with_parent=True)
    assert stop_detached(copy) == []
    assert LocalStack(copy).down() == []
    assert LocalStack(original).info() == running.__class__(**{**running.__dict__, "started": ()})

    forked = LocalStack(copy, fork=True).up(die_with_parent=True)
    assert set(forked.pids.values()).isdisjoint(running.pids.values())
    assert _topics(forked) == {"mine"}
    assert sorted(LocalStack(copy).down()) == ["kafka", "registry"]
    assert _topics(running) == {"mine"}

    original.rename(moved)
    with pytest.raises(StackError, match="If its servers still run, stop them first"):
        LocalStack(moved).up(die_with_parent=True)
    assert stop_detached(moved) == [host.pid]
    host.communicate()
    assert "registry" in LocalStack(moved).down()  # Kafka ends by itself when its folder is gone
    assert _topics(LocalStack(moved).up(die_with_parent=True)) == {"mine"}


_TRY = """
import os, sys
from pathlib import Path
from tabletopic_kernel.local.machine import logs_folder
from tabletopic_kernel.local.stack import LocalStack
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config.servers import find_servers
from tabletopic_kernel.workbench.config import load_settings
"host".encode("idna")  # loaded as long as Python's own files can be read
os.setgroups([]); os.setgid(65534); os.setuid(65534)
state = Path(sys.argv[1])
for use in (
    lambda: LocalStack(state).up(),
    lambda: LocalStack(state).down(),
    lambda: find_servers(Settings(state_dir=str(state))),
    lambda: find_servers(load_settings({"state_dir": str(state)}, environ={}, cwd=Path("/")).settings),
    lambda: logs_folder(state),
):
    try:
        print("done", use())
    except TableTopicError as error:
        print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_account_is_kept_out_of_a_folder(stacks: Path) -> None:
    """Each use of it ends with whose it is; nothing in it changes."""
    state = stacks / "original"
    machine.logs_folder(state)
    before = {path: path.stat().st_mtime_ns for path in (state, *state.rglob("*"))}
    for path in (stacks, *stacks.parents):
        if path != Path("/tmp") and path.is_relative_to("/tmp"):
            path.chmod(0o755)
    done = completed([sys.executable, "-c", _TRY, str(state)], check=True, cwd="/")
    told = done.stdout.splitlines()
    assert len(told) == 5
    assert all("is not yours alone: it belongs to root" in one for one in told), told
    assert {path: path.stat().st_mtime_ns for path in (state, *state.rglob("*"))} == before
