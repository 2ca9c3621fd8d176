"""Arguments of magics by argparse, from functions; errors are one line, and help keeps the kernel."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from functools import partial
from typing import Any, Never, get_origin

from tabletopic_kernel.faces.operations.operation import REQUIRED, Argument, signature_of
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.options import (
    FIXED_SETTINGS,
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
    """The arguments of a line; None if it asked for help, which is then printed. Raises UsageError."""
    try:
        words = shlex.split(line)
    except ValueError as error:  # an unclosed quotation
        raise UsageError(f"{error} in: {line}") from None
    try:
        return parser.parse_args(words)
    except SystemExit:  # --help
        return None


def add_arguments(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    """Add a function's arguments to a parser; an action's ``names`` say what completes it."""
    signature = signature_of(function)
    for argument in signature.arguments:
        names = [argument.name] if argument.option.positional else argument.spellings
        action = parser.add_argument(*names, **_about(argument))
        action.names = argument.option.names  # type: ignore[attr-defined]
    if signature.settings is not None:
        _add_settings(parser, fixed=not signature.settings.changeable)


def values_of(function: Callable[..., Any], parsed: argparse.Namespace) -> dict[str, Any]:
    """The parsed arguments of a function, by name."""
    signature, options = signature_of(function), vars(parsed)
    values = {argument.name: options[argument.name] for argument in signature.arguments}
    if signature.settings is not None:
        settings = {name.removeprefix(_PREFIX): v for name, v in options.items() if name.startswith(_PREFIX)}
        values["settings"] = given_settings(settings)
    return values


def _about(argument: Argument) -> dict[str, Any]:
    kind, option = argument.kind, argument.option
    is_required, is_pair = argument.default is REQUIRED, get_origin(kind) is tuple
    count = partial(_count, least=0 if option.least == 0 else 1)
    reader = _seconds if option.is_duration else count if kind is int or is_pair else None
    default = argument.default_text or (str(argument.default or "") if reader and not is_required else "")
    attributes: dict[str, Any] = {
        "help": _help(_lower(option.help), default),
        "default": None if is_required else argument.default,
    }
    if option.positional:
        attributes["nargs"] = None if is_required else "?"
    else:
        attributes["dest"] = argument.name
    if kind is bool:
        return attributes | {"action": "store_true"}
    if argument.choices:
        attributes["choices"] = argument.choices
    else:
        attributes["metavar"] = option.metavar.strip("[]")
    if is_pair:
        attributes |= {"nargs": 2, "metavar": tuple(option.metavar.split())}
    if reader is not None:
        attributes["type"] = reader
    return attributes


def _help(text: str, default: str) -> str:
    """A help text with its default, and ``%`` escaped for argparse."""
    return (f"{text} (default: {default})" if default else text).replace("%", "%%")


def _lower(text: str) -> str:
    """A help text in argparse's own style; a name keeps its capital."""
    first = text.split(" ", 1)[0]
    return text if first[1:] != first[1:].lower() else text[:1].lower() + text[1:]


def _count(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number" + (" above 0" if least else ""))
    return int(text)


def _seconds(text: str) -> float:
    try:
        return int(str(parse_duration_ms(text))) / 1000
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_PREFIX = "set_"


def _add_settings(parser: argparse.ArgumentParser, *, fixed: bool) -> None:
    """Add options for the settings; without ``fixed``, hide those that cannot change."""
    others = "tabletopic.toml overrides the defaults" if fixed else "others stay unchanged"
    group = parser.add_argument_group(f"settings of the table topic ({others})")
    for setting in setting_options():
        is_offered = setting.offered and (fixed or setting.field not in FIXED_SETTINGS)
        group.add_argument(
            setting.name,
            dest=f"{_PREFIX}{setting.field}",
            metavar=setting.metavar,
            action="append" if setting.several else "store",
            help=_help(setting.help, setting.default if fixed else "") if is_offered else argparse.SUPPRESS,
        )
