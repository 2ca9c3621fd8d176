"""The pages that the program shows."""

from __future__ import annotations

import pytest

from tabletopic_kernel.faces import pages
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.render.states import STATES


def test_each_state_that_asks_for_something_has_its_section() -> None:
    """The page on trouble says what to do about it, and so does ``status``."""
    sections = {words.section for words in STATES.values() if words.tone in ("warn", "bad")}
    assert all(pages.page("trouble", section).startswith("## ") for section in sections)
    assert "" not in sections


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
