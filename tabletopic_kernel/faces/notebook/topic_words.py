"""The words of ``%topic``: each is an operation, under its own name."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from tabletopic_kernel.faces.notebook.arguments import Parser, add_arguments, parse
from tabletopic_kernel.faces.operations import BY_NAME, OPERATIONS, Operation
from tabletopic_kernel.faces.operations.operation import MAGIC
from tabletopic_kernel.model.settings.options import (
    FIXED_SETTINGS,
    SettingOption,
    given_settings,
    setting_options,
)

_PREFIX = "set_"


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``%topic``; parsed arguments have ``command``, None for the list."""
    parser = Parser(
        prog="%topic",
        description="Kafka topics that are Iceberg tables: list them, enable them, see how they do.",
        epilog="Without a word: the list, with lag, state and schema versions.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words = parser.add_subparsers(dest="command", metavar="WORD", title="words")
    for operation in OPERATIONS:
        if operation.is_word:
            text = operation.summary[:1].lower() + operation.summary[1:]
            made = words.add_parser(
                operation.name,
                aliases=list(operation.aliases),
                help=text,
                description=text,
                prog=operation.magic,
            )
            add_arguments(made, operation)
            if operation.settings:
                _add_settings(made, fixed=operation.settings == "all")
            made.set_defaults(command=operation.name)
    return parser


def _add_settings(parser: argparse.ArgumentParser, *, fixed: bool) -> None:
    """Options for the settings; without ``fixed`` those that cannot change are not shown."""
    origin = "from tabletopic.toml" if fixed else "as they are"
    group = parser.add_argument_group(f"settings of the table topic (those not given: {origin})")
    for one in setting_options():
        group.add_argument(
            one.name,
            dest=f"{_PREFIX}{one.field}",
            metavar=one.metavar,
            action="append" if one.several else "store",
            help=one.help.replace("%", "%%") if _is_offered(one, fixed) else argparse.SUPPRESS,
        )


def _is_offered(option: SettingOption, fixed: bool) -> bool:
    return option.offered and (fixed or option.field not in FIXED_SETTINGS)


def parse_word(parser: argparse.ArgumentParser, line: str) -> tuple[Operation | None, dict[str, Any]] | None:
    """The operation of a line (None: the list) with its arguments; None if help was printed instead.

    Raises:
        UsageError: with what is wrong.
    """
    parsed = parse(parser, line)
    if parsed is None:
        return None
    if parsed.command is None:
        return None, {}
    operation = BY_NAME[parsed.command]
    values = {one.name: getattr(parsed, one.name) for one in operation.arguments_of(MAGIC)}
    if operation.settings:
        values["settings"] = _settings(vars(parsed))
    return operation, values


def _settings(parsed: Mapping[str, Any]) -> dict[str, object]:
    given = {name.removeprefix(_PREFIX): v for name, v in parsed.items() if name.startswith(_PREFIX)}
    return given_settings(given)


def manual(parser: argparse.ArgumentParser) -> str:
    """All of the help, as ``%topic?`` shows it."""
    words = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    pages = dict.fromkeys(words.choices.values())
    return "\n".join([parser.format_help(), *(page.format_help() for page in pages)])
