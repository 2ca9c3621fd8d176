"""Masks secrets in tracebacks of uncaught errors, in any thread of a plain script.

Our errors contain no secrets, but their causes are other programs' and may quote a login. Python prints
uncaught errors through two hooks; a hook of another program stays, such as IPython's.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from tabletopic_kernel.model.redact import trace_of


def hide_secrets() -> None:
    """From now on, mask secrets of the settings in tracebacks of uncaught errors."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _print_of_thread


def _print(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    sys.stderr.write(trace_of(error))


def _print_of_thread(error: threading.ExceptHookArgs) -> None:
    if error.exc_type is SystemExit or error.exc_value is None:
        return
    name = error.thread.name if error.thread is not None else "?"
    sys.stderr.write(f"Exception in thread {name}:\n")
    _print(error.exc_type, error.exc_value, error.exc_traceback)
