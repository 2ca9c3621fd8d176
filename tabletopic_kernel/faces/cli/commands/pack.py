"""``pack``: this program and its packages as one file, for the executors of a cluster."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call
from tabletopic_kernel.faces.cli.command import Json
from tabletopic_kernel.faces.operations.operation import Option
from tabletopic_kernel.render.words import size


def pack(
    call: Call,
    file: Annotated[
        Path | None,
        Option("File to write", metavar="FILE", positional=True, default_text="executors.pex in this folder"),
    ] = None,
    force: Annotated[bool, Option("Overwrite an existing file", ("--force", "-f"))] = False,
    uncompressed: Annotated[
        bool, Option("Do not compress: about three times as large, but faster to make")
    ] = False,
    as_json: Json = False,
) -> None:
    """Pack this program and its packages into a file that executors of a Spark cluster run.

    It prints the lines for tabletopic.toml that ship the file to executors. Their
    machines must have the same system and processor, and the same minor version
    of Python on the path. Needs the extra `pack` and a virtual environment, but
    no network. Packages that executors do not need (JupyterLab, the dashboard) or
    have themselves (pyspark) are left out.

    Example:  tabletopic pack executors.pex
    """
    from tabletopic_kernel.clients.spark.pack import DEFAULT_NAME
    from tabletopic_kernel.clients.spark.pack import pack as pack_environment
    from tabletopic_kernel.local.progress import Step, TerminalReport

    report, began, name = TerminalReport(), time.monotonic(), "packing the environment"

    def show(done: int, total: int) -> None:
        report(Step(name, "running", time.monotonic() - began, "", done, total))

    report(Step(name, "started", total_bytes=1))
    try:
        packed = pack_environment(
            file or Path(DEFAULT_NAME), force=force, compress=not uncompressed, on_progress=show
        )
    except BaseException:
        report(Step(name, "failed", time.monotonic() - began))
        raise
    report(Step(name, "done", packed.seconds, size(packed.bytes)))
    if as_json:
        screen.show_json(dataclasses.asdict(packed) | {"spark_conf": packed.spark_conf})
        return
    screen.show(
        f"wrote [bold]{screen.plain(packed.file)}[/]: {size(packed.bytes)}, "
        f"{packed.packages} packages, in {packed.seconds:.0f} s; it runs with {screen.plain(packed.python)}"
    )
    screen.note("In tabletopic.toml:")
    screen.show_text(packed.settings)
    screen.note(f"then {call.command('doctor')} checks it on the cluster")
