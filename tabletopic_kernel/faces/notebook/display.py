"""Output of cells: results, progress bars, one-line errors, tracebacks without secrets.

An error or interrupt is one line that says what to do next, without a traceback. Below the rows of ``%%lake``
is the freshness of the tables they came from.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import pyarrow as pa
from IPython.core.error import UsageError as CellUsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle, display

from tabletopic_kernel.faces.operations.next_steps import Face, for_face
from tabletopic_kernel.model.errors import ActionNeededError, TableTopicError, UsageError
from tabletopic_kernel.model.redact import redact
from tabletopic_kernel.render.grid import MOST_ROWS, Grid, cut, escape_commands
from tabletopic_kernel.render.values import is_number, rows_of, text, unique_names
from tabletopic_kernel.render.words import freshness, size

if TYPE_CHECKING:
    from tabletopic_kernel.query.answer import Answer


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
            raise CellUsageError(escape_commands(for_face(str(error), Face.NOTEBOOK))) from None
        except TableTopicError as error:
            name = type(error).__name__.removesuffix("Error")
            raise _shown_as(error, f"{name}: {for_face(str(error), Face.NOTEBOOK)}") from None
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


Form = Literal["df", "arrow", "polars"]


class LakeResult:
    """Rows of a query; ``df()``, ``arrow()`` and ``polars()`` return them in other forms."""

    def __init__(self, answer: Answer, shown_rows: int) -> None:
        self._answer = answer
        self._shown_rows = min(shown_rows, MOST_ROWS)

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._answer.rows

    def df(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self._answer.rows.to_pandas()

    def polars(self) -> Any:
        """The rows as a Polars DataFrame; raises ActionNeededError if Polars is not installed."""
        try:
            polars = importlib.import_module("polars")  # users install it themselves
        except ImportError:
            raise ActionNeededError("polars is not installed: pip install polars") from None
        return polars.from_arrow(self._answer.rows)

    def to(self, form: Form) -> Any:
        """The rows in the form with that name."""
        return {"df": self.df, "arrow": self.arrow, "polars": self.polars}[form]()

    def __len__(self) -> int:
        return int(self._answer.rows.num_rows)

    def __repr__(self) -> str:
        return repr(self._grid().with_texts(cut))

    def _repr_html_(self) -> str:
        return self._grid().html()

    def freshness(self) -> list[str]:
        """Snapshot and age of each table that was read; scanned bytes, if they are billed."""
        scanned = self._answer.scanned_bytes
        read = [*map(freshness, self._answer.tables)]
        return read if scanned is None else [*read, f"scanned {size(scanned)}"]

    def _grid(self) -> Grid:
        rows = self._answer.rows
        names = unique_names(rows.column_names)
        numbers = frozenset(
            name for name, field in zip(names, rows.schema, strict=True) if is_number(field.type)
        )
        shown = [tuple(map(text, row)) for row in rows_of(rows.slice(0, self._shown_rows))]
        return Grid(names, shown, "", [self._shown_count(), *self.freshness()], numbers)

    def count(self) -> str:
        """The number of rows, in words."""
        return f"{len(self):,} row{'' if len(self) == 1 else 's'}"

    def _shown_count(self) -> str:
        rows = len(self)
        if rows > self._shown_rows or self._answer.truncated:
            # A truncated result has at least one more row.
            all_of = f"at least {rows + 1:,}" if self._answer.truncated else f"{rows:,}"
            shown = min(rows, self._shown_rows)
            return f"the first {shown:,} of {all_of} rows; name << SELECT … keeps them all"
        return self.count()
