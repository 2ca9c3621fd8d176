"""Arguments of magics by argparse, derived from operations; errors are one line, and help keeps the kernel.

Each word of ``%topic`` is an operation, under its own name.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Never

from tabletopic_kernel.faces.operations import BY_NAME, OPERATIONS
from tabletopic_kernel.faces.operations.operation import MAGIC, Argument, Kind, Operation
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.options import (
    FIXED_SETTINGS,
    SettingOption,
    given_settings,
    setting_options,
)
from tabletopic_kernel.model.settings.units import parse_duration_ms


class Parser(argparse.ArgumentParser):
    """Reports errors as UsageError."""

    def error(self, message: str) -> Never:
        """Raise the error in one line."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def parse(parser: argparse.ArgumentParser, line: str) -> argparse.Namespace | None:
    """The arguments of a line; None if it asked for help, which is then printed.

    Raises:
        UsageError: with what is wrong.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:  # an unclosed quotation
        raise UsageError(f"{error} in: {line}") from None
    try:
        return parser.parse_args(words)
    except SystemExit:  # --help
        return None


def add_arguments(parser: argparse.ArgumentParser, operation: Operation) -> None:
    """Add an operation's arguments to a parser; completion finds what names them by ``names``."""
    for argument in operation.arguments_of(MAGIC):
        names = [argument.name] if argument.positional else argument.spellings
        action = parser.add_argument(*names, **_about(argument))
        action.names = argument.names  # type: ignore[attr-defined]


def _about(argument: Argument) -> dict[str, Any]:
    default = str(argument.default or "") if argument.kind in _READERS else ""
    about: dict[str, Any] = {
        "help": _help(_lower(argument.help), argument.default_text or default),
        "default": argument.default,
    }
    if argument.positional:
        about["nargs"] = None if argument.required else "?"
    else:
        about["dest"] = argument.name
    if argument.kind is Kind.FLAG:
        return about | {"action": "store_true"}
    if argument.choices:
        about["choices"] = argument.choices
    else:
        about["metavar"] = argument.metavar.strip("[]")
    if argument.kind is Kind.PAIR:
        about |= {"nargs": 2, "metavar": tuple(argument.metavar.split())}
    if argument.kind in _READERS:
        about["type"] = _READERS[argument.kind]
    return about


def _help(text: str, default: str) -> str:
    """A help text with its default, for argparse, to which ``%`` is special."""
    return (f"{text} (default: {default})" if default else text).replace("%", "%%")


def _lower(text: str) -> str:
    """A help text in argparse's own style; a name keeps its capital."""
    first = text.split(" ", 1)[0]
    return text if first[1:] != first[1:].lower() else text[:1].lower() + text[1:]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        return int(str(parse_duration_ms(text))) / 1000
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# Numbers in magics are counts, so they begin at 1.
_READERS: dict[Kind, Callable[[str], Any]] = {
    Kind.NUMBER: _count,
    Kind.PAIR: _count,
    Kind.SECONDS: _seconds,
}


_PREFIX = "set_"


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``%topic``; parsed arguments have ``command``, None for the list."""
    parser = Parser(
        prog="%topic",
        description="Kafka topics as Iceberg tables: list, enable and monitor them.",
        epilog="Without a command: the list, with lag, state and schema versions.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
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
    """Add options for the settings; without ``fixed``, those that cannot change are not shown."""
    others = "tabletopic.toml overrides the defaults" if fixed else "others stay unchanged"
    group = parser.add_argument_group(f"settings of the table topic ({others})")
    for one in setting_options():
        group.add_argument(
            one.name,
            dest=f"{_PREFIX}{one.field}",
            metavar=one.metavar,
            action="append" if one.several else "store",
            help=_help(one.help, one.default if fixed else "")
            if _is_offered(one, fixed)
            else argparse.SUPPRESS,
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


BEGIN = """\
Kafka topics as Iceberg tables. Begin with:

    %topic up
    %topic sample clicks
    %topic enable clicks --wait
    %lake devices << SELECT device.type AS device, count(*) AS events FROM clicks GROUP BY ALL
    from tabletopic_kernel import bars
    bars(dict(devices.values), "Events by device", "events")

%topic? lists the commands.
"""


def manual() -> str:
    """What ``%topic?`` shows: the commands by purpose, how to begin, and where the rest is."""
    panels: dict[str, list[str]] = {}
    for one in OPERATIONS:
        if one.is_word:
            panels.setdefault(one.panel or "Servers and settings", []).append(one.name)
    width = max(map(len, panels))
    lists = [f"  {panel:{width}}  {', '.join(names)}" for panel, names in panels.items()]
    more = "`%topic --help` says what each does, `%topic enable --help` has its options."
    return "\n".join([*BEGIN.splitlines()[:-1], *lists, "", f"Without a command: the list. {more}"])
