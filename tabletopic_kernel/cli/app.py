"""The program ``tabletopic``: its global options and its groups of commands."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from tabletopic_kernel.cli import ask, dashboard, data, look, replay, run, servers, topics, watch
from tabletopic_kernel.cli.call import INTERRUPTED, Call, ConfigOption, DebugOption, StateDirOption

DISTRIBUTION = "tabletopic"

app = typer.Typer(
    name="tabletopic",
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (servers, topics, run, watch, look, replay, dashboard, ask, data):
    group.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"tabletopic {version(DISTRIBUTION)}")
        except PackageNotFoundError:
            typer.echo("tabletopic (not installed)")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
]


@app.callback()
def options(
    context: typer.Context,
    config: ConfigOption = None,
    state_dir: StateDirOption = None,
    debug: DebugOption = False,
    version: VersionOption = False,
) -> None:
    """Kafka topics that are Iceberg tables.

    Begin with [bold]tabletopic up[/], then [bold]tabletopic produce-clickstream[/],
    [bold]tabletopic enable clicks[/], [bold]tabletopic serve[/] and
    [bold]tabletopic query "SELECT count(*) FROM clicks"[/].
    """
    context.obj = Call(config, state_dir, debug)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our arrows still gets the words
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As scripts start what they put into the background; who interrupts us all the same, means it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="tabletopic")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # before a command began
        return INTERRUPTED
    finally:
        sys.stderr.flush()
    return 0
