"""The demo: what it compares and shows, and that nothing of it is ever left behind."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tabletopic_kernel._datasets.clickstream.generator import Clickstream, Tallies
from tabletopic_kernel._datasets.clickstream.questions import QUESTIONS, Row
from tabletopic_kernel.commit.covered import CoveredSchema
from tabletopic_kernel.core.errors import StackError, UsageError
from tabletopic_kernel.core.events import SchemaEvolved
from tabletopic_kernel.core.ledger import Ledger
from tabletopic_kernel.demo import history, hosts, pages, proof, run, scenario
from tabletopic_kernel.demo.leash import Leash
from tabletopic_kernel.demo.outcome import Outcome, Story
from tabletopic_kernel.demo.screen import Screen, StreamView
from tabletopic_kernel.demo.script import Script

EVENTS = 2_000
PARTITIONS = 4
ENDS = dict.fromkeys(range(PARTITIONS), EVENTS // PARTITIONS)
METADATA = pa.struct(
    [("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))]
)


def _rows() -> tuple[list[dict[str, Any]], Tallies]:
    """Events as the table shows them, spread over partitions, a record each millisecond."""
    stream = Clickstream()
    events = [event.value for event in stream.events(EVENTS // 2)]
    stream.switch_schema("v2")
    events += [event.value for event in stream.events(EVENTS - EVENTS // 2)]
    rows = [
        {
            **event,
            "event_time": event["event_time"] * 1000,
            "_kafka_metadata": {
                "partition": number % PARTITIONS,
                "offset": number // PARTITIONS,
                "timestamp": number * 1000,
            },
        }
        for number, event in enumerate(events)
    ]
    return rows, stream.tallies


def _asker(rows: list[dict[str, Any]]) -> proof.Ask:
    viewport = pa.struct([("width", pa.int32()), ("height", pa.int32())])
    texts = ("event_id", "user_id", "session_id", "event_type", "url", "product_id")
    schema = pa.schema(
        [
            *((name, pa.string()) for name in texts),
            ("event_time", pa.timestamp("us", tz="UTC")),
            ("price", pa.decimal128(9, 2)),
            ("quantity", pa.int32()),
            ("device", pa.struct([("type", pa.string()), ("viewport", viewport)])),
            ("_kafka_metadata", METADATA),
        ]
    )
    connection = duckdb.connect()
    connection.register("clicks", pa.Table.from_pylist(rows, schema=schema))
    return lambda sql: connection.execute(sql).fetchall()


def _compare(rows: list[dict[str, Any]], tallies: Tallies, **changed: Any) -> Outcome:
    """Everything the demo compares, over these rows."""
    ask = _asker(rows)
    found = {"ends": ENDS, "ledger": ENDS, "files_of_table": 3, "files_on_disk": 3, **changed}
    parts = proof.partitions(ask, "clicks", found["ends"], found["ledger"])
    files = (found["files_of_table"], found["files_on_disk"])
    return Outcome(
        EVENTS,
        sent=tallies.events,
        answers=proof.answers(ask, "clicks", tallies),
        partitions=parts,
        checks=proof.checks(ask, "clicks", tallies.events, parts, *files),
    )


@pytest.fixture(scope="module")
def sent() -> tuple[list[dict[str, Any]], Tallies]:
    """Rows and the tallies of the generator."""
    return _rows()


def _wrong(outcome: Outcome) -> set[str]:
    return {one.name for one in outcome.comparisons if not one.ok}


def test_a_table_with_each_event_once_passes_every_comparison(
    sent: tuple[list[dict[str, Any]], Tallies],
) -> None:
    """All five answers and all five checks agree."""
    outcome = _compare(*sent)
    assert _wrong(outcome) == set()
    assert len(outcome.answers) == len(QUESTIONS)
    assert all(part.ok for part in outcome.partitions)
    assert outcome.ok


def _doubled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*rows, rows[7]]


def _one_lost(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows[:7] + rows[8:]


def _one_replaced(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The number of rows is right, yet one event is lost and another one is there under its offset."""
    return [*rows[:7], {**rows[8], "_kafka_metadata": rows[7]["_kafka_metadata"]}, *rows[8:]]


def _price_changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    at = next(number for number, row in enumerate(rows) if row["event_type"] == "purchase")
    cent_more = {**rows[at], "price": rows[at]["price"] + Decimal("0.01")}
    return [*rows[:at], cent_more, *rows[at + 1 :]]


@pytest.mark.parametrize(
    ("spoil", "noticed_by"),
    [
        (_doubled, {"rows", "records"}),
        (_one_lost, {"rows", "event_ids"}),
        (_one_replaced, {"event_ids"}),
        (_price_changed, {"revenue_by_hour"}),
    ],
)
def test_what_is_wrong_in_the_table_is_noticed(
    sent: tuple[list[dict[str, Any]], Tallies],
    spoil: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    noticed_by: set[str],
) -> None:
    """A duplicate, a loss, a swap and one cent too much each fail a comparison, and with it the whole."""
    rows, tallies = sent
    outcome = _compare(spoil(rows), tallies)
    assert noticed_by <= _wrong(outcome)
    assert not outcome.ok


@pytest.mark.parametrize(
    ("changed", "noticed_by"),
    [
        ({"ledger": {**ENDS, 2: 499}}, "ledger"),
        ({"ends": {**ENDS, 4: 1}}, "ledger"),
        ({"files_on_disk": 4}, "files"),
    ],
)
def test_what_is_wrong_beside_the_table_is_noticed(
    sent: tuple[list[dict[str, Any]], Tallies], changed: dict[str, Any], noticed_by: str
) -> None:
    """A ledger that is behind, a partition that was never read, a file that nobody committed."""
    outcome = _compare(*sent, **changed)
    assert _wrong(outcome) == {noticed_by}
    assert not outcome.ok


def test_nothing_compared_is_no_success() -> None:
    """An outcome without answers or checks is not good."""
    assert not Outcome(EVENTS).ok
    assert not Outcome(EVENTS, checks=[proof.Check("rows", "", 1, 1)]).ok


def _answer(found: list[Row], expected: list[Row]) -> proof.Answer:
    return proof.Answer("top_pages", "Which pages?", ("url", "views"), found, expected, 0.1)


def _text(page: Any) -> str:
    stream = io.StringIO()
    Screen(stream).show(page)
    return stream.getvalue()


def test_a_wrong_answer_shows_what_it_must_be() -> None:
    """A tick for the right one; for the wrong one a cross and each row that differs."""
    right = _text(pages.answer_block(_answer([("/", 5)], [("/", 5)])))
    assert "✓" in right
    assert "✗" not in right
    wrong = _text(pages.answer_block(_answer([("/", 5), ("/a", 1)], [("/", 6)])))
    assert "✗" in wrong
    assert "row 1: /, 5, must be /, 6" in wrong
    assert "row 2: /a, 1, must be no such row" in wrong


def test_a_wrong_check_shows_both_figures() -> None:
    """The figure that was found and the one that must be."""
    text = _text(pages.check_table([proof.Check("rows", "Rows", 99_999, 100_000)]))
    assert "✗" in text
    assert "99,999, must be 100,000" in text


@pytest.mark.parametrize(("found", "code"), [(100, 0), (99, 1)])
def test_the_exit_code_is_the_verdict(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    found: int,
    code: int,
) -> None:
    """One comparison that fails is exit code 1, and the JSON says which one."""

    def play(self: scenario.Demo) -> Outcome:
        outcome = self.outcome
        outcome.answers, outcome.checks = [_answer([], [])], [proof.Check("rows", "Rows", found, 100)]
        return outcome

    monkeypatch.setattr(scenario.Demo, "play", play)
    assert run(EVENTS, state_dir=tmp_path, as_json=True) == code
    summary = json.loads(capsys.readouterr().out)
    assert summary["ok"] is (code == 0)
    assert [check["ok"] for check in summary["checks"]] == [code == 0]


def _outcome(sent: tuple[list[dict[str, Any]], Tallies]) -> Outcome:
    outcome = _compare(*sent)
    first = history.Commit(17 * 10**17, 1_000, 1, 0, 0, 0, {0: 0})
    rows = replace(first, at_ms=3_000, rows=10_500, files=1, bytes=450_000, oldest_ms=500, newest_ms=2_600)
    outcome.commits = [first, rows, replace(first, epoch=2)]
    outcome.schemas = [history.SchemaStep(0, 24, ("create default.clicks",), ("clicks-value version 1",))]
    outcome.story = Story(killed_s=10.0, takeover_s=17.5, caught_up_s=21.0)
    outcome.seconds = {"servers": 5.0, "stream": 30.0}
    return outcome


def test_pages_fit_100_columns(sent: tuple[list[dict[str, Any]], Tallies]) -> None:
    """Every page of the end, in a log: no line is longer, none ends in blanks, no colour."""
    outcome = _outcome(sent)
    text = "".join(
        _text(page)
        for page in (
            pages.commit_table(outcome.commits),
            pages.schema_table(outcome.schemas),
            pages.answer_page(outcome.answers, 100),
            pages.partition_table(outcome.partitions),
            pages.check_table(outcome.checks),
            pages.summary(outcome),
            pages.next_steps(None),
        )
    )
    assert max(map(len, text.splitlines())) <= 100
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert "\x1b" not in text
    assert "0.4 …  2.5 s" in text
    assert "10 of 10 comparisons agree" in text
    assert "7.5 s after the kill; 11.0 s after it" in text


def test_long_news_are_wrapped_under_their_beginning() -> None:
    """A text of several lines keeps its indentation and loses nothing, brackets included."""
    stream = io.StringIO()
    words = "the table's schema follows: add [device] " + "struct<width: int> " * 12
    Screen(stream).moment(12.3, "✓", words)
    first, *others = stream.getvalue().splitlines()
    assert first.startswith("   12.3 s  ✓ the table's schema follows: add [device]")
    assert others
    assert all(line.startswith(" " * 13) and len(line) <= 100 for line in others)
    assert " ".join(" ".join([first[13:], *others]).split()) == " ".join(words.split())


def test_a_log_gets_a_line_now_and_then() -> None:
    """Without a terminal the view writes plain lines every few seconds, not one for each update."""
    stream = io.StringIO()
    with StreamView(Screen(stream), 100) as view:
        for sent_so_far in range(50):
            view.update(sent_so_far, None, "host 1 starting")
    assert len(stream.getvalue().splitlines()) <= 1


def _ledger(offset: int, epoch: int, commit_id: str) -> dict[str, str]:
    return Ledger("clicks", "cluster", "topic", {0: offset}, epoch, commit_id).to_summary()


def test_history_is_read_from_the_table_alone(tmp_path: Path) -> None:
    """Commits with their epochs and waits, foreign snapshots left out, schemas with their causes."""
    rows, _ = _rows()
    data = pa.table({"_kafka_metadata": pa.array([row["_kafka_metadata"] for row in rows[:8:4]], METADATA)})
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("default")
    table = catalog.create_table("default.clicks", data.schema)
    table.append(data.slice(0, 1), snapshot_properties=_ledger(1, 1, "a"))
    table.append(data.slice(0, 0))  # somebody else's
    table.append(data.slice(0, 0), snapshot_properties=_ledger(1, 2, "b"))
    table.append(data.slice(1, 1), snapshot_properties=_ledger(2, 2, "c"))
    connection = duckdb.connect()
    connection.register("clicks", data)

    commits = history.commits(table.metadata)
    assert [(one.epoch, one.rows, one.next_offsets_sum) for one in commits] == [
        (1, 1, 1),
        (2, 0, 1),
        (2, 1, 2),
    ]
    timed = history.with_waits(lambda sql: connection.execute(sql).fetchall(), "clicks", commits)
    assert [one.oldest_ms for one in timed] == [0, None, 4]
    assert timed[1].waited_s is None
    assert timed[2].waited_s == ((commits[2].at_ms - 4) / 1000,) * 2

    evolved = SchemaEvolved(topic="clicks", at_ms=1, changes=["widen a"], cause=None, table_schema_id=0)
    [step] = history.schemas(table.metadata, {5: CoveredSchema(5, "clicks-value", 2, 0)}, [evolved])
    assert step == history.SchemaStep(0, 4, ("widen a",), ("clicks-value version 2 (id 5)",))


def test_cells_are_written_for_people() -> None:
    """Times as weekday and hour, money with two digits, counts with commas."""
    row = (datetime(2026, 1, 5, 6), Decimal("1234.5"))
    answer = proof.Answer("revenue", "Sold?", ("hour_utc", "revenue_eur"), [row], [row], 0.0)
    text = _text(pages.answer_block(answer))
    assert "Mon 06:00" in text
    assert "1,234.50" in text


@pytest.mark.parametrize("events", [1_000, 6_000, 100_000, 5_000_000])
def test_scenes_come_in_their_order(events: int) -> None:
    """Hold, switch, kill; from 10 to 36 seconds of sending whatever the number of events."""
    script = Script(events)
    assert 0 < script.hold_at < script.switch_at < script.kill_at < events
    assert 10 <= events / script.rate <= 36


def test_too_few_events_are_refused(tmp_path: Path) -> None:
    """A demo of a handful of events would show nothing; nothing is started for it."""
    with pytest.raises(UsageError, match="1,000 or more"):
        run(10, state_dir=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_hosts_see_the_demo_s_servers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's own settings, from the environment or a file further up, do not reach them."""
    from tabletopic_kernel.config import load_settings

    (tmp_path / "tabletopic.toml").write_text('[kafka]\nbootstrap.servers = "prod:9092"\n')
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("TABLETOPIC_REGISTRY__URL", "http://prod")
    settings = load_settings(environ=hosts.environment(folder), cwd=folder).settings
    assert (settings.kafka, settings.registry, settings.catalog) == ({}, {}, {})
    assert settings.state_dir == str(folder)


@pytest.mark.integration
def test_a_host_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    """Without servers a host cannot run: the error has its output and says where the rest is."""
    (tmp_path / "logs").mkdir()
    leash = Leash(tmp_path, temporary=False)
    try:
        host = hosts.HostProcess(tmp_path, 1, leash)
        host.wait()
        with pytest.raises(StackError, match=r"host 1 .* ended by itself") as caught:
            host.check()
        assert "no servers" in str(caught.value)
        assert str(tmp_path / "logs") in str(caught.value)
    finally:
        leash.release()


_ORPHAN = """
import subprocess, sys, time
from tabletopic_kernel.demo.processes import ProcessTree

tree = ProcessTree()
parent = subprocess.Popen(["sh", "-c", "sleep 300 & wait"], start_new_session=True)
try:
    while len(tree.left()) < 2:
        time.sleep(0.02)
    assert tree.peak_bytes > 0
finally:
    parent.kill()
    parent.wait()
[orphan] = tree.left()
assert orphan.name() == "sleep", orphan
assert tree.end_what_is_left(timeout_s=0) == [f"sleep ({orphan.pid})"]
assert tree.left() == []
"""


def test_orphans_are_remembered_and_ended() -> None:
    """A grandchild whose parent was killed is no longer below us, and is found all the same.

    In a process of its own: the tree ends all that is below it, and below us are the servers of other tests.
    """
    command = [sys.executable, "-c", _ORPHAN]
    ended = subprocess.run(command, timeout=60, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


# -- with real servers

_PROGRAM = """
import sys
from pathlib import Path
from tabletopic_kernel.demo import run
sys.exit(run(int(sys.argv[1]), state_dir=Path(sys.argv[2]), as_json=True))
"""


def _demo(folder: Path, events: int, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(events), str(folder)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder.parent,
        )


def _processes_of(folder: Path) -> list[psutil.Process]:
    """Whatever has the folder in its command or its environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if str(folder) in " ".join([*process.cmdline(), *process.environ().values()]):
                found.append(process)
    return found


def _wait_for(condition: Callable[[], bool], limit_s: float = 120) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.1)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A state folder; what a failed test leaves running in it is ended."""
    state = tmp_path / "state"
    yield state
    for process in _processes_of(state):
        with contextlib.suppress(psutil.Error):
            process.kill()


@pytest.mark.integration
@pytest.mark.timeout(420)
def test_the_demo_proves_itself_and_leaves_no_process(folder: Path, tmp_path: Path) -> None:
    """A small one, with servers, a schema change and a killed host: all agrees, and all is gone."""
    log = tmp_path / "log"
    demo = _demo(folder, 6_000, log)
    out, _ = demo.communicate(timeout=400)
    text = log.read_text("utf-8")
    assert demo.returncode == 0, text
    assert _processes_of(folder) == []
    summary = json.loads(out)
    assert summary["ok"]
    assert summary["ended_by_force"] == []
    assert sum(commit["rows"] for commit in summary["commits"]) == summary["sent"] == 6_000
    assert [commit["epoch"] for commit in summary["commits"] if commit["rows"] == 0] == [1, 2]
    assert summary["story"]["takeover_epoch"] == 2
    assert [schema["causes"] for schema in summary["schemas"]] == [
        ["clicks-value version 1 (id 1)"],
        ["clicks-value version 2 (id 2)"],
    ]
    assert "kill -9: host 1" in text
    assert text.count("✓ Rows") + text.count("✓  Rows") == 1
    assert "\x1b" not in text
    with pytest.raises(UsageError, match="topic clicks already"):  # a second time in the same folder
        run(6_000, state_dir=folder)
    assert _processes_of(folder) == []


@pytest.mark.integration
@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    ("sent_signal", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_demo_that_is_ended_leaves_no_process(
    folder: Path, tmp_path: Path, sent_signal: signal.Signals, code: int
) -> None:
    """In the middle of the stream, with Spark running: by Ctrl-C, by a supervisor, and by force."""
    log = tmp_path / "log"
    demo = _demo(folder, 100_000, log)
    _wait_for(lambda: "first commit" in log.read_text("utf-8") or demo.poll() is not None)
    assert demo.poll() is None, log.read_text("utf-8")
    assert len(_processes_of(folder)) > 3
    demo.send_signal(sent_signal)
    assert demo.wait(60) == code
    if sent_signal is not signal.SIGKILL:
        assert "everything the demo started has been stopped" in log.read_text("utf-8")
        assert _processes_of(folder) == []
    _wait_for(lambda: _processes_of(folder) == [], limit_s=60)
