"""Options of magics by argparse: errors of one line, and help that does not end the kernel."""

from __future__ import annotations

import argparse
import shlex
from typing import Never

from tabletopic_kernel.model.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Says what is wrong as a UsageError."""

    def error(self, message: str) -> Never:
        """Raise it in one line."""
        raise UsageError(f"{message} ({self.prog} --help tells more)")


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


def count(text: str) -> int:
    """A type of arguments: a number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)
