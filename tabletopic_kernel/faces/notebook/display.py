"""Output of cells: progress bars, one-line errors, tracebacks without secrets.

An error or interrupt is one line that says what to do next, without a traceback.
"""

from __future__ import annotations

import functools
import importlib.util
import time
import traceback
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from IPython.core.error import UsageError as CellUsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle, display

from tabletopic_kernel.faces.operations.next_steps import Face, for_face
from tabletopic_kernel.model.errors import TableTopicError, UsageError
from tabletopic_kernel.model.redact import redact
from tabletopic_kernel.render.grid import Grid, escape_commands

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


def report_errors(magic: Callable[P, T]) -> Callable[P, T]:
    """Make a magic raise errors for notebooks: usage errors as IPython's, others by name."""

    @functools.wraps(magic)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return magic(*args, **kwargs)
        except UsageError as error:
            raise CellUsageError(escape_commands(for_face(error.advice, Face.NOTEBOOK))) from None
        except TableTopicError as error:
            name = type(error).__name__.removesuffix("Error")
            raise _shown_as(error, f"{name}: {for_face(error.advice, Face.NOTEBOOK)}") from None
        except KeyboardInterrupt as interrupt:
            # Raised again, so that the following cells do not run.
            raise _shown_as(KeyboardInterrupt(*interrupt.args), "interrupted") from None

    return run


def _shown_as(error: E, text: str) -> E:
    # IPython's own way for an exception to define its appearance.
    error._render_traceback_ = lambda *_: [escape_commands(text)]  # type: ignore[attr-defined]
    return error


# The method with which IPython's and ipykernel's shells create all tracebacks, including ``%tb``.
_METHOD = "structured_traceback"
# How a shell shows an error, and how it sends it to a notebook, with the error's text.
_SHOW, _SEND = "showtraceback", "_showtraceback"
# How a kernel replies to the sender of a cell. Programs that run notebooks print the error in the reply.
_ANSWER = "do_execute"


def hide_secrets(shell: InteractiveShell) -> None:
    """From now on, mask secrets of the settings in this shell's tracebacks."""
    make, show, send = shell.InteractiveTB.structured_traceback, shell.showtraceback, shell._showtraceback

    def masked(*arguments: Any, **named: Any) -> list[str]:
        return [redact(line) for line in make(*arguments, **named)]

    def shown(exc_tuple: Any = None, *arguments: Any, **named: Any) -> None:
        try:
            kind, error, trace = shell._get_exc_info(exc_tuple)  # type: ignore[no-untyped-call]
        except ValueError:  # there is no exception
            error = None
        if error is None or hasattr(error, "_render_traceback_") or not _has_group(error):
            show(exc_tuple, *arguments, **named)
        else:  # IPython would print it without calling these methods
            shell._showtraceback(kind, error, traceback.format_exception(kind, error, trace))

    def sent(kind: Any, error: Any, lines: list[str]) -> None:
        send(kind, redact(str(error)), [redact(line) for line in lines])

    setattr(shell.InteractiveTB, _METHOD, masked)
    setattr(shell, _SHOW, shown)
    setattr(shell, _SEND, sent)
    kernel = getattr(shell, "kernel", None)
    if kernel is None:  # IPython in a terminal
        return
    answer = kernel.do_execute

    async def answered(*arguments: Any, **named: Any) -> dict[str, Any]:
        content: dict[str, Any] = await answer(*arguments, **named)
        for part in (content, *content.get("user_expressions", {}).values()):
            if "evalue" in part:
                part["evalue"] = redact(part["evalue"])
                part["traceback"] = [redact(line) for line in part["traceback"]]
        return content

    setattr(kernel, _ANSWER, answered)


def _has_group(error: BaseException | None) -> bool:
    """Whether one of the errors that led to this one is a group."""
    if error is None or isinstance(error, BaseExceptionGroup):
        return error is not None
    return _has_group(error.__cause__) or _has_group(error.__context__)


def show_secrets(shell: InteractiveShell) -> None:
    """Stop masking tracebacks."""
    vars(shell.InteractiveTB).pop(_METHOD, None)
    for name in (_SHOW, _SEND):
        vars(shell).pop(name, None)
    vars(getattr(shell, "kernel", shell)).pop(_ANSWER, None)


class Place:
    """Displays an object; ``update`` replaces it."""

    def __init__(self, shown: object) -> None:
        handle: Any = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        self._handle: DisplayHandle | None = handle

    def update(self, shown: object) -> None:
        """Show this instead; from any thread."""
        if self._handle is not None:  # there is none outside a shell
            self._handle.update(shown)  # type: ignore[no-untyped-call]


class Bar:
    """Progress by tqdm; without ipywidgets, where tqdm would fill the error stream, as an updated text."""

    def __init__(self, name: str, total: int, shell: InteractiveShell | None) -> None:
        self._name = name
        self._total = total
        self._began = time.monotonic()
        self._bar: Any = None
        self._place: Place | None = None
        in_kernel = hasattr(shell, "kernel")
        if in_kernel and importlib.util.find_spec("ipywidgets") is None:
            self._place = Place(self._text(0))
        else:
            from tqdm.auto import tqdm  # noqa: PLC0415 - it looks for widgets: a part of a second

            self._bar = tqdm(total=total, desc=name, unit=" records", leave=False)

    def to(self, done: int) -> None:
        """Show that this many records are done."""
        if self._place is not None:
            self._place.update(self._text(done))
        else:
            self._bar.update(done - self._bar.n)

    def _text(self, done: int) -> Grid:
        from tqdm import tqdm  # noqa: PLC0415 - as above

        elapsed = time.monotonic() - self._began
        meter = tqdm.format_meter(done, self._total, elapsed, ncols=80, prefix=self._name, unit=" records")
        return Grid((), [], "", [meter])

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
