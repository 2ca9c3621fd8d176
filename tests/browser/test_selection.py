"""Several topics at once: selected, or by a pattern, and changed after one look at the plan."""

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
    plan = {
        "topic": "new",
        "table": "default.new",
        "creates": True,
        "columns": [],
        "refused": [],
        "warnings": [],
    }
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


def test_topics_are_enabled_by_a_pattern(page: LabPage, api: FakeApi) -> None:
    """By keyboard: the plan follows what is typed; a pattern keeps its settings, until it is forgotten."""
    api.topics = [running("a"), other("shop.carts"), other("shop.odd")]
    topics = [
        {"topic": "shop.carts", "table": "default.shop_carts", "refused": [], "warnings": ["no <i>id</i>"]},
        {"topic": "shop.odd", "table": "", "refused": ["<b>no schema</b>"], "warnings": []},
    ]
    api.answers["POST", "patterns/shop.*/plan"] = (200, {"topics": topics})
    api.answers["POST", "patterns/shop./plan"] = (400, {"message": "Kafka has no topic for it"})
    standing = {
        "pattern": "shop.*",
        "exclude": ["*test"],
        "settings": {"start": "latest"},
        "requested_by": "ann",
    }
    standing |= {"requested_by": "ann", "enabled": ["shop.a"], "disabled": ["shop.b"], "others": ["shop.<i>"]}
    api.answers["GET", "patterns"] = (200, {"patterns": [standing]})
    api.answers["DELETE", "patterns/shop.*"] = (204, None)
    page.open()
    page.page.evaluate("jupyterapp.commands.execute('tabletopic:enable-pattern')")
    panel = page.sidebar.get_by_role("region", name="Enable by pattern")
    expect(panel.get_by_label("Topics", exact=True)).to_be_focused()
    keys = page.page.keyboard
    keys.type("shop.")
    expect(panel).to_contain_text("Kafka has no topic for it")
    keys.type("*")
    expect(panel).to_contain_text("1 topic would be enabled")
    expect(panel.get_by_label("Plan").locator("li")).to_have_text(
        ["shop.carts → default.shop_cartsno <i>id</i>", "shop.odd <b>no schema</b>"]
    )
    keys.press("Tab")
    keys.type("*test")
    keys.press("Tab")
    keys.press("Space")
    both = {"exclude": "*test", "standing": True}
    enable = panel.get_by_role("button", name="Enable (1)", exact=True)
    expect(enable).not_to_have_attribute("aria-disabled", "true")
    page.until_asked(api.asked, "POST", "patterns/shop.*/plan", {**both, "settings": {"start": "latest"}})
    expect(panel).to_contain_text("without *test · 1 enabled · disabled by somebody: shop.b")
    page.shot("sidebar-patterns")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.set_theme(theme)
        page.page.wait_for_timeout(500)
        page.shot(f"sidebar-patterns-{theme[-5:].strip().lower()}")
        check_accessible(page.page, "#tabletopic-sidebar")
    api.answers["GET", "patterns"] = (200, {"patterns": []})
    panel.get_by_role("button", name="Forget the pattern shop.*").press("Enter")
    page.until_asked(api.asked, "DELETE", "patterns/shop.*")
    expect(panel.get_by_role("heading")).to_have_count(0)
    expect(panel.get_by_label("Topics", exact=True)).to_be_focused()
    enable.press("Enter")
    page.until_asked(api.asked, "PUT", "patterns/shop.*", both)
    keys.press("Escape")
    expect(page.button("Enable by pattern…")).to_be_focused()
