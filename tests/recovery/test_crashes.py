"""A host is killed, or stopped, and another one continues: every record is a row once."""

from __future__ import annotations

import logging
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pytest
from confluent_kafka import KafkaException

from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.topic_names import CONTROL_TOPIC, HOSTS_GROUP, SETTINGS_TOPIC
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.checks import (
    check_exact,
    check_owners,
    commits,
    epoch,
    unreferenced_files,
    wait_for_commits,
    wait_until_lag_is_0,
    wait_until_swept,
)
from tests.recovery.checks import load as load_table
from tests.recovery.hosts import HostProcess, Hosts
from tests.recovery.stream import Stream
from tests.recovery.waiting import wait_until

pytestmark = pytest.mark.integration
FAST = {"commit_interval_ms": "500ms"}
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Crash:
    """``kill -9`` this many seconds after the host's start, its claim, or its first commit."""

    after: Literal["start", "owner", "commit"]
    seconds: float


SEED = 20_260_717
_moments = random.Random(SEED)
# What happens at each named step is in test_named_steps.py; these are moments in between.
CRASHES = (
    # Over several commit intervals: while it stages, while it commits, and in between.
    Crash("commit", _moments.uniform(0, 2)),
    # Anywhere between the interpreter's start and the first commits.
    Crash("start", _moments.uniform(1, 12)),
    Crash("owner", _moments.uniform(0, 1)),
)


@pytest.mark.story
def test_a_host_that_is_killed_again_and_again(
    bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream]
) -> None:
    """Whenever hosts die, the last one leaves each record as a row or a letter once, and no file beside."""
    _LOG.warning("seed %d: %s", SEED, CRASHES)
    hosts.exactly(0)
    stream = new_stream(partitions=3, bad_share=0.1)
    stream.begin(per_second=150)
    bench.enable(stream.topic, FAST)
    for crash in CRASHES:
        crash_after(crash, hosts.start(), bench, stream.topic)
    (host,) = hosts.exactly(1)
    wait_for_commits(bench, stream.topic)
    stream.end()
    wait_until_lag_is_0(bench, stream.topic)
    wait_until_swept(bench, stream.topic)
    code, _ = host.stop()
    assert code == 0, host.last_words()
    check_exact(bench, stream)
    owners = check_owners(bench, [stream.topic])
    # A host that died never came back; one that stalled may have.
    assert len(set(owners.values())) == len(owners) or any(one.lost_its_share for one in hosts.everyone)
    assert unreferenced_files(load_table(bench, stream.topic)) == set()
    wait_until("no process is left", lambda: not [name for host in hosts.everyone for name in host.left()])


def crash_after(crash: Crash, host: HostProcess, bench: Workbench, topic: str) -> None:
    """Kill the host at the moment that ``crash`` names."""
    owners, before = epoch(bench, topic), commits(bench, topic)

    def reached() -> bool:
        assert host.is_alive, host.last_words()
        return {
            "start": lambda: True,
            "owner": lambda: epoch(bench, topic) > owners,
            "commit": lambda: commits(bench, topic) > before,
        }[crash.after]()

    wait_until(f"{crash} of {topic}", reached)
    time.sleep(crash.seconds)
    host.kill()


def test_a_clean_stop_commits_what_is_staged(
    stack: StackInfo, bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream]
) -> None:
    """SIGTERM long before the commit is due: it is made, and nothing stays behind."""
    hosts.exactly(0)
    stream = new_stream(partitions=3)
    stream.send(500)
    bench.enable(stream.topic, {"commit_interval_ms": "1h"})
    host = hosts.start()
    wait_until("all records are staged", lambda: bench.status(stream.topic)[0].staged_rows == 500)
    assert commits(bench, stream.topic) == 0
    code, seconds = host.stop()
    assert code == 0, host.last_words()
    assert seconds < 60
    check_exact(bench, stream)
    assert commits(bench, stream.topic) == 1
    assert unreferenced_files(load_table(bench, stream.topic)) == set()
    wait_until("its Spark is gone", lambda: not host.left())
    assert list(stack.state_dir.rglob("tabletopic-checkpoint-*")) == []
    assert [event.type for event in bench.events(stream.topic)][-1] == "Stopped"


# All that is neither the broker's, the registry's, the catalog's nor the table's.
KEPT = {"kafka", "registry", "catalog.db", "warehouse", "stack.json", "lock", ".gitignore", "logs"}
KEPT_LOGS = ("kafka", "registry", "watcher")


def test_the_table_alone_says_where_to_go_on(
    stack: StackInfo, bench: Workbench, hosts: Hosts, new_stream: Callable[..., Stream]
) -> None:
    """Settings, events, the hosts' group and all local state are lost: ``enable`` is enough (I6)."""
    hosts.exactly(0)
    stream = new_stream(partitions=3)
    stream.begin(per_second=150)
    bench.enable(stream.topic, FAST)
    host = hosts.start()
    wait_for_commits(bench, stream.topic, 3)
    host.kill()
    wait_until("its Spark is gone", lambda: not host.left())
    lose_everything(stack, bench)
    bench.enable(stream.topic, FAST)
    (host,) = hosts.exactly(1)
    assert wait_for_commits(bench, stream.topic) == 2 or host.lost_its_share
    stream.end()
    wait_until_lag_is_0(bench, stream.topic)
    wait_until_swept(bench, stream.topic)
    check_exact(bench, stream)


def lose_everything(stack: StackInfo, bench: Workbench) -> None:
    """Remove our topics, the hosts' group, and every file except the servers' and the table's."""
    for path in stack.state_dir.iterdir():
        if path.name not in KEPT:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (stack.state_dir / "logs").iterdir():
        if not path.name.startswith(KEPT_LOGS):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    admin = bench.broker.admin
    for future in admin.delete_topics([SETTINGS_TOPIC, CONTROL_TOPIC]).values():
        future.result(30)

    def group_is_gone() -> bool:
        try:
            admin.delete_consumer_groups([HOSTS_GROUP])[HOSTS_GROUP].result(30)
        except KafkaException:  # its dead member has not been missed yet
            return False
        return True

    wait_until("the group is empty", group_is_gone)
    wait_until(
        "the topics are gone", lambda: not {SETTINGS_TOPIC, CONTROL_TOPIC} & set(bench.broker.topics())
    )
