"""Sends a webhook and a command what needs a person, from a thread of its own: no commit waits for them."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from tabletopic_kernel.host.metrics.notices import Behind, Notice, host_ended, notice_of
from tabletopic_kernel.host.metrics.outbox import CLOSING_S, Outbox
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.progress.events import ControlEvent, Heartbeat
from tabletopic_kernel.model.redact import learn, redact
from tabletopic_kernel.model.settings.cluster import is_loopback
from tabletopic_kernel.model.settings.sections import NotifySettings

if TYPE_CHECKING:
    from tabletopic_kernel.host.host import Host

_LOG = logging.getLogger(__name__)
_MOST_CAUSES = 10_000
_MOST_LINES = 10  # of a message's text
_GATHER_S = 1.0  # what happens within it is one message
_ATTEMPTS = 3


class Notifier:
    """Sends notices, each cause once per ``repeat_ms``; what happens together is one message.

    ``take`` returns at once, whatever the receivers do. Thread-safe.
    """

    def __init__(self, settings: NotifySettings, gather_s: float = _GATHER_S) -> None:
        self._settings = settings
        self._pause_s = gather_s
        self._behind = Behind()
        self._outbox: Outbox[Notice] = Outbox("notify", self._send, gather_s)
        self._lock = threading.Lock()  # guards the following field
        self._sent_at: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def listen(self, event: ControlEvent) -> None:
        notice = self._behind.notice_of(event) if isinstance(event, Heartbeat) else notice_of(event)
        if notice is not None:
            self.take(notice)

    def take(self, notice: Notice) -> None:
        """Send it soon, unless a notice of its cause was sent lately."""
        now = time.monotonic()
        with self._lock:
            last = self._sent_at.get(notice.cause)
            if last is not None and now - last < self._settings.repeat_ms / 1000:
                return
            self._sent_at[notice.cause] = now
            self._sent_at.move_to_end(notice.cause)
            if len(self._sent_at) > _MOST_CAUSES:
                self._sent_at.popitem(last=False)
        self._outbox.put(notice)

    def close(self, limit_s: float = CLOSING_S) -> None:
        self._outbox.close(limit_s)

    def _send(self, notices: list[Notice]) -> None:
        left_out, self._outbox.left_out = self._outbox.left_out, 0
        message = message_of(notices, left_out)
        for name, send in receivers(self._settings).items():
            for attempt in range(_ATTEMPTS):
                outcome = send(message)
                if outcome is None:
                    break
                _LOG.warning("notify: %s: %s", name, outcome)
                if self._outbox.pause(self._pause_s * 2**attempt):
                    break


def attach_notifier(host: Host, settings: NotifySettings) -> None:
    """Send the webhook and the command of ``[notify]``, if there are any, what needs a person."""
    if not receivers(settings):  # a wrong URL is an error now
        return
    notifier = Notifier(settings)

    def ended(error: Exception | None) -> None:
        if error is not None:
            notifier.take(host_ended(host.id, error, now_ms()))
        notifier.close()

    host.listen(notifier.listen)
    host.on_end = ended


def message_of(notices: Sequence[Notice], left_out: int = 0) -> dict[str, Any]:
    """The JSON of a message: ``text`` for people, as Slack shows it, and the notices."""
    lines = [f"{notice.text} (`{notice.next_step}`)" for notice in notices[:_MOST_LINES]]
    if more := len(notices) - len(lines) + left_out:
        lines.append(f"and {more:,} more: `tabletopic status`")
    return {"text": redact("\n".join(lines)), "notices": [_masked(notice) for notice in notices[:100]]}


def _masked(notice: Notice) -> dict[str, Any]:
    fields = asdict(notice).items()
    return {name: redact(value) if isinstance(value, str) else value for name, value in fields}


def receivers(settings: NotifySettings) -> dict[str, Any]:
    """The receivers, by a name without secrets: a function each that returns why it failed, or None."""
    limit_s, known = settings.timeout_ms / 1000, dict[str, Any]()
    if url := settings.webhook_url:
        if not is_http(url):
            raise SettingsError("notify.webhook_url is not an http or https URL")
        parts = urlsplit(url)
        # A webhook's path or query is its password.
        learn({"webhook_token": parts.path, "webhook_secret": parts.query})
        known[f"webhook at {parts.hostname}"] = lambda message: post(url, message, limit_s)
    if command := settings.command:
        known["command"] = lambda message: _execute(command, message, limit_s)
    return known


class _NoRedirect(HTTPRedirectHandler):
    """A redirection would be followed by a GET without the message, and seem to succeed."""

    def redirect_request(self, *_: Any) -> None:
        """None: it is an error."""


def is_http(url: str) -> bool:
    """Whether a text is an http or https URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # a bracket without the other
        return False


def post(
    url: str, message: dict[str, Any], limit_s: float, login: Mapping[str, str] | None = None
) -> str | None:
    """POST a message as JSON, with the headers ``login``; why it failed, or None."""
    opener = build_opener(_NoRedirect, *([ProxyHandler({})] if is_loopback(url) else []))
    headers = {"Content-Type": "application/json", "User-Agent": "tabletopic", **(login or {})}
    try:
        request = Request(url, json.dumps(message).encode(), headers)
        with opener.open(request, timeout=limit_s):
            return None
    except HTTPError as error:
        error.close()
        return f"responded {error.code}"
    except (OSError, ValueError, HTTPException) as error:
        return redact(str(error)) or type(error).__name__


def _execute(command: str, message: dict[str, Any], limit_s: float) -> str | None:
    with tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(
                shlex.split(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return redact(str(error))
        try:
            child.communicate(json.dumps(message).encode(), limit_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return f"did not end within {limit_s:g} s"
        if child.returncode == 0:
            return None
        errors.seek(0)
        words = errors.read(500).decode(errors="replace").strip()
        return redact(f"ended with exit code {child.returncode}{': ' if words else ''}{words}")
