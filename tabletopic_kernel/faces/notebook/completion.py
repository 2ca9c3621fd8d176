"""Completion of ``%topic``, ``%lake`` and ``%dashboard``, by a context matcher that suppresses others."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from tabletopic_kernel.faces.notebook.dashboard_magic import make_parser as make_dashboard_parser
from tabletopic_kernel.faces.notebook.lake_magic import make_parser as make_lake_parser
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.notebook.topic_magic import make_parser
from tabletopic_kernel.model.errors import TableTopicError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_KEEP_S = 10.0  # broker and catalog must not be queried with each key
Matcher = Callable[[CompletionContext], SimpleMatcherResult]
_TABLE_WORD = re.compile(r"(?:\b(?:from|join|into|update|table|describe)\s+|,\s*)[\w.]*$", re.IGNORECASE)


class _CachedNames:
    """A cached list of names, refreshed when old; empty if the server does not respond."""

    def __init__(self, ask: Callable[[], Iterable[str]]) -> None:
        self._ask = ask
        self._names: list[str] = []
        self._until = 0.0

    def names(self) -> list[str]:
        if time.monotonic() >= self._until:
            try:
                self._names = sorted(self._ask())
            except TableTopicError:
                self._names = []
            self._until = time.monotonic() + _KEEP_S
        return self._names


def make_matcher(session: Session) -> Matcher:
    """The matcher for the completer's ``custom_matchers``."""
    topics = _CachedNames(lambda: list(session.workbench.kafka_topics()))
    tables = _CachedNames(lambda: _table_names(session))

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        words = candidates(context.full_text, context.text_until_cursor, topics.names, tables.names)
        token = context.token
        # IPython's token may begin after a dash or inside a name with dots or dashes.
        typed = re.split(r"\s", context.text_until_cursor)[-1]
        cut = len(typed) - len(token) if typed.endswith(token) else 0
        completions = [SimpleCompletion(text=word[cut:]) for word in words or () if word.startswith(typed)]
        return {"completions": completions, "suppress": words is not None}

    register: Callable[[Matcher], Matcher] = context_matcher(identifier="tabletopic")
    return register(matcher)


def candidates(
    full_text: str, until_cursor: str, topics: Callable[[], list[str]], tables: Callable[[], list[str]]
) -> list[str] | None:
    """The completions at the cursor; None if another matcher is responsible."""
    line = until_cursor.lstrip()
    words = line.split()
    if line and not line[-1].isspace():
        words = words[:-1]
    begins_option = until_cursor.rsplit(" ", maxsplit=1)[-1].startswith("-")
    if words[:1] == ["%topic"]:
        return _names_first(_topic_words(words[1:], topics), begins_option)
    if words[:1] == ["%dashboard"]:
        return _names_first(_words_of(make_dashboard_parser(), words[1:], topics), begins_option)
    if words[:1] in (["%lake"], ["%%lake"]) and "\n" not in line:
        options = _lake_options(words)
        if options is not None:
            return options
    in_lake = line.startswith("%lake ") or full_text.lstrip().startswith("%%lake")
    return tables() if in_lake and _TABLE_WORD.search(until_cursor) else None


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


def _table_names(session: Session) -> list[str]:
    workbench = session.workbench
    names = _names_in(workbench.open_catalog())
    short = [name.removeprefix("default.") for name in names if name.startswith("default.")]
    others: list[str] = []
    for catalog in workbench.servers.catalogs:
        with suppress(TableTopicError):  # an unresponsive catalog must not hide the others' names
            others += [f"{catalog}.{name}" for name in _names_in(workbench.open_catalog(catalog))]
    return [*names, *short, *others]


def _names_in(catalog: Catalog) -> list[str]:
    from tabletopic_kernel.clients.catalog.catalog import reachable  # noqa: PLC0415 - PyIceberg costs half a second

    with reachable("the catalog"):
        return [
            ".".join(table) for space in catalog.list_namespaces() for table in catalog.list_tables(space)
        ]
