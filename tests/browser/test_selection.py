"""Several topics at once: selected by keyboard and mouse, and changed after one look at the plan."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.fake_api import FakeApi, other, running
from tests.browser.pages import LabPage
from tests.browser.test_grid import check_accessible

pytestmark = pytest.mark.integration


def test_several_topics_are_paused_and_enabled(page: LabPage, api: FakeApi) -> None:
    """The plan says what becomes of each; one that is refused stays as it is."""
    quiet = running("c", state="paused", run="paused")
    api.topics = [running("a"), running("b"), quiet, other("new"), other("odd")]
    plan = {"topic": "new", "table": "default.new", "creates": True, "columns": [], "refused": []}
    api.answers["POST", "topics/new/plan"] = (200, plan)
    api.answers["POST", "topics/odd/plan"] = (200, {**plan, "refused": ["<b>no schema</b>"]})
    page.open()
    keys = page.page.keyboard
    page.button("Select several…").press("Enter")
    page.sidebar.get_by_label("Select a", exact=True).focus()
    keys.press("Space")
    keys.press("ArrowDown")
    expect(page.sidebar.get_by_label("Select b", exact=True)).to_be_focused()
    keys.press("Space")
    expect(page.sidebar.get_by_label("Selected topics")).to_contain_text("2 selected")
    page.button("Pause (2)").press("Enter")
    dialog = page.page.get_by_role("dialog")
    expect(dialog.locator("li")).to_have_text([f"{name} commits what is staged, and pauses" for name in "ab"])
    keys.press("Enter")
    page.until(lambda: all(("POST", f"topics/{name}/pause", None) in api.asked for name in "ab"))

    page.sidebar.get_by_label("Select a", exact=True).click()
    page.sidebar.get_by_label("Select b", exact=True).click()
    page.sidebar.get_by_label("Select c", exact=True).click()
    page.sidebar.get_by_label("Select odd").click(modifiers=["Shift"])
    expect(page.sidebar.get_by_label("Selected topics")).to_contain_text("3 selected")
    check_accessible(page.page, "#tabletopic-sidebar")
    page.shot("sidebar-selection")
    page.button("Enable (2)").click()
    expect(dialog).to_contain_text("odd <b>no schema</b>")
    page.shot("enable-several")
    dialog.get_by_role("button", name="Enable (1)").click()
    page.until(lambda: ("PUT", "topics/new", {"settings": {}}) in api.asked)
    assert ("PUT", "topics/odd", {"settings": {}}) not in api.asked
    page.set_theme("JupyterLab Dark")
    expect(page.page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    check_accessible(page.page, "#tabletopic-sidebar")
    page.set_theme("JupyterLab Light")
