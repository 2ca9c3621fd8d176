"""What all handlers have in common: the way to the backend, answers, and the status of an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import responses
from typing import Any, TypeVar

from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado.web import HTTPError

from tabletopic_kernel.faces.jupyter_server.backend import Backend
from tabletopic_kernel.faces.operations.next_steps import Face, values_for_face
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    OutcomeUnknownError,
    RetryableError,
    TableTopicError,
    UnknownTopicError,
    UsageError,
)
from tabletopic_kernel.model.redact import redact

T = TypeVar("T")
BACKEND = "tabletopic_backend"
# The first that fits: who has to act says which status it is.
_STATUS: tuple[tuple[type[TableTopicError], int], ...] = (
    (UnknownTopicError, 404),
    (UsageError, 400),
    (RetryableError, 503),
    (OutcomeUnknownError, 503),
    (ActionNeededError, 409),
    (TableTopicError, 500),
)


class Handler(ExtensionHandlerMixin, APIHandler):
    """What all have in common. Errors are ``{"message": what is wrong and what to do next}``."""

    auth_resource = "tabletopic"

    @property
    def _track_activity(self) -> bool:  # type: ignore[override]
        """Looking is no activity, else a page left open would keep an idle server from being culled."""
        return self.request.method not in ("GET", "HEAD")

    @property
    def backend(self) -> Backend:
        """The server's."""
        found: Backend = self.settings[BACKEND]
        return found

    async def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do something that may block, in a thread."""
        return await self.backend.call(work, *arguments)

    def answer(self, body: Any, status: int = 200) -> None:
        """Write JSON, what to do next in the sidebar's words."""
        self.set_status(status)
        self.finish(json.dumps(values_for_face(body, Face.SIDEBAR)))

    def nothing(self) -> None:
        """Done, and there is nothing to say."""
        self.set_status(204)
        self.finish()

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """A person's mistake, or a server that is away, is no news for the log."""
        if not isinstance(value, TableTopicError) or status_of(value) == 500:
            super().log_exception(typ, value, tb)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """The status that the error deserves."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        super().send_error(status_of(error) if isinstance(error, TableTopicError) else status_code, **kwargs)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """The message, for people."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        if isinstance(error, TableTopicError):
            message = str(error)
        elif isinstance(error, HTTPError):
            message = redact(error.log_message or "") or responses.get(status_code, "")
        else:
            message = "unexpected error; the Jupyter server's log has the trace"
        self.finish(json.dumps(values_for_face({"message": message}, Face.SIDEBAR)))


def status_of(error: TableTopicError) -> int:
    """The HTTP status that says who has to act."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))
