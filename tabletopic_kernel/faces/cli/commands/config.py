"""``config``: the settings in force, and where each comes from."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

from rich.text import Text

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call


def config(call: Call, as_json: bool) -> None:
    """Print every setting with its origin; no server is asked."""
    from tabletopic_kernel.workbench.config import DEFAULT, describe

    rows = describe(call.loaded)
    file = call.loaded.file
    if as_json:
        screen.show_json(
            {"file": None if file is None else str(file), "settings": [row._asdict() for row in rows]}
        )
        return
    table = screen.grid("setting", "value", "from")
    for row in rows:
        table.add_row(
            Text(row.key), Text(row.value), Text(row.origin), style="dim" if row.origin == DEFAULT else ""
        )
    screen.console().print(table)
    screen.note(f"settings file: {file or 'none found'}")
