"""The words of ``%topic``: subcommands and options, their help, and errors of one line."""

from __future__ import annotations

import argparse

from tabletopic_kernel.faces.notebook.arguments import Parser, count, parse
from tabletopic_kernel.model.settings.alter import FIXED_SETTINGS
from tabletopic_kernel.model.settings.options import SettingOption, given_settings, setting_options
from tabletopic_kernel.model.settings.sections import parse_duration_ms

ALIASES = {"start": "enable", "stop": "disable"}


def _seconds(text: str) -> float:
    try:
        return int(str(parse_duration_ms(text))) / 1000
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``%topic``; parsed arguments have ``command``, None for the list."""
    parser = Parser(
        prog="%topic",
        description="Kafka topics that are Iceberg tables: list them, switch them on, see how they do.",
        epilog="Without a word: the list, with lag, state and schema versions.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words = parser.add_subparsers(dest="command", metavar="WORD", title="words")

    def add(word: str, text: str, *, name: bool = True, optional: bool = False) -> argparse.ArgumentParser:
        names = [alias for alias, meant in ALIASES.items() if meant == word]
        made = words.add_parser(word, aliases=names, help=text, description=text, prog=f"%topic {word}")
        if name:
            nargs = "?" if optional else None
            made.add_argument("name", metavar="NAME", nargs=nargs, help="the Kafka topic")
        return made

    enable = add("enable", "make a topic a table that follows it; this kernel runs it unless a host is there")
    _add_settings(enable)
    enable.add_argument("--wait", action="store_true", help="wait until the table has what the topic has")
    _add_timeout(enable)
    plan = add("plan", "what enable, or a new schema, would do; nothing is changed")
    plan.add_argument("--schema", metavar="FILE", help="a schema to try: .avsc, .proto or .json")
    plan.add_argument("--schema-type", metavar="TYPE", help="avro, protobuf or json, for another file name")
    _add_settings(plan)
    _add_settings(add("alter", "change settings while the topic runs; the others stay"), fixed=False)
    add("disable", "switch a topic off; its table and its ledger stay")
    add("pause", "stop reading for a while; what is staged is committed first")
    add("resume", "go on after a pause, or after a failure whose cause is gone")
    add("commit", "commit what is in the topic now, before it is due")
    replay = add("replay", "try the dead letters again: each becomes a row, or stays a letter")
    replay.add_argument("--where", metavar="SQL", help="only letters of which this is true")
    replay.add_argument("--dry-run", action="store_true", help="say what would happen; change nothing")
    _add_timeout(replay)
    status = add("status", "where the topics stand, or one of them", optional=True)
    status.add_argument("--watch", action="store_true", help="update in place until the cell is interrupted")
    status.add_argument("--timeout", metavar="DURATION", type=_seconds, help="watch no longer than this")
    wait = add("wait", "wait until the table has what the topic has now")
    _add_timeout(wait)
    _add_number(add("events", "what happened, newest first", optional=True), 20, "events")
    _add_number(add("logs", "the last lines that hosts of this machine logged", optional=True), 100, "lines")
    _add_number(add("peek", "the newest records, decoded, before they are in the table"), 20, "records")
    schema = add("schema", "columns and schema versions")
    schema.add_argument("--version", metavar="N", type=count, help="the columns of this registered version")
    schema.add_argument(
        "--diff", metavar=("V1", "V2"), nargs=2, type=count, help="what V2 changes in the columns of V1"
    )
    _add_number(add("history", "the table's snapshots, newest first"), 20, "snapshots")
    host = add("host", "the host in this kernel: show it, start it, stop it", name=False)
    host.add_argument("action", nargs="?", choices=("start", "stop"), help="without it: show")
    host.add_argument(
        "--all",
        action="store_true",
        help="stop those in the background of this machine too, as %%topic down does",
    )
    add("up", "start the local broker, registry and catalog; they stay until %%topic down", name=False)
    add(
        "down",
        "stop the local servers and the hosts in the background; topics and tables stay on disk",
        name=False,
    )
    return parser


def _add_settings(parser: argparse.ArgumentParser, *, fixed: bool = True) -> None:
    """Options for the settings; without ``fixed`` those that cannot change are not shown."""
    origin = "from tabletopic.toml" if fixed else "as they are"
    group = parser.add_argument_group(f"settings of the table topic (those not given: {origin})")
    for one in setting_options():
        group.add_argument(
            one.name,
            dest=f"set_{one.field}",
            metavar=one.metavar,
            action="append" if one.several else "store",
            help=one.help.replace("%", "%%") if _is_shown(one, fixed) else argparse.SUPPRESS,
        )


def _is_shown(option: SettingOption, fixed: bool) -> bool:
    return option.offered and (fixed or option.field not in FIXED_SETTINGS)


def _add_number(parser: argparse.ArgumentParser, default: int, what: str) -> None:
    parser.add_argument(
        "-n", dest="number", metavar="N", type=count, default=default, help=f"how many {what} ({default})"
    )


def _add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout", metavar="DURATION", type=_seconds, default=300.0, help="give up after this long (5m)"
    )


def parse_topic(parser: argparse.ArgumentParser, line: str) -> argparse.Namespace | None:
    """As ``arguments.parse``, with ``command`` never an alias."""
    arguments = parse(parser, line)
    if arguments is not None:
        arguments.command = ALIASES.get(arguments.command, arguments.command)
    return arguments


def settings_of(arguments: argparse.Namespace) -> dict[str, object]:
    """Fields of ``TopicSettings`` that were given."""
    prefix = "set_"
    given = {k.removeprefix(prefix): v for k, v in vars(arguments).items() if k.startswith(prefix)}
    return given_settings(given)


def manual(parser: argparse.ArgumentParser) -> str:
    """All of the help, as ``%topic?`` shows it."""
    words = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    pages = dict.fromkeys(words.choices.values())
    return "\n".join([parser.format_help(), *(page.format_help() for page in pages)])
