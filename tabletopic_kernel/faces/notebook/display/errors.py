"""Errors and interrupts in a notebook: one line that says what to do next, no traceback."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from IPython.core.error import UsageError as CellUsageError

from tabletopic_kernel.faces.operations.next_steps import Face, for_face
from tabletopic_kernel.model.errors import TableTopicError, UsageError
from tabletopic_kernel.model.redact import redact

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


def report_errors(magic: Callable[P, T]) -> Callable[P, T]:
    """Let a magic raise our errors as notebooks show them: wrong use as IPython's, others by their name."""

    @functools.wraps(magic)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return magic(*args, **kwargs)
        except UsageError as error:
            raise CellUsageError(for_face(str(error), Face.NOTEBOOK)) from None
        except TableTopicError as error:
            raise _without_traceback(error) from None
        except Exception as error:  # of a library: the cell's output keeps what it says
            error.args = tuple(redact(one) if isinstance(one, str) else one for one in error.args)
            raise
        except KeyboardInterrupt as interrupt:
            # It is raised on, as the cells behind it must not run; where it hit us is of no interest.
            raise _shown_as(KeyboardInterrupt(*interrupt.args), "interrupted") from None

    return run


def _without_traceback(error: TableTopicError) -> TableTopicError:
    name = type(error).__name__.removesuffix("Error")
    return _shown_as(error, f"{name}: {for_face(str(error), Face.NOTEBOOK)}")


def _shown_as(error: E, text: str) -> E:
    # IPython's own way for an exception to say how it looks.
    error._render_traceback_ = lambda *_: [text]  # type: ignore[attr-defined]
    return error
