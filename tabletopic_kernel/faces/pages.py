"""The pages of the manual, which come with the package; in a checkout they are its ``docs``."""

from __future__ import annotations

import difflib
import re
from functools import partial
from pathlib import Path

from tabletopic_kernel.model.errors import UsageError

_PACKAGE = Path(__file__).parents[1]
_INDEX = "README"
_LINK = re.compile(r"!?\[([^\]\[]*)\]\(([^()#\s]*)(#[^()\s]*)?\)")


def folder() -> Path:
    """Where the pages are."""
    installed = _PACKAGE / "_docs"
    return (installed if installed.exists() else _PACKAGE.parent / "docs").resolve()


def page(name: str | None, section: str = "") -> str:
    """The Markdown of a page, or of its first section whose heading has this word; without a name, the index.

    UsageError: there is no such page or section.
    """
    paths = {path.stem: path for path in sorted(folder().rglob("*.md"))}
    wanted = (name or _INDEX).removesuffix(".md").rpartition("/")[2]
    if wanted not in paths:
        close = difflib.get_close_matches(wanted, paths, 3, 0.5) or sorted(paths.keys() - {_INDEX})
        raise UsageError(f"there is no page {wanted}: {', '.join(close)}; `tabletopic docs` shows the index")
    text = re.sub(r"<!--.*?-->\n*", "", paths[wanted].read_text("utf-8"))
    text = _LINK.sub(partial(_kept, paths[wanted].parent), text)
    if not section:
        return text
    parts = re.split(r"^(?=##+ )", text, flags=re.MULTILINE)[1:]
    matching = [part for part in parts if section.lower() in part.partition("\n")[0].lower()]
    if not matching:
        raise UsageError(f"the page {wanted} has no section {section!r}; `tabletopic docs {wanted}` shows it")
    return matching[0]


def _kept(place: Path, link: re.Match[str]) -> str:
    """A link, or only its text if what it leads to is no page of the package, such as an image."""
    target = place / link[2]
    is_page = target.suffix == ".md" and target.exists() and folder() in target.resolve().parents
    return link[0] if is_page or "://" in link[2] or not link[2] else link[1]
