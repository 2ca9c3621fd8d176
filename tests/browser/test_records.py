"""The records of a topic in a tab: searched for, looked at whole, followed."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tabletopic_kernel.faces.operations.shown_records import shown_records
from tabletopic_kernel.workbench.peek import Fate, PeekedRecord, WrittenBy
from tabletopic_kernel.workbench.peek.search import Records
from tabletopic_kernel.workbench.peek.wanted import Looked, Search
from tests.browser.fake_api import FakeApi, running
from tests.browser.pages import LabPage
from tests.browser.test_grid import check_accessible

pytestmark = pytest.mark.integration

_FATES = [
    Fate("row", "row of snapshot 6823419034586224051, committed 2026-01-31 12:00:07"),
    Fate("dead_letter", "dead letter because unknown_schema: <b>the registry has no id 9</b>"),
    Fate("no_row", "skipped: no value"),
    Fate("not_yet", "not in the table yet"),
]
_MARKUP = "<img src=x onerror=alert(1)>"


class _Topic:
    """Responds with the shapes of the server; ``asked`` has the arguments of each request."""

    def __init__(self, page: Page, records: int) -> None:
        self.end = records
        self.asked: list[dict[str, str]] = []
        page.route("**/tabletopic/api/topics/clicks/records?*", self._answer)

    def _record(self, offset: int) -> PeekedRecord:
        bad = offset % 4 == 1
        value = {"page": f"/p/{offset}", "note": _MARKUP, "device": {"type": "tv", "tags": ["a", None]}}
        return PeekedRecord(
            partition=0, offset=offset, timestamp_ms=1_769_860_800_000 + offset, key=b"u\xff%d" % offset,
            schema_id=9 if bad else 7, value=None if bad else value,
            error="the registry has no id 9" if bad else None, raw=b"\0\0\0\0\7" + b"long" * 900,
            headers=[{"key": "trace", "value": b"4711"}], fate=_FATES[offset % 4],
            schema=WrittenBy("clicks-value", 3, ["page: string", "note: string"]),
        )  # fmt: skip

    def _answer(self, route: Route) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(route.request.url).query).items()}
        self.asked.append(asked)
        if asked.get("where") == "nonsense":
            route.fulfill(status=400, json={"message": "no column nonsense: see `tabletopic schema clicks`"})
            return
        limit, start = int(asked["limit"]), asked.get("start", "newest")
        wanted = Search(limit=limit, start=start)
        rest = None
        if start == "newest":
            high = int(asked.get("before", f"0:{self.end}")[2:])
            low = max(0, high - limit)
            offsets = list(range(high - 1, low - 1, -1))
            rest = replace(wanted, before=f"0:{low}") if low else None
        else:
            low = 0 if start == "oldest" else int(start.removeprefix("0:"))
            high = min(self.end, low + limit)
            offsets = list(range(low, high))
            rest = replace(wanted, start=f"0:{high}") if high < self.end else None
        looked = Looked(high - low, self.end, {0: (low, high)}, "limit" if rest else "", rest, ())
        records = Records([self._record(offset) for offset in offsets], looked, None)
        values: Any = {"raw": asked.get("raw") == "true"}
        route.fulfill(json=asdict(shown_records(records, values)))


def test_a_record_is_sought_and_looked_at(page: LabPage, api: FakeApi) -> None:
    """From the topic's menu, by keyboard: what became of it, its value and bytes; markup stays text."""
    api.topics = [running("clicks")]
    topic = _Topic(page.page, 120)
    page.open()
    page.menu("clicks", "Look at Records")
    tab = page.page.locator(".jp-TableTopic-records")
    rows, status, keys = tab.locator("tbody tr"), tab.get_by_role("status"), page.page.keyboard
    expect(status).to_have_text("50 found: looked at 50 of 120 records.")
    for fate in _FATES:
        expect(tab).to_contain_text(fate.text)
    dots = "node => node.scrollWidth > node.clientWidth && getComputedStyle(node).textOverflow"
    assert tab.get_by_text("row of snapshot").first.evaluate(dots) == "ellipsis"
    tab.get_by_role("button", name="Continue").press("Enter")
    expect(rows).to_have_count(100)
    expect(rows.nth(50)).to_be_focused()
    keys.press("ArrowDown")
    detail = tab.get_by_role("group", name="Partition 0, offset 68")
    expect(detail).to_contain_text(_FATES[0].text)
    expect(detail).to_contain_text(f"note: {_MARKUP}")
    expect(detail).to_contain_text("trace: 4711")
    detail.locator("summary", has_text="Schema id 7: version 3 of clicks-value").press("Enter")
    detail.locator("summary", has_text="Bytes of the value").press("Enter")
    expect(detail).to_contain_text("3,605 bytes")
    check_accessible(page.page, ".jp-TableTopic-records")
    page.shot("records")
    keys.press("Escape")
    expect(rows.nth(51)).to_be_focused()

    tab.get_by_label("Read").select_option("From an offset")
    tab.get_by_label("Offset", exact=True).fill("7")
    tab.get_by_label("Partition", exact=True).fill("0")
    tab.get_by_label("Condition").fill("page = '/p/7'")
    keys.press("Enter")
    expect(rows.first).to_contain_text("/p/7")
    assert topic.asked[-1] == {"start": "7", "partition": "0", "where": "page = '/p/7'", "limit": "50"}
    tab.get_by_label("Condition").fill("nonsense")
    keys.press("Enter")
    expect(status).to_have_text("no column nonsense: see tabletopic schema clicks")
    tab.get_by_label("Condition").fill("")
    follow_records(page, tab, topic)


def follow_records(page: LabPage, tab: Locator, topic: _Topic) -> None:
    """New ones on top, until paused; the focus stays, in light and dark."""
    rows, status = tab.locator("tbody tr"), tab.get_by_role("status")
    tab.get_by_role("button", name="Follow").press("Enter")
    expect(rows.first).to_contain_text("/p/119")
    rows.nth(4).click()
    topic.end = 123
    expect(rows.first).to_contain_text("/p/122")
    expect(rows.nth(7)).to_be_focused()
    page.set_theme("JupyterLab Dark")
    expect(page.page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    check_accessible(page.page, ".jp-TableTopic-records")
    page.shot("records-dark")
    page.set_theme("JupyterLab Light")
    tab.get_by_role("button", name="Pause").click()
    expect(status).to_have_text("Paused: the newest 53 records.")
    topic.end = 130
    tab.get_by_role("button", name="Continue").click()
    expect(rows).to_have_count(103)
    expect(rows.first).to_contain_text("/p/122")
    expect(status).to_have_text("103 found: looked at 103 of 123 records.")
