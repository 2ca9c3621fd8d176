"""One line of text for each event of the control topic."""

from __future__ import annotations

from rich.text import Text

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.render.words import event_text
from tabletopic_kernel.model.progress.events import ControlEvent, Failed

__all__ = ["event_line", "event_text"]

_STYLE = {
    "Enabled": "cyan",
    "Committed": "green",
    "CommitFailed": "yellow",
    "SchemaEvolved": "magenta",
    "SchemaRefused": "bold red",
    "DeadLettered": "yellow",
    "GapDetected": "bold red",
    "Failed": "bold red",
    "FilesStaged": "dim",
    "Heartbeat": "dim",
    "HostHeartbeat": "dim",
}


def event_line(event: ControlEvent) -> Text:
    """Local time, kind, topic, and what happened."""
    style = _STYLE.get(event.type, "")
    if isinstance(event, Failed) and event.waits:
        style = "yellow"
    return Text.assemble(
        (screen.clock_today(event.at_ms), "dim"),
        "  ",
        (f"{event.type:<14}", style),
        "  ",
        (event.topic, "bold"),
        "  ",
        event_text(event),
    )
