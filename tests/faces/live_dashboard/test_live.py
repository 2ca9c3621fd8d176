"""The dashboard as users see it: real broker, real server below a prefix, real browser."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tabletopic_kernel.faces.live_dashboard.theme import DARK, LIGHT
from tabletopic_kernel.host.topics.control_topic import ControlLog, ensure_control_topic
from tabletopic_kernel.host.topics.settings_topic import write_desired
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.commit_cycle import State
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.browser.chromium import ARGUMENTS

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
PREFIX = "/user/alice/tabletopic/dashboard"
SCREENSHOTS = ROOT / "build" / "screenshots"
SOON_S = 60  # for whatever a busy machine has to do first


def until(told: Callable[[], Any], what: str, timeout_s: float = SOON_S) -> Any:
    """Wait until it returns something true; returns that."""
    deadline = time.monotonic() + timeout_s
    while not (found := told()):
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.02)
    return found


def now_ms() -> int:
    """The clock of the events."""
    return time.time_ns() // 1_000_000


@dataclass
class Told:
    """A topic, and a host that only reports: its events are real, its table does not exist."""

    topic: str
    control: ControlLog
    producer: Producer
    sent: int = 0
    committed: int = 0
    commits: int = 0
    host: str = "host-of-the-test"

    def send(self, records: int) -> None:
        """Report records that wait for a commit."""
        for _ in range(records):
            self.producer.produce(self.topic, b"x")
        assert self.producer.flush(240) == 0
        self.sent += records

    def progress(self) -> events.Progress:
        """The topic's progress."""
        return events.Progress(
            topic=self.topic,
            table="default.told",
            state=State.RUNNING,
            epoch=5,
            next_offsets={0: self.committed},
            schema_versions=[events.SchemaVersion(id=1, subject=f"{self.topic}-value", version=1)],
            snapshot_id=7_000_000_000_000_000_000 + self.commits,
            commits=self.commits,
            rows=self.committed,
            files=self.commits,
            last_commit_ms=now_ms(),
            commit_interval_ms=1_000,
        )

    def commit(self, at_ms: int | None = None) -> None:
        """Commit everything that was sent."""
        rows, self.committed, self.commits = self.sent - self.committed, self.sent, self.commits + 1
        told = {"rows": rows, "files": 1, "bytes": rows * 60, "seconds": 0.2, "progress": self.progress()}
        stamp = {"topic": self.topic, "at_ms": at_ms or now_ms(), "host": self.host}
        self.control.write(events.Committed(**stamp, snapshot_id=self.commits, **told))

    def taken_over(self, at_ms: int) -> None:
        """Report that the host has owned the topic since then."""
        self.control.write(
            events.Enabled(topic=self.topic, at_ms=at_ms, host=self.host, epoch=5, next_offsets={0: 0})
        )


@pytest.fixture(scope="module")
def topic(stack: StackInfo) -> Iterator[Told]:
    """A table topic, taken over half an hour ago; paused, so that no other test's host reads it."""
    bench = Workbench(Settings(state_dir=str(stack.state_dir)))
    properties = {"bootstrap.servers": stack.bootstrap_servers}
    ensure_control_topic(bench.broker)
    name = f"told-{uuid.uuid4().hex[:8]}"
    bench.broker.ensure_topic(name, 1, {})
    told = Told(name, ControlLog(properties), Producer(properties))
    told.taken_over(now_ms() - 1_800_000)
    write_desired(bench.broker, name, DesiredTopic(topic=name, run="paused"))
    yield told
    write_desired(bench.broker, name, None)
    told.control.close()


def started(stack: StackInfo, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A dashboard's process, and the address it reports."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tabletopic_kernel.faces.live_dashboard", *arguments],
        env={**os.environ, "TABLETOPIC_STATE_DIR": str(stack.state_dir)},
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().strip()


@pytest.fixture(scope="module")
def link(stack: StackInfo, topic: Told) -> Iterator[str]:
    """The link to a dashboard below a prefix, as behind JupyterHub's proxy."""
    process, where = started(stack, "--port", "0", "--prefix", f"{PREFIX}/", "--parent-pid", str(os.getpid()))
    yield where
    process.terminate()
    assert process.wait(SOON_S) == 0


def answer(url: str, **headers: str) -> tuple[int, str]:
    """Status and text of a page, without a cookie."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SOON_S) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_nobody_else_gets_a_page(topic: Told, link: str) -> None:
    """Without the link's token, with another one, as a page of another name (DNS rebinding), by websocket."""
    page, _, token = link.partition("?token=")
    asked = [
        answer(page),
        answer(f"{page}?topic={topic.topic}"),
        answer(f"{page}?token={token[:-1]}"),
        answer(link, Host="page.example"),
        answer(
            page,
            Cookie=f"tabletopic-dashboard-{page.split(':')[2].split('/')[0]}={token}",
            Host="page.example",
        ),
        answer(f"{page}ws", Connection="Upgrade", Upgrade="websocket"),
        answer(f"{page}static/js/bokeh.min.js"),
    ]
    assert {status for status, _ in asked} == {403}
    assert {text for _, text in asked} == {"Open the link that the command printed: it contains a token.\n"}


def test_a_page_begins_before_any_server_answers(tmp_path: Path) -> None:
    """Heading and figures come while broker, registry and catalog accept connections and say nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        (tmp_path / "tabletopic.toml").write_text(
            f'[kafka]\n"bootstrap.servers" = "{place}"\n[registry]\nurl = "http://{place}"\n'
            f'[catalog]\ntype = "rest"\nuri = "http://{place}"\n'
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "tabletopic_kernel.faces.live_dashboard", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        silent.settimeout(240)
        connection, _ = silent.accept()  # the first poll has begun, and never ends
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        page = browser.open(f"{process.stdout.readline().strip()}&topic=x", timeout=240).read().decode()
        process.terminate()
        assert process.wait(SOON_S) == 0
        connection.close()
    assert "<h1>x</h1>" in page
    assert "<dl" in page


@dataclass
class Browser:
    """Pages, with all their requests and errors."""

    context: Any
    asked: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, url: str, width: int = 1280) -> Any:
        """Open a page; returns it once its heading is displayed."""
        page = self.context.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(url, wait_until="domcontentloaded")
        page.wait_for_selector("h1", timeout=SOON_S * 1000)
        return page

    def shoot(self, page: Any, name: str) -> None:
        """Save a screenshot for people."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's chromium."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium on the path: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield Browser(chromium.new_context())
        chromium.close()


@pytest.fixture
def url(link: str, browser: Browser) -> str:
    """The dashboard's address, for a browser that has opened its link."""
    page = browser.context.new_page()
    page.goto(link)
    assert page.title() == "Table Topics"
    assert "token" not in page.url
    page.close()
    return link.partition("?")[0]


def rgb(colour: str) -> tuple[int, ...]:
    """Red, green and blue of ``rgb(1, 2, 3)`` or ``#010203``."""
    if colour.startswith("#"):
        return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return tuple(int(part) for part in re.findall(r"\d+", colour)[:3])


def drawn(page: Any, column: str) -> list[float]:
    """A column of the plots' data in the browser."""
    found = page.evaluate(
        """column => Bokeh.documents.flatMap(one => [...one._all_models.values()])
             .filter(model => model.type === 'ColumnDataSource' && column in model.data)
             .map(model => [...model.data[column]])""",
        column,
    )
    return list(found[0]) if found else []


def _mostly_soon(took: list[float]) -> bool:
    """Whether 95 % of the last twenty took at most two seconds."""
    return len(took) >= 20 and sorted(took[-20:])[18] <= 2


def test_a_commit_is_on_the_page_within_two_seconds(topic: Told, url: str, browser: Browser) -> None:
    """From the event to the figure in the browser: 19 of 20 in a row, as soon as the machine is not busy."""
    page = browser.open(f"{url}?topic={topic.topic}")
    took: list[float] = []
    while not _mostly_soon(took) and len(took) < 100:
        topic.send(1_111)
        began = time.monotonic()
        topic.commit()
        wanted = f"{topic.committed:,}"
        page.get_by_text(wanted, exact=True).first.wait_for(timeout=SOON_S * 1000)
        took.append(time.monotonic() - began)
    assert _mostly_soon(took), took
    until(lambda: max(drawn(page, "rows"), default=0) > 0, "the plot of rows per second")
    until(lambda: page.locator("canvas").count() >= 7, "the plots")
    # Of half an hour ago: read from the control topic, behind what is recent.
    page.get_by_text("epoch 5, at offset").wait_for(timeout=SOON_S * 1000)
    browser.shoot(page, "dashboard-topic")
    page.close()


def test_a_page_can_be_read_before_its_scripts_are_there(topic: Told, url: str, browser: Browser) -> None:
    """Title, landmark, heading and figures come with the first answer; then plots take their place below."""
    topic.commit()
    page = browser.context.new_page()
    page.route("**/*.js*", lambda route: route.abort())
    begun = page.locator("main .first-look")

    def figures() -> bool:
        page.goto(f"{url}?topic={topic.topic}")
        return f"{topic.committed:,}" in begun.locator("dl").inner_text()

    until(figures, "the dashboard's process knows the topic")
    assert page.title() == f"{topic.topic} · Table Topics"
    assert begun.locator("h1").inner_text() == topic.topic
    page.close()
    page = browser.open(f"{url}?topic={topic.topic}")
    page.locator("main canvas").first.wait_for(timeout=SOON_S * 1000)
    page.locator(".first-look").wait_for(state="detached", timeout=SOON_S * 1000)
    assert page.locator("main h1:visible").count() == 1
    page.get_by_role("figure", name="Plot: Commit lag by partition").wait_for(timeout=SOON_S * 1000)
    page.close()


def test_what_waits_is_lag_on_both_pages(topic: Told, url: str, browser: Browser) -> None:
    """Records that no commit took yet are counted, and a click leads from all topics to one."""
    topic.commit()
    topic.send(4_321)
    page = browser.open(url)
    row = page.locator("tbody tr", has_text=topic.topic)
    row.get_by_text("4,321", exact=True).wait_for(timeout=SOON_S * 1000)
    browser.shoot(page, "dashboard-overview")
    row.get_by_role("link", name=topic.topic).click()
    page.get_by_text("4,321 records", exact=True).wait_for(timeout=SOON_S * 1000)
    until(lambda: drawn(page, "line0")[-1:] == [4_321], "the plot of the lag")
    assert page.url.startswith(url)
    page.close()


@pytest.mark.parametrize(("theme", "colours"), [("default", LIGHT), ("dark", DARK)])
def test_themes_colour_everything(topic: Told, url: str, browser: Browser, theme: str, colours: Any) -> None:
    """What the browser really paints: background of the page, a corner of every plot, cells of the table."""
    page = browser.open(f"{url}?topic={topic.topic}&theme={theme}", width=420)
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert rgb(body) == rgb(colours.page)

    def corners() -> set[tuple[int, ...]]:
        found = page.locator("canvas").evaluate_all(
            """all => all.filter(one => one.width > 50)
                 .map(one => [...one.getContext('2d').getImageData(3, 3, 1, 1).data])
                 .filter(pixel => pixel[3] === 255).map(pixel => pixel.slice(0, 3))"""
        )
        return {tuple(pixel) for pixel in found}

    assert until(corners, "plots are painted") == {rgb(colours.card)}
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 420, "the page scrolls sideways on a narrow screen"
    browser.shoot(page, f"dashboard-topic-{theme}-narrow")
    page.goto(f"{url}?theme={theme}")
    cell = page.locator("tbody th").first
    cell.wait_for(timeout=SOON_S * 1000)
    # The first rows may be replaced under our hands.
    until(
        lambda: rgb(cell.evaluate("one => getComputedStyle(one).backgroundColor")) == rgb(colours.card),
        "cells have the page's colours",
    )
    link = page.get_by_role("link", name=topic.topic)
    assert ("theme=dark" in link.get_attribute("href")) == (theme == "dark")
    browser.shoot(page, f"dashboard-overview-{theme}")
    page.close()


def test_the_table_is_sorted_by_its_headings(topic: Told, url: str, browser: Browser) -> None:
    """By mouse or keyboard; the heading says so to a screen reader."""
    page = browser.open(url)
    heading = page.get_by_role("columnheader", name="Lag (records)")
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    page.close()


def test_nothing_is_asked_of_the_outside(url: str, browser: Browser) -> None:
    """Every request of every page so far went to the dashboard's own server, and no script failed."""
    own = re.match(r"\w+://[^/]+/", url)
    assert browser.asked
    assert [one for one in browser.asked if not one.startswith((own[0], "data:", "blob:"))] == []
    assert browser.errors == []


def test_it_ends_with_its_parent(stack: StackInfo, tmp_path: Path) -> None:
    """However the process ends that wanted it; the socket goes with it."""
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    place = tmp_path / "s"
    process, where = started(stack, "--unix-socket", str(place), "--parent-pid", str(parent.pid))
    assert where == str(place)
    assert place.is_socket()
    parent.kill()
    parent.wait()
    assert process.wait(SOON_S) == 0
    assert not place.exists()


def test_pages_can_be_served_by_panel_itself(stack: StackInfo) -> None:
    """``panel serve dashboards/topic.py`` is enough."""
    process = subprocess.Popen(
        [sys.executable, "-m", "panel", "serve", str(ROOT / "dashboards" / "topic.py"), "--port", "0"],
        env={**os.environ, "TABLETOPIC_STATE_DIR": str(stack.state_dir), "BOKEH_RESOURCES": "server"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = next(
            told for line in process.stderr if (told := re.search(r"http://localhost:(\d+)/topic", line))
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/topic?topic=x", timeout=SOON_S) as answer:
            page = answer.read().decode()
        assert "<title>x · Table Topics</title>" in page
        assert "cdn" not in page
    finally:
        process.terminate()
        process.wait(SOON_S)
