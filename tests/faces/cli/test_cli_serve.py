"""A host as a process: what it does before it has a topic, its log, its output for monitoring."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from tabletopic_kernel.faces.cli import main
from tabletopic_kernel.faces.cli.commands import detached as detached_module
from tabletopic_kernel.faces.cli.commands import hosts as run
from tabletopic_kernel.host.metrics.server import Address
from tabletopic_kernel.host.metrics.watch import HostWatch
from tabletopic_kernel.local.hosts import stop_detached
from tabletopic_kernel.model.errors import StackError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.redact import HIDDEN, learn
from tabletopic_kernel.workbench.logs import log_json_to
from tests.host.metrics.samples import COMPACTED, HEARTBEAT, STAMP, FakeHost

QUIET = run._ServeMode(quiet=True)
STAY = "while :; do sleep 0.1; done"


def test_spark_starts_before_the_host_is_made(tmp_path: Path) -> None:
    """Its JVM loads beside this process, and knows that no queries come."""
    begun = threading.Event()

    class Starting:
        is_host = False
        servers = SimpleNamespace(state_dir=tmp_path)

        def host_spark(self, _: object) -> None:
            begun.set()
            raise StackError("there is no Java here")

        def host(self) -> None:
            assert begun.wait(60)
            assert self.is_host
            raise StackError("the host is not made here")

    before = list(logging.getLogger().handlers)
    try:
        with pytest.raises(StackError, match="the host is not made here"):
            run._serve(cast(Any, SimpleNamespace(workbench=Starting(), debug=True)), QUIET, threading.Event())
    finally:
        for thread in threading.enumerate():
            if thread.name == "spark start":
                thread.join(60)
        for handler in set(logging.getLogger().handlers) - set(before):
            logging.getLogger().removeHandler(handler)
            handler.close()


@pytest.fixture
def logged() -> Iterator[Callable[[], list[dict[str, str]]]]:
    """The lines that a process with JSON logs printed."""
    out = io.StringIO()
    handler = log_json_to(out)
    level = run._LOG.level
    run._LOG.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    run._LOG.setLevel(level)
    logging.getLogger().removeHandler(handler)
    handler.close()


def test_logs_as_json(logged: Callable[[], list[dict[str, str]]]) -> None:
    """Each record is a line with its topic, as far as it has one, its trace, and no secret."""
    learn({"sasl.password": "hunter2secret"})
    try:
        raise ValueError("inner hunter2secret\nand more")
    except ValueError:
        logging.getLogger("some.library").exception("it was %s", "hunter2secret")
    run._log_event(events.Failed(**STAMP, reason="no hunter2secret", waits=False))
    run._log_event(COMPACTED)
    run._log_event(HEARTBEAT)
    first, second, third = logged()
    assert first["message"] == f"it was {HIDDEN}"
    assert (first["level"], first["logger"]) == ("error", "some.library")
    assert first["time"].endswith("+00:00")
    assert f"ValueError: inner {HIDDEN}\nand more" in first["trace"]
    assert "topic" not in first
    assert second["message"] == f"Failed: no {HIDDEN}"
    assert (second["level"], second["topic"], second["event"]) == ("error", "clicks", "Failed")
    assert (third["level"], third["event"]) == ("info", "Compacted")


def test_a_coordinator_s_records_have_its_topic(logged: Callable[[], list[dict[str, str]]]) -> None:
    """Its thread is called after it."""
    record = logging.LogRecord("x", logging.WARNING, "", 0, "slow", (), None)
    record.threadName = "coordinator orders.eu"
    logging.getLogger().handle(record)
    assert logged()[0]["topic"] == "orders.eu"


class Bench:
    """Create the real watch of a fake host."""

    def watch(self, host: Any, address: Address) -> HostWatch:
        """With servers that all answer."""
        broker = SimpleNamespace(end_offsets=lambda topics: {topic: {0: 1} for topic in topics})
        return HostWatch(host, cast(Any, broker), lambda: None, lambda *_: None, {None: "lake"}, address)


def test_metrics_while_the_host_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The port is told, answers as long as the host runs, and is closed then."""
    mode = run._ServeMode(metrics=Address("127.0.0.1", 0))
    with run._watched(cast(Any, SimpleNamespace(workbench=Bench())), cast(Any, FakeHost()), mode):
        url = capsys.readouterr().err.split()[-1]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"tabletopic_topics 0.0\n" in answer.read()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=10)


def test_nothing_listens_unless_asked() -> None:
    """Neither for metrics nor for events."""
    host = FakeHost()
    with run._watched(cast(Any, SimpleNamespace()), cast(Any, host), QUIET):
        assert host.hear is None


@pytest.mark.parametrize("words", [("--metrics-port", "70000"), ("--log-format", "xml")])
def test_wrong_use(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, which a supervisor must not try again."""
    assert main(["serve", *words]) == 2
    assert words[0] in capsys.readouterr().err


@pytest.fixture
def detached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], tuple[Path, int]]]:
    """Starts a shell script as a background host; all of them end with the test."""
    call = SimpleNamespace(
        workbench=SimpleNamespace(servers=SimpleNamespace(state_dir=tmp_path)), config=None, profile=None
    )
    program = tmp_path / "program"
    monkeypatch.setattr("sys.executable", str(program))

    def start(script: str) -> tuple[Path, int]:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        return detached_module.start_detached(cast(Any, call))

    yield start
    stop_detached(tmp_path)


def test_hosts_in_the_background_share_a_log(detached: Callable[[str], tuple[Path, int]]) -> None:
    """A second one takes nothing from the log of the first, neither its lines nor those still to come."""
    wait = "while ! test -e $0.go; do sleep 0.05; done"
    log, _ = detached(f"echo 'host 1 {detached_module.JOINS}'; {wait}; echo more of 1; {STAY}")
    detached(f"echo 'host 2 {detached_module.JOINS}'; {STAY}")
    (log.parents[1] / "program.go").touch()
    lines = []
    deadline = time.monotonic() + 20
    while len(lines) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
        lines = log.read_text().splitlines()
    assert lines == [f"host 1 {detached_module.JOINS}", f"host 2 {detached_module.JOINS}", "more of 1"]


def test_a_host_that_ends_at_once_is_not_in_the_background(
    detached: Callable[[str], tuple[Path, int]],
) -> None:
    """Its reason is in the log, of which the error shows the end; the next host begins a new one."""
    with pytest.raises(StackError, match=r"(?s)the host has ended.*host\.out:\nerror: no metrics here"):
        detached("echo 'error: no metrics here'; exit 1")
    log, pid = detached(f"echo 'host 2 {detached_module.JOINS}'; {STAY}")
    assert psutil.pid_exists(pid)
    assert log.read_text() == f"host 2 {detached_module.JOINS}\n"
