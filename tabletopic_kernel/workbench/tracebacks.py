"""Secrets are masked in tracebacks of plain scripts: of uncaught errors, in any thread.

Our errors contain none, but their causes are other programs' and may quote a login. Python prints all of them
through two hooks; a hook set by somebody else stays, such as IPython's.
"""

from __future__ import annotations

import sys
import threading
import traceback
from types import TracebackType

from tabletopic_kernel.model.redact import redact


def hide_secrets() -> None:
    """From now on, mask secrets of the settings in tracebacks of uncaught errors."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _print_of_thread


def _print(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def _print_of_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_type is SystemExit or found.exc_value is None:
        return
    name = found.thread.name if found.thread is not None else "?"
    sys.stderr.write(f"Exception in thread {name}:\n")
    _print(found.exc_type, found.exc_value, found.exc_traceback)
