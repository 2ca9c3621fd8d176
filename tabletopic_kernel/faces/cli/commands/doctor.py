"""``doctor``: one check at a time, each printed when it is done."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import FAILED, Call

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.doctor import Check


def doctor(call: Call, as_json: bool) -> None:
    """Run all checks; the exit code is 1 if one fails."""
    from tabletopic_kernel.workbench.doctor import run_checks

    checks = []
    out = screen.console()
    for check in run_checks(call.loaded):
        checks.append(check)
        if not as_json:
            out.print(check_line(check))
    if as_json:
        screen.show_json([check.to_json() for check in checks])
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(FAILED)


def check_line(check: Check) -> Table:
    """One check as people read it, its remedy below."""
    style = {"ok": "green", "warn": "yellow", "fail": "bold red"}[check.status]
    line = Table.grid(padding=(0, 2))
    for width in (4, 16, None):
        line.add_column(width=width)
    line.add_row(Text(check.status, style), Text(check.name, "bold"), Text(check.detail))
    if check.remedy:
        line.add_row("", "", Text(f"→ {check.remedy}", style))
    return line
