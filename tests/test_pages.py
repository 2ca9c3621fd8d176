"""What the pages show exists: each command, setting and name in their blocks of code and between backquotes.

Blocks are read by the product's own parsers, without running anything.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel

from tabletopic_kernel.faces.cli.app import app
from tabletopic_kernel.faces.notebook import lake_magic
from tabletopic_kernel.faces.notebook.arguments import parse
from tabletopic_kernel.faces.notebook.dashboard_magic import make_parser as dashboard_parser
from tabletopic_kernel.faces.notebook.sql.text import parts_of
from tabletopic_kernel.faces.notebook.topic_magic import make_parser, parse_word
from tabletopic_kernel.model.settings import sections
from tabletopic_kernel.model.settings.options import given_settings, setting_options
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.topics.topic import TableTopic
from tabletopic_kernel.workbench.workbench import Workbench
from tests.test_architecture import DOCUMENTS, ROOT, blocks, prose
from tests.test_next_steps import check, texts

# Nobody follows the steps of a log of changes or of decisions.
PAGES = [page for page in DOCUMENTS if page != "CHANGELOG.md" and not page.startswith("adr/")]
TAKE_SETTINGS = ("plan", "enable", "alter")
_CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")


def examples(language: str) -> list[Any]:
    """Each block of a language on all pages."""
    return [
        pytest.param(block, id=f"{page}-{at}")
        for page in PAGES
        for at, block in enumerate(blocks(page, language))
    ]


def test_the_index_has_every_page() -> None:
    """From the manual's first page each is one click away, and no folder has more than twelve."""
    pages = {page for page in DOCUMENTS if page.startswith("docs/")} - {"docs/README.md"}
    index = (ROOT / "docs/README.md").read_text("utf-8")
    assert pages == {f"docs/{link}" for link in re.findall(r"\]\(([\w/-]+\.md)", index)}
    assert max(Counter(Path(page).parent for page in pages).values()) <= 12


# --- commands ---------------------------------------------------------------------------------------------


def commands(block: str) -> Iterator[list[str]]:
    """The words of each command of a console block: after a prompt, between pipes and the like."""
    for line in re.findall(r"^[$#] (.*)$", block.replace("\\\n", ""), re.MULTILINE):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.wordchars += "$%,:@[]^{}"
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("|&;"):
                yield words
                words = []
            else:
                words.append(word)


def try_command(words: list[str]) -> None:
    """The program accepts the command line and the values in it; raises its error."""
    group: Any = typer.main.get_command(app)
    with group.make_context("tabletopic", list(words)) as context:
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        given = dict(command.make_context(name, rest, parent=context).params)
    settings = (
        {option.field: given.get(option.field) for option in setting_options()}
        if name in TAKE_SETTINGS
        else {}
    )
    sections.TopicSettings.model_validate(given_settings(settings))


@pytest.mark.parametrize("block", examples("console"))
def test_commands_are_accepted(block: str) -> None:
    """The program's own parser takes each of its commands, and modules and make's targets exist."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for words in commands(block):
        if words[:1] == ["tabletopic"]:
            try_command(words[1:])
        elif words[:1] == ["make"]:
            assert {word for word in words[1:] if word.isalpha() or "-" in word[1:]} <= targets
        elif words[:2] == ["python", "-m"]:
            assert find_spec(words[2])


def test_commands_in_a_sentence_exist() -> None:
    """A command between backquotes has that name and those options."""
    for code in (code for page in PAGES for code in _CODE.findall(prose(page))):
        if re.match(r"(tabletopic|%topic|%%?lake|%dashboard) [a-z]", code):
            check(" ".join(code.split()).replace("…", "").replace("[", "").replace("]", "").rstrip("?"))


def test_no_message_refers_to_a_page() -> None:
    """An installed package has none of them, so help and errors say it themselves."""
    found = [place for place, is_doc, text in texts() if not is_doc and re.search(r"\bdocs/\S+\.md", text)]
    assert found == []


# --- settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", examples("toml"))
def test_settings_are_accepted(block: str, tmp_path: Path) -> None:
    """A settings file with the block, below the section that a fragment belongs to, is without a mistake."""
    table = tomllib.loads(block)
    head = "[topics.clicks]\n" if table.keys() <= sections.TopicSettings.model_fields.keys() else ""
    (file := tmp_path / "tabletopic.toml").write_text(head + block)
    named = {"TABLETOPIC_CONFIG": str(file)}  # so that it may name code
    assert set(load_settings(environ=named, cwd=tmp_path).origins.values()) != {"default"}


@cache
def settings() -> frozenset[str]:
    """The names of all settings."""
    kinds = [
        kind for kind in vars(sections).values() if inspect.isclass(kind) and issubclass(kind, BaseModel)
    ]
    return frozenset(name for kind in kinds for name in kind.model_fields)


@cache
def resembles_a_setting(name: str) -> list[str]:
    """The settings that a reader may take a name for which is none: both have several words."""
    several = [setting for setting in settings() if "_" in setting]
    known = "_" not in name or name in settings()
    return [] if known else difflib.get_close_matches(name, several, cutoff=0.8)


def test_settings_in_a_sentence_exist(tmp_path: Path) -> None:
    """What resembles a setting, or is called one, is one; and what is assigned to it is allowed."""
    found = "\n".join(map(prose, DOCUMENTS))
    assert {name for name in re.findall(r"`([a-z_]+)`", found) if resembles_a_setting(name)} == set()
    assert set(re.findall(r"\bsettings? `([a-z_]+)`", found)) <= settings()
    for key, value in set(re.findall(r"`([a-z_]+) = ([^`]+)`", found)):
        if key in sections.TopicSettings.model_fields:
            (tmp_path / "tabletopic.toml").write_text(f"[topics.clicks]\n{key} = {value}")
            load_settings(environ={}, cwd=tmp_path)


# --- Python -----------------------------------------------------------------------------------------------


def plain_python(block: str) -> str:
    """The cell without its magics, which are read by their own parsers."""
    lines = block.splitlines()
    if lines[0].startswith("%%lake"):
        options = parts_of(block.removeprefix("%%lake")).options
        assert parse(lake_magic.make_parser(), options) is not None
        return ""
    for at, line in enumerate(lines):
        name, _, words = line.partition(" ")
        if name == "%topic":
            assert parse_word(make_parser(), words) is not None
        elif name == "%dashboard":
            assert parse(dashboard_parser(), words) is not None
        elif name != "%load_ext":
            assert not line.startswith("%"), line
            continue
        lines[at] = ""
    return "\n".join(lines)


def check_names(source: str) -> None:
    """What is imported from the package exists, and so do methods of workbench and topic."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tabletopic_kernel"):
            for one in node.names:
                name = f"{node.module}.{one.name}"
                assert hasattr(importlib.import_module(node.module or ""), one.name) or find_spec(name), name
        if isinstance(node, ast.Attribute):
            of = ast.unparse(node.value)
            kind = (
                Workbench if of in ("workbench", "Workbench()") else TableTopic if ".topic(" in of else None
            )
            assert kind is None or hasattr(kind, node.attr) or node.attr in kind.__annotations__, node.attr


@pytest.mark.parametrize("block", examples("python"))
def test_python_uses_names_that_exist(block: str) -> None:
    """Each cell is valid: its magics with their options, its Python, and our names in it."""
    entries = block.startswith(" ")  # of a dictionary
    check_names(f"{{{block}}}" if entries else plain_python(block))


def test_python_in_a_sentence_uses_names_that_exist() -> None:
    """So does what is between backquotes."""
    for page in PAGES:
        for code in re.findall(r"`((?:workbench|Workbench\(\))\.[^`]+)`", prose(page)):
            check_names(code)
