"""``pack``: this program and its packages as one file, for the executors of a cluster."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call


def pack(call: Call, file: Path | None, force: bool, uncompressed: bool, as_json: bool) -> None:
    """Pack, with a progress bar, and print the settings that use the file."""
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
    report(Step(name, "done", packed.seconds, screen.size(packed.bytes)))
    if as_json:
        screen.show_json(dataclasses.asdict(packed) | {"spark_conf": packed.spark_conf})
        return
    screen.show(
        f"wrote [bold]{screen.plain(packed.file)}[/]: {screen.size(packed.bytes)}, "
        f"{packed.packages} packages, in {packed.seconds:.0f} s; it runs with {screen.plain(packed.python)}"
    )
    screen.note("In tabletopic.toml:")
    screen.show_text(packed.settings)
    screen.note(f"then {call.command('doctor')} checks it on the cluster")
