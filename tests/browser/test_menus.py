"""What the menu of a topic does, with fake responses: dead letters, maintenance, query cells."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.fake_api import FakeApi, other, running
from tests.browser.pages import LabPage

pytestmark = pytest.mark.integration


def test_dead_letters_are_tried_again_after_a_look_at_the_plan(page: LabPage, api: FakeApi) -> None:
    """A row counts its letters; its menu shows what trying them again would do, and does it when asked."""
    api.topics = [running("clicks", dead_letters=1_250), running("orders")]
    plan = {"topic": "clicks", "letters": 1_250, "rows": 1_200, "stayed": {"no_schema_id": 50}}
    api.answers["POST", "topics/clicks/replay/plan"] = (200, {**plan, "changes": ["add price double"]})
    page.open()
    dead_letters = page.row("clicks").locator(".jp-TableTopic-facts .jp-TableTopic-chip")
    expect(dead_letters).to_have_text("1,250 dead letters")
    expect(dead_letters.locator(".jp-TableTopic-sign")).to_have_attribute("data-tone", "warn")
    expect(page.row("orders")).not_to_contain_text("dead letter")
    page.menu("clicks", "Replay Dead Letters")
    dialog = page.page.get_by_role("dialog")
    for part in ("1,200 of 1,250 dead letters", "no_schema_id: 50 stay", "add price double"):
        expect(dialog).to_contain_text(part)
    assert ("POST", "topics/clicks/replay", {}) not in api.asked
    page.shot("dead-letters")
    dialog.get_by_role("button", name="Replay").click()
    expect(page.sidebar.get_by_role("status")).to_contain_text("Replaying the dead letters of clicks")
    page.until_asked(api.asked, "POST", "topics/clicks/replay", {})


def test_a_table_is_maintained_from_the_menu_of_its_topic(page: LabPage, api: FakeApi) -> None:
    """A compaction deletes no row and begins at once; an expiry deletes files, so it is asked for twice."""
    left = {**other("left"), "table": "default.left", "rows": 40}  # of a topic that was disabled
    quiet = running("quiet", state="paused", run="paused")
    api.topics = [running("clicks"), quiet, left, other("orders")]
    page.open()
    page.menu("left", "Compact Small Files")
    page.until_asked(api.asked, "POST", "topics/left/compact")
    page.menu("clicks", "Compact Small Files")
    expect(page.sidebar.get_by_role("status")).to_contain_text("Requested a compaction of clicks")
    page.until_asked(api.asked, "POST", "topics/clicks/compact")
    page.menu("clicks", "Expire Old Snapshots")
    dialog = page.page.get_by_role("dialog")
    expect(dialog).to_contain_text("queries can no longer go back to them")
    page.shot("expire")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert ("POST", "topics/clicks/expire", None) not in api.asked
    page.menu("clicks", "Expire Old Snapshots")
    dialog.get_by_role("button", name="Expire").click()
    expect(page.sidebar.get_by_role("status")).to_contain_text("Requested an expiry of old snapshots")
    page.until_asked(api.asked, "POST", "topics/clicks/expire")
    for topic in ("quiet", "orders"):  # nobody works on them
        page.row(topic).get_by_role("button", name=f"Actions for {topic}").click()
        expect(page.page.get_by_role("menuitem", name="Settings and Plan")).to_be_visible()
        expect(page.page.get_by_role("menuitem", name="Compact Small Files")).to_have_count(0)
        page.page.keyboard.press("Escape")


def test_a_query_cell_is_copied(page: LabPage, api: FakeApi) -> None:
    """The clipboard has a cell for the topic's table, with names quoted where they must be."""
    names = {"shop.web clicks": '"shop"."web clicks"', "order.table": '"order".table', 'a"b.x': '"a""b".x'}
    api.topics = [running(f"web.clicks-v{at}", table=table) for at, table in enumerate(names)]
    # One table has no offsets and times of records.
    metadata = {"name": "_kafka_metadata", "type": "struct<timestamp: timestamptz>"}
    api.answers["GET", "tables/shop.web clicks"] = (200, {"columns": [{"name": "id"}, metadata]})
    page.open()
    for at, name in enumerate(names.values()):
        page.menu(f"web.clicks-v{at}", "Copy Query Cell")
        newest = "ORDER BY _kafka_metadata.timestamp DESC\n" if at == 0 else ""
        wanted = re.compile(rf"%%lake\n.*FROM {re.escape(name)}\n{newest}LIMIT", re.DOTALL)
        page.until(
            lambda wanted=wanted: (
                wanted.match(page.page.evaluate("navigator.clipboard.readText()")) is not None
            )
        )


def test_the_dashboard_is_uncovered_before_its_scripts_are_there(page: LabPage, api: FakeApi) -> None:
    """What there is to read is shown, however long the rest of the page takes."""
    api.topics = [running("clicks")]
    html = '<main><h1>clicks at once</h1></main><script src="never.js"></script>'
    page.open()
    page.page.route(
        "**/tabletopic/api/dashboard?*", lambda route: route.fulfill(content_type="text/html", body=html)
    )
    page.page.route("**/never.js", lambda _: None)
    page.menu("clicks", "Open Dashboard")
    frame = page.page.frame_locator(".jp-TableTopic-dashboard iframe")
    expect(frame.get_by_role("heading", name="clicks at once")).to_be_visible()
    expect(page.page.locator(".jp-TableTopic-cover")).to_be_hidden()
