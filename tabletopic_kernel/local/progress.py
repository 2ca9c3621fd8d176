"""What the embedded stack tells while it works.

The stack prints nothing: it calls a ``Report`` with one ``Step`` after another and a face renders
them. ``TerminalReport`` is the ready-made face for a terminal or a log.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Never, TextIO

from tqdm import tqdm


@dataclass(frozen=True)
class Step:
    """One thing the stack does, at one moment. Times in seconds since the step began, sizes in bytes.

    ``total_bytes`` is an estimate, 0 where bytes say nothing; ``done_bytes`` may pass it.
    """

    name: str
    state: Literal["started", "running", "done", "failed"]
    seconds: float = 0.0
    detail: str = ""
    done_bytes: int = 0
    total_bytes: int = 0

    def __str__(self) -> str:
        mark = {"started": "…", "running": "…", "done": "✓", "failed": "✗"}[self.state]
        time = f" ({self.seconds:.1f} s)" if self.state in ("done", "failed") else ""
        return f"{mark} {self.name}{': ' if self.detail else ''}{self.detail}{time}"


Report = Callable[[Step], None]


def silent(step: Step) -> None:
    """Report to nobody."""


class TerminalReport:
    """Steps as lines on ``stream`` (default: stderr), with a bar by bytes where it is a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bar: tqdm[Never] | None = None

    def __call__(self, step: Step) -> None:
        """Render one step."""
        if step.state == "running":
            self._advance(step)
            return
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if step.state != "started" or step.total_bytes:
            self._stream.write(f"{step}\n")
            self._stream.flush()

    def _advance(self, step: Step) -> None:
        if not self._stream.isatty():
            return
        bar = self._bar
        if bar is None:
            self._bar = bar = tqdm(
                total=step.total_bytes,
                desc=step.name,
                unit="B",
                unit_scale=True,
                leave=False,
                file=self._stream,
            )
        bar.n = min(step.done_bytes, step.total_bytes)
        bar.refresh()
