"""Servers for these tests alone: what is killed here must not be another test's host or broker."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Generator, Iterator

import pytest

from tabletopic_kernel.faces.cli.screen import event_line
from tabletopic_kernel.local import processes, watcher
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.recovery.hosts import Hosts
from tests.recovery.stream import Stream

_DULL = ("Heartbeat", "HostHeartbeat", "FilesStaged", "Committed")


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackInfo]:
    """Broker, registry and catalog for these tests alone."""
    local = LocalStack(tmp_path_factory.mktemp("recovery"))
    yield local.up(die_with_parent=True)
    local.down()


@pytest.fixture(scope="package")
def bench(stack: StackInfo) -> Workbench:
    """A workbench that only queries; hosts are separate processes."""
    return Workbench(Settings(state_dir=str(stack.state_dir)))


@pytest.fixture(scope="package")
def hosts(stack: StackInfo, bench: Workbench) -> Iterator[Hosts]:
    """Starts hosts, and stops them even if the tests are killed."""
    keeper = watcher.start_keeper(stack.state_dir)
    started = Hosts(stack.state_dir, bench)
    yield started
    started.end_all()
    processes.stop([keeper], 10)


@pytest.fixture
def new_stream(stack: StackInfo, bench: Workbench) -> Iterator[Callable[..., Stream]]:
    """Creates topics with a producer each; afterwards they are disabled, so that no host continues."""
    made: list[Stream] = []

    def make(partitions: int = 3, topic: str | None = None, bad_share: float = 0.0) -> Stream:
        stream = Stream(stack, topic or f"t{uuid.uuid4().hex[:10]}", partitions, bad_share=bad_share)
        made.append(stream)
        return stream

    yield make
    for stream in made:
        stream.end()
        if stream.topic in bench.desired_topics():
            bench.disable(stream.topic)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test reports the hosts' output, and their events about its topics."""
    report = yield
    used = getattr(item, "funcargs", {})
    if report.when == "call" and report.failed and {"hosts", "bench"} <= used.keys():
        words = [f"{host}: {text}" for host in used["hosts"].everyone if (text := host.last_words())]
        with contextlib.suppress(TableTopicError):  # the broker may be what is away
            told = [event for event in used["bench"].events() if event.type not in _DULL]
            words += [f"{event.host[-10:]} {event_line(event).plain}" for event in told[-200:]]
            words += [repr(status) for status in used["bench"].status()]
        report.sections.append(("Hosts", "\n".join(words)))
    return report
