"""SQL in a notebook's cell: its colours, what completes it, the place of an error, its format."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.lab_server import Lab
from tests.browser.pages import LabPage

pytestmark = pytest.mark.integration

# A catalog in a file, and a broker that nobody asks.
SETUP = """\
import os
os.environ["TABLETOPIC_CATALOG__TYPE"] = "sql"
os.environ["TABLETOPIC_CATALOG__URI"] = "sqlite:///{folder}/catalog.db"
os.environ["TABLETOPIC_CATALOG__WAREHOUSE"] = "file://{folder}/lake"
os.environ["TABLETOPIC_KAFKA__BOOTSTRAP__SERVERS"] = "127.0.0.1:1"
os.environ["TABLETOPIC_REGISTRY__URL"] = "http://127.0.0.1:1"
%load_ext tabletopic_kernel
import pyarrow as pa
workbench.catalog.create_namespace("default")
workbench.catalog.create_table("default.clicks", pa.schema([("url", pa.string()), ("views", pa.int64())]))
print("ready")
"""
WRONG = "%%lake --limit 5\nSELECT url,\n  viws\nFROM clicks"


def test_sql_in_a_cell(page: LabPage, lab: Lab, tmp_path: Path) -> None:
    """Highlighted by its first line, completed while typing, marked where it is wrong, formatted."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "tabletopic", "display_name": "", "language": "python"}
    texts = (SETUP.format(folder=tmp_path), WRONG, "")
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in texts]
    nbformat.write(notebook, lab.folder / "files" / "sql.ipynb")
    page.open(sidebar=False)
    page.page.evaluate("jupyterapp.commands.execute('docmanager:open', { path: 'sql.ipynb' })")
    setup, wrong, empty = (page.page.locator(".jp-Notebook .jp-CodeCell").nth(at) for at in range(3))
    expect(wrong.locator(".jp-TableTopic-magic")).to_have_text("%%lake --limit 5")
    expect(wrong.locator(".cm-line span").get_by_text("SELECT", exact=True)).to_be_visible()
    keys = page.page.keyboard

    setup.locator(".cm-content").click()
    keys.press("Shift+Enter")
    expect(setup.locator(".jp-OutputArea-output").last).to_contain_text("ready", timeout=60_000)
    wrong.locator(".cm-content").click()
    keys.press("Shift+Enter")
    expect(wrong.locator(".jp-TableTopic-sqlError")).to_have_text("viws", timeout=60_000)
    expect(wrong.locator(".jp-OutputArea-output")).to_contain_text("line 3, column 3 of the cell:")

    empty.locator(".cm-content").click()
    keys.type("%%lake\nselect * from clicks where vi")
    suggestions = page.page.locator(".jp-Completer:visible")
    expect(suggestions).to_contain_text("views")
    expect(suggestions).to_contain_text("column\xa0long")
    page.shot("cells-sql")
    keys.press("Enter")
    page.page.evaluate("jupyterapp.commands.execute('tabletopic:format-sql')")
    expect(empty.locator(".cm-content")).to_contain_text("WHERE  views")
    keys.press("Control+Home")
    keys.type("#")
    expect(empty.locator(".jp-TableTopic-magic")).to_have_count(0)
