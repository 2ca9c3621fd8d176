"""Progress reports of the embedded stack.

The stack prints nothing: it calls a ``Report`` with each ``Step``, and a face renders them.
``TerminalReport`` is ready-made for a terminal or a log; ``CountBar`` does the same for a count.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Never, TextIO

from tqdm import tqdm

_LINE_EVERY_S = 10.0


@dataclass(frozen=True)
class Step:
    """One step of the stack at one point in time. Times in seconds since the step began, sizes in bytes.

    ``total_bytes`` is an estimate, 0 if the step has no bytes to count; ``done_bytes`` may exceed it.
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
    """Discard the report."""


class TerminalReport:
    """Steps as lines on ``stream`` (default: stderr), with a bar of bytes on a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bar: tqdm[Never] | None = None

    def __call__(self, step: Step) -> None:
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


class CountBar:
    """Progress towards ``total``: a bar on a terminal, otherwise a line every ten seconds and one at the end.

    On stderr. ``name`` says what is counted, ``unit`` follows the count.
    """

    def __init__(self, total: int, name: str, unit: str) -> None:
        self._total, self._name, self._unit = total, name, unit
        self._began = self._line_at = time.monotonic()
        self._bar: tqdm[Never] | None = None
        if sys.stderr.isatty():
            self._bar = tqdm(total=total, desc=name, unit=f" {unit}", unit_scale=True)
        self.done = 0

    def to(self, done: int) -> None:
        """Set the count so far."""
        moved, self.done = done - self.done, done
        if self._bar is not None:
            self._bar.update(moved)
        elif time.monotonic() - self._line_at >= _LINE_EVERY_S:
            self._line()

    def _line(self) -> None:
        self._line_at = time.monotonic()
        seconds = self._line_at - self._began
        rate = f", {self.done / seconds:,.0f}/s" if seconds > 0 else ""
        sys.stderr.write(
            f"{self._name}: {self.done:,} of {self._total:,} {self._unit} in {seconds:.0f} s{rate}\n"
        )
        sys.stderr.flush()

    def __enter__(self) -> CountBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        else:
            self._line()
