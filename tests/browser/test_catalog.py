"""Tables of catalogs and subjects of the registry in a tab, with fake responses."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.fake_api import FakeApi, running
from tests.browser.pages import LabPage
from tests.browser.test_grid import check_accessible

pytestmark = pytest.mark.integration
_ODD = '<img src=x onerror="window.hurt = 1">'


def _table(name: str) -> dict[str, Any]:
    snapshots = [
        {
            "snapshot_id": f"682341903458622405{at}", "at_ms": 1_700_000_000_000 + at, "operation": "append",
            "added_rows": 1_000, "rows": 1_000 * at, "files": at,
        }
        for at in (2, 1)
    ]  # fmt: skip
    columns = [
        {"name": _ODD, "type": "struct<width: int>", "required": True, "doc": f"doc {_ODD}"},
        {"name": "at", "type": "timestamptz", "required": False, "doc": None},
    ]
    return {
        "table": name, "topic": "clicks", "location": "s3://lake/" + "long/" * 60, "format_version": 3,
        "rows": 2_000, "files": 2, "columns": columns, "partition_by": ["day(at)"], "sort_by": [],
        "snapshots": snapshots, "snapshot_count": 2, "properties": {"owner": _ODD},
        "refs": ["branch main at snapshot 6823419034586224052"],
    }  # fmt: skip


def _fill(api: FakeApi) -> None:
    tables = [
        {"catalog": "lake", "namespace": f"n{at // 100}", "name": f"t{at}", "table": f"n{at // 100}.t{at}"}
        for at in range(500)
    ]
    odd = {"catalog": "lake", "namespace": "shop", "name": _ODD, "table": f'shop."{_ODD}"'}
    away = "the catalog does not respond; is `[catalogs.lab]` right?"
    api.topics = [running("clicks", table="n0.t0")]
    api.answers["GET", "tables"] = (200, {"tables": [*tables, odd], "troubles": [away]})
    api.answers["GET", "tables/n0.t0"] = (200, _table("n0.t0"))
    api.answers["GET", "tables/n0.t1"] = (409, {"message": "the table cannot be read: query it with Spark"})
    api.answers["GET", "tables/n0.t0/files"] = (503, {"message": "the storage does not respond"})
    changes = {"rows": 1_000, "files": 1, "changes": [f"add {_ODD}"]}
    api.answers["GET", "tables/n0.t0/difference"] = (200, changes)
    api.answers["GET", "subjects"] = (200, {"subjects": ["clicks-value"]})
    texts = ('{\n  "name": "a"\n}', '{\n  "name": "a",\n  "doc": "new"\n}')
    versions = [
        {"version": at, "id": at, "kind": "AVRO", "text": texts[at - 1], "references": [], "error": None}
        for at in (2, 1)
    ]
    subject = {"subject": "clicks-value", "compatibility": "BACKWARD", "topics": ["clicks"]}
    api.answers["GET", "subjects/clicks-value"] = (200, {**subject, "version_count": 2, "versions": versions})


def test_tables_and_subjects_are_looked_into(page: LabPage, api: FakeApi) -> None:
    """By menu and keyboard: a table's snapshots, their difference, a query cell; a subject's versions."""
    _fill(api)
    page.open()
    page.menu("clicks", "Look into the Table")
    tab = page.page.locator(".jp-TableTopic-catalog")
    detail = tab.get_by_role("region", name="Detail")
    expect(detail.get_by_role("heading", name="n0.t0")).to_be_visible()
    items = tab.get_by_role("listbox")
    of_topic = items.get_by_role("option", name="t0 topic clicks", exact=True)
    expect(items.get_by_role("option")).to_have_count(502)
    expect(of_topic).to_have_attribute("aria-selected", "true")
    expect(tab.locator(".jp-TableTopic-catalogSide .jp-TableTopic-error")).to_contain_text("does not respond")
    page.shot("tables")
    detail.get_by_role("button", name="Compare").click()
    expect(detail.get_by_role("status")).to_contain_text("+1,000 rows, +1 files")
    expect(detail.get_by_role("status")).to_contain_text("add <img")
    detail.get_by_text("Partitions, files and bounds of columns").click()
    expect(detail.get_by_text("the storage does not respond")).to_be_visible()
    detail.get_by_role("button", name="Query as of snapshot 6823419034586224051").click()
    cell = '%%lake --at 6823419034586224051\nSELECT *\nFROM "n0".t0\nLIMIT 20'
    page.until(lambda: page.page.evaluate("navigator.clipboard.readText()") == cell)  # no notebook is open
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.set_theme(theme)
        page.page.wait_for_timeout(500)
        page.shot(f"tables-{theme[-5:].strip().lower()}")
        check_accessible(page.page, ".jp-TableTopic-catalog")
    detail.get_by_role("button", name="Show the Topic clicks").press("Enter")
    expect(page.row("clicks").get_by_role("button", name="clicks", exact=True, expanded=True)).to_be_focused()
    of_topic.press("ArrowDown")
    page.page.keyboard.press("Enter")
    expect(detail).to_contain_text("the table cannot be read: query it with Spark")
    tab.get_by_role("searchbox").fill("clicks")
    expect(items.get_by_role("option")).to_have_text(["t0 topic clicks", "clicks-value"])
    items.get_by_role("option").last.press("Enter")
    expect(detail.locator("mark")).to_have_text('  "doc": "new"')
    expect(detail).to_contain_text("compatibility BACKWARD · 2 versions · topics: clicks")
    page.shot("subject")
    check_accessible(page.page, ".jp-TableTopic-catalog")
    of_topic.get_by_text("topic clicks").click()
    expect(detail.get_by_role("heading", name="n0.t0")).to_be_visible()
    assert page.page.evaluate("window.hurt") is None
