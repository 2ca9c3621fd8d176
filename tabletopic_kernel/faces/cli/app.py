"""The program ``tabletopic``: its global options and its groups of commands."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import BROKEN_PIPE, INTERRUPTED, WRONG_USE, Call
from tabletopic_kernel.faces.cli.command import (
    ConfigOption,
    DebugOption,
    Group,
    ProfileOption,
    StateDirOption,
    add_command,
    add_operation,
)
from tabletopic_kernel.faces.cli.commands.hosts import dashboard, serve
from tabletopic_kernel.faces.cli.commands.info import docs, info
from tabletopic_kernel.faces.cli.commands.init import init
from tabletopic_kernel.faces.cli.commands.notify import notify
from tabletopic_kernel.faces.cli.commands.pack import pack
from tabletopic_kernel.faces.cli.commands.query import mcp, query
from tabletopic_kernel.faces.cli.commands.servers import config, doctor, down, trust, up
from tabletopic_kernel.faces.cli.commands.topics import alter, enable, events, status
from tabletopic_kernel.faces.cli.commands.trials import demo, sample
from tabletopic_kernel.faces.operations import OPERATIONS, inspection, topics, trial
from tabletopic_kernel.model.errors import UsageError

DISTRIBUTION = "tabletopic"

app = typer.Typer(
    name="tabletopic",
    cls=Group,
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Commands that do more than run their operation and show its result.
_OWN: dict[str, Callable[..., None]] = {run.__name__: run for run in (enable, alter, status, events, sample)}
_SERVERS: tuple[Callable[..., None], ...] = (
    init, up, down, info, config, trust, doctor, notify, pack, docs,
)  # fmt: skip
_OTHERS: tuple[tuple[str, Callable[..., None]], ...] = (
    (topics.PANEL, serve),
    (topics.PANEL, query),
    (inspection.PANEL, dashboard),
    (inspection.PANEL, mcp),
    (trial.PANEL, demo),
)
for command in _SERVERS:
    add_command(app, "Servers and settings", command)
for operation in OPERATIONS:
    add_operation(app, operation, _OWN.get(operation.name))
for panel, command in _OTHERS:
    add_command(app, panel, command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tabletopic {version(DISTRIBUTION)}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
]


@app.callback()
def options(
    context: typer.Context,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    state_dir: StateDirOption = None,
    debug: DebugOption = False,
    version: VersionOption = False,
) -> None:
    """Kafka topics as Iceberg tables.

    Begin with [bold]tabletopic up --detach[/], then [bold]tabletopic sample clicks[/],
    [bold]tabletopic enable clicks[/], [bold]tabletopic serve --detach[/],
    [bold]tabletopic wait clicks[/] and [bold]tabletopic query "SELECT count(*) FROM clicks"[/].
    [bold]tabletopic docs[/] shows the manual, [bold]tabletopic docs trouble[/] what to do about a symptom.
    """
    context.obj = Call(config, state_dir, debug, profile)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our arrows still gets the text
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Shells ignore SIGINT in background jobs; restore it, so that Ctrl-C works.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        words = None if arguments is None else list(arguments)
        result = app(args=words, prog_name="tabletopic", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except typer.TyperException as error:
        _report_wrong_use(error)
        return WRONG_USE
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # the reader of the help has gone
            return BROKEN_PIPE
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # before a command began
        return INTERRUPTED
    finally:
        sys.stderr.flush()


def _report_wrong_use(error: typer.TyperException) -> None:
    """Report a wrong command line like any other error, with a pointer to its help."""
    context = getattr(error, "ctx", None)
    manual = f"{context.command_path if context else 'tabletopic'} --help"
    message = error.format_message().rstrip(".").replace(": Value error, ", ": ", 1)  # a word of typer's
    if message:  # otherwise only the program's name was given: its help is the response
        joint = " See" if message.endswith("?") else "; see"
        screen.error(UsageError(f"{message}{joint} `{manual}`"))
