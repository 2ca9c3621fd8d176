"""Focus, announcements and notifications of the sidebar, with fake responses."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tabletopic_kernel.model.progress.delay import Delay
from tabletopic_kernel.workbench.config.servers import MissingServers
from tests.browser.fake_api import FakeApi, other, running
from tests.browser.pages import LabPage

pytestmark = pytest.mark.integration

NO_SERVERS = "no servers for [kafka]: start the local stack with “Start the local stack”"


def test_everything_by_keyboard(page: LabPage, api: FakeApi) -> None:
    """Without a mouse: the palette opens the sidebar, Tab reaches the switch, arrows go between rows."""
    api.topics = [other("clicks"), other("orders")]
    page.open(sidebar=False)
    keyboard = page.page.keyboard
    keyboard.press("Control+Shift+C")
    expect(page.page.locator(".jp-ModalCommandPalette input")).to_be_focused()
    keyboard.type("Show Table Topics")
    keyboard.press("Enter")
    expect(page.sidebar.get_by_role("button", name="Refresh now")).to_be_focused()
    for _ in range(10):
        keyboard.press("Tab")
        if page.switch("clicks").evaluate("element => element === document.activeElement"):
            break
    expect(page.switch("clicks")).to_be_focused()
    assert page.switch("clicks").evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
    keyboard.press("ArrowDown")
    expect(page.switch("orders")).to_be_focused()
    keyboard.press("Space")
    expect(page.row("orders")).to_contain_text("enabling…")
    page.until_asked(api.asked, "PUT", "topics/orders", {"settings": {}})
    api.topics = [running("orders"), other("clicks")]
    expect(page.switch("orders")).to_have_attribute("aria-checked", "true")
    expect(page.switch("orders")).to_be_focused()
    keyboard.press("Tab")
    keyboard.press("Enter")
    expect(page.page.get_by_role("menuitem", name="Settings and Plan")).to_be_visible()
    keyboard.press("Escape")
    expect(page.row("orders").get_by_role("button", name="Actions for orders")).to_be_focused()


def test_the_focus_stays_where_a_button_went_away(page: LabPage, api: FakeApi) -> None:
    """It goes to the words or the button that took its place, and Tab goes on from there."""
    focused = page.sidebar.locator(":focus")
    api.servers, api.detail = "none", NO_SERVERS
    page.open()
    page.button("Start the local stack").press("Enter")
    api.servers, api.detail = "starting", "the local stack is starting: broker"
    expect(focused).to_have_text("Starting the servers")
    api.servers, api.detail = "ready", ""
    expect(focused).to_have_text("No topics yet")
    page.page.keyboard.press("Tab")
    expect(focused).to_have_text("Send sample events")
    page.page.keyboard.press("Enter")
    api.topics = [other("clicks")]
    expect(page.row("clicks")).to_be_visible()
    expect(focused).to_be_visible()
    api.topics = [running("clicks", dead_letters=3, delay="behind", delay_reason=Delay.BEHIND.reason)]
    api.host = {"state": "none", "detail": "", "ids": []}
    page.button("Start a host").press("Enter")
    api.host = {"state": "running", "detail": "", "ids": ["here-1-a"]}
    expect(focused).to_have_text("Stop")
    api.missing, api.detail = ["registry"], MissingServers(("registry",), (), Path(".tabletopic")).message()
    page.button("Start the local stack").focus()
    page.shot("sidebar-registry-ended")
    api.missing, api.detail = [], ""
    expect(focused).to_have_text("Stop")


def test_changes_are_announced_and_polls_are_not(page: LabPage, api: FakeApi) -> None:
    """A screen reader hears that a topic failed, once, and nothing of figures that only move."""
    api.topics = [running("clicks")]
    page.open()
    live = page.sidebar.locator("[aria-live=polite][role=status]")
    expect(page.row("clicks")).to_contain_text("up to date")
    api.topics = [running("clicks", lag_records=7, lag_seconds=1.0)]
    expect(page.row("clicks")).to_contain_text("7 behind")
    expect(live).to_have_text("")
    api.topics = [running("clicks", state="failed", error="the table was dropped")]
    expect(live).to_have_text("clicks: failed, the table was dropped")


def test_what_fails_is_notified_once_with_the_button_that_helps(page: LabPage, api: FakeApi) -> None:
    """A failed topic, dead letters, a refused schema, a host that ended; not what was so before."""
    api.topics = [running("old", state="failed", error="long ago"), running("clicks"), running("views")]
    page.open()
    expect(page.row("clicks")).to_contain_text("up to date")
    toasts = page.page.locator(".Toastify__toast")
    api.topics = [api.topics[0], running("clicks", state="failed", error="no such table"), running("views")]
    expect(toasts.filter(has_text="clicks failed: no such table")).to_have_count(1)
    refused = {"type": "SchemaRefused", "topic": "views", "tone": "bad", "text": "price is text"}
    events = [{**refused, "at_ms": api.overview()["at_ms"]}]
    api.answers["GET", "topics/views/events"] = (200, {"events": events})
    api.topics = [*api.topics[:2], running("views", dead_letters=3)]
    expect(toasts.filter(has_text="views refused a schema: price is text")).to_have_count(1)
    api.topics.append({**other("shop.odd"), "error": "no schema (the pattern shop.* matches it)"})
    told = toasts.filter(has_text="shop.odd is not enabled: no schema")
    expect(told.get_by_role("button", name="Settings and Plan…")).to_have_count(1)
    expect(page.row("shop.odd")).to_contain_text("the pattern shop.* matches it")
    api.host = {"state": "failed", "detail": "the host ended with exit code 9", "ids": []}
    api.topics = [*api.topics[:2], running("views", dead_letters=9), api.topics[3]]
    host = toasts.filter(has_text="the host ended with exit code 9")
    expect(host).to_have_count(1)
    expect(host.get_by_role("button", name="Start a Host")).to_be_visible()
    expect(toasts.filter(has_text="views")).to_have_count(1)
    expect(toasts.filter(has_text="long ago")).to_have_count(0)
    page.shot("notifications")
    toasts.filter(has_text="clicks failed").get_by_role("button", name="Resume").click()
    page.until_asked(api.asked, "POST", "topics/clicks/resume")


def test_many_notifications_of_a_kind_are_one(page: LabPage, api: FakeApi) -> None:
    """Twelve topics that fail one after the other: at last one notification, which opens the sidebar."""
    names = [f"shop.t{number}" for number in range(12)]
    api.topics = [running(name) for name in names]
    page.open()
    expect(page.row(names[-1])).to_contain_text("up to date")
    toasts = page.page.locator(".Toastify__toast")
    for count in (3, 8, 12):
        failed = [running(name, state="failed", error="no such table") for name in names[:count]]
        api.topics = [*failed, *api.topics[count:]]
        last = f"{count} topics failed: shop.t0" if count > 5 else f"{names[count - 1]} failed"
        expect(toasts.filter(has_text=last)).to_have_count(1)
    expect(toasts).to_have_count(1)
    page.shot("notifications-many")
    page.page.locator('.jp-SideBar [data-id="tabletopic-sidebar"]').click()
    expect(page.sidebar).to_be_hidden()
    toasts.get_by_role("button", name="Show Table Topics").click()
    expect(page.sidebar).to_be_visible()
