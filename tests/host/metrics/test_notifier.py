"""Notices: what is sent, how often, and what receivers cannot do to a host."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.host.metrics.notices import Behind, host_ended, notice_of
from tabletopic_kernel.host.metrics.notifier import Notifier, message_of, receivers
from tabletopic_kernel.model import redact
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.sections import NotifySettings

STAMP: dict[str, Any] = {"topic": "clicks", "at_ms": 1_000, "host": "vm-1"}


class Hook(BaseHTTPRequestHandler):
    """A webhook: /ok responds with nonsense, /500 fails, /302 redirects, /never is silent until the end."""

    def do_POST(self) -> None:
        """Take a message."""
        server: Any = self.server
        server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        if self.path == "/never":
            server.over.wait(30)
            return
        self.send_response({"/500": 500, "/302": 302}.get(self.path, 200))
        self.send_header("Location", "/ok")
        self.end_headers()
        self.wfile.write(b"<html>nonsense")

    def do_GET(self) -> None:
        """A page."""
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing to standard error."""


@pytest.fixture
def hook() -> Iterator[Any]:
    """A webhook on a free port."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.bodies, server.over = [], threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()
    thread.join()
    redact.forget()


def failed(topic: str, reason: str = "no such column", *, waits: bool = False) -> events.Failed:
    """A failure."""
    return events.Failed(**{**STAMP, "topic": topic}, reason=reason, waits=waits)


@pytest.mark.parametrize(
    ("event", "kind", "text"),
    [
        (failed("clicks"), "failed", "clicks failed: no such column"),
        (failed("clicks", waits=True), None, ""),
        (events.DeadLettered(**STAMP, counts={"corrupt": 3}), "dead_letters", "new dead letters: corrupt: 3"),
        (events.SchemaRefused(**STAMP, refused={"price": "is text"}, cause=None), "schema_refused", "price"),
        (events.GapDetected(**STAMP, missing={0: (1, 5)}), "gap", "clicks lost records: partition 0"),
        (
            events.EnableRefused(**STAMP, pattern="c*", reason="no storage"),
            "not_enabled",
            "clicks is not enabled: no storage (the pattern c* matches it)",
        ),
        (events.Paused(**STAMP), None, ""),
    ],
)
def test_what_needs_a_person_is_a_notice(event: Any, kind: str | None, text: str) -> None:
    """A failure, dead letters, a refused schema and lost records; not what goes on by itself."""
    notice = notice_of(event)
    assert (notice.kind if notice else None) == kind
    if notice is not None:
        assert text in notice.text
        assert "clicks" in notice.next_step


def test_a_topic_that_stays_behind_is_a_notice() -> None:
    """Only if it reads old records for a minute: an idle topic's newest row is old, too."""
    behind = Behind()

    def beat(at_s: int, staging: int) -> Any:
        progress = events.Progress(
            topic="clicks", table="t", newest_ms={0: 0}, staging_records=staging, commit_interval_ms=1_000
        )
        return behind.notice_of(events.Heartbeat(topic="clicks", at_ms=at_s * 1_000, progress=progress))

    assert [beat(at_s, 0) for at_s in range(100, 200, 10)] == [None] * 10
    told = [at_s for at_s in range(200, 300, 10) if beat(at_s, 5)]
    assert told == [260, 270, 280, 290]
    assert beat(400, 5) is None  # it paused: another delay


def test_a_cause_is_told_once_and_a_crowd_in_one_message(hook: Any) -> None:
    """1,200 failures are one message with ten lines; the same again is none; offsets are no cause."""
    notifier = Notifier(NotifySettings(webhook_url=f"{hook.url}/ok"), gather_s=0.5)
    for number in range(1_200):
        notifier.listen(failed(f"t{number}"))
        notifier.listen(failed(f"t{number}"))
    notifier.close(30)
    (body,) = hook.bodies
    assert body["text"].count("\n") == 10
    assert "and 1,190 more" in body["text"]
    assert body["notices"][0]["topic"] == "t0"
    again = Notifier(NotifySettings(webhook_url=f"{hook.url}/ok"), gather_s=0.5)
    again.listen(failed("t0", "offset 7"))
    again.listen(failed("t0", "offset 8"))
    again.close(30)
    assert len(hook.bodies[-1]["notices"]) == 1


@pytest.mark.parametrize("path", ["/never", "/500", "/ok"])
def test_a_webhook_never_delays_a_host(hook: Any, path: str) -> None:
    """However it responds, an event is taken at once, and the end has a limit."""
    notifier = Notifier(NotifySettings(webhook_url=f"{hook.url}{path}", timeout_ms=300), gather_s=0.01)
    began = time.thread_time()
    notifier.listen(failed("clicks"))
    assert time.thread_time() - began < 0.1
    notifier.close(20)
    assert hook.bodies


def test_outcomes_say_what_went_wrong(hook: Any, tmp_path: Path) -> None:
    """Of a webhook and of a command, without secrets."""
    message = message_of([host_ended("vm-1", RuntimeError("sasl.password=hunter22"), 1)])
    assert "hunter22" not in json.dumps(message)

    def outcome(**settings: Any) -> str | None:
        (tell,) = receivers(NotifySettings(timeout_ms=500, **settings)).values()
        told: str | None = tell(message)
        return told

    assert outcome(webhook_url=f"{hook.url}/ok") is None
    assert outcome(webhook_url=f"{hook.url}/500") == "responded 500"
    assert outcome(webhook_url=f"{hook.url}/302") == "responded 302"
    assert "***" in str(outcome(webhook_url=f"{hook.url}/T0/my secret?and=another"))
    assert "timed out" in str(outcome(webhook_url=f"{hook.url}/never"))
    assert "refused" in str(outcome(webhook_url="http://127.0.0.1:1/T0/secret"))
    copy = f"{sys.executable} -c \"import sys; open(r'{tmp_path / 'out'}', 'w').write(sys.stdin.read())\""
    assert receivers(NotifySettings(command=copy))["command"](message) is None
    assert json.loads((tmp_path / "out").read_text())["notices"][0]["kind"] == "host_ended"
    assert outcome(command="sh -c 'echo wrong >&2; exit 3'") == "ended with exit code 3: wrong"
    assert outcome(command="sleep 60") == "did not end within 0.5 s"
    assert "No such file" in str(outcome(command="/nowhere/at/all"))
    with pytest.raises(SettingsError, match="not an http"):
        receivers(NotifySettings(webhook_url="file:///etc/passwd"))
