"""The operations, each once: what it asks of the workbench, its text and JSON; every face has it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer.main

from tabletopic_kernel.faces.cli import main
from tabletopic_kernel.faces.cli.app import app
from tabletopic_kernel.faces.jupyter_server.rest import ENDPOINTS, ROUTES
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.notebook.topic_magic import make_parser, parse_word
from tabletopic_kernel.faces.notebook.topic_words import WORDS
from tabletopic_kernel.faces.operations import OPERATIONS
from tabletopic_kernel.faces.operations.operation import (
    Option,
    SettingOptions,
    details_of,
    signature_of,
    summary_of,
)
from tabletopic_kernel.faces.operations.patterns import Enabling, Enablings
from tabletopic_kernel.faces.operations.runs import Run, Runs, disable, forget, patterns, pause, resume
from tabletopic_kernel.faces.operations.topics import enable
from tabletopic_kernel.host.topics import settings_topic
from tabletopic_kernel.host.topics.standing_patterns import leave_off
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.ledger import Outliers
from tabletopic_kernel.model.progress.events import Compacted, ErrorKind, Expired, OrphansRemoved, Replayed
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.render.topics import hosts_table, status_facts, status_table
from tabletopic_kernel.table.health import FileSizes, NextWork
from tabletopic_kernel.workbench.hosts import HostStatus
from tabletopic_kernel.workbench.peek.letters import Letters
from tabletopic_kernel.workbench.plan import Plan
from tests.faces.fake_workbench import SNAPSHOT, FakeTopic, FakeWorkbench, status
from tests.host.test_settings_topic import Log

_EVENT: dict[str, Any] = {"topic": "clicks", "at_ms": 1}
REPLAYED = Replayed(**_EVENT, replay_id="r", rows=5, stayed={"avro_cut": 2})
COMPACTED = Compacted(
    **_EVENT, request_id="r", files_before=40, files=2, bytes_before=4_000_000, bytes=1_000_000, rows=1_000,
    seconds=2.5, deleted_rows=3_000, delete_files=2, new_delete_files=1,
)  # fmt: skip
EXPIRED = Expired(**_EVENT, request_id="r", snapshots=700, kept=20, files=1_400, bytes=4_000_000)
LETTERS = EXPIRED.model_copy(update={"dead_letters": True, "snapshots": 1})
BACK = EXPIRED.model_copy(
    update={"snapshots": 1, "kept": 1_000, "at_ms": 10_020_000, "reaches_back_to_ms": 0}
)
ORPHANS = OrphansRemoved(**_EVENT, request_id="r", files=3, bytes=5_000)
SICK = {
    "files": 80,
    "small_files": 64,
    "sizes": [FileSizes(16_384, 80, 100_000)],
    "next_work": [NextWork("compact", due=True, why="64 files can be one")],
}


@dataclasses.dataclass(frozen=True)
class Case:
    """An operation as people type it, what the workbench is asked, and what comes out of it.

    ``json`` is part of an object, or of the first one in a list. ``code``: the program's exit code.
    """

    line: str
    asked: Any
    text: tuple[str, ...]
    json: Any
    code: int = 0
    told: tuple[Any, ...] = ()


_WHERE = "--where 'a > 7' --wait 3s"
CASES = (
    Case(
        "plan clicks --commit-interval 1s",
        ("plan", ("clicks", {"commit_interval_ms": "1s"})),
        ("refused: it is too late", "url"),
        {"refused": ["it is too late"], "partition_by": ["hour(at)"]},
        1,
    ),
    Case(
        "plan clicks --schema next.txt --schema-type avro",
        ("plan", ("clicks", {}, "next.txt", "avro")),
        ("it takes it",),
        {"incompatible": {"id": "is int in the table and string in the new schema"}},
        1,
    ),
    Case(
        "enable clicks --commit-interval 500ms --partition-by 'hour(at)' --partition-by user",
        ("enable", ("clicks", {"commit_interval_ms": "500ms", "partition_by": "hour(at),user"})),
        (),
        {"topic": "clicks", "table": "default.clicks", "hosts": ["here-1"]},
    ),
    Case(
        "alter clicks --partition-by 'day(at)' --on-gap go_on",
        ("alter", ("clicks", {"partition_by": "day(at)", "on_gap": "go_on"})),
        ("tabletopic events clicks",),
        {"topic": "clicks", "hosts": ["here-1"]},
    ),
    Case(
        "rebase clicks --records 5",
        ("rebase", ("clicks", 5, True)),
        ("to that of cluster new", "offset 1,000 becomes 400; the 300", "clicks --yes"),
        {"cluster_id_before": "old", "done": False},
    ),
    Case(
        "rebase clicks --yes",
        ("rebase", ("clicks", 1_000, False)),
        ("partition 1: offset 0 becomes 0, its first", "tabletopic resume clicks"),
        {"cluster_id": "new", "done": True},
    ),
    Case("rebase clicks --yes --dry-run", ("rebase", ("clicks", 1_000, True)), ("nothing is",), {}),
    Case(
        "drop clicks",
        ("drop", ("clicks", None, True)),
        ("1,000 rows, 8 files", "2 files outside", "the service removes", "tabletopic drop clicks --yes"),
        {"is_enabled": True, "done": False},
    ),
    Case(
        "drop clicks --table lake.t --yes",
        ("drop", ("clicks", "lake.t", False)),
        ("clicks is dropped",),
        {"done": True},
    ),
    Case(
        "disable clicks",
        ("disable", "clicks"),
        ("the table default.clicks and its ledger stay",),
        {"topic": "clicks", "table": "default.clicks", "run": "off"},
    ),
    Case(
        "pause clicks",
        ("pause", "clicks"),
        ("tabletopic resume clicks",),
        {"topic": "clicks", "run": "paused"},
    ),
    Case("resume clicks", ("resume", "clicks"), ("clicks resumes",), {"topic": "clicks", "run": "on"}),
    Case(
        "resume clicks --on-truncation mark",
        ("resume", ("clicks", "mark")),
        ("clicks resumes",),
        {"topic": "clicks", "run": "on"},
    ),
    Case(
        "commit clicks",
        ("commit", "clicks"),
        ("tabletopic history clicks",),
        {"topic": "clicks", "commit": "asked"},
    ),
    Case("status", ("status", None), ("default.clicks", "1,234", "2.5 s"), {"commits": 7}),
    Case("status clicks", ("status", "clicks"), ("every 5 s", "560 rows/s"), {"snapshot_id": 42}),
    Case("hosts", None, ("here-1", "1.2.3", "1.0 GiB"), {"host": "here-1", "memory_bytes": 2**30}),
    Case(
        "peek clicks -n 2",
        ("peek", ("clicks", 2)),
        ("no_schema_id",),
        {"value": {"a": {"b": [1]}}, "key": "\\xFF", "offset": 7},
    ),
    Case(
        "schema clicks --version 3",
        ("schema", ("clicks", 3)),
        ("clicks-value v1 (id 5): not in the table yet",),
        {"columns": [{"name": "url", "type": "string", "required": True, "doc": "page"}]},
    ),
    Case(
        "schema clicks --diff 1 2",
        None,
        ("add x 1 2",),
        {"topic": "clicks", "from": 1, "to": 2, "changes": ["add x 1 2"]},
    ),
    Case(
        "history clicks -n 7",
        ("history", ("clicks", 7)),
        (str(SNAPSHOT),),
        {"snapshot_id": str(SNAPSHOT), "next_offsets": {"0": 10}},
    ),
    Case(
        "health clicks",
        ("health", "clicks"),
        ("64 below 32.0 MiB, 80%", "80 to 16.0 KiB", "branch main, tag tabletopic", "64 files can be"),
        {"small_share": 0.8, "delete_share": 0.0},
    ),
    Case(
        f"replay clicks {_WHERE}",
        ("replay", ("clicks", "a > 7", 3.0)),
        ("5 dead letters became rows", "2 stay dead letters: avro_cut"),
        {"topic": "clicks", "rows": 5, "stayed": {"avro_cut": 2}},
        told=(REPLAYED,),
    ),
    Case(
        "replay clicks --dry-run",
        ("plan_replay", ("clicks", None)),
        ("1 of 2 dead letters would become rows", "the table would change: add a string"),
        {"letters": 2, "rows": 1},
    ),
    Case(
        "letters clicks -n 1",
        ("letters", ("clicks", None, 1)),
        ("peek clicks --partition 0 --from 7 -n 1 --raw",),
        {"letters": 5},
    ),
    Case("letters clicks --drop", ("letters", ("clicks", None, 0)), ("nothing is dropped yet",), {}),
    Case(
        f"compact clicks {_WHERE}",
        ("compact", ("clicks", "a > 7", 3.0)),
        ("40 files became 2: 1,000 rows", "3,000 deleted rows dropped, 2 delete files removed, 1 written"),
        {"topic": "clicks", "files_before": 40, "files": 2, "bytes_before": 4_000_000, "bytes": 1_000_000}
        | {"rows": 1_000, "deleted_rows": 3_000, "delete_files": 2, "new_delete_files": 1, "seconds": 2.5},
        told=(COMPACTED,),
    ),
    Case(
        "compact clicks",
        ("compact", ("clicks", None, 600.0)),
        ("no small files to compact",),
        {"files_before": 0},
        told=(COMPACTED.model_copy(update={"files_before": 0}),),
    ),
    Case(
        "compact clicks --dry-run",
        ("plan_compaction", ("clicks", None)),
        (
            "2 of 7 files would become 1",
            "2 files, 10 rows, 2.0 KiB: day=2026-01-01",
            "1 files stay: with deleted rows",
        ),
        {
            "groups": [
                {"partition": "day=2026-01-01", "files": 2, "rows": 10, "deleted_rows": 0, "bytes": 2_000}
            ]
        },
    ),
    Case(
        "expire clicks --orphans --wait 3s",
        ("expire", ("clicks", True, 3.0)),
        (
            "1 snapshot of the dead-letter table",
            "700 snapshots expired, 20 kept; removed 1,400 files, 3.8 MiB",
            "1,000 kept, 2 h 47 m back; removed",
            "removed orphans: 3 files, 4.9 KiB",
        ),
        {"orphans": {"files": 3, "bytes": 5_000}},
        told=(LETTERS, EXPIRED, BACK, ORPHANS),
    ),
    Case(
        "expire clicks --dry-run --orphans",
        ("plan_expiry", ("clicks", True)),
        (
            "default.clicks: 2 snapshots would expire, 20 would stay; 2 files, 2.9 KiB would",
            "time travel would reach back to ",
            "3 files stay because they are outside",
            "1 orphans, 5 B would be removed",
        ),
        {},
    ),
)


@pytest.fixture
def bench(tmp_path: Path) -> FakeWorkbench:
    """A workbench with a table that wants to be compacted."""
    return FakeWorkbench(tmp_path, health=SICK)


@pytest.fixture
def run(
    capfd: pytest.CaptureFixture[str], bench: FakeWorkbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str], tuple[int, str, str]]:
    """Call the program, which finds it: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tabletopic_kernel.workbench.workbench.Workbench", lambda settings: bench)

    def call(line: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(shlex.split(line))
        return (code, *capfd.readouterr())

    return call


def word(bench: FakeWorkbench, line: str) -> str:
    """The output of ``%topic line``."""
    parsed = parse_word(make_parser(), line)
    assert parsed is not None
    name, values = parsed
    return repr(WORDS[name or ""].run(Session({"workbench": bench}), **values))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.line)
def test_a_command_asks_and_answers(run: Callable[[str], Any], bench: FakeWorkbench, case: Case) -> None:
    """Arguments reach the workbench; people get text and programs JSON, and the code says how it ended."""
    bench.told = list(case.told)
    code, out, err = run(case.line)
    assert code == case.code, err
    assert [part for part in case.text if part not in out] == []
    assert case.asked is None or bench.asked[0] == case.asked
    code, out, err = run(f"{case.line} --json")
    assert code == case.code, err
    body = json.loads(out)
    first = body[0] if isinstance(body, list) else body
    assert {name: first[name] for name in case.json} == case.json


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.line)
def test_a_word_asks_and_answers_the_same(bench: FakeWorkbench, case: Case) -> None:
    """What is typed in a cell is what is typed in a terminal, with the same question and the same text."""
    bench.told = list(case.told)
    shown = word(bench, case.line)
    assert [part for part in case.text if part not in shown] == []
    assert case.asked is None or bench.asked[0] == case.asked


@pytest.mark.parametrize(
    ("line", "outcome", "message"),
    [
        ("replay clicks", REPLAYED, "the catalog is away (5 dead letters became rows)"),
        ("compact clicks", COMPACTED, "the catalog is away (before that, 40 files became 2)"),
        ("expire clicks", EXPIRED, "the catalog is away"),
    ],
)
def test_what_went_wrong_and_what_takes_long(
    run: Callable[[str], Any], bench: FakeWorkbench, line: str, outcome: Any, message: str
) -> None:
    """Work that ended early, or is not over, is no success."""
    bench.told = [outcome.model_copy(update={"error": "the catalog is away"})]
    code, _, err = run(line)
    assert (code, message in err) == (1, True)
    bench.told = []
    code, _, err = run(f"{line} --wait 0")
    assert (code, "still running; see `tabletopic events clicks`" in err) == (1, True)


def test_records_are_printed_as_they_come(run: Callable[[str], Any], bench: FakeWorkbench) -> None:
    """One line each, for people and for programs."""
    code, out, _ = run("peek clicks --follow --where 'n > 1'")
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["0:7", "0:6"])
    assert bench.asked[0] == ("peek", ("clicks", 2, {"where": "n > 1"}))
    _, out, _ = run("peek clicks --follow --json")
    assert [json.loads(line)["offset"] for line in out.splitlines()] == [7, 6]


def test_records_are_shown_in_a_cell_as_they_come(
    bench: FakeWorkbench, capfd: pytest.CaptureFixture[str]
) -> None:
    """Until the cell is interrupted."""
    assert word(bench, "peek clicks --follow") == "stopped following"
    assert '{"a": {"b": [1]}}' in capfd.readouterr().out


def test_a_drop_of_no_letters_offers_nothing(
    run: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that there are none, not that none is dropped yet."""
    monkeypatch.setattr(FakeTopic, "letters", lambda topic, *_: Letters(topic.name, "t", 0, 1, [], []))
    out = run("letters clicks --drop")[1]
    assert "no dead letters" in out
    assert "--yes" not in out


def test_wrong_use(run: Callable[[str], Any], bench: FakeWorkbench) -> None:
    """Options that exclude each other are refused; an empty log is said beside the data."""
    assert run("schema clicks --diff 1 2 --version 3")[0] == 2
    assert "--note and --yes require --drop" in run("letters clicks --yes")[2]
    assert "one at a time" in run("letters clicks --drop --yes --note x --output f")[2]
    assert "nothing logged" in run("logs clicks")[2]
    assert json.loads(run("logs --json")[1]) == []
    assert "--table " not in run("alter --help")[1]


# --- the faces ----------------------------------------------------------------------------------------------


def test_every_face_has_its_operations() -> None:
    """Each is a command and a word, and a route if it names one; spellings and aliases are unique."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for one in OPERATIONS:
        assert one.name in commands
        assert one.name in WORDS
        spelled = [
            spelling for argument in signature_of(one.run).arguments for spelling in argument.spellings
        ]
        assert len(set(spelled)) == len(spelled)
    served = {endpoint.name: endpoint.route for endpoint in ENDPOINTS}
    assert all(served[operation.name] == operation.route for operation in OPERATIONS if operation.route)
    verbs = sum(verb in vars(handler) for _, handler in ROUTES for verb in ("get", "put", "post", "delete"))
    assert verbs == len(ENDPOINTS) == len(served)
    words = [*WORDS, *(alias for word in WORDS.values() for alias in word.aliases)]
    assert len(words) == len(set(words))


def sample(
    _: object,
    topic: Annotated[str, Option("A topic", positional=True, names="topics")],
    settings: Annotated[dict[str, Any], SettingOptions(changeable=True)],
    kind: Annotated[Literal["a", "b"] | None, Option("A kind", ("-k",))] = None,
    every: Annotated[float, Option("A span", is_duration=True)] = 90.0,
) -> None:
    """Try it.

    More about it.

    Example:  it
    """


def test_a_signature_is_the_description() -> None:
    """Types, defaults, choices and spellings come from the annotations, help from the docstring."""
    signature = signature_of(sample)
    topic, kind, every = signature.arguments
    assert signature.settings == SettingOptions(changeable=True)
    assert (topic.name, topic.kind, topic.spellings) == ("topic", str, ())
    assert (kind.choices, kind.default, kind.spellings) == (("a", "b"), None, ("-k",))
    assert (every.default_text, every.spellings) == ("90s", ("--every",))
    assert (summary_of(sample), details_of(sample)) == ("Try it", "More about it.\n\nExample:  it")


def test_completion_knows_what_names_an_argument() -> None:
    """The parser of a word keeps it."""
    parser = make_parser()
    words = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    (topic,) = [action for action in words.choices["peek"]._actions if not action.option_strings]
    assert topic.names == "topics"


# --- one record in all faces ------------------------------------------------------------------------------


def test_a_topic_has_the_same_fields_in_every_face() -> None:
    """What `status TOPIC --json` has, the text has as well."""
    one = status(
        error="wrong", rows=700_001, files=12_001, staged_rows=3_003, epoch=777, commits=5_005,
        commit_interval_ms=9_000, passed_over={"tombstone": 8_008}, lost={0: 6_006}, dead_letters=4_004,
        staging_records=2_002, waiting_records=1_463, outliers={0: Outliers(9_009, 1, 2**44)},
        changes={"insert": 1_464}, expectation_failures={"paid": 1_465},
    )  # fmt: skip
    shown = {
        "topic": "clicks", "table": "default.clicks", "state": "running", "error": "wrong",
        "lag_records": "1,234", "lag_seconds": "2.5 s", "next_offsets": "100", "end_offsets": "1,334",
        "schema_versions": "clicks-value v3", "snapshot_id": "42", "commits": "5,005",
        "rows_per_second": "560", "rows": "700,001", "files": "12,001", "staged_rows": "3,003",
        "staging_records": "2,002 being staged", "waiting_records": "1,463 more in open transactions",
        "outliers": "9,009", "epoch": "777", "last_commit_ms": "2023-11-14", "commit_interval_ms": "9 s",
        "host": "here-1", "refused": "avro_trailing_bytes", "dead_letters": "4,004",
        "dead_letter_table": "default.clicks__dead_letters", "passed_over": "8,008", "lost": "6,006",
        "changes": "insert: 1,464", "expectation_failures": "paid: 1,465",
    }  # fmt: skip
    text = repr(status_facts(one))
    assert [name for name, part in shown.items() if part not in text] == []
    assert set(one.to_json()) == {
        *(*shown, "delay", "delay_reason", "open_transactions"),
        *("standing", "caught_up_s", "paused_by", "error_kind"),
    }
    late = repr(status_facts(status(delay="behind", delay_reason="it reads")))
    assert "behind" in late
    assert "it reads" in late


def test_a_host_has_all_its_fields() -> None:
    """Text shows each, and what an older version does not report is unknown."""
    known = HostStatus("vm-1-ab", ["clicks", "orders"], 1_700_000_000_000, "1.2.3", 3 * 2**30)
    text = repr(hosts_table([known, HostStatus("old-1", [])]))
    for part in ("vm-1-ab", "clicks, orders", "2023-11-14", "1.2.3", "3.0 GiB", "old-1", "unknown"):
        assert part in text


def test_a_pattern_disables_many(tmp_path: Path) -> None:
    """Those that it matches, each with its table; a dry run changes nothing."""
    bench = FakeWorkbench(tmp_path)
    bench.on = {name: DesiredTopic(topic=name) for name in ("shop.a", "shop.b", "other")}
    plan = disable(bench, "shop.*", dry_run=True)
    assert str(disable.text(plan, {})[0]) == "2 topics would be disabled"
    assert bench.asked == []
    assert [each.topic for each in disable(bench, "shop.*").topics] == ["shop.a", "shop.b"]
    assert bench.asked == [("disable", "shop.a"), ("disable", "shop.b")]


def test_a_pattern_pauses_and_resumes_many(tmp_path: Path) -> None:
    """Those that are not so yet; a dry run changes nothing; a pattern without a topic is an error."""
    bench = FakeWorkbench(tmp_path)
    run = {"shop.a": "on", "shop.b": "paused", "other": "on"}
    bench.on = {name: DesiredTopic(topic=name, run=each) for name, each in run.items()}  # type: ignore[arg-type]
    plan = pause(bench, "shop.*", dry_run=True)
    assert (plan, bench.asked) == (Runs([Run("shop.a", "paused")], done=False), [])
    assert pause(bench, "shop.*") == Runs([Run("shop.a", "paused")], done=True)
    assert [str(line) for line in pause.text(plan, {})] == ["1 topic would be paused", "  shop.a"]
    bench.found = [status(state="failed")]
    assert resume(bench, "*", dry_run=True) == Runs([Run("shop.b", "on")], done=False)
    with pytest.raises(UsageError, match="no enabled topic matches"):
        resume(bench, "carts*")


def test_what_people_read_says_why() -> None:
    """The cause of a state, who paused it, and when a late topic has caught up; it is first in the list."""
    waits = status(topic="w", state="waiting", error_kind=ErrorKind(system="the registry"))
    late = status(topic="l", delay="behind", lag_records=600, rows_per_second=10.0)
    shown = repr(status_table([status(topic="fine"), late, waits, status(topic="f", state="failed")]))
    assert [line.split()[0] for line in shown.splitlines()[1:5]] == ["f", "l", "w", "fine"]
    assert "waiting for registry" in shown
    assert "in about 1 m 0 s" in repr(status_facts(late))
    assert "paused by" in repr(status_facts(status(state="paused", paused_by="alice")))


def test_a_pattern_enables_many(tmp_path: Path) -> None:
    """One plan over all that are not enabled yet; a refused one does not keep others out."""
    bench = FakeWorkbench(
        tmp_path, there={"shop.a": 1, "shop_a": 1, "shop.b": 1, "shop.test": 1, "clicks": 1}
    )
    made = {name: Plan(name, f"default.{name.replace('.', '_')}", True) for name in bench.there}
    made["shop.b"].refused.append("no storage")
    made["shop.a"].warnings.append("the newest record cannot become a row: no_schema_id")
    bench.plans = made
    expected = [
        Enabling("shop.a", "default.shop_a", warnings=made["shop.a"].warnings),
        Enabling("shop.b", "default.shop_b", ["no storage"]),
        Enabling(
            "shop_a",
            "default.shop_a",
            ["the table default.shop_a will be that of shop.a: enable it with another --table"],
        ),
    ]
    outcome = enable(bench, "*", {}, "*test, clicks")
    assert (outcome, set(bench.on)) == (Enablings(expected, done=False), {"clicks"})
    assert not enable.has_failed(outcome)
    _, _, warning, *_, last = map(str, enable.text(outcome, {}))
    assert (warning.strip(), "nothing is changed yet" in last) == (made["shop.a"].warnings[0], True)
    outcome = enable(bench, "*", {}, "*test", yes=True)
    assert (outcome, set(bench.on)) == (Enablings(expected, done=True), {"clicks", "shop.a"})
    assert enable.has_failed(outcome)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """An empty settings topic."""
    made = Log()
    monkeypatch.setattr(settings_topic, "make_producer", lambda *_, **__: made)
    monkeypatch.setattr(settings_topic, "Reader", lambda *_, **__: made)
    return made


def test_a_pattern_stays_for_topics_that_come_later(tmp_path: Path, log: Log) -> None:
    """With --yes, even if there is none yet; it is listed with what became of its topics, and can end."""
    bench = FakeWorkbench(tmp_path, broker=log)
    given = {"commit_interval_ms": "1s"}
    planned = enable(bench, "shop.*", given, "*test", standing=True)
    assert (planned, patterns(bench)) == (Enablings([], done=False, standing=True), [])
    assert "all that come later" in str(enable.text(planned, {})[-1])
    made = enable(bench, "shop.*", given, "*test", yes=True, standing=True)
    assert "as they come" in str(enable.text(made, {})[-1])
    bench.there = dict.fromkeys(("shop.a", "shop.b", "shop.c", "shop.test", "clicks"), 1)
    bench.on["shop.a"] = DesiredTopic(topic="shop.a")
    leave_off(log, "shop.b")  # type: ignore[arg-type]
    (one,) = patterns(bench)
    assert (one.pattern, one.exclude, one.settings) == ("shop.*", ["*test"], {"commit_interval_ms": 1_000})
    assert (one.enabled, one.disabled, one.others) == (["shop.a"], ["shop.b"], ["shop.c"])
    head, *others = map(str, patterns.text([one], {}))
    assert "shop.*, without *test: 1 enabled, set by" in head
    assert [line.split()[0] for line in others] == ["shop.b", "shop.c"]
    assert str(forget.text(forget(bench, "shop.*"), {})[0]).startswith("shop.* enables no more topics")
    assert patterns(bench) == []


@pytest.mark.parametrize(
    ("topic", "settings", "more", "why"),
    [
        ("nosuch*", {}, {}, "no topic for the pattern"),
        ("*", {"table": "all"}, {}, "--table is for one topic"),
        ("clicks", {}, {"yes": True}, "go with a pattern"),
        ("clicks", {}, {"exclude": "x*"}, "go with a pattern"),
        ("clicks", {}, {"standing": True}, "go with a pattern"),
        ("shop .*", {}, {"standing": True}, "not a valid topic name"),
    ],
)
def test_enabling_by_pattern_has_limits(
    tmp_path: Path, topic: str, settings: dict[str, Any], more: dict[str, Any], why: str
) -> None:
    """What makes no sense for many topics, or for one, is an error."""
    with pytest.raises(UsageError, match=why):
        enable(FakeWorkbench(tmp_path), topic, settings, **more)
