"""The pages that the program shows."""

from __future__ import annotations

import inspect

import pytest

from tabletopic_kernel.faces import pages
from tabletopic_kernel.model import errors
from tabletopic_kernel.model.errors import RetryableError, SettingsError, TableTopicError, UsageError
from tabletopic_kernel.render.states import STATES
from tabletopic_kernel.workbench.doctor.check import PAGES, Check


def test_each_state_that_asks_for_something_has_its_section() -> None:
    """The page on trouble says what to do about it, and so does ``status``."""
    sections = {words.section for words in STATES.values() if words.tone in ("warn", "bad")}
    assert all(pages.page("trouble", section).startswith("## ") for section in sections)
    assert "" not in sections


def test_each_error_and_each_check_has_its_page() -> None:
    """What an error or a failed check refers to is there, and names a section."""
    kinds = [
        kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, TableTopicError)
    ]
    named = {kind.page for kind in kinds} | set(PAGES.values()) | set(errors.SECTION_PAGES.values())
    assert len(named) > 15
    for page in named - {""}:
        assert pages.page(*page.split()).startswith("#")


@pytest.mark.parametrize(
    ("error", "page"),
    [
        (RetryableError("the broker does not respond"), "trouble waiting"),
        (SettingsError("[registry] url is not set"), "your-servers registry"),
        (SettingsError("unknown setting topics.a.b"), "settings"),
    ],
)
def test_a_message_ends_with_its_page(error: TableTopicError, page: str) -> None:
    """By the kind of error, or by the server whose settings it names; a wrong option says all there is."""
    assert error.advice == f"{error} (see `tabletopic docs {page}`)"
    assert UsageError("no such option").advice == "no such option"


def test_a_failed_check_names_its_page() -> None:
    """Behind its remedy, or alone; a catalog's check by what is in front of the catalog's name."""
    see = "see `tabletopic docs your-servers storage`"
    assert Check("storage prod", "fail", "read-only", "free it").with_page().remedy == f"free it ({see})"
    assert Check("storage", "warn", "read-only: free it").with_page().remedy == see
    assert Check("storage", "ok", "writes").with_page().remedy == ""


def test_links_lead_to_pages_of_the_package() -> None:
    """What else a page links to is its text: an installed package has no decisions and no pictures."""
    index = pages.page(None)
    assert "[Install and remove](tutorial/install.md)" in index
    assert "](../" not in index
    assert "](https://duckdb.org/" in pages.page("query")
    assert "![" not in pages.page("jupyterlab")


@pytest.mark.parametrize(
    ("name", "section", "start"),
    [
        (None, "", "# The manual"),
        ("dead-letters", "", "# Dead letters"),
        ("how-to/dead-letters.md", "fix", "## Fix the cause"),
    ],
)
def test_a_page_by_its_name(name: str | None, section: str, start: str) -> None:
    """With or without its folder, whole or in part; what is generated bears no marks."""
    text = pages.page(name, section)
    assert text.startswith(start)
    assert "<!--" not in text


def test_a_wrong_name_is_answered_with_close_ones() -> None:
    """So is a section that a page lacks."""
    with pytest.raises(UsageError, match="no page troble: trouble; `tabletopic docs` shows the index"):
        pages.page("troble")
    with pytest.raises(UsageError, match="has no section 'sea'; `tabletopic docs trouble`"):
        pages.page("trouble", "sea")
