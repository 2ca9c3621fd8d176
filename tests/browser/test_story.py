"""A new user's path, with real servers: from nothing to a table by clicks, then what happens to it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition
from playwright.sync_api import BrowserContext, FrameLocator, expect

from tabletopic_kernel.clients.kafka.broker import make_consumer
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.browser.lab_server import Lab
from tests.browser.pages import DARK, SCREENSHOTS, LabPage, brightness
from tests.faces.jupyter_server.live_server import until

pytestmark = pytest.mark.integration

# Generous: CI is slow, and waiting ends as soon as it is there.
SERVERS_MS = 180_000
FIRST_ROW_MS = 180_000
SOON_MS = 60_000
SAMPLE = 5_000
_GROUND = "element => getComputedStyle(element).backgroundColor"


@dataclass
class Story:
    """The page after the first row, and how long its parts took, in seconds."""

    page: LabPage
    lab: Lab
    seconds: dict[str, float] = field(default_factory=dict)
    sent: int = SAMPLE

    def took(self, part: str, since: float) -> None:
        """Save it beside the screenshots, for people."""
        self.seconds[part] = round(time.monotonic() - since, 2)
        (SCREENSHOTS / "seconds.json").write_text(json.dumps(self.seconds, indent=2))

    def produce(self, count: int, schema: str) -> None:
        """Send clicks to the topic."""
        command = [
            sys.executable, "-m", "tabletopic_kernel.faces.cli", "produce-clickstream", "--topic", "clicks",
        ]  # fmt: skip
        command += ["--count", str(count), "--schema", schema, "--seed", "11"]
        command += ["--state-dir", str(self.lab.state_dir)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        self.sent += count

    def repeat(self, stack: StackInfo, count: int) -> None:
        """Send copies of the first record, without the registry."""
        kafka = {"bootstrap.servers": stack.bootstrap_servers, **stack.kafka_login}
        consumer = make_consumer(kafka, group_id="story")
        consumer.assign([TopicPartition("clicks", 0, OFFSET_BEGINNING)])
        (first,) = consumer.consume(1, timeout=60)
        consumer.close()
        producer = Producer(kafka)
        for _ in range(count):
            producer.produce("clicks", first.value(), partition=0)
        assert producer.flush(60) == 0
        self.sent += count

    def count(self) -> int:
        """Rows of the table, from DuckDB."""
        workbench = Workbench(Settings(state_dir=str(self.lab.state_dir)))
        (row,) = workbench.query("SELECT count(*) AS n FROM clicks").rows.to_pylist()
        return int(row["n"])


@pytest.fixture(scope="module")
def story(browser: BrowserContext, lab: Lab) -> Iterator[Story]:
    """Start the local stack, send sample events, enable the topic, all by clicks; the table has them."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page = LabPage(browser.new_page(), lab).open()
    told = Story(page, lab)
    try:
        began = time.monotonic()
        page.button("Start the local stack").click()
        page.button("Send sample events").wait_for(timeout=SERVERS_MS)
        told.took("the local stack is up", began)
        page.button("Send sample events").click()
        page.row("clicks").wait_for(timeout=SOON_MS)
        overview = "tabletopic/api/overview"
        until(lambda: lab.ask("GET", overview)["sample"]["state"] == "idle", SERVERS_MS / 1000)
        began = time.monotonic()
        page.switch("clicks").click()
        expect(page.row("clicks")).to_contain_text("running", timeout=FIRST_ROW_MS)
        expect(page.row("clicks")).to_contain_text("up to date", timeout=FIRST_ROW_MS)
        told.took("one click to all rows, right after the stack", began)
        yield told
    finally:
        page.page.close()
        with suppress(OSError):  # refused while the stack starts
            lab.ask("DELETE", "tabletopic/api/stack")
        LocalStack(lab.state_dir).down()  # also where Jupyter could not


def test_one_click_makes_a_table(story: Story) -> None:
    """After one click on its switch, the table has each event that was sent, and the sidebar says so."""
    assert story.count() == story.sent
    row = story.page.row("clicks")
    expect(row).to_contain_text("schema v1")
    expect(story.page.page.locator(".jp-TableTopic-statusButton")).to_have_text("lag 0")
    story.page.shot("first-row")


def test_the_dashboard_moves_while_events_come(story: Story) -> None:
    """The dashboard opens in a tab, and counts what is committed while one looks at it."""
    began = time.monotonic()
    story.page.menu("clicks", "Open Dashboard")
    frame = _dashboard(story)
    frame.get_by_text(f"{story.count():,}", exact=True).first.wait_for(timeout=SOON_MS)
    story.took("dashboard, first look", began)
    story.produce(2_000, "v1")
    expect(story.page.row("clicks")).to_contain_text("up to date", timeout=SOON_MS)
    frame.get_by_text(f"{story.sent:,}", exact=True).first.wait_for(timeout=SOON_MS)
    frame.locator("canvas").first.wait_for()
    expect(story.page.row("clicks")).to_contain_text("up to date", timeout=SOON_MS)  # of the last poll, too
    story.page.shot("dashboard")


def test_the_dashboard_follows_the_theme_and_survives_a_reload(story: Story) -> None:
    """In the dark theme the dashboard is dark too; after a reload of the page its tab is there again."""
    page = story.page.page
    story.page.set_theme("JupyterLab Dark")
    cards = _dashboard(story).get_by_text(f"{story.sent:,}", exact=True).first
    expect(page.locator(".jp-TableTopic-dashboard iframe")).to_have_attribute("src", re.compile("theme=dark"))
    page.locator(".jp-TableTopic-cover").wait_for(state="hidden", timeout=SOON_MS)
    cards.wait_for(timeout=SOON_MS)
    assert brightness(_dashboard(story).locator("body").evaluate(_GROUND)) < DARK
    _dashboard(story).locator("canvas").first.wait_for(timeout=SOON_MS)
    story.page.shot("dashboard-dark")
    page.goto(story.lab.url.removesuffix("&reset"))
    cards.wait_for(timeout=SOON_MS)
    expect(story.page.row("clicks")).to_contain_text("up to date", timeout=SOON_MS)
    story.page.set_theme("JupyterLab Light")


def test_a_pane_of_the_dashboard_stands_in_a_tab(story: Story) -> None:
    """By the topic's menu and the dashboard's toolbar; after a reload both panes are there again."""
    page = story.page.page
    story.page.menu("clicks", "Open Dashboard")
    page.get_by_role("button", name="Open a Pane").press("Enter")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    events = page.frame_locator("iframe[title='Dashboard of clicks: Hosts and Events']")
    events.get_by_role("heading", name="Hosts and events").wait_for(timeout=SOON_MS)
    story.page.row("clicks").get_by_role("button", name="Actions for clicks").press("Enter")
    page.get_by_role("menuitem", name="Open a Pane").hover()
    page.get_by_role("menuitem", name="Commit Lag").click()
    lag = page.frame_locator("iframe[title='Dashboard of clicks: Commit Lag']")
    heading = lag.get_by_role("heading", name="Commit lag by partition")
    heading.wait_for(timeout=SOON_MS)
    expect(lag.get_by_text("Snapshots", exact=True)).to_have_count(0)
    page.evaluate(
        "jupyterapp.shell.add(jupyterapp.shell.currentWidget, 'main', { mode: 'split-right', ref: "
        "[...jupyterapp.shell.widgets('main')][0].id })"
    )
    story.page.shot("panes")
    page.wait_for_timeout(2_000)  # the layout is saved a second after its last change
    page.goto(story.lab.url.removesuffix("&reset"))
    heading.wait_for(timeout=SOON_MS)
    expect(page.get_by_role("tab", name="clicks · Hosts and Events")).to_be_visible()
    lag.locator("canvas").first.wait_for(timeout=SOON_MS)
    story.page.shot("panes-again")
    page.get_by_role("tab", name="clicks · Hosts and Events").locator(".lm-TabBar-tabCloseIcon").click()
    page.get_by_role("tab", name="clicks · Commit Lag").locator(".lm-TabBar-tabCloseIcon").click()


def test_a_schema_change_appears(story: Story) -> None:
    """A new version of the schema is in the row and among the events, and its columns in the tree."""
    row = story.page.row("clicks")
    row.get_by_role("button", name="clicks", exact=True).click()
    expect(row.locator(".jp-TableTopic-columnName", has_text="price").first).to_be_visible()
    story.produce(500, "v2")
    expect(row).to_contain_text("schema v2", timeout=SOON_MS)
    expect(row).to_contain_text("by clicks-value v2", timeout=SOON_MS)
    expect(row).to_contain_text("newest version 2")
    story.page.shot("schema-change")
    row.get_by_role("button", name="clicks", exact=True).click()


def test_a_wrong_setting_is_told_at_its_field(story: Story) -> None:
    """The server's own words for a wrong value stand at the field, and nothing can be applied."""
    story.page.menu("clicks", "Settings and Plan")
    form = story.page.page.get_by_role("form")
    expect(form.get_by_role("button", name="Apply")).to_be_enabled(timeout=SOON_MS)
    form.get_by_label("Commit interval").fill("soon")
    complaint = form.locator("#jp-TableTopic-setting-clicks-commit_interval_ms-complaint")
    expect(complaint).to_contain_text("allowed: 100ms to 1h, for example 5s", timeout=SOON_MS)
    expect(form.get_by_role("button", name="Apply")).to_be_disabled()
    form.get_by_label("Commit interval").fill("1s")
    expect(form.get_by_role("button", name="Apply")).to_be_enabled(timeout=SOON_MS)
    form.get_by_role("button", name="Apply").click()
    expect(form).to_be_hidden(timeout=SOON_MS)
    assert story.lab.ask("GET", "tabletopic/api/topics/clicks")["settings"]["commit_interval_ms"] == 1_000


def test_a_killed_host_is_shown_and_another_goes_on(story: Story) -> None:
    """kill -9 of the host: the sidebar says so; after a click on Start the table goes on where it was."""
    (host,) = [
        child for child in story.lab.children("tabletopic_kernel.faces.cli", "serve") if child.is_running()
    ]
    host.kill()
    head = story.page.sidebar.locator(".jp-TableTopic-header")
    expect(head).to_contain_text("failed", timeout=SOON_MS)
    story.produce(300, "v2")
    expect(story.page.row("clicks")).to_contain_text("no host", timeout=SOON_MS)
    story.page.shot("host-killed")
    began = time.monotonic()
    story.page.button("Start a host").click()
    expect(story.page.row("clicks")).to_contain_text("running", timeout=FIRST_ROW_MS)
    expect(story.page.row("clicks")).to_contain_text("up to date", timeout=FIRST_ROW_MS)
    story.took("a new host has caught up", began)
    assert story.count() == story.sent


def test_a_killed_registry_is_named_and_one_click_brings_it_back(story: Story) -> None:
    """kill -9 of the registry: the list stays and works, a banner names it and starts it by a click."""
    page, row = story.page, story.page.row("clicks")
    known = LocalStack(story.lab.state_dir).known()
    os.kill(known.pids["registry"], signal.SIGKILL)
    banner = page.sidebar.get_by_role("alert").filter(has_text="registry has ended")
    expect(banner).to_be_visible(timeout=SOON_MS)
    expect(row).to_contain_text("running")
    expect(page.switch("clicks")).to_have_attribute("aria-checked", "true")
    expect(page.sidebar.get_by_text("No servers yet")).to_be_hidden()
    story.repeat(known, 200)
    expect(row).to_contain_text("up to date", timeout=SOON_MS)
    row.get_by_role("button", name="clicks", exact=True).click()
    expect(row).not_to_contain_text("Loading…", timeout=SOON_MS)
    page.shot("registry-killed")
    row.get_by_role("button", name="clicks", exact=True).click()
    page.menu("clicks", "Pause")
    expect(row).to_contain_text("paused", timeout=SOON_MS)
    page.menu("clicks", "Resume")
    expect(row).not_to_contain_text("paused", timeout=SOON_MS)
    began = time.monotonic()
    banner.get_by_role("button", name="Start the local stack").click()
    starts = page.sidebar.get_by_role("alert").filter(has_text="registry is starting")
    page.until(lambda: starts.is_visible() or page.button("Start the local stack").is_hidden())
    page.shot("registry-starts")
    expect(page.sidebar.get_by_role("button", name="Stop", exact=True)).to_be_visible()  # the host's
    expect(page.button("Start the local stack")).to_be_hidden(timeout=SERVERS_MS)
    story.took("one click to a registry that answers again", began)
    again = LocalStack(story.lab.state_dir).known()
    assert (again.ended, again.pids["kafka"]) == ((), known.pids["kafka"])
    story.produce(100, "v2")
    until(lambda: story.count() == story.sent, SOON_MS / 1000)
    expect(row).to_contain_text("up to date", timeout=SOON_MS)
    expect(row.get_by_text("running", exact=True)).to_be_visible(timeout=SOON_MS)
    page.shot("registry-back")


def test_the_second_click_is_quick(story: Story) -> None:
    """With a host that runs, a topic that is disabled and enabled again is at work soon."""
    story.page.switch("clicks").click()
    expect(story.page.switch("clicks")).to_have_attribute("aria-checked", "false", timeout=SOON_MS)
    expect(story.page.row("clicks").get_by_text("disabling…")).to_be_hidden(timeout=SOON_MS)
    story.produce(100, "v2")
    began = time.monotonic()
    story.page.switch("clicks").click()
    expect(story.page.row("clicks")).to_contain_text("running", timeout=SOON_MS)
    expect(story.page.row("clicks")).to_contain_text("up to date", timeout=SOON_MS)
    story.took("one click to all rows, host warm", began)


def test_the_quickstart_opens(story: Story) -> None:
    """The launcher's card opens the first notebook, which need not have been there before."""
    story.page.page.get_by_role("button", name="New Launcher").first.click()
    cards = story.page.page.get_by_role("button", name="Table Topic quickstart")
    cards.locator("visible=true").click()
    notebook = story.page.page.locator(".jp-NotebookPanel").first
    notebook.locator(".jp-RenderedMarkdown").first.wait_for(timeout=SOON_MS)
    notebook.locator('[data-jp-item-name="tabletopic"]').wait_for()
    expect(notebook.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_visible(
        timeout=SOON_MS
    )
    story.page.shot("quickstart")


def test_nobody_else_was_asked(story: Story) -> None:
    """In all of this the page made no request to anything but its server, and threw no error."""
    assert story.page.outside() == []
    assert story.page.errors == []


def _dashboard(story: Story) -> FrameLocator:
    return story.page.page.frame_locator(".jp-TableTopic-dashboard iframe")
