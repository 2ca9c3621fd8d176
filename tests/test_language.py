"""Pages, help texts and messages use the field's own words, in short sentences and paragraphs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import manual
from tabletopic_kernel.faces.notebook import dashboard_magic, lake_magic
from tabletopic_kernel.model.settings import sections
from tests.test_architecture import DOCUMENTS, ROOT, prose

SENTENCE, PARAGRAPH = 30, 80  # words
_OTHER_LETTERS = "".join(
    f"(?<!{word} )" for word in ("lowercase", "capital", "small", "with a", "topic", "#")
)
WORDS = {
    r"head snapshot|table's head": "current snapshot",
    r"settl(?:e|es|ed|ing)": "resolve",
    r"sweep(?:s|ing)?|swept": "remove orphan files",
    r"pass(?:es|ed|ing)? over|passed-over": "ignore",
    rf"(?<!dead[ -]){_OTHER_LETTERS}letters?(?! outside)": "dead letter",
    r"poison\w*": "invalid record",
    r"anew": "re-created, again",
    r"since 1970": "epoch milliseconds",
    r"answers? (?:was |is )?lost|lost answers?": "lost response",
    r"go(?:es|ing)? on|went on|gone on": "continue, resume",
    r"foreign (?:writers?|commits?|deletes?|changes?|files|tables?)": "of other programs",
    r"(?:an)?other writers?": "other programs",
    r"rejected": "refused",
    r"embedded (?:stack|servers)|local servers": "local stack",
    r"headless": "background host",
    r"for ever|as ever|any more|without a word|stands? still": "(say it plainly)",
    r"tells? of|told|speaks? of|will tell|tells? apart": "describe, distinguish",
    r"in order to|of course|simply|basically|obviously|it should be noted": "(leave out)",
    r"may possibly|might|rather|quite|somewhat|more or less": "(state it)",
}
_BANNED = {re.compile(rf"(?i)\b(?:{words})\b"): use for words, use in WORDS.items()}
_LINK = re.compile(r"!?\[(?:([\w/]+(?:/|\.py))|([^\]]*))\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?])[)”\"]? +(?=[A-Z“\"(†])")
PAGES = [page for page in DOCUMENTS if not page.startswith(("adr/", "CHANGELOG"))]


def plain(text: str) -> str:
    """The text without marks: code is one word, and so is a link to a file; another link is its text."""
    text = _LINK.sub(lambda link: link[2] or "X", re.sub(r"``[^`]+``|`[^`]*`", "X", text))
    return " ".join(re.sub(r"<!--.*?-->|[*†]", "", text).split())


def problems(text: str) -> list[str]:
    """What is wrong with a paragraph."""
    text = plain(text)
    found = [f"{hit[0]!r}: {use}" for words, use in _BANNED.items() for hit in words.finditer(text)]
    for most, kind, parts in ((SENTENCE, "sentence", _END.split(text)), (PARAGRAPH, "paragraph", [text])):
        counts = [(len(re.findall(r"\w[\w'/.-]*", part)), part) for part in parts]
        found += [f"a {kind} of {count} words: {part[:90]}" for count, part in counts if count > most]
    return found


def units(page: str) -> Iterator[str]:
    """Paragraphs, list items and table cells."""
    for block in re.split(r"\n\s*\n", prose(page)):
        for line in re.split(r"\n(?=\s*(?:[-|#]|\d+\.) ?)", block.strip()):
            yield from (re.split(r"(?<!\\)\|", line) if line.lstrip().startswith("|") else [line])


@pytest.mark.parametrize("page", PAGES)
def test_pages(page: str) -> None:
    """Every paragraph, item and cell of a page."""
    assert [problem for unit in units(page) for problem in problems(unit)] == []


def test_help_texts() -> None:
    """Help of commands, options, magics and settings."""
    commands = manual.commands().values()
    texts = [part for one in commands for part in (one.help or "").split("\n\n")]
    texts += [param.help or "" for command in commands for param in command.params if hasattr(param, "help")]
    magics = (lake_magic, dashboard_magic)
    texts += [line for magic in magics for line in manual.magic(magic.make_parser).splitlines()]
    texts += [field.description or "" for field in sections.TopicSettings.model_fields.values()]
    assert [problem for text in texts for problem in problems(text)] == []


def messages(path: Path) -> Iterator[str]:
    """The sentences of a module: strings of one line that are no docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    nodes = list(ast.walk(tree))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    parts |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        pieces = node.values if isinstance(node, ast.JoinedStr) else [] if id(node) in parts else [node]
        text = "".join(str(piece.value) if isinstance(piece, ast.Constant) else "1" for piece in pieces)
        if re.search(r"[a-z]+ [a-z]+ [a-z]+", text) and "\n" not in text.strip():
            yield text


def test_messages() -> None:
    """Strings of the program that people read."""
    files = (ROOT / "tabletopic_kernel").rglob("*.py")
    paths = [path for path in files if not {"labextension", "node_modules"} & set(path.parts)]
    assert [
        (path.name, problem) for path in paths for text in messages(path) for problem in problems(text)
    ] == []
