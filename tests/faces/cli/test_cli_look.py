"""``plan``, ``commit``, ``peek``, ``schema``, ``history``, ``logs``; the workbench responds from memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.faces.cli import main
from tabletopic_kernel.table.health import FileSizes, NextWork
from tabletopic_kernel.table.history import SchemaColumn, SchemaVersionInfo, TableSnapshot, TopicSchema
from tabletopic_kernel.workbench.peek import PeekedRecord
from tabletopic_kernel.workbench.topic import TableTopic
from tests.faces.health import health
from tests.faces.notebook.magic_fakes import FakeWorkbench

SNAPSHOT = TableSnapshot(2**62, 41, 1_700_000_000_000, "append", 5, 1, 900, 10, 2, 0, {0: 10}, 1)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeWorkbench:
    """The workbench that the program finds."""
    monkeypatch.chdir(tmp_path)
    bench = FakeWorkbench(tmp_path)
    monkeypatch.setattr("tabletopic_kernel.workbench.workbench.Workbench", lambda settings: bench)
    return bench


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], fake: FakeWorkbench) -> Callable[..., tuple[int, str, str]]:
    """Call the program: exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(arguments)
        return (code, *capfd.readouterr())

    return call


def test_a_plan_is_shown_and_its_refusal_is_the_exit_code(
    run: Callable[..., Any], fake: FakeWorkbench
) -> None:
    """Programs see by the code whether enable would refuse; people read the reason."""
    code, out, _ = run("plan", "clicks", "--commit-interval", "1s")
    assert code == 1
    assert "refused: it is too late" in out
    assert fake.asked == [("plan", ("clicks", {"commit_interval_ms": "1s"}))]
    assert json.loads(run("plan", "clicks", "--json")[1])["refused"] == ["it is too late"]


def test_a_schema_of_a_file_that_does_not_fit_is_the_exit_code(
    run: Callable[..., Any], fake: FakeWorkbench
) -> None:
    """A build can try a schema before it is registered."""
    code, out, _ = run("plan", "clicks", "--schema", "next.txt", "--schema-type", "avro")
    assert code == 1
    assert "it takes it" in out
    assert fake.asked == [("plan", ("clicks", {}, "next.txt", "avro"))]
    assert json.loads(run("plan", "clicks", "--schema", "next.avsc", "--json")[1])["incompatible"] == {
        "id": "is int in the table and string in the new schema"
    }


def test_settings_of_a_running_topic_are_changed(run: Callable[..., Any], fake: FakeWorkbench) -> None:
    """Only what was given is handed on."""
    code, out, _ = run("alter", "clicks", "--partition-by", "day(at)", "--on-gap", "go_on")
    assert code == 0
    assert "tabletopic events clicks" in out
    assert fake.asked == [("alter", ("clicks", {"partition_by": "day(at)", "on_gap": "go_on"}))]
    found = json.loads(run("alter", "clicks", "--errors", "skip", "--json")[1])
    assert found["settings"]["errors"] == "skip"
    assert "--table " not in run("alter", "--help")[1]


def test_a_commit_is_asked_for(run: Callable[..., Any], fake: FakeWorkbench) -> None:
    """One call, and where to look."""
    code, out, _ = run("commit", "clicks")
    assert code == 0
    assert "tabletopic history clicks" in out
    assert fake.asked == [("commit", "clicks")]
    assert json.loads(run("commit", "clicks", "--json")[1]) == {"topic": "clicks", "commit": "asked"}


def test_records_of_all_kinds_are_json(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes, times and nested values have a text; a bad record has its reason."""
    records = [
        PeekedRecord(0, 7, 1, b"\xff", 3, {"a": {"b": [1]}}, None, b"\x00raw"),
        PeekedRecord(0, 6, 1, None, None, None, "no_schema_id: text", b"text"),
    ]
    monkeypatch.setattr(TableTopic, "peek", lambda self, n: records[:n])
    first, second = json.loads(run("peek", "clicks", "--json")[1])
    assert (first["value"], first["key"], second["error"]) == (
        {"a": {"b": [1]}},
        "\\xFF",
        "no_schema_id: text",
    )
    assert "no_schema_id" in run("peek", "clicks", "-n", "2")[1]
    assert json.loads(run("peek", "clicks", "-n", "1", "--json")[1])[0]["offset"] == 7


def test_schema_history_and_logs(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Text for people, JSON for programs, snapshot ids as text: no reader may round them."""
    schema = TopicSchema(
        "clicks",
        "default.clicks",
        None,
        [SchemaColumn("url", "string", True, "page")],
        [SchemaVersionInfo("clicks-value", 1, 5, None)],
    )
    monkeypatch.setattr(TableTopic, "schema", lambda self, version=None: schema)
    monkeypatch.setattr(TableTopic, "schema_diff", lambda self, one, two: [f"add x {one} {two}"])
    monkeypatch.setattr(TableTopic, "history", lambda self, limit: [SNAPSHOT][:limit])
    assert "clicks-value v1 (id 5): not in the table yet" in run("schema", "clicks")[1]
    assert json.loads(run("schema", "clicks", "--json")[1])["columns"][0]["doc"] == "page"
    assert run("schema", "clicks", "--diff", "1", "2")[1] == "add x 1 2\n"
    assert run("schema", "clicks", "--diff", "1", "2", "--version", "3")[0] == 2
    assert str(2**62) in run("history", "clicks")[1]
    plain = json.loads(run("history", "clicks", "--json")[1])[0]
    assert (plain["snapshot_id"], plain["next_offsets"]) == (str(2**62), {"0": 10})
    assert "nothing logged" in run("logs", "clicks")[2]
    assert json.loads(run("logs", "--json")[1]) == []


def test_health(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures for people, with what is due marked; all of them as JSON, with the shares."""
    work = NextWork("compact", due=True, why="64 files can be one")
    found = health(
        "clicks", files=80, small_files=64, sizes=[FileSizes(16_384, 80, 100_000)], next_work=[work]
    )
    monkeypatch.setattr(TableTopic, "health", lambda self: found)
    out = run("health", "clicks")[1]
    for text in (
        "64 below 32.0 MiB, 80%",
        "80 to 16.0 KiB",
        "branch main, tag tabletopic",
        "64 files can be",
    ):
        assert text in out
    told = json.loads(run("health", "clicks", "--json")[1])
    assert (told["small_share"], told["next_work"][0]["due"], told["delete_share"]) == (0.8, True, 0.0)
