"""The static site of the pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from docs import site


def listed(entries: list[Any]) -> list[str]:
    """The pages of a navigation."""
    found: list[str] = []
    for entry in entries:
        found += (
            [entry] if isinstance(entry, str) else [one for part in entry.values() for one in listed(part)]
        )
    return found


def test_the_navigation_has_every_page() -> None:
    """Each page of the manual and each decision is there once."""
    pages = listed(site.navigation())
    assert len(set(pages)) == len(pages)
    wanted = {path.relative_to(site.ROOT).as_posix() for path in site.pages()}
    assert {page for page in wanted if page.startswith(("docs/", "adr/"))} <= set(pages) <= wanted


@pytest.mark.integration
def test_every_link_holds_in_the_site(tmp_path: Path) -> None:
    """It builds without a warning, with search, and fetches nothing from elsewhere."""
    site.build(tmp_path)
    index = json.loads((tmp_path / "search/search_index.json").read_text("utf-8"))
    assert any("dead letters" in entry["text"] for entry in index["docs"])
    for page in tmp_path.rglob("*.html"):
        text = page.read_text("utf-8")
        assert 'src="http' not in text
        assert 'rel="stylesheet" href="http' not in text
