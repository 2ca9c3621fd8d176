"""A broker whose disk was restored from a copy has other records at offsets that are rows already (I8)."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import rows_by_offset
from tests.recovery.checks import load, newest_ledger, wait_until_lag_is_0
from tests.recovery.hosts import Hosts
from tests.recovery.stream import Stream
from tests.recovery.terminal import run
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration


def kill_broker(local: LocalStack) -> None:
    """End the broker at once."""
    known = local.known()
    assert known is not None
    os.kill(known.pids["kafka"], signal.SIGKILL)
    wait_until("kafka has ended", lambda: (now := local.known()) is not None and "kafka" in now.ended)


def start_broker(stack: StackInfo, tmp_path: Path) -> None:
    """Start it again, on the same ports."""
    again = run(stack.state_dir, tmp_path, "up", "--detach")
    assert again.returncode == 0, again.stdout


def test_a_restored_disk(
    stack: StackInfo, bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream], tmp_path: Path
) -> None:
    """The topics stop, though they have grown beyond the ledger, and go on as a person says."""
    (host,) = hosts.exactly(1)
    marked, rewound = new_stream(1), new_stream(1)
    for stream in (marked, rewound):
        stream.send(30)
        bench.enable(stream.topic, {"commit_interval_ms": "500ms"})
    wait_until_lag_is_0(bench, marked.topic, rewound.topic)
    folders = [stack.state_dir / "kafka" / "data" / f"{stream.topic}-0" for stream in (marked, rewound)]
    kill_broker(LocalStack(stack.state_dir))
    for folder in folders:
        shutil.copytree(folder, tmp_path / folder.name)
    start_broker(stack, tmp_path)
    for stream in (marked, rewound):
        stream.send(30)
    wait_until_lag_is_0(bench, marked.topic, rewound.topic)
    assert host.stop()[0] == 0, host.last_words()
    kill_broker(LocalStack(stack.state_dir))
    for folder in folders:
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / folder.name, folder)
    start_broker(stack, tmp_path)
    for stream in (marked, rewound):
        new_stream(1, stream.topic).send(50)  # the broker has forgotten the first producers, too
    hosts.exactly(1)
    doctor = run(stack.state_dir, tmp_path, "doctor").stdout
    assert f"{marked.topic} partition 0 from offset 59 or before" in " ".join(doctor.split()), doctor
    for stream, choice in ((marked, "mark"), (rewound, "rewind")):
        reason = wait_until("it stops", partial(failure, bench, stream.topic)) or ""
        assert "partition 0: another record at offset 59" in reason
        assert "partition 0: 30 to 59" in reason
        assert f"tabletopic resume {stream.topic} --on-truncation {choice}" in reason
        done = run(stack.state_dir, tmp_path, "resume", stream.topic, "--on-truncation", choice)
        assert done.returncode == 0, done.stdout
    wait_until_lag_is_0(bench, marked.topic, rewound.topic)
    old, new = list(range(30, 60)), [*range(30), *range(50)]
    assert [row["id"] for _, row in sorted(rows_by_offset(bench, rewound.topic).items())] == new
    rows = load(bench, marked.topic).scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == sorted(old + new)
    ledger = newest_ledger(bench, marked.topic)
    assert ledger is not None
    assert [cut[:2] for cut in ledger.truncated[0]] == [(30, 60)]


def failure(bench: Workbench, topic: str) -> str | None:
    """Why the topic has stopped."""
    (status,) = bench.status(topic)
    return status.error if status.state == "failed" else None
