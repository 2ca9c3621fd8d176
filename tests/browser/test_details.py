"""What unfolds below a row of the sidebar: columns and events, with fake responses."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from tests.browser.fake_api import FakeApi, running
from tests.browser.pages import LabPage

pytestmark = pytest.mark.integration


def test_columns_and_events_unfold(page: LabPage, api: FakeApi) -> None:
    """A row unfolds into columns, nested ones in turn, and the last events; data are text, never markup."""
    api.topics = [running("clicks")]
    column = {"name": "device", "type": "struct<os: struct<name: string>, price: decimal(9, 2)>"}
    api.answers["GET", "topics/clicks/schema"] = (
        200,
        {
            "table": "default.clicks",
            "columns": [{**column, "required": False, "doc": None}],
            "versions": [{"subject": "clicks-value", "version": 2, "id": 7, "table_schema_id": 1}],
        },
    )
    event = {"type": "Failed", "topic": "clicks", "at_ms": 1, "tone": "bad"}
    text = "<img src=x onerror=alert(1)>"
    api.answers["GET", "topics/clicks/events"] = (200, {"events": [{**event, "text": text}]})
    page.open()
    page.row("clicks").get_by_role("button", name="clicks", exact=True).click()
    page.row("clicks").get_by_text("device").click()
    expect(page.row("clicks")).to_contain_text("decimal(9, 2)")
    page.row("clicks").get_by_text("os", exact=True).click()
    expect(page.row("clicks").get_by_text("name", exact=True)).to_be_visible()
    expect(page.row("clicks")).to_contain_text("newest version 2 (id 7)")
    expect(page.row("clicks").locator(".jp-TableTopic-events")).to_contain_text(
        "<img src=x onerror=alert(1)>"
    )
    page.shot("sidebar-columns-and-events")


def test_what_is_unfolded_stays_so_at_a_commit(page: LabPage, api: FakeApi) -> None:
    """The columns are replaced only when they have changed."""
    api.topics = [running("clicks", commits=1)]
    device = {"name": "device", "type": "struct<os: string>", "required": False, "doc": None}
    schema = {"table": "default.clicks", "columns": [device], "versions": []}
    api.answers["GET", "topics/clicks/schema"] = (200, schema)
    api.answers["GET", "topics/clicks/events"] = (200, {"events": []})
    page.open()
    row = page.row("clicks")
    row.get_by_role("button", name="clicks", exact=True).click()
    row.get_by_text("device").click()
    expect(row.get_by_text("os", exact=True)).to_be_visible()
    asked = api.asked.count(("GET", "topics/clicks/schema", None))
    api.topics = [running("clicks", commits=2)]
    page.until(lambda: api.asked.count(("GET", "topics/clicks/schema", None)) > asked)
    expect(row.locator("section[aria-busy]")).to_have_count(0)
    expect(row.get_by_text("os", exact=True)).to_be_visible()
    url = {"name": "url", "type": "string", "required": True, "doc": None}
    api.answers["GET", "topics/clicks/schema"] = (200, {**schema, "columns": [device, url]})
    api.topics = [running("clicks", commits=3)]
    expect(row.get_by_text("url", exact=True)).to_be_visible()


def test_commits_that_follow_each_other_are_one_line(page: LabPage, api: FakeApi) -> None:
    """It unfolds, and stays unfolded when a commit is added; other events keep lines of their own."""
    api.topics = [running("clicks", commits=12)]
    api.answers["GET", "topics/clicks/schema"] = (
        200, {"table": "default.clicks", "columns": [], "versions": []}
    )  # fmt: skip

    def committed(count: int) -> list[dict[str, object]]:
        kinds = [("Committed", "good")] * count + [("SchemaEvolved", "note")]
        return [
            {"type": kind, "tone": tone, "at_ms": 1_000 * (count - n), "text": f"no. {n}", "rows": 225}
            for n, (kind, tone) in enumerate(kinds)
        ]

    api.answers["GET", "topics/clicks/events"] = (200, {"events": committed(12)})
    page.open()
    row = page.row("clicks")
    row.get_by_role("button", name="clicks", exact=True).click()
    line = row.get_by_text("12 commits, 2,700 rows in 11 s")
    expect(line).to_be_visible()
    expect(row.get_by_text("no. 12")).to_be_visible()  # the schema's
    expect(row.get_by_text("no. 3")).to_be_hidden()
    line.click()
    expect(row.get_by_text("no. 3")).to_be_visible()
    api.answers["GET", "topics/clicks/events"] = (200, {"events": committed(13)})
    api.topics = [running("clicks", commits=13)]
    expect(row.get_by_text("13 commits, 2,925 rows in 12 s")).to_be_visible()
    expect(row.get_by_text("no. 3")).to_be_visible()
    page.shot("sidebar-commits")


def test_a_late_response_does_not_replace_a_newer_one(page: LabPage, api: FakeApi) -> None:
    """Whichever arrives last, the newest question's answer is displayed."""
    api.topics = [running("clicks", commits=1)]
    api.answers["GET", "topics/clicks/events"] = (200, {"events": []})
    page.open()
    late = list[Route]()
    page.page.route("**/topics/clicks/schema*", lambda route: late.append(route))  # noqa: PLW0108 - it is marked
    row = page.row("clicks")
    row.get_by_role("button", name="clicks", exact=True).click()
    page.until(lambda: len(late) == 1)
    api.topics = [running("clicks", commits=2)]
    page.until(lambda: len(late) == 2)
    for route, name in zip(reversed(late), ("new", "old"), strict=True):
        column = {"name": name, "type": "string", "required": False, "doc": None}
        route.fulfill(json={"table": "default.clicks", "columns": [column], "versions": []})
        page.page.wait_for_timeout(300)
    expect(row.get_by_text("new", exact=True)).to_be_visible()
    expect(row.get_by_text("old", exact=True)).to_have_count(0)
