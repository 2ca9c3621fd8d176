"""Tracebacks of cells without secrets: what a server quoted stands in the errors that led to ours."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from tabletopic_kernel.model.redact import redact

# The one method through which IPython's and ipykernel's shells make each of their traces, ``%tb`` too.
_METHOD = "structured_traceback"


def hide_secrets(shell: InteractiveShell) -> None:
    """From now on tracebacks in this shell hold no secrets of the settings in force."""
    make = shell.InteractiveTB.structured_traceback

    def masked(*arguments: Any, **named: Any) -> list[str]:
        return [redact(line) for line in make(*arguments, **named)]

    setattr(shell.InteractiveTB, _METHOD, masked)


def show_secrets(shell: InteractiveShell) -> None:
    """Leave tracebacks alone again."""
    vars(shell.InteractiveTB).pop(_METHOD, None)
