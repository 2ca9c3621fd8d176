"""One topic through all faces, on the host that the stories share: command line, REST, sidebar, dashboard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tabletopic_kernel.faces.cli import main
from tabletopic_kernel.host.host import Host
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.workbench.workbench import Workbench
from tests.browser.chromium import chromium
from tests.browser.lab_server import Lab
from tests.browser.pages import LabPage
from tests.integration.conftest import Sender
from tests.integration.rows import V1, row_v1
from tests.recovery.waiting import wait_until

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]
COUNT = 1_234
_SOON_MS = 60_000


@pytest.fixture(scope="module")
def lab(stack: StackInfo, host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab on the shared stack."""
    server = Lab(tmp_path_factory.mktemp("lab"), stack.state_dir)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def topic(bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]) -> str:
    """A topic whose records are rows."""
    sender = new_topic(2)
    sender.avro(V1, *map(row_v1, range(COUNT)))
    sender.raw(b"no record")
    sender.flush()
    bench.enable(sender.topic, {"commit_interval_ms": "500ms"})
    caught_up(sender.topic)
    return sender.topic


def test_the_command_line_tells_of_a_topic(
    stack: StackInfo,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Its status, schema, events, newest records and rows, as JSON; then it is disabled."""
    monkeypatch.chdir(tmp_path)

    def ask(*words: str) -> Any:
        capfd.readouterr()
        code = main(["--state-dir", str(stack.state_dir), *words])
        out, err = capfd.readouterr()
        assert code == 0, err
        return out

    status = json.loads(ask("status", topic, "--json"))
    assert (status["rows"], status["dead_letters"], status["lag_records"]) == (COUNT, 1, 0)
    kinds = [
        json.loads(line)["type"] for line in ask("events", topic, "--json", "--since", "1h").splitlines()
    ]
    assert kinds.index("Enabled") < kinds.index("Committed")
    assert json.loads(ask("peek", topic, "--json"))
    assert json.loads(ask("schema", topic, "--json"))
    assert "no_schema_id" in ask("status", topic)
    rows = json.loads(ask("query", f"SELECT count(*) AS n FROM {topic}", "--json"))
    assert rows == [{"n": COUNT}]
    ask("pause", topic)
    assert json.loads(ask("status", topic, "--json"))["state"] in ("running", "paused")
    ask("disable", topic)
    assert topic not in ask("status")


def test_rest_tells_of_a_topic(lab: Lab, topic: str) -> None:
    """The overview has its row; a plan says what a setting would change; a new setting is in force."""

    def row() -> dict[str, Any] | None:
        rows = lab.ask("GET", "tabletopic/api/overview")["topics"]
        return next((row for row in rows if row["topic"] == topic and row["lag_records"] == 0), None)

    assert wait_until("the overview is new", row)["error"] is None
    plan = lab.ask("POST", f"tabletopic/api/topics/{topic}/plan", {"settings": {"partition_by": ["day(at)"]}})
    assert plan["partition_by"] == ["day(at)"]
    told = lab.ask("GET", f"tabletopic/api/topics/{topic}")
    assert told["settings"]["commit_interval_ms"] == 500
    assert lab.ask("GET", f"tabletopic/api/topics/{topic}/events")


def test_a_page_shows_a_topic(lab: Lab, topic: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The sidebar has its row, and its dashboard the number of rows; nothing outside is asked."""
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        page = LabPage(browser.new_page(), lab).open()
        expect(page.row(topic)).to_contain_text("up to date", timeout=_SOON_MS)
        page.menu(topic, "Open Dashboard")
        frame = page.page.frame_locator(".jp-TableTopic-dashboard iframe")
        frame.get_by_text(f"{COUNT:,}", exact=True).first.wait_for(timeout=_SOON_MS)
        frame.locator("canvas").first.wait_for(timeout=_SOON_MS)
        page.page.close()
        assert page.errors == []
        assert page.outside() == []
