"""A query's result in a notebook: looked through with a kernel, and opened again without one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tabletopic_kernel.faces.notebook.results.result import MIME
from tests.browser.lab_server import Lab
from tests.browser.pages import LOAD_MS, LabPage

pytestmark = pytest.mark.integration

_AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
_GRID = ".jp-TableTopic-resultView"
_SQL = """%%lake
SELECT i AS n, 'page-' || (i % 13) AS page, TIMESTAMPTZ '2026-01-01 00:00:00Z' + to_minutes(i) AS at,
    {'city': 'Utrecht', 'tags': ['<b>a</b>', NULL]} AS place, repeat('long ', 100) AS words
FROM range(2_500) AS t (i)"""
# DuckDB alone: no server is asked.
_SETTINGS = """[kafka]
"bootstrap.servers" = "127.0.0.1:1"
[registry]
url = "http://127.0.0.1:1"
[catalog]
type = "sql"
uri = "sqlite:///{folder}/catalog.db"
warehouse = "file://{folder}/warehouse"
"""


def notebook(*sources: str, kernel: str) -> dict[str, Any]:
    """The body of a request that saves a notebook."""
    cells = [
        {
            "cell_type": "code", "id": f"cell-{index}", "source": source,
            "metadata": {}, "outputs": [], "execution_count": None,
        }
        for index, source in enumerate(sources)
    ]  # fmt: skip
    spec = {"name": kernel, "display_name": kernel}
    content = {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}
    return {"type": "notebook", "format": "json", "content": content}


def opened(page: LabPage, path: str) -> Locator:
    """The result in a notebook that is opened."""
    page.open(sidebar=False)
    open_it = "path => jupyterapp.commands.execute('docmanager:open', { path })"
    page.page.evaluate(open_it, path)
    page.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=LOAD_MS)
    return page.page.locator(_GRID)


def check_accessible(page: Page, place: str = ".jp-Notebook .jp-OutputArea") -> None:
    """axe-core finds nothing."""
    page.evaluate(_AXE.read_text(encoding="utf-8"))
    violations = page.evaluate(f"axe.run('{place}').then(found => found.violations)")
    assert [(violation["id"], violation["nodes"][0]["html"]) for violation in violations] == []


def test_a_result_is_looked_through(page: LabPage, lab: Lab) -> None:
    """By keyboard, in light and dark; opened again without a kernel, its first page is there."""
    folder = lab.folder / "files" / "grid"
    folder.mkdir(parents=True)
    (folder / "tabletopic.toml").write_text(_SETTINGS.format(folder=folder))
    path = "grid/query.ipynb"
    cells = ("%load_ext tabletopic_kernel", _SQL, "%lake SELECT 1 AS one WHERE false")
    lab.ask("PUT", f"api/contents/{path}", notebook(*cells, kernel="python3"))
    grids = opened(page, path)
    grid = grids.first
    page.page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for(timeout=LOAD_MS)
    page.page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    expect(grid.locator("td").first).to_have_text("0", timeout=LOAD_MS)
    expect(grids.nth(1)).to_contain_text("0 rows")
    expect(grids.nth(1).locator("th[data-column]")).to_have_text(["oneINTEGER"])
    check_accessible(page.page)
    page.shot("result-grid")
    read_cells(page.page, grid)
    select_rows(page.page, grid)

    page.set_theme("JupyterLab Dark")
    grid.get_by_role("button", name="Profile").press("Enter")
    expect(grid.get_by_role("img", name="Distribution")).to_have_count(2)
    grid.get_by_role("button", name="Chart").press("Enter")
    expect(grid.locator(".vega-embed summary[aria-label]")).to_be_visible()
    check_accessible(page.page)
    page.shot("result-grid-dark")
    page.set_theme("JupyterLab Light")
    page.page.evaluate("jupyterapp.commands.execute('docmanager:save')")
    page.until(lambda: bool(saved(lab, path)["cells"][1]["outputs"]))
    open_without_kernel(page, lab, saved(lab, path))


def read_cells(page: Page, grid: Locator) -> None:
    """The next page, a copy, and a nested value as a tree; the focus stays where one was."""
    cells, keys = grid.locator("td"), page.keyboard
    cells.first.focus()
    keys.press("PageDown")
    expect(cells.first).to_have_text("100")
    expect(cells.first).to_be_focused()
    keys.press("ArrowDown")
    keys.press("Control+c")
    expect(grid.get_by_role("status")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == "101"
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        keys.press(key)
    expect(grid.get_by_role("group", name="place, row 102")).to_contain_text("0: <b>a</b>")
    keys.press("Escape")
    expect(grid.locator("tbody tr").nth(1).locator("td").nth(3)).to_be_focused()


def select_rows(page: Page, grid: Locator) -> None:
    """Sorted twice, then filtered with Enter in the field, which JupyterLab would take."""
    header = grid.get_by_role("button", name="n", exact=True)
    header.press("Enter")
    expect(grid.locator("th[aria-sort=ascending]")).to_have_count(1)
    header.press("Enter")
    expect(grid.locator("td").first).to_have_text("2499")
    expect(header).to_be_focused()
    grid.get_by_text("Filter", exact=True).press("Enter")
    expect(grid.get_by_label("Value")).to_be_focused()  # the menu has opened
    grid.get_by_label("Column", exact=True).select_option("page")
    grid.get_by_label("Value").press_sequentially("GE-1")
    grid.get_by_label("Value").press("Enter")
    expect(grid.get_by_role("status")).to_have_text("769 of 2,500 rows")
    page.keyboard.press("Escape")


def open_without_kernel(page: LabPage, lab: Lab, content: dict[str, Any]) -> None:
    """Another person's notebook, which is not trusted, with a kernel that is not here."""
    data = content["cells"][1]["outputs"][0]["data"]
    assert "<td" in data["text/html"]
    data[MIME] |= {"total": 91, "rows": data[MIME]["rows"][:90]}  # a file holds less of long rows
    content["metadata"]["kernelspec"] = {"name": "gone", "display_name": "gone"}
    content["cells"][1]["source"] += " "  # what was trusted is another one
    body = {"type": "notebook", "format": "json", "content": content}
    lab.ask("PUT", "api/contents/grid/again.ipynb", body)
    grid = opened(page, "grid/again.ipynb").first
    expect(grid.locator("tbody tr")).to_have_count(90)
    page.page.get_by_role("dialog").get_by_role("button", name=re.compile("No Kernel|Cancel")).first.click()
    grid.get_by_role("button", name="Next page").click()
    expect(grid.get_by_role("status")).to_contain_text("run the cell again")


def saved(lab: Lab, path: str) -> dict[str, Any]:
    """What a notebook's file holds."""
    content: dict[str, Any] = lab.ask("GET", f"api/contents/{path}?content=1")["content"]
    return content
