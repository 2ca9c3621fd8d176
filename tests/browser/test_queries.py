"""People's queries: a cell is saved by a name, and the sidebar inserts it and those of the history."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.fake_api import FakeApi, running
from tests.browser.lab_server import Lab
from tests.browser.pages import LabPage
from tests.browser.test_grid import check_accessible, notebook

pytestmark = pytest.mark.integration

_LINE = "n = 1\n%lake --limit 5 SELECT url FROM clicks -- <b>all</b>"


def test_queries_are_saved_and_inserted(page: LabPage, api: FakeApi, lab: Lab) -> None:
    """By mouse and keyboard; a line's SQL has the colours of a cell's; markup stays text."""
    api.topics = [running("clicks")]
    history = {"cell": "%%lake\nSELECT '<img src=x onerror=alert(1)>'", "at_ms": 1, "failed": True}
    api.answers["GET", "queries"] = (200, {"saved": [], "history": [history]})
    lab.ask("PUT", "api/contents/queries.ipynb", notebook(_LINE, "", kernel="python3"))
    page.open()
    page.page.evaluate("jupyterapp.commands.execute('docmanager:open', { path: 'queries.ipynb' })")
    line, empty = (page.page.locator(".jp-Notebook .jp-CodeCell").nth(at) for at in range(2))

    expect(line.locator(".cm-line span").get_by_text("SELECT", exact=True)).to_be_visible()

    section = page.sidebar.locator(".jp-TableTopic-queries")
    section.locator("summary").press("Enter")
    expect(section).to_contain_text("failed")
    empty.locator(".cm-content").click()
    section.get_by_role("button", name="<img src=x").click()
    expect(empty.locator(".cm-content")).to_contain_text("SELECT '<img src=x")

    saved = {"name": "all/urls", "cell": _LINE, "at_ms": 1}
    line.locator(".cm-content").click()
    page.page.evaluate("void jupyterapp.commands.execute('tabletopic:save-query')")
    dialog = page.page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("all/urls")
    api.answers["GET", "queries"] = (200, {"saved": [saved], "history": []})
    dialog.get_by_role("button", name="Save").click()
    expect(section.get_by_role("button", name="all/urls").first).to_be_visible()
    assert ("PUT", "queries/all/urls", {"cell": _LINE}) in api.asked
    check_accessible(page.page, ".jp-TableTopic-queries")
    page.shot("sidebar-queries")
    page.set_theme("JupyterLab Dark")
    expect(page.page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    check_accessible(page.page, ".jp-TableTopic-queries")
    page.shot("sidebar-queries-dark")
    page.set_theme("JupyterLab Light")
    section.get_by_role("button", name="Delete the query all/urls").click()
    dialog.get_by_role("button", name="Delete").click()
    page.until(lambda: ("DELETE", "queries/all/urls", None) in api.asked)
