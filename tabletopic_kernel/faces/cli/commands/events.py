"""``events``: what happened, from some time on, and on request what happens."""

# Imports wait until they are needed: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import Call, duration_ms
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.progress.events import HEARTBEATS


def events(call: Call, topic: str | None, follow: bool, since: str, everything: bool, as_json: bool) -> None:
    """Print events, oldest first; heartbeats only on request."""
    from tabletopic_kernel.faces.cli.event_text import event_line

    going = (lambda: True) if follow else None
    out = screen.console()
    seen = False
    for event in call.workbench.events(topic, _since_ms(since), going):
        if event.type in HEARTBEATS and not everything:
            continue
        seen = True
        if as_json:
            screen.show_json_line(event.model_dump(mode="json"))
        else:
            out.print(event_line(event))
    if not seen and not as_json:
        screen.note(f"nothing happened in the last {since}" if since != "all" else "nothing happened so far")


def _since_ms(text: str) -> int | None:
    if text.strip().lower() == "all":
        return None
    return now_ms() - duration_ms("--since", text)
