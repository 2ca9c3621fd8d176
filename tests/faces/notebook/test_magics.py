"""Magics in a shell, with a workbench that responds from memory."""

from __future__ import annotations

import atexit
import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import CapturedIO, capture_output
from traitlets.config import Config

from tabletopic_kernel.faces.notebook import kernel, topic_words
from tabletopic_kernel.faces.notebook.results.channel import TARGET
from tabletopic_kernel.faces.notebook.results.result import MIME
from tabletopic_kernel.faces.notebook.session import KernelHost
from tabletopic_kernel.model.errors import (
    RetryableError,
    UsageError,
)
from tabletopic_kernel.model.redact import learn
from tabletopic_kernel.workbench.plan import Plan
from tests.faces.fake_workbench import FakeWorkbench, status


@pytest.fixture
def bench(tmp_path: Path) -> FakeWorkbench:
    """The magics' workbench."""
    return FakeWorkbench(tmp_path)


@pytest.fixture
def shell(bench: FakeWorkbench) -> Iterator[InteractiveShell]:
    """A shell with the extension."""
    InteractiveShell.clear_instance()
    no_history = Config(HistoryManager={"enabled": False})  # a database, and a thread that writes it
    made = InteractiveShell.instance(config=no_history)
    made.user_ns["workbench"] = bench
    with capture_output():
        made.run_cell("%load_ext tabletopic_kernel")
    yield made
    with capture_output():
        made.run_cell("%unload_ext tabletopic_kernel")
    InteractiveShell.clear_instance()
    # Python would keep each shell until the end, and collect garbage for each of them then: half a minute.
    atexit.unregister(made.atexit_operations)


@pytest.fixture
def hosts_started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Workbenches for which the kernel became a host; none really starts."""
    started: list[Any] = []
    monkeypatch.setattr(KernelHost, "start", lambda self, workbench: started.append(workbench))
    return started


@pytest.fixture
def run(shell: InteractiveShell) -> Callable[[str], Any]:
    """Run a cell that must succeed; returns its value."""

    def call(cell: str) -> Any:
        with capture_output() as printed:
            result = shell.run_cell(cell)
        assert result.success, printed.stderr + printed.stdout
        return result.result

    return call


@pytest.fixture
def fail(shell: InteractiveShell) -> Callable[[str], str]:
    """Run a cell that must fail; returns what the user sees of it."""

    def call(cell: str) -> str:
        with capture_output() as printed:
            result = shell.run_cell(cell)
        assert not result.success
        return seen(printed)

    return call


def seen(printed: CapturedIO) -> str:
    """The output."""
    return str(printed.stdout + printed.stderr).strip()


def test_the_list_has_state_lag_and_schema(run: Callable[[str], Any]) -> None:
    """%topic shows each table topic, and the Kafka topics that are not enabled."""
    text = repr(run("%topic"))
    for part in ("clicks", "running", "1,234", "2.5 s", "v3", "not enabled: web.orders", "here-1"):
        assert part in text


def test_enable_passes_settings(
    run: Callable[[str], Any], bench: FakeWorkbench, hosts_started: list[Any]
) -> None:
    """A host that lives has the work; where none does, the kernel becomes one."""
    text = repr(
        run("%topic start clicks --commit-interval 500ms --partition-by 'hour(at)' --partition-by user")
    )
    assert bench.asked[0] == (
        "enable",
        ("clicks", {"commit_interval_ms": "500ms", "partition_by": "hour(at),user"}),
    )
    assert "every 0.5 s" in text
    assert hosts_started == []
    bench.live = []
    run("%topic enable clicks")
    run("%topic resume clicks")
    assert hosts_started == [bench, bench]


def test_a_pattern_is_planned_without_a_host(
    run: Callable[[str], Any], bench: FakeWorkbench, hosts_started: list[Any]
) -> None:
    """The plan of a pattern starts no host; enabling its topics does."""
    bench.live, bench.there = [], {"shop.a": 1, "shop.b": 1}
    bench.plans = {name: Plan(name, f"default.{name}", True) for name in bench.there}
    text = repr(run("%topic enable 'shop.*' --exclude shop.b"))
    assert "1 topic would be enabled" in text
    assert "shop.b" not in text
    assert "all that come later" in repr(run("%topic enable 'shop.*' --standing"))
    assert (hosts_started, set(bench.on)) == ([], {"clicks"})
    assert "2 topics enabled" in repr(run("%topic enable 'shop.*' --yes"))
    assert (hosts_started, set(bench.on)) == ([bench], {"clicks", "shop.a", "shop.b"})


@pytest.mark.parametrize("cell", ["%topic wait clicks", "%lake SELECT 1", "%topic status clicks"])
def test_an_interrupt_is_one_word(shell: InteractiveShell, bench: FakeWorkbench, cell: str) -> None:
    """The cell ends as interrupted, so that no cell behind it runs, and nothing of our code is shown."""
    bench.error = KeyboardInterrupt()  # type: ignore[assignment]
    with capture_output() as printed:
        result = shell.run_cell(cell)
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert seen(printed) == "interrupted"


def test_watch_updates(
    shell: InteractiveShell, bench: FakeWorkbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--watch shows one display and updates that one, until it is interrupted."""
    monkeypatch.setattr(topic_words, "_REFRESH_S", 0.001)
    bench.coming = [status(), status(), KeyboardInterrupt()]
    with capture_output() as printed:
        shell.run_cell("%topic status clicks --watch --timeout 10m")
    first, *later = printed.outputs
    assert "running" in first.data["text/plain"]
    assert later
    assert all(one.update and one.transient == first.transient for one in later)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%topic stats", "invalid choice: 'stats'"),
        ("%topic enable", "the following arguments are required: TOPIC (see %topic enable --help)"),
        ("%topic peek clicks -n many", "'many' is not a number above 0"),
        ("%topic wait clicks --timeout soon", "'soon' is not a duration"),
        ("%topic enable clicks --start 'x", "No closing quotation"),
        ("%topic enable clicks --commit-interval 1ns", "--commit-interval 1ns: allowed: 100ms to 1h"),
        ("%topic status clikcs", "clikcs is not enabled"),
        ("%lake", "no SQL"),
        ("%lake --engine oracle SELECT 1", "invalid choice: 'oracle'"),
        ("%lake --in SELECT 1", "unrecognized arguments"),
        ("%lake SELECT $nobody", "the query names $nobody"),
        ("%dashboard a b", "unrecognized arguments: b"),
    ],
)
def test_wrong_use_is_one_line(fail: Callable[[str], str], cell: str, message: str) -> None:
    """What a person mistyped is told in one line, without a traceback."""
    text = fail(cell)
    assert text.startswith("UsageError: ")
    assert message in text
    assert "\n" not in text


def test_other_errors_have_no_traceback_either(fail: Callable[[str], str], bench: FakeWorkbench) -> None:
    """A broker that is away is told by its name, with what to do."""
    bench.error = RetryableError("the broker does not respond; is it running?")
    assert fail("%topic") == (
        "Retryable: the broker does not respond; is it running? (see `%topic docs trouble waiting`)"
    )


def test_a_notebook_is_told_its_own_commands(
    run: Callable[[str], Any], fail: Callable[[str], str], bench: FakeWorkbench
) -> None:
    """Errors, reasons and tables of a topic name magics, whoever wrote them."""
    bench.found = [status(error="no host runs this topic; start one with `tabletopic serve`")]
    for cell in ("%topic", "%topic status clicks"):
        text = repr(run(cell))
        assert "start one with `%topic host start`" in text
        assert "tabletopic serve" not in text
    assert "%topic host start" in run("workbench.topic('clicks')")._repr_html_()
    bench.error = UsageError("no servers; start them with `tabletopic up`")
    assert "start them with `%topic up`" in fail("%topic")
    bench.error = RetryableError("wrong; `tabletopic config` shows where")
    assert "`tabletopic config` in a terminal shows where" in fail("%topic")


def test_a_page_of_the_manual_is_an_output(shell: InteractiveShell) -> None:
    """%topic docs draws a page, or a section by a word of its heading, without any server."""
    with capture_output() as printed:
        assert shell.run_cell("%topic docs trouble lag").success
    (page,) = printed.outputs
    assert page.data["text/markdown"].startswith("## The lag does not fall")


def test_help_is_the_manual(shell: InteractiveShell) -> None:
    """%topic? names all words in twenty lines, and where the rest is; --help prints and runs nothing."""
    text = shell.find_line_magic("topic").__doc__
    assert all(word in text for word in topic_words.WORDS)
    assert len(text.splitlines()) <= 20
    assert "%topic enable --help" in text
    lake = shell.find_cell_magic("lake").__doc__
    assert "%%lake [options]" in lake
    assert "%%lake reads; write with Spark" in lake
    assert "%%%" not in lake
    with capture_output() as printed:
        assert shell.run_cell("%topic peek --help").success
    assert "-n N" in seen(printed)


def test_html_is_escaped_and_has_a_text_beside_it(run: Callable[[str], Any], shell: InteractiveShell) -> None:
    """Names, docs and reasons are text, whatever they hold."""
    for cell in ("%topic plan clicks", "%topic events"):
        shown, _ = shell.display_formatter.format(run(cell))
        assert {"text/plain", "text/html"} <= shown.keys()
        for tag in ("<b>", "<script>"):
            assert tag not in shown["text/html"]
        assert "&lt;" in shown["text/html"]


def test_rows_and_how_fresh_they_are(run: Callable[[str], Any], bench: FakeWorkbench) -> None:
    """%lake shows few rows of many, fetches no more than it shows, and names the snapshots."""
    bench.answer = dataclasses.replace(bench.answer, truncated=True)
    text = repr(run("%lake SELECT n FROM clicks"))
    assert bench.asked[-1] == (
        "query",
        (
            "SELECT n FROM clicks",
            "duckdb",
            {"at": None, "params": None, "limit": 20, "live": False, "frames": {}},
        ),
    )
    assert "the first 2 of at least 3 rows" in text
    assert "default.clicks: snapshot 42 of 2023-11-14" in text


def test_a_cell_refreshes_itself(
    shell: InteractiveShell, fail: Callable[[str], str], bench: FakeWorkbench
) -> None:
    """--every shows one display and updates that one; an outage does not end it, an interrupt does."""
    answer = bench.answer
    coming: list[Any] = [answer, RetryableError("the broker is away"), answer, KeyboardInterrupt()]

    def query(*_: Any, **__: Any) -> Any:
        now = coming.pop(0)
        if isinstance(now, BaseException):
            raise now
        return now

    bench.query = query  # type: ignore[method-assign]
    with capture_output() as printed:
        assert shell.run_cell("%lake --live --every 100ms SELECT n FROM clicks$live").success
    first, outage, last = printed.outputs
    assert "2 rows" in first.data["text/plain"]
    assert "the broker is away; retrying …" in outage.data["text/plain"]
    assert outage.update
    assert last.transient == first.transient
    assert "omit --as and the variable" in fail("%lake --every 1s x << SELECT 1")
    assert "at least 100ms" in fail("%lake --every 0s SELECT 1")


def test_results_in_variables(
    run: Callable[[str], Any], shell: InteractiveShell, bench: FakeWorkbench
) -> None:
    """``name << SELECT`` fetches everything and assigns a DataFrame, or what --as says."""
    text = repr(run("%%lake --engine spark\nfound << SELECT n\nFROM clicks"))
    assert bench.asked[-1][1][2]["limit"] is None
    assert shell.user_ns["found"].shape == (2, 1)
    assert "found: 2 rows" in text
    run("%lake --as arrow found << SELECT n FROM clicks")
    assert isinstance(shell.user_ns["found"], pa.Table)


def test_as_gives_the_rows_themselves(run: Callable[[str], Any], shell: InteractiveShell) -> None:
    """As the cell's value; as a frame of Polars in a variable, too."""
    assert run("%lake --as df SELECT 1").n.tolist() == [1, 2]
    polars = pytest.importorskip("polars")
    assert run("%lake --as polars SELECT 1").to_dict(as_series=False) == {"n": [1, 2]}
    run("%lake --as polars found << SELECT n FROM clicks")
    assert isinstance(shell.user_ns["found"], polars.DataFrame)


def test_variables_are_bound(run: Callable[[str], Any], bench: FakeWorkbench) -> None:
    """``$name`` is a value, local ones first; text in quotes stays text; braces mean themselves."""
    run("country = 'NL'; import numpy; least = numpy.int64(3)")
    sql = "SELECT '$country', {'a': 1} FROM clicks WHERE c = $country AND n > $least"
    run(f"%%lake\n{sql}")
    ((_, (text, _, more)),) = [one for one in bench.asked if one[0] == "query"]
    assert text == sql
    assert more["params"] == {"country": "NL", "least": 3}
    assert type(more["params"]["least"]) is int
    run("least = 1\ndef ask(least):\n    return get_ipython().run_line_magic('lake', 'SELECT $least')\n")
    run("ask(5)")
    assert bench.asked[-1][1][2]["params"] == {"least": 5}


def test_moments_in_variables(
    run: Callable[[str], Any], bench: FakeWorkbench, fail: Callable[[str], str]
) -> None:
    """--at takes a snapshot, a time or a variable; an empty one would read the newest without a word."""
    run("before = 42")
    run("%lake --at $before SELECT 1")
    assert bench.asked[-1][1][2]["at"] == 42
    run("%lake --at 2026-01-31T12:00:00Z SELECT 1")
    assert bench.asked[-1][1][2]["at"] == "2026-01-31T12:00:00Z"
    run("before = None")
    bench.asked.clear()
    assert fail("%lake --at $before SELECT 1").startswith("UsageError: --at $before: its value is None; ")
    assert not bench.asked


def test_a_kernel_keeps_rows_for_grids(
    run: Callable[[str], Any], shell: InteractiveShell, bench: FakeWorkbench
) -> None:
    """Within a bound in bytes with DuckDB; a grid asks for them over a comm until the magics are unloaded."""
    targets: dict[str, Any] = {}

    class Kernel:
        comm_manager = SimpleNamespace(targets=targets, register_target=targets.__setitem__)
        do_execute = None

    shell.kernel = Kernel()  # type: ignore[attr-defined]
    with capture_output():
        shell.run_cell("%reload_ext tabletopic_kernel")
    run("%lake --engine spark SELECT n FROM clicks")
    assert bench.asked[-1][1][2]["limit"] == 10_000
    result = run("%lake SELECT n FROM clicks")
    bounds = {
        "at": None,
        "params": None,
        "limit": None,
        "live": False,
        "frames": {},
        "most_bytes": 512 * 2**20,
    }
    assert bench.asked[-1][1][2] == bounds
    shown, _ = shell.display_formatter.format(result)
    assert {"text/plain", "text/html", MIME} <= shown.keys()
    received: list[Any] = []
    sent: list[Any] = []
    targets[TARGET](SimpleNamespace(on_msg=received.append, send=sent.append), {})
    data = {"number": 1, "result": shown[MIME]["result"], "operation": "page", "at": 1}
    received[0]({"content": {"data": data}})
    assert sent == [{"number": 1, "at": 1, "total": 2, "rows": [["2"]]}]
    with capture_output():
        shell.run_cell("%unload_ext tabletopic_kernel")
    assert targets == {}


def test_the_dashboard_is_a_frame_on_the_server(
    run: Callable[[str], Any],
    fail: Callable[[str], str],
    bench: FakeWorkbench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The address is below the server's base URL, or the hub's; without a server a command is named."""
    monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    monkeypatch.delenv("TABLETOPIC_BASE_URL", raising=False)
    assert "tabletopic dashboard" in fail("%dashboard")
    monkeypatch.setenv("TABLETOPIC_BASE_URL", "/lab/")
    assert 'src="/lab/tabletopic/dashboard/?theme=default"' in run("%dashboard")._repr_html_()
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ann")
    bench.on['a"b&c'] = bench.on["clicks"]
    frame = run('%dashboard --theme dark "a\\"b&c"')
    assert frame.url == "/user/ann/tabletopic/dashboard/?theme=dark&topic=a%22b%26c"
    assert "&amp;topic" in frame._repr_html_()


def test_a_notebook_chooses_its_profile(
    run: Callable[[str], Any],
    fail: Callable[[str], str],
    shell: InteractiveShell,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """From then on the magics and the dashboard are the profile's; while a host runs here it is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABLETOPIC_PROFILE", "default")
    monkeypatch.setenv("TABLETOPIC_BASE_URL", "/lab/")
    (tmp_path / "tabletopic.staging.toml").touch()
    assert "there is no profile prod" in fail("%topic profile prod")
    shell.user_ns["workbench"] = "of before"
    assert "staging" in str(run("%topic profile staging"))
    assert os.environ["TABLETOPIC_PROFILE"] == "staging"
    assert "connected when first used" in repr(shell.user_ns["workbench"])
    assert run("%dashboard").url.endswith("&profile=staging")
    monkeypatch.setattr(KernelHost, "running", object())
    assert "is a host of the present profile" in fail("%topic profile default")


def test_queries_are_in_the_history(
    run: Callable[[str], Any], fail: Callable[[str], str], bench: FakeWorkbench
) -> None:
    """As the texts of their cells, failed ones too; the question itself is no query."""
    run("%lake SELECT 1 AS n")
    run("%%lake --limit 5\nSELECT 2 AS n")
    bench.error = UsageError("no such column")
    fail("%%lake\nSELECT m")
    bench.error = None
    shown = run("%lake --history")
    assert [str(row[1]) for row in shown.rows] == [
        "%%lake\nSELECT m", "%%lake --limit 5\nSELECT 2 AS n", "%lake SELECT 1 AS n",
    ]  # fmt: skip
    assert [str(row[2]) for row in shown.rows] == ["failed", "", ""]
    assert len(run("%lake --history limit").rows) == 1
    assert "no query of the history contains 'nope'" in repr(run("%lake --history nope"))


@pytest.mark.parametrize(
    ("text", "some", "others"),
    [
        ("%topic ", {"enable", "history", "start"}, {"clicks", "print"}),
        ("%topic pe", {"peek"}, {"plan"}),
        ("%topic peek ", {"clicks", "web.orders"}, {"enable", "-n"}),
        ("%topic peek -", {"-n"}, {"clicks"}),
        ("%topic enable ", {"clicks", "web.orders"}, {"--commit-interval", "--wait"}),
        ("%topic enable clicks ", {"--commit-interval", "--wait"}, {"clicks"}),
        ("%topic peek web.o", {"orders"}, {"clicks"}),
        ("%topic enable clicks --commit-i", {"interval"}, {"clicks"}),
        ("%topic enable clicks --transform ", {"flatten", "none"}, {"clicks"}),
        ("%topic host ", {"start", "stop"}, {"clicks"}),
        ("%%lake --engine ", {"duckdb", "spark", "athena"}, {"clicks"}),
        ("%lake --as ", {"df", "arrow", "polars"}, set()),
        ("%dashboard ", {"clicks"}, {"enable", "--theme"}),
        ("%dashboard --", {"--theme"}, {"clicks"}),
    ],
)
def test_completion(shell: InteractiveShell, text: str, some: set[str], others: set[str]) -> None:
    """What may stand at the cursor, and nothing else; what is inserted fits what is there."""
    with provisionalcompleter():
        found = {completion.text.split("-")[-1] if "commit-i" in text else completion.text for completion in
                 shell.Completer.completions(text, len(text))}  # fmt: skip
    ends = {one.removeprefix("web.") for one in found} | found
    assert some <= ends
    assert not others & found


def test_tables_are_completed_in_sql(shell: InteractiveShell, bench: FakeWorkbench) -> None:
    """Behind FROM the tables of the catalog; elsewhere Python's own completion is left alone."""

    class Catalog:
        def list_namespaces(self) -> list[tuple[str, ...]]:
            return [("default",)]

        def list_tables(self, space: tuple[str, ...]) -> list[tuple[str, ...]]:
            return [(*space, "clicks")]

    bench.open_catalog = lambda name=None: Catalog()  # type: ignore[assignment,return-value]
    with provisionalcompleter():
        for text in (
            "%%lake\nSELECT * FROM cl",
            "x = 1\n%lake SELECT * FROM cl",
            "rows = %lake --live FROM cl",
        ):
            assert "clicks" in {one.text for one in shell.Completer.completions(text, len(text))}
        assert "print" in {completion.text for completion in shell.Completer.completions("prin", 4)}


def test_a_broker_that_is_away_spoils_no_completion(shell: InteractiveShell, bench: FakeWorkbench) -> None:
    """Completion is quiet when nobody answers."""

    def away() -> dict[str, int]:
        raise RetryableError("away")

    bench.kafka_topics = away  # type: ignore[method-assign]
    with provisionalcompleter():
        found = [completion.text for completion in shell.Completer.completions("%topic peek ", 12)]
    assert "clicks" not in found


SECRET_CELL = """
from tabletopic_kernel import RetryableError
try:
    raise ValueError("the server says: no entry for hunter2-secret")
except ValueError as error:
    raise RetryableError("it refuses") from error
"""


def test_tracebacks_of_cells_hold_no_secrets(shell: InteractiveShell, fail: Callable[[str], str]) -> None:
    """Also not in the errors behind ours, which quote what a server said; ``%tb`` makes the trace anew."""
    learn({"sasl.password": "hunter2-secret"})
    with capture_output() as again:
        told = fail(SECRET_CELL)
        shell.run_cell("%tb")
    for text in (told, seen(again)):
        assert "no entry for ***" in text
        assert "it refuses" in text
    kernel.unload(shell)
    assert "no entry for hunter2-secret" in fail(SECRET_CELL)


def test_any_kernel_has_the_objects(
    shell: InteractiveShell, bench: FakeWorkbench, fail: Callable[[str], str]
) -> None:
    """%load_ext leaves a user's variable alone; after %unload_ext nothing of ours is left."""
    assert shell.user_ns["workbench"] is bench
    assert "started when first used" in repr(shell.user_ns["spark"])
    assert "opened when first used" in repr(shell.user_ns["lake"])
    matchers = len(shell.Completer.custom_matchers)
    kernel.load(shell)
    assert len(shell.Completer.custom_matchers) == matchers
    kernel.unload(shell)
    assert len(shell.Completer.custom_matchers) == matchers - 1
    assert "not found" in fail("%topic")


def test_a_missing_stack_names_the_way_to_one(
    fail: Callable[[str], str], shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without servers the first magic says what to start."""
    del shell.user_ns["workbench"]
    monkeypatch.chdir(tmp_path)
    assert "no servers for [kafka], [registry], [catalog]" in fail("%topic")
