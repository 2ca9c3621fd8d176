"""``%topic``: table topics from a cell."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class

from tabletopic_kernel.faces.notebook.arguments import Parser, add_arguments, parse, values_of
from tabletopic_kernel.faces.notebook.display import report_errors
from tabletopic_kernel.faces.notebook.session import Session
from tabletopic_kernel.faces.notebook.topic_words import WORDS, here, topic_list
from tabletopic_kernel.faces.operations.operation import summary_of
from tabletopic_kernel.render.grid import Grid

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
    for name, word in WORDS.items():
        panels.setdefault(word.panel, []).append(name)
    width = max(map(len, panels))
    lists = [f"  {panel:{width}}  {', '.join(names)}" for panel, names in panels.items()]
    ending = "`%topic --help` says what each does, `%topic enable --help` has its options."
    pages = "`%topic docs` shows the manual, `%topic docs trouble` what to do about a symptom."
    return "\n".join([*BEGIN.splitlines()[:-1], *lists, "", f"Without a command: the list. {ending}", pages])


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``%topic``; parsed arguments have ``command``, None for the list."""
    parser = Parser(
        prog="%topic",
        description="Kafka topics as Iceberg tables: list, enable and monitor them.",
        epilog="Without a command: the list, with lag, state and schema versions.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, word in WORDS.items():
        summary = summary_of(word.documented)
        text = summary[:1].lower() + summary[1:]
        subparser = commands.add_parser(
            name, aliases=list(word.aliases), help=text, description=text, prog=f"%topic {name}"
        )
        add_arguments(subparser, word.arguments)
        subparser.set_defaults(command=name)
    return parser


def parse_word(parser: argparse.ArgumentParser, line: str) -> tuple[str | None, dict[str, Any]] | None:
    """The word of a line (None: the list) with its arguments; None if help was printed. Raises UsageError."""
    parsed = parse(parser, line)
    if parsed is None:
        return None
    return parsed.command, values_of(WORDS[parsed.command].arguments, parsed) if parsed.command else {}


_PARSER = make_parser()


@magics_class
class TopicMagics(Magics):
    """See the docstring of ``topic``."""

    def __init__(self, shell: InteractiveShell, session: Session) -> None:
        super().__init__(shell)
        self._session = session

    @line_magic
    @report_errors
    def topic(self, line: str) -> Grid | None:
        """Table topics from a cell."""
        parsed = parse_word(_PARSER, line)
        if parsed is None:
            return None
        name, values = parsed
        if name is None:
            return here(topic_list(self._session))
        grid = WORDS[name].run(self._session, **values)
        if grid is None or name not in ("peek", "letters"):
            return grid if grid is None else here(grid)
        # The texts of a record stay unchanged.
        return replace(grid, notes=here(Grid((), [], notes=grid.notes)).notes)


TopicMagics.topic.__doc__ = manual()
