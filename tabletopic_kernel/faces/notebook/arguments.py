"""Arguments of magics by argparse, made from operations; an error is one line, and help ends no kernel."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from typing import Any, Never

from tabletopic_kernel.faces.operations.operation import MAGIC, Argument, Kind, Operation
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import parse_duration_ms


class Parser(argparse.ArgumentParser):
    """Reports what is wrong as a UsageError."""

    def error(self, message: str) -> Never:
        """Raise it in one line."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def parse(parser: argparse.ArgumentParser, line: str) -> argparse.Namespace | None:
    """The arguments of a line; None if it asked for help, which is printed then.

    Raises:
        UsageError: with what is wrong.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:  # a quotation that is not closed
        raise UsageError(f"{error} in: {line}") from None
    try:
        return parser.parse_args(words)
    except SystemExit:  # --help
        return None


def add_arguments(parser: argparse.ArgumentParser, operation: Operation) -> None:
    """Give a parser the arguments of an operation; completion finds what names them by ``names``."""
    for argument in operation.arguments_of(MAGIC):
        names = [argument.name] if argument.positional else argument.spellings
        action = parser.add_argument(*names, **_about(argument))
        action.names = argument.names  # type: ignore[attr-defined]


def _about(argument: Argument) -> dict[str, Any]:
    about: dict[str, Any] = {"help": _lower(argument.help).replace("%", "%%")}
    if argument.positional:
        about["nargs"] = None if argument.required else "?"
    else:
        about["dest"] = argument.name
        about["default"] = argument.default
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
    if argument.kind is Kind.NUMBER and argument.default is not None and "(" not in argument.help:
        about["help"] += f" ({argument.default})"
    return about


def _lower(text: str) -> str:
    """A help text as argparse's own begin; a name keeps its capital."""
    first = text.split(" ", 1)[0]
    return text if first[1:] != first[1:].lower() else text[:1].lower() + text[1:]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        return int(str(parse_duration_ms(text))) / 1000
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# Numbers of magics count something, so they begin at 1.
_READERS: dict[Kind, Callable[[str], Any]] = {
    Kind.NUMBER: _count,
    Kind.PAIR: _count,
    Kind.SECONDS: _seconds,
}
