"""The dead letters of a topic in a tab: by reason, whole, replayed, dropped and downloaded by a condition."""

from __future__ import annotations

import json
from dataclasses import asdict
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tabletopic_kernel.faces.operations.shown_records import shown_letters
from tabletopic_kernel.workbench.peek import Fate, PeekedRecord, WrittenBy
from tabletopic_kernel.workbench.peek.letters import LetterGroup, Letters
from tests.browser.fake_api import FakeApi, running
from tests.browser.pages import LabPage
from tests.browser.test_grid import check_accessible

pytestmark = pytest.mark.integration

_HOUR_MS = 3_600_000
_AT_MS = 1_769_860_800_000
_FIRST_MS = _AT_MS - 9 * _HOUR_MS
_REASONS = {"unknown_schema": 5, "it's <b>odd</b>": 2}
_MARKUP = "<img src=x onerror=alert(1)>"


class _Topic:
    """Responds with the shapes of the server; ``asked`` has the arguments of each request."""

    def __init__(self, page: Page) -> None:
        self.asked: list[dict[str, str]] = []
        page.route("**/tabletopic/api/topics/clicks/letters*", self._answer)
        page.route("**/tabletopic/api/topics/clicks/letters/records?*", self._answer)

    def _answer(self, route: Route) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(route.request.url).query).items()}
        self.asked.append(asked)
        where = asked.get("where", "")
        if where == "nonsense":
            route.fulfill(status=400, json={"message": "no column nonsense: see `tabletopic letters --help`"})
            return
        chosen = {reason: n for reason, n in _REASONS.items() if where in ("", _condition(reason))}
        groups = [
            LetterGroup(reason, n, _FIRST_MS, _AT_MS, {_AT_MS: n - 1, _FIRST_MS: 1}, _MARKUP)
            for reason, n in chosen.items()
        ]  # fmt: skip
        places = [(reason, n) for reason, count in chosen.items() for n in range(count)]
        if where.startswith("partition ="):
            places = [("unknown_schema", int(where.rpartition(" ")[2]))]
        records = [_record(n, reason) for reason, n in places][: int(asked["limit"])]
        letters = Letters(
            "clicks", "default.clicks__dead_letters", sum(chosen.values()), _HOUR_MS, groups, records
        )
        if "/records?" in route.request.url:
            route.fulfill(json=asdict(shown_letters(letters, whole=asked.get("raw") == "true")))
        else:
            route.fulfill(json=letters.to_json())


def _condition(reason: str) -> str:
    quoted = reason.replace("'", "''")
    return f"reason = '{quoted}'"


def _record(offset: int, reason: str) -> PeekedRecord:
    return PeekedRecord(
        partition=0, offset=offset, timestamp_ms=_AT_MS, key=b"k%d" % offset, schema_id=9, value=None,
        error=f"the registry has no id 9: {_MARKUP}", raw=b"\0\0\0\0\x09x", headers=[],
        fate=Fate("dead_letter", f"dead letter because {reason}: {_MARKUP}", at_ms=_AT_MS, reason=reason),
        schema=WrittenBy("clicks-value", 3, ["page: string"]),
    )  # fmt: skip


def test_letters_are_selected_and_dealt_with(page: LabPage, api: FakeApi) -> None:
    """By keyboard: a reason is chosen, a letter looked at, and what is done is done to those selected."""
    api.topics = [running("clicks", dead_letters=7)]
    _Topic(page.page)
    page.open()
    page.menu("clicks", "Look at Dead Letters")
    tab = page.page.locator(".jp-TableTopic-letters")
    rows, status = tab.locator(".jp-TableTopic-recordsTable tbody tr"), tab.get_by_role("status")
    expect(status).to_have_text("7 dead letters.")
    expect(tab.get_by_role("img").first).to_have_attribute(
        "aria-label", "Letters each hour: 1" + ", 0" * 8 + ", 4"
    )
    expect(rows).to_have_count(7)
    tab.get_by_role("button", name="it's <b>odd</b>").press("Enter")
    expect(rows).to_have_count(2)
    condition = tab.get_by_label("Condition")
    expect(condition).to_have_value("reason = 'it''s <b>odd</b>'")
    check_accessible(page.page, ".jp-TableTopic-letters")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.set_theme(theme)
    rows.first.click()
    detail = tab.get_by_role("group", name="Partition 0, offset 0")
    expect(detail).to_contain_text(f"dead letter because unknown_schema: {_MARKUP}")
    expect(detail).to_contain_text("Schema id 9: version 3 of clicks-value")
    page.shot("letters")
    page.page.keyboard.press("Escape")

    tab.get_by_role("button", name="Drop…").click()
    dialog = page.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Drop").click()
    expect(status).to_have_text("Nothing was dropped: choose “Drop…” again, and write why.")
    tab.get_by_role("button", name="Drop…").click()
    expect(dialog).to_contain_text("2 dead letters go for good.")
    dialog.get_by_label("Why").fill("test data")
    dialog.get_by_role("button", name="Drop").click()
    wanted = {"note": "test data", "where": "reason = 'it''s <b>odd</b>'"}
    page.until_asked(api.asked, "POST", "topics/clicks/letters/drop", wanted)
    with page.page.expect_download() as download:
        tab.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "clicks-dead-letters.json"
    assert json.loads(download.value.path().read_bytes())["letters"] == 2
    condition.fill("nonsense")
    condition.press("Enter")
    expect(status).to_have_text("no column nonsense: see tabletopic letters --help")
    assert page.errors == []
