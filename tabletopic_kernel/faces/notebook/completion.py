"""Completion of ``%topic``, ``%lake`` and ``%dashboard``, by a context matcher that suppresses others."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from tabletopic_kernel.faces.notebook.dashboard_magic import make_parser as make_dashboard_parser
from tabletopic_kernel.faces.notebook.lake_magic import make_parser as make_lake_parser
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.notebook.sql import results
from tabletopic_kernel.faces.notebook.sql.names import Kept, Names
from tabletopic_kernel.faces.notebook.sql.suggestions import Scope, suggest
from tabletopic_kernel.faces.notebook.sql.text import parts_of, parts_of_cell
from tabletopic_kernel.faces.notebook.topic_magic import make_parser

_LINE_MAGIC = re.compile(r"\A\s*(?:\w+\s*=\s*)?%lake(?=\s)")
Matcher = Callable[[CompletionContext], SimpleMatcherResult]


def make_matcher(session: Session) -> Matcher:
    """The matcher for the completer's ``custom_matchers``."""
    kept, names = Kept(), Names(session)

    def topics() -> list[str]:
        return kept.get("topics", lambda: sorted(session.workbench.kafka_topics()), [])

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        words = candidates(context.text_until_cursor, topics)
        place = None if words is not None else _sql_at(context)
        if place is not None:
            return _of_sql(*place, session, names)
        token = context.token
        # IPython's token may begin after a dash or inside a name with dots or dashes.
        typed = re.split(r"\s", context.text_until_cursor)[-1]
        cut = len(typed) - len(token) if typed.endswith(token) else 0
        completions = [SimpleCompletion(text=word[cut:]) for word in words or () if word.startswith(typed)]
        return {"completions": completions, "suppress": words is not None}

    register: Callable[[Matcher], Matcher] = context_matcher(identifier="tabletopic")
    return register(matcher)


def _of_sql(sql: str, cursor: int, engine: str, session: Session, names: Names) -> SimpleMatcherResult:
    tables = results.tables_in(session.namespace)
    columns = {name: partial(results.columns_of, table) for name, table in tables.items()}
    variables = results.about(session.namespace)
    typed, suggestions = suggest(sql, cursor, Scope(names, engine, variables, columns))
    return {
        "completions": [SimpleCompletion(text, type=about) for text, about in suggestions],
        "matched_fragment": typed,
        "ordered": True,
        "suppress": True,
    }


def _sql_at(context: CompletionContext) -> tuple[str, int, str] | None:
    """The SQL around the cursor, the cursor in it, and the engine; None outside of SQL."""
    text, cursor = context.full_text, context.cursor_position
    if (cell := parts_of_cell(text)) is not None:
        cursor += sum(len(line) + 1 for line in text.split("\n")[: context.cursor_line])
    elif (magic := _LINE_MAGIC.match(text := context.line_with_cursor)) is not None:
        cell = parts_of(text[magic.end() :])
        cell = replace(cell, begin=cell.begin + magic.end())
    if cell is None or cursor < cell.begin:
        return None
    return text[cell.begin :], cursor - cell.begin, cell.engine


def candidates(until_cursor: str, topics: Callable[[], list[str]]) -> list[str] | None:
    """The words of a magic at the cursor; None if another matcher is responsible."""
    line = until_cursor.lstrip()
    words = line.split()
    if line and not line[-1].isspace():
        words = words[:-1]
    begins_option = until_cursor.rsplit(" ", maxsplit=1)[-1].startswith("-")
    if words[:1] == ["%topic"]:
        return _names_first(_topic_words(words[1:], topics), begins_option)
    if words[:1] == ["%dashboard"]:
        return _names_first(_words_of(make_dashboard_parser(), words[1:], topics), begins_option)
    return _lake_options(words) if words[:1] in (["%lake"], ["%%lake"]) else None


def _names_first(words: list[str], begins_option: bool) -> list[str]:
    """Without options unless the user types one or nothing else fits: IPython sorts options first."""
    names = [word for word in words if not word.startswith("-")]
    return words if begins_option or not names else names


def _lake_options(words: list[str]) -> list[str] | None:
    """Options while only options precede the cursor; after them the SQL begins."""
    actions = [action for action in make_lake_parser()._actions if action.nargs != 0]
    takes_value = {option: action for action in actions for option in action.option_strings}
    if words[-1] in takes_value:
        return _choices(takes_value[words[-1]])
    only_options = all(word.startswith("-") or last in takes_value for last, word in pairwise(words))
    return list(takes_value) if only_options else None


def _topic_words(words: list[str], topics: Callable[[], list[str]]) -> list[str]:
    actions = make_parser()._actions
    subcommands = next(action for action in actions if isinstance(action, argparse._SubParsersAction)).choices
    if not words:
        return list(subcommands)
    chosen = subcommands.get(words[0])
    return [] if chosen is None else _words_of(chosen, words[1:], topics)


def _words_of(
    parser: argparse.ArgumentParser, words: list[str], topics: Callable[[], list[str]]
) -> list[str]:
    """What may follow the words: an option's values, the positional argument's, or options."""
    for action in parser._actions:
        if words and words[-1] in action.option_strings and action.nargs != 0:
            return _choices(action)
    options = [option for action in parser._actions for option in action.option_strings]
    positional = next((action for action in parser._actions if not action.option_strings), None)
    if positional is None or any(not word.startswith("-") for word in words[:1]):
        return options
    is_topic = getattr(positional, "names", None) == "topics"
    return [*(topics() if is_topic else _choices(positional)), *options]


def _choices(action: argparse.Action) -> list[str]:
    if action.choices:
        return list(action.choices)
    text = action.metavar if isinstance(action.metavar, str) else ""
    return text.split("|") if "|" in text else []
