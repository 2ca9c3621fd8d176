"""Each route of the server extension: responses, logins, errors."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest

from docs.openapi import openapi
from tabletopic_kernel.faces.jupyter_server.dashboard import DashboardProxy
from tabletopic_kernel.faces.jupyter_server.rest import ROUTES
from tabletopic_kernel.faces.jupyter_server.settings_in_force import NoServersError, SettingsInForce
from tabletopic_kernel.faces.operations.next_steps import Face, for_face
from tabletopic_kernel.model.errors import ActionNeededError, InternalError, RetryableError, UsageError
from tabletopic_kernel.model.progress.events import Committed, Enabled, Progress
from tabletopic_kernel.model.settings.sections import TopicSettings
from tests.faces.fake_workbench import SNAPSHOT, FakeWorkbench, status
from tests.faces.jupyter_server.live_server import (
    BASE_URL,
    TOKEN,
    LiveServer,
    forget_afterwards,
    private_jupyter,
    until,
)

OPENAPI = openapi()
# Ignores the options that it is given.
_IDLE = [sys.executable, "-c", "import time; time.sleep(600)"]
_AWAY = {"url": "http://127.0.0.1:1"}
VERBS = ("get", "put", "post", "delete", "patch", "head")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A Jupyter server with the extension, at a base URL of its own."""
    folder = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch, private_jupyter(folder) as variables:
        for name, value in variables.items():
            patch.setenv(name, value)
        forget_afterwards(patch)
        given = {"state_dir": str(folder / "state"), "host_command": _IDLE, "dashboard_command": _IDLE}
        with LiveServer(folder, **given, overview_every_s=0.1, warm_dashboard=False) as server:
            yield server


@pytest.fixture
def bench(live: LiveServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeWorkbench:
    """The server's workbench for this test: one topic is enabled and a host is live."""
    fake = FakeWorkbench(tmp_path, live=["elsewhere-1-ab"], there={"clicks": 4, "web.orders/ü": 1})
    progress = Progress(topic="clicks", table="t", snapshot_id=SNAPSHOT)
    fake.newest = [
        Committed(
            topic="clicks",
            at_ms=2,
            snapshot_id=SNAPSHOT,
            rows=7,
            files=1,
            bytes=9,
            seconds=0.1,
            progress=progress,
        ),
        Enabled(topic="clicks", at_ms=1, epoch=1, next_offsets={0: 0}),
    ]
    fake.found = [status(snapshot_id=SNAPSHOT)]
    monkeypatch.setattr(SettingsInForce, "workbench", lambda _: fake)
    live.backend._refresher.wait(60)  # what it keeps is of another test's workbench
    return fake


def described(path: str, verb: str, code: int) -> dict[str, Any] | None:
    """The schema of a response, from openapi.yaml."""
    answers = OPENAPI["paths"][f"/tabletopic/api/{path}"][verb]["responses"]
    answer = answers.get(str(code)) or answers["default"]
    if "$ref" in answer:
        answer = OPENAPI["components"]["responses"][answer["$ref"].rsplit("/", 1)[1]]
    if "content" not in answer:
        return None
    schema: dict[str, Any] = answer["content"]["application/json"]["schema"]
    return {**schema, "components": OPENAPI["components"]}


@pytest.mark.parametrize(
    ("verb", "template", "path", "body", "code"),
    [
        ("get", "overview", "overview", None, 200),
        ("get", "settings-schema", "settings-schema", None, 200),
        ("get", "manual/{page}", "manual/trouble", None, 200),
        ("get", "servers", "servers", None, 200),
        ("get", "servers/{section}", "servers/catalogs.lab", None, 200),
        ("post", "servers/{section}/test", "servers/registry/test", {"properties": _AWAY}, 200),
        ("get", "topics/{topic}", "topics/clicks", None, 200),
        ("put", "topics/{topic}", "topics/clicks", {"settings": {"commit_interval_ms": "2s"}}, 202),
        ("post", "topics/{topic}/plan", "topics/clicks/plan", {"settings": {}}, 200),
        ("post", "topics/{topic}/pause", "topics/clicks/pause", None, 202),
        ("post", "topics/{topic}/resume", "topics/clicks/resume", None, 202),
        ("post", "topics/{topic}/commit", "topics/clicks/commit", None, 202),
        ("post", "topics/{topic}/replay", "topics/clicks/replay", None, 202),
        ("post", "topics/{topic}/replay", "topics/clicks/replay", {"where": "partition = 0"}, 202),
        ("get", "topics/{topic}/letters", "topics/clicks/letters?where=partition=0&limit=2", None, 200),
        ("post", "topics/{topic}/letters/drop", "topics/clicks/letters/drop", {"note": "why"}, 202),
        ("post", "topics/{topic}/replay/plan", "topics/clicks/replay/plan", {"where": None}, 200),
        ("put", "queries/{name}", "queries/all%2Furls", {"cell": "%lake FROM clicks"}, 204),
        ("get", "queries", "queries?word=clicks&limit=5", None, 200),
        ("delete", "queries", "queries", None, 204),
        ("post", "topics/{topic}/expire", "topics/clicks/expire", None, 202),
        ("post", "topics/{topic}/expire", "topics/clicks/expire", {"orphans": True}, 202),
        ("post", "topics/{topic}/expire/plan", "topics/clicks/expire/plan", {"orphans": False}, 200),
        ("get", "topics/{topic}/events", "topics/clicks/events", None, 200),
        ("get", "topics/{topic}/schema", "topics/clicks/schema", None, 200),
        ("get", "topics/{topic}/history", "topics/clicks/history", None, 200),
        ("get", "topics/{topic}/records", "topics/clicks/records?limit=2&raw=true", None, 200),
        ("get", "topics/{topic}/records", "topics/clicks/records?limit=1001", None, 400),
        ("post", "patterns/{pattern}/plan", "patterns/web.%2A/plan", {"exclude": "*t, x?"}, 200),
        ("put", "patterns/{pattern}", "patterns/web.order%3F%2A", {}, 200),
        ("put", "patterns/{pattern}", "patterns/nosuch%2A", {}, 400),
        ("get", "hosts", "hosts", None, 200),
        ("delete", "topics/{topic}", "topics/clicks", None, 204),
        ("get", "dashboard", "dashboard", None, 302),
        ("post", "quickstart", "quickstart", None, 200),
    ],
)
@pytest.mark.usefixtures("bench")
def test_answers_are_as_described(
    live: LiveServer, verb: str, template: str, path: str, body: Any, code: int
) -> None:
    """Status and body are those of openapi.yaml."""
    reply = live.api(verb.upper(), path, body)
    assert reply.status == code, reply.body
    schema = described(template, verb, code)
    if schema is None:
        assert reply.body in (b"", b"{}")
    else:
        assert reply.headers["Content-Type"].startswith("application/json")
        jsonschema.validate(reply.json, schema)


def test_records_are_texts_and_say_how_to_go_on(live: LiveServer, bench: FakeWorkbench) -> None:
    """The search is the command line's; bytes and nested values are whole only if that was asked for."""
    found = live.api("GET", "topics/clicks/records?where=a&partition=0").json
    (search,) = (value for what, value in bench.asked if what == "peek")
    assert search == ("clicks", 20, {"where": "a", "partition": 0})
    assert (found["looked"], found["offsets"], found["tail"]) == (2, 8, "0:8")
    assert found["go_on"] == {"start": "newest", "before": "0:6"}
    good, bad = found["records"]
    assert (good["key"], good["value"], good["whole"]) == ("\\xFF", "{a: {b: [1]}}", None)
    assert (good["fate"]["kind"], bad["error"]) == ("row", "no_schema_id: text")
    whole = live.api("GET", "topics/clicks/records?raw=true").json["records"][0]["whole"]
    assert whole["value"] == {"tree": [["a", [["b", [["0", "1"]]]]]]}
    assert (whole["raw"]["length"], whole["headers"]) == (4, [["<b>", "\\x00"]])
    assert whole["registered"]["version"] == 2


def test_every_route_is_described() -> None:
    """OpenAPI has each route with each of its verbs, and no other."""
    routes = {
        ("/" + pattern.replace("([^/]+)", "{}"), verb)
        for pattern, handler in ROUTES
        for verb in VERBS
        if verb in vars(handler)
    }
    described_ = {
        (re.sub(r"{\w+}", "{}", path), verb)
        for path, verbs in OPENAPI["paths"].items()
        for verb in verbs
        if verb in VERBS
    }
    assert routes == described_


def test_nobody_enters_without_a_login(live: LiveServer, bench: FakeWorkbench) -> None:
    """Each verb of each route, the dashboard and its websocket are for those who are logged in."""
    for pattern, handler in ROUTES:
        path = pattern.replace("([^/]+)", "clicks")
        for verb in VERBS:
            if verb in vars(handler):
                assert live.ask(verb.upper(), path, login=False).status == 403, (verb, path)
    page = live.ask("GET", "tabletopic/dashboard/", login=False)
    assert page.status == 302
    assert page.headers["Location"].startswith(f"{BASE_URL}login")
    asked = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "eA==",
        "Sec-WebSocket-Version": "13",
    }
    assert live.ask("GET", "tabletopic/dashboard/ws", login=False, headers=asked).status == 403
    assert live.ask("POST", "tabletopic/dashboard/", login=False).status in (302, 403)
    # What the overview looks at goes on, from the tests before.
    assert {asked[0] for asked in bench.asked} <= {"desired_topics", "kafka_topics", "events"}
    assert "clicks" in bench.on
    assert live.backend.dashboard.child.pid is None


def test_no_handler_forgets_to_ask(live: LiveServer) -> None:
    """Jupyter's own check of extensions finds no verb without a login."""
    found = [live.app.web_app._check_handler_auth(p, h) for p, h in [*ROUTES, ("dashboard", DashboardProxy)]]
    assert found == [[] for _ in found]


def test_a_foreign_page_cannot_change_anything(live: LiveServer, bench: FakeWorkbench) -> None:
    """With the session's cookie alone, as another site's form would send it, nothing is done."""
    login = http.client.HTTPConnection("127.0.0.1", live.port, timeout=30)
    login.request("GET", f"{BASE_URL}tree?token={TOKEN}")
    answer = login.getresponse()
    answer.read()
    cookies = dict(re.match(r"([^=]+)=([^;]*)", c).groups() for c in answer.headers.get_all("Set-Cookie"))  # type: ignore[union-attr]
    cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    assert live.api("GET", "overview", login=False, headers=cookie).status == 200
    assert live.api("POST", "topics/clicks/pause", login=False, headers=cookie).status == 403
    assert ("pause", "clicks") not in bench.asked
    page = live.ask("GET", "login", headers=cookie)
    xsrf = cookies.get("_xsrf") or re.search(r"_xsrf=([^;]+)", page.headers.get("Set-Cookie", "")).group(1)  # type: ignore[union-attr]
    whole = {"Cookie": f"{cookie['Cookie']}; _xsrf={xsrf}", "X-XSRFToken": xsrf}
    assert live.api("POST", "topics/clicks/pause", login=False, headers=whole).status == 202
    assert ("pause", "clicks") in bench.asked


@pytest.mark.parametrize(
    ("verb", "path", "body", "code", "told"),
    [
        ("POST", "topics/clicks/plan", b"{", 400, "not JSON"),
        ("POST", "topics/clicks/plan", [], 400, "body: Input should be"),
        ("PUT", "topics/clicks", {"setings": {}}, 400, "setings: Extra inputs"),
        ("PUT", "topics/clicks", {"settings": 3}, 400, "settings: Input should be"),
        ("POST", "sample", {"count": 0}, 400, "count: Input should be greater"),
        ("POST", "sample", {"count": "many"}, 400, "count: Input should be a valid integer"),
        ("GET", "topics/clicks/events?limit=0", None, 400, "limit: Input should be greater"),
        ("GET", "topics/clicks/history?limit=x", None, 400, "limit: Input should be a valid integer"),
        ("POST", "topics/clicks/replay", {"were": "1"}, 400, "were: Extra inputs"),
        ("POST", "topics/clicks/letters/drop", {}, 400, "note: Field required"),
        ("POST", "topics/nope/replay", None, 404, "nope is not enabled"),
        ("POST", "topics/nope/replay/plan", None, 404, "nope is not enabled"),
        ("PUT", "topics/nope", {}, 404, "there is no topic 'nope'"),
        ("GET", "topics/nope", None, 404, "nope is not enabled"),
        ("GET", "servers/spark", None, 400, "'spark' names no server"),
        ("PUT", "servers/kafka", {"properties": {}, "version": "old"}, 409, "has changed; reload"),
        ("DELETE", "queries/nope", None, 400, "no query is saved as 'nope'"),
        ("DELETE", "topics/nope", None, 404, "nope is not enabled"),
        ("POST", "topics/nope/commit", None, 404, "nope is not enabled"),
        ("GET", "topics/nope/schema", None, 404, "there is no topic 'nope'"),
        ("GET", "topics/nope/history", None, 404, "there is no topic 'nope'"),
        ("DELETE", "host", None, 409, "end elsewhere-1-ab where it was started"),
        ("GET", "manual/troble", None, 400, "there is no page troble"),
        ("GET", "manual/..%2F..%2Fpyproject", None, 400, "there is no page"),
        ("POST", "topics/clicks/explode", None, 404, ""),
        ("PATCH", "topics/clicks", {}, 405, ""),
    ],
)
@pytest.mark.usefixtures("bench")
def test_mistakes_are_told(live: LiveServer, verb: str, path: str, body: Any, code: int, told: str) -> None:
    """A wrong request is a 4xx with a message that names what is wrong, never a 500."""
    reply = live.api(verb, path, body)
    assert reply.status == code, reply.body
    if told:
        assert told in reply.json["message"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("100% wrong: choose another --table"), 400),
        (NoServersError("no servers: start the local stack"), 503),
        (RetryableError("the broker does not respond"), 503),
        (ActionNeededError("somebody must decide"), 409),
        (InternalError("a bug"), 500),
    ],
)
def test_errors_keep_their_words(live: LiveServer, bench: FakeWorkbench, error: Any, code: int) -> None:
    """The status says who has to act; the message is the workbench's own, with its page of the manual."""
    bench.error = error
    reply = live.api("POST", "topics/clicks/plan", {})
    assert (reply.status, reply.json) == (code, {"message": for_face(error.advice, Face.SIDEBAR)})


def test_topic_names_may_hold_anything(live: LiveServer, bench: FakeWorkbench) -> None:
    """A name is a path segment, encoded: slashes and letters of all kinds arrive."""
    name = "web.orders/ü"
    reply = live.ask("PUT", f"tabletopic/api/topics/{quote(name, safe='')}", {})
    assert (reply.status, reply.json["topic"], reply.json["enabled"]) == (202, name, True)
    assert name in bench.on


def test_a_row_of_the_overview(live: LiveServer, bench: FakeWorkbench) -> None:
    """What is on comes first, with figures; the others follow; no secret is shown."""
    found = until(lambda: _ready(live.api("GET", "overview").json))
    on, off = found["topics"]
    assert (on["topic"], on["enabled"], on["run"], on["schema_version"]) == ("clicks", True, "on", "v3")
    assert (on["lag_records"], on["snapshot_id"], on["partitions"]) == (1234, str(SNAPSHOT), 4)
    assert (off["topic"], off["enabled"], off["state"], off["lag_records"]) == (
        "web.orders/ü", False, None, None,
    )  # fmt: skip
    assert (found["lag_records"], found["lag_seconds"]) == (1234, 2.5)
    assert found["servers"]["registry_url"] == "http://***@127.0.0.1:8081"
    assert found["host"] == {
        "state": "running",
        "detail": "started elsewhere: in a notebook or a terminal",
        "ids": ["elsewhere-1-ab"],
    }
    bench.error = RetryableError("the broker does not respond")
    gone = until(lambda: _in_state(live.api("GET", "overview").json, "unreachable"))
    assert gone["servers"]["detail"] == "the broker does not respond (see “Manual: trouble waiting”)"
    assert gone["topics"] == found["topics"]


def test_what_to_do_next_is_a_button(live: LiveServer, bench: FakeWorkbench) -> None:
    """The sidebar is told its own buttons, in errors and in what it shows."""
    bench.error = RetryableError("is it running (`tabletopic up` starts a local one)?")
    reply = live.api("GET", "topics/clicks/events")
    words = "is it running (“Start the local stack” starts a local one)? (see “Manual: trouble waiting”)"
    assert reply.json == {"message": words}
    gone = until(lambda: _in_state(live.api("GET", "overview").json, "unreachable"))
    assert gone["servers"]["detail"] == words


def _ready(found: dict[str, Any]) -> dict[str, Any] | None:
    enabled = [row["enabled"] for row in found["topics"]]
    return _in_state(found, "ready") if enabled == [True, False] else None


def _in_state(found: dict[str, Any], state: str) -> dict[str, Any] | None:
    return found if found["servers"]["state"] == state else None


@pytest.mark.usefixtures("bench")
def test_a_page_keeps_its_commands(live: LiveServer) -> None:
    """The manual is no message: it names commands as a terminal does."""
    assert "`tabletopic resume clicks`" in live.api("GET", "manual/trouble").json["text"]


def test_long_numbers_are_text(live: LiveServer, bench: FakeWorkbench) -> None:
    """JavaScript would round a snapshot id."""
    assert live.api("GET", "topics/clicks").json["snapshot_id"] == str(SNAPSHOT)
    (committed, enabled) = live.api("GET", "topics/clicks/events").json["events"]
    assert committed["snapshot_id"] == committed["progress"]["snapshot_id"] == str(SNAPSHOT)
    assert enabled["type"] == "Enabled"
    assert live.api("GET", "topics/clicks/history?limit=7").json["snapshots"][0]["snapshot_id"] == str(
        SNAPSHOT
    )
    assert ("history", ("clicks", 7)) in bench.asked


@pytest.mark.usefixtures("bench")
def test_the_form_knows_every_setting(live: LiveServer) -> None:
    """Each has a description, and a default as the workbench has it."""
    properties = live.api("GET", "settings-schema").json["properties"]
    assert properties.keys() == TopicSettings.model_fields.keys()
    assert all(property_["description"] for property_ in properties.values())
    assert properties["commit_interval_ms"]["default"] == TopicSettings().commit_interval_ms


def test_a_slow_question_holds_up_nobody(live: LiveServer, bench: FakeWorkbench) -> None:
    """While the broker lets one request wait, the server answers all others."""
    asked, answer = threading.Event(), threading.Event()
    bench.waits = lambda: (asked.set(), answer.wait(240))
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.append(live.api("POST", "topics/clicks/plan", {})))
    thread.start()
    assert asked.wait(240)
    assert live.ask("GET", "api/status").status == 200
    assert live.api("GET", "settings-schema").status == 200
    assert not replies
    answer.set()
    thread.join(240)
    assert replies[0].status == 200


@pytest.mark.usefixtures("bench")
def test_looking_is_no_activity(live: LiveServer) -> None:
    """A page that is left open does not keep an idle server alive; what a person does counts."""
    settings = live.app.web_app.settings
    settings.pop("api_last_activity", None)
    live.api("GET", "overview")
    live.api("GET", "topics/clicks/events")
    assert "api_last_activity" not in settings
    live.api("POST", "topics/clicks/commit")
    assert "api_last_activity" in settings


def test_switching_on_starts_a_host(live: LiveServer, bench: FakeWorkbench, tmp_path: Path) -> None:
    """Where none is live; a running one, wherever it is, is enough."""
    bench.servers = dataclasses.replace(bench.servers, state_dir=tmp_path)
    live.api("PUT", "topics/clicks", {})
    assert live.backend.host.child.pid is None
    bench.live = []
    until(lambda: _host(live.api("GET", "overview").json, "none"))
    try:
        assert live.api("PUT", "topics/clicks", {}).status == 202
        pid = live.backend.host.child.pid
        assert pid is not None
        assert live.app.extension_manager.any_activity()
        live.api("POST", "host")
        assert live.backend.host.child.pid == pid
        found = until(lambda: _host(live.api("GET", "overview").json, "starting"))
        assert found["host"]["ids"] == []
        os.kill(pid, signal.SIGKILL)
        assert live.backend.host.child.wait(240)
        told = live.api("GET", "overview").json["host"]  # at once
        assert told["state"] == "failed"
        assert "killed by signal 9" in told["detail"]
        assert live.api("POST", "host").status == 202
        assert live.api("GET", "overview").json["host"]["state"] == "starting"
    finally:
        assert live.api("DELETE", "host").status == 204
    assert live.backend.host.child.pid is None


def _host(found: dict[str, Any], state: str) -> dict[str, Any] | None:
    return found if found["host"]["state"] == state else None


def test_the_quickstart_is_put_in_place(live: LiveServer) -> None:
    """Once; a notebook that is there is left as it is."""
    path = live.api("POST", "quickstart").json["path"]
    written = live.folder / path
    assert json.loads(written.read_text())["nbformat"] == 4
    written.write_text("{}")
    assert live.api("POST", "quickstart").json["path"] == path
    assert written.read_text() == "{}"


def test_kernels_find_what_the_sidebar_shows(live: LiveServer) -> None:
    """The server's options reach the kernels that it starts, by their environment."""
    assert os.environ["TABLETOPIC_STATE_DIR"] == live.backend.in_force.state_dir
    assert os.environ["TABLETOPIC_BASE_URL"] == BASE_URL


def test_the_way_to_the_dashboard(live: LiveServer) -> None:
    """Topic and theme pass through, below the base URL."""
    reply = live.ask("GET", "tabletopic/api/dashboard?topic=a%26b&theme=dark&x=1")
    assert reply.headers["Location"] == f"{BASE_URL}tabletopic/dashboard/?topic=a%26b&theme=dark"
    assert live.api("GET", "dashboard").headers["Location"] == f"{BASE_URL}tabletopic/dashboard/"


def test_the_host_ends_with_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked to, and waited for."""
    with private_jupyter(tmp_path) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
    forget_afterwards(monkeypatch)
    fake = FakeWorkbench(tmp_path)
    fake.servers = type(fake.servers)(fake.servers.kafka, {}, {}, tmp_path)
    with LiveServer(tmp_path, state_dir=str(tmp_path / "state"), host_command=_IDLE) as server:
        server.backend.in_force.workbench = lambda: fake  # type: ignore[method-assign]
        assert server.api("POST", "host").status == 202
        child = server.backend.host.child
        assert child.pid is not None
    until(lambda: child.pid is None)
