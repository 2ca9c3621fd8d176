"""The static site of the pages: ``make docs`` writes ``site/`` with MkDocs.

Pages keep their places of the checkout, so their links hold; files that they link to are copied beside them.
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STAGE = ROOT / "build/pages"
_LINK = re.compile(r"\]\((?!\w+://)([^)#\s]+)")
_PAGES = ("*.md", "adr/*.md", "docs/**/*.md", "dashboards/*.md", "datasets/*/*.md", "tests/simulation/*.md")


def pages() -> list[Path]:
    """The pages of the site."""
    return sorted(path for pattern in _PAGES for path in ROOT.glob(pattern))


def navigation() -> list[Any]:
    """The index ``docs/README.md``: the pages at its top, its sections with theirs, and the project's."""
    top, *parts = (ROOT / "docs/README.md").read_text("utf-8").split("\n## ")
    sections = [{part.partition("\n")[0]: _listed(part)} for part in parts if _listed(part)]
    records = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("adr/*.md"))]
    project = {"Project": ["CONTRIBUTING.md", "CHANGELOG.md", {"Decisions": records}]}
    return ["README.md", "docs/README.md", *_listed(top), *sections, project]


def _listed(part: str) -> list[str]:
    targets = re.findall(r"\]\(((?:\.\./)?[\w/-]+\.md)\)", part)
    links = [(ROOT / "docs" / link).resolve() for link in targets]
    return [path.relative_to(ROOT).as_posix() for path in dict.fromkeys(links) if path != ROOT / "README.md"]


def stage() -> None:
    """Copy pages and what they link to below ``build/pages``."""
    shutil.rmtree(STAGE, ignore_errors=True)
    linked = {
        (page.parent / link).resolve() for page in pages() for link in _LINK.findall(page.read_text("utf-8"))
    }
    for path in {*pages(), *(path for path in linked if path.is_file())}:
        target = STAGE / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def build(target: Path) -> None:
    """Write the site; raises SystemExit where a link or anchor leads nowhere."""
    from mkdocs.commands import build as mkdocs  # noqa: PLC0415 - an extra's
    from mkdocs.config import load_config  # noqa: PLC0415

    stage()
    config = {"docs_dir": str(STAGE), "site_dir": str(target), "nav": navigation(), "strict": True}
    mkdocs.build(load_config(str(ROOT / "mkdocs.yml"), **config))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    build(ROOT / "site")
    sys.stdout.write(f"{(ROOT / 'site/index.html').as_uri()}\n")
