"""Every command named in a message exists in the face that shows the message."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tabletopic_kernel.faces.cli.app import app
from tabletopic_kernel.faces.notebook.dashboard_magic import make_parser as dashboard_parser
from tabletopic_kernel.faces.notebook.lake_magic import make_parser as lake_parser
from tabletopic_kernel.faces.notebook.topic_magic import make_parser
from tabletopic_kernel.faces.operations.next_steps import BUTTONS, Face, for_face, values_for_face

_ROOT = Path(__file__).parents[1]
_QUOTED = re.compile(r"`(?:tabletopic [^`]+|%(?:topic|%?lake|dashboard)(?: [^`]*)?)`")
_MAY_NAME_ONE = re.compile(r"tabletopic [a-z]|%(?:topic|lake|dashboard)")
_NAKED = re.compile(r"(?<![`\w./%-])(?:tabletopic|%topic) [a-z][a-z-]*")


@cache
def texts() -> tuple[tuple[str, bool, str], ...]:
    """Place, whether it is a docstring, and text of every string of the program and its pages."""
    return tuple(_texts())


def _texts() -> Iterator[tuple[str, bool, str]]:
    files = [*(_ROOT / "tabletopic_kernel").rglob("*.py"), *(_ROOT / "dashboards").glob("*.py")]
    for path in sorted({path.resolve() for path in files}):
        if path.name == "next_steps.py" or {"node_modules", "notebooks"} & set(path.parts):
            continue
        source = path.read_text("utf-8")
        if not _MAY_NAME_ONE.search(source):
            continue
        tree = ast.parse(source)
        parts = {
            id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
        }
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            place = f"{path.relative_to(_ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr):
                yield (
                    place,
                    False,
                    "".join(value.value if isinstance(value, ast.Constant) else "X" for value in node.values),
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                yield place, id(node) in docs, node.value


@cache
def commands(docs: bool = True) -> tuple[tuple[str, str], ...]:
    """Place and spelling of every command between backquotes, with or without those of docstrings."""
    found = {
        (place, match[0].strip("`"))
        for place, is_doc, text in texts()
        if docs or not is_doc
        for match in _QUOTED.finditer(text)
    }
    return tuple(sorted(found))


@cache
def for_terminals() -> set[tuple[str, str]]:
    """Commands that the message marks for a terminal: they are never rendered."""
    found = re.compile(_QUOTED.pattern + " in a terminal")
    return {(p, m[0].split("`")[1]) for p, _, text in texts() for m in found.finditer(text)}


@cache
def check(command: str) -> None:
    """The command's name, its words and its options are those of its own parser."""
    program, *words = shlex.split(command)
    if program == "tabletopic":
        group: Any = typer.main.get_command(app)
        assert words[0] in group.commands, f"the program has no command {words[0]}"
        options = {
            name for param in group.commands[words[0]].params for name in (*param.opts, *param.secondary_opts)
        }
        given = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert given <= options, f"`{words[0]}` has no option {given - options}"
        return
    if program == "%topic":
        if words in ([], ["--help"]):
            return
        parser = make_parser()
        table = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
        assert words[0] in table.choices, f"%topic has no word {words[0]}"
        made, words = table.choices[words[0]], words[1:]
    else:
        parsers = {"%dashboard": dashboard_parser, "%lake": lake_parser, "%%lake": lake_parser}
        assert program in parsers, f"there is no magic {program}"
        made = parsers[program]()
    known = {name for action in made._actions for name in action.option_strings}
    given = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert given <= known, f"{command} has no option {given - known}"
    for action in made._actions:
        if not action.option_strings and action.choices and words:
            assert words[0] in action.choices, f"{command}: none of {action.choices}"


def test_a_command_of_a_message_exists() -> None:
    """What a string of the program names between backquotes is a command with these options."""
    found = commands()
    assert len(found) > 15
    for place, command in found:
        try:
            check(command)
        except AssertionError as error:
            raise AssertionError(f"{place}: {error}") from None


@pytest.mark.parametrize("face", list(Face))
def test_each_face_names_its_own_commands(face: Face) -> None:
    """Rendered for a face, a message names commands that exist there, or says where they are to be run."""
    for place, command in commands(docs=False):
        if not command.startswith("tabletopic ") or (place, command) in for_terminals():
            continue
        told = for_face(f"`{command}`", face)
        assert for_face(told, face) == told, f"{place}: rendered twice it differs"
        for match in _QUOTED.finditer(told):
            check(match[0].strip("`"))
            if match[0].startswith("`tabletopic "):
                assert told[match.end() :].startswith(" in a terminal"), (place, told)
            else:
                assert face is not Face.SIDEBAR, (place, told)


def test_the_sidebar_has_the_buttons_that_messages_name() -> None:
    """A button's name is a text of the sidebar."""
    sources = "".join(path.read_text("utf-8") for path in (_ROOT / "labextension/src").rglob("*.ts"))
    missing = [name for name in BUTTONS.values() if f"'{name}'" not in sources]
    assert missing == []


def test_commands_stand_between_backquotes() -> None:
    """A command that a message names without backquotes would not be rendered; indented lines are cells."""
    naked = [
        f"{place}: {match[0]}"
        for place, is_doc, text in texts()
        if not is_doc and not _NAKED.match(text)  # a text that is a command, as the table of operations has
        for match in _NAKED.finditer(re.sub(r"`[^`]*`|^    .*$", "", text, flags=re.MULTILINE))
    ]
    assert naked == []


def test_values_keep_their_shape() -> None:
    """Texts at any depth are rendered, keys and other values stay."""
    body = {"`tabletopic up`": [{"a": "`tabletopic serve`", "n": 1, "none": None}]}
    assert values_for_face(body, Face.SIDEBAR) == {
        "`tabletopic up`": [{"a": "“Start a host”", "n": 1, "none": None}]
    }
