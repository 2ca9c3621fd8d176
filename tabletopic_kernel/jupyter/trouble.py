"""Errors in a notebook: one line that says what to do next, no traceback."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from IPython.core.error import UsageError as CellUsageError

from tabletopic_kernel.core.errors import TableTopicError, UsageError
from tabletopic_kernel.core.next_steps import Face, for_face
from tabletopic_kernel.core.redact import redact

P = ParamSpec("P")
T = TypeVar("T")


def told(magic: Callable[P, T]) -> Callable[P, T]:
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

    return run


def _without_traceback(error: TableTopicError) -> TableTopicError:
    name = type(error).__name__.removesuffix("Error")
    # IPython's own way for an exception to say how it looks.
    told = f"{name}: {for_face(str(error), Face.NOTEBOOK)}"
    error._render_traceback_ = lambda *_: [told]  # type: ignore[attr-defined]
    return error
