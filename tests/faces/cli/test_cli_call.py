"""What all commands have in common: exit codes, messages, global options, help."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tabletopic_kernel.faces.cli import app, call
from tabletopic_kernel.faces.cli.commands.stopping import stop_event
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError, UsageError
from tests.environment import completed

COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("error", "page", "code"),
    [
        (RetryableError("the broker does not respond"), "trouble waiting", 1),
        (ActionNeededError("a person must decide"), "trouble", 1),
        (UsageError("there is no topic 'x'"), "", 2),
        (SettingsError("[kafka] is wrong [really]"), "your-servers kafka", 2),
        (RetryableError("fe80::1:a:9092 (:key:) does not respond"), "trouble waiting", 1),
    ],
)
def test_errors_are_a_message_and_a_code(
    run: Callable[..., Any], fake: Any, error: Exception, page: str, code: int
) -> None:
    """An error of ours is one line on stderr with a page, and its exit code says whose turn it is."""
    fake.error = error
    ended, more = run("status"), f" (see `tabletopic docs {page}`)" if page else ""
    assert (ended.code, ended.out, ended.err) == (code, "", f"error: {error}{more}\n")


def test_an_unexpected_error_is_short_and_says_how_to_see_more(run: Callable[..., Any], fake: Any) -> None:
    """A bug shows its kind and message, not a trace; --debug shows the trace."""
    fake.error = ZeroDivisionError("division\nby zero")
    ended = run("status")
    assert ended.code == 1
    assert ended.err.startswith("error: unexpected ZeroDivisionError: division\n")
    assert "--debug" in ended.err
    assert "Traceback" not in ended.err
    assert "Traceback" in run("status", "--debug").err


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "cannot write: the disk is full: free some"),
        (PermissionError(errno.EACCES, "Permission denied", "/x/logs"), "cannot use /x/logs: no permission"),
    ],
)
def test_a_disk_that_refuses_is_no_bug(run: Callable[..., Any], fake: Any, error: OSError, told: str) -> None:
    """Whatever was being written: a log, a report, the output itself."""
    fake.error = error
    ended = run("status")
    assert ended.code == 1
    assert ended.err.startswith(f"error: {told}")
    assert "bug" not in ended.err


def test_debugging_by_a_variable(run: Callable[..., Any], fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """TABLETOPIC_DEBUG=1 shows traces, also of our own errors, and is no unknown setting."""
    monkeypatch.setenv("TABLETOPIC_DEBUG", "1")
    fake.error = RetryableError("away")
    ended = run("status")
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert run("config").code == 0


def test_ctrl_c_is_quiet(run: Callable[..., Any], fake: Any) -> None:
    """An interrupted command says nothing and ends with 130."""
    fake.error = KeyboardInterrupt()
    ended = run("status")
    assert (ended.code, ended.out, ended.err) == (130, "", "")


@pytest.mark.parametrize(
    "arguments", [["--nonsense"], ["stauts"], ["enable"], ["query", "--limit", "x", "q"]]
)
def test_wrong_use_is_2(run: Callable[..., Any], arguments: list[str]) -> None:
    """Unknown commands and options, missing and wrong arguments: 2, one message on stderr, and the manual."""
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert "--help`" in ended.err


def test_mistakes_before_the_command_runs(run: Callable[..., Any], tmp_path: Path) -> None:
    """A misspelt command, a settings file that is not there or wrong: code 2, with what to write."""
    assert "status" in run("stauts").err
    ended = run("config", "--config", "nowhere.toml")
    assert ended.code == 2
    assert "nowhere.toml" in ended.err
    (tmp_path / "tabletopic.toml").write_text("[topics.a]\nstrat = 1\n")
    ended = run("status")
    assert ended.code == 2
    assert ended.err.startswith("error: tabletopic.toml:2: unknown setting topics.a.strat")
    (tmp_path / "file").touch()
    for text, message in (("", "must not be empty"), (str(tmp_path / "file"), "file' is a file")):
        ended = run("down", "--state-dir", text)
        assert ended.code == 2
        assert "--state-dir" in ended.err
        assert message in ended.err
    ended = run("--version")
    assert ended.code == 0
    assert ended.out.startswith("tabletopic ")


@pytest.mark.parametrize("place", ["before", "after"])
def test_global_options_stand_before_or_after(run: Callable[..., Any], tmp_path: Path, place: str) -> None:
    """--state-dir and --config mean the same in front of the command and behind it."""
    (tmp_path / "own.toml").write_text('[registry]\nurl = "http://registry:8081"\n')
    options = ["--state-dir", str(tmp_path / "here"), "--config", str(tmp_path / "own.toml")]
    words = [*options, "config", "--json"] if place == "before" else ["config", "--json", *options]
    told = {row["key"]: (row["value"], row["origin"]) for row in run(*words).json["settings"]}
    assert told["state_dir"] == (str(tmp_path / "here"), "--state-dir")
    assert told["registry.url"] == ("http://registry:8081", "own.toml:2")


def test_hints_repeat_the_global_options() -> None:
    """A command that is proposed works on the same servers: it carries the options of this call."""
    made = call.Call(config=Path("my file.toml"), state_dir=Path("x"))
    assert made.command("enable", "a b") == "tabletopic enable --config 'my file.toml' --state-dir x 'a b'"
    assert call.Call().command("serve") == "tabletopic serve"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(run: Callable[..., Any], name: str) -> None:
    """--help of each command has an example and the global options."""
    ended = run(name, "--help")
    assert ended.code == 0
    assert "Example:  tabletopic" in ended.out
    assert "--state-dir" in ended.out
    assert "<bool>" not in ended.out  # a switch takes no value


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("enable", ["one of [catalogs.<name>]; default: [catalog].", "Time between commits. [default: 5s]"]),
        ("init", ["as [catalogs.NAME]."]),
        ("sample", ["Events per second. [default: as fast as possible]"]),
        ("serve", ["Address of the metrics port. [default: 127.0.0.1]"]),
    ],
)
def test_help_has_brackets_and_one_form_of_defaults(
    run: Callable[..., Any], name: str, texts: list[str]
) -> None:
    """Names in brackets are no markup, and each default follows its sentence in the same form."""
    shown = " ".join(run(name, "--help").out.replace("│", " ").split())
    for text in texts:
        assert text in shown


def test_alter_shows_no_defaults(run: Callable[..., Any]) -> None:
    """A setting without an option stays as it is."""
    shown = " ".join(run("alter", "--help").out.replace("│", " ").split())
    assert "Time between commits. --commit-bytes" in shown


@pytest.mark.parametrize(
    "name", [name for name in COMMANDS if name not in ("init", "serve", "dashboard", "mcp", "docs")]
)
def test_every_command_that_prints_data_can_print_json(run: Callable[..., Any], name: str) -> None:
    """Only init, which asks, serve, dashboard and mcp, which run until stopped, and docs have no --json."""
    assert "--json" in run(name, "--help").out


@pytest.mark.parametrize("words", ["config --json", "enable --help"])
def test_a_closed_pipe_is_silent(tmp_path: Path, words: str) -> None:
    """`tabletopic … | head` prints no error when head has seen enough."""
    script = f"{sys.executable} -m tabletopic_kernel.faces.cli {words} | head -c 1; echo ${{PIPESTATUS[0]}}"
    ended = completed(["bash", "-c", script], cwd=tmp_path, check=True)
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[-1].strip(" {") in ("0", "141")


def test_nothing_heavy_is_loaded_at_the_start() -> None:
    """The program's own import brings in none of the libraries that cost a good part of a second."""
    heavy = ("pyspark", "pyiceberg", "pyarrow", "duckdb", "confluent_kafka", "pandas", "numpy", "datafusion")
    code = f"import sys, tabletopic_kernel.faces.cli; print([m for m in {heavy!r} if m in sys.modules])"
    ended = completed([sys.executable, "-c", code], check=True)
    assert ended.stdout.strip() == "[]"


def test_a_signal_at_any_moment_stops_a_command() -> None:
    """Also while it looks at the event that it waits for, and two at once, as ``timeout`` sends them."""
    with stop_event() as asked:
        with asked._cond:  # type: ignore[attr-defined] # what its methods hold for a moment
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        assert asked.wait(240)
