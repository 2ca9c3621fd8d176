"""Parts of the manual: commands, magics, Python, states and dead letters, for ``docs.generate``."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer.main

import tabletopic_kernel
from tabletopic_kernel.faces.cli import app
from tabletopic_kernel.faces.jupyter_server.rest import ENDPOINTS
from tabletopic_kernel.faces.notebook import dashboard_magic, lake_magic, topic_magic
from tabletopic_kernel.faces.notebook.topic_words import WORDS
from tabletopic_kernel.faces.operations.next_steps import MAGICS
from tabletopic_kernel.faces.operations.operation import Route, summary_of
from tabletopic_kernel.host.metrics.declared import STATES as IN_METRICS
from tabletopic_kernel.model import dead_letter, errors
from tabletopic_kernel.render.states import OFF, STATES, UNKNOWN
from tabletopic_kernel.workbench.topics.topic import TableTopic
from tabletopic_kernel.workbench.workbench import Workbench

Rows = tuple[list[str], list[list[str]]]
PACKAGE = Path(tabletopic_kernel.__file__).parent

# --- commands ---------------------------------------------------------------------------------------------

_SETTINGS = "Settings of the table topic"
_EVERY = "Options of every command"
_SAME = ("topic", "--json", "--help")  # the page says once what these are


def commands() -> dict[str, Any]:
    """The program's commands by name."""
    program: Any = typer.main.get_command(app)
    return dict(program.commands)


def _plain(text: str | None) -> str:
    """A help text on one line, without the terminal's marks."""
    text = re.sub(r"\[/?(?:dim|bold)?\]", "", (text or "").replace("\b", "").replace("\\[", "["))
    return " ".join(text.split())


def command_pages() -> str:
    """A section for each command: summary, other faces, example, and a line for each option."""
    routes = {endpoint.name: _spelled(endpoint.route) for endpoint in ENDPOINTS}
    magics = {name: f"%topic {name}" for name in WORDS} | dict(MAGICS)
    return "\n".join(
        _section(name, command, magics.get(name), routes.get(name)) for name, command in commands().items()
    )


def _spelled(route: Route) -> str:
    return f"{route.verb.upper()} {route.path}"


def _section(name: str, command: Any, magic: str | None, route: str | None) -> str:
    paragraphs = [_plain(part) for part in (command.help or "").split("\n\n")]
    (example,) = (part.removeprefix("Example:").strip() for part in paragraphs if part.startswith("Example"))
    also = " · ".join(f"`{face}`" for face in (magic, route) if face)
    lines = [f"### {name}", "", paragraphs[0] + (f" Also {also}." if also else ""), ""]
    lines += [] if example == f"tabletopic {name}" else [f"`{example}`", ""]
    params = [param for param in command.params if not param.hidden and param.opts[0] not in _SAME]
    own = [param for param in params if param.rich_help_panel not in (_SETTINGS, _EVERY)]
    lines += [f"- {_usage(param)}: {_plain(param.help)}{_default(param)}" for param in own]
    if any("--json" in param.opts for param in command.params):
        lines.append("- `--json`")
    if any(param.rich_help_panel == _SETTINGS for param in params):
        lines.append("- and [settings of the topic](settings.md#table-topics)")
    return "\n".join([*lines, ""])


def _usage(parameter: Any) -> str:
    if not parameter.opts[0].startswith("-"):
        text = parameter.metavar or parameter.name.upper()
        return f"`{text if parameter.required else f'[{text}]'}`"
    placeholder = "" if parameter.is_flag else f" {parameter.metavar or 'TEXT'}"
    return f"`{', '.join([*parameter.opts, *parameter.secondary_opts])}{placeholder}`"


def _default(parameter: Any) -> str:
    default = parameter.default
    if default in (None, False, True, "") or callable(default) or "[default" in (parameter.help or ""):
        return ""
    return f" Default: `{default}`."


def every_command() -> Rows:
    """The options of every command, and those of the program alone."""
    group: Any = typer.main.get_command(app)
    return ["option", "meaning"], [[_usage(param), _plain(param.help)] for param in group.params]


def rest_alone() -> Rows:
    """The routes without a command."""
    with_command = commands()
    rows = [
        [f"`{_spelled(endpoint.route)}`", endpoint.summary]
        for endpoint in ENDPOINTS
        if endpoint.name not in with_command
    ]
    return ["below `tabletopic/api/`", "what it does"], rows


# --- notebooks and Python ---------------------------------------------------------------------------------


def topic_words() -> Rows:
    """The words of ``%topic`` that take something else than the command of that name."""
    parser = topic_magic.make_parser()
    (table,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    rows = []
    for name, word in table.choices.items():
        if name not in WORDS:
            continue  # an alias
        of_magic = {
            spelling
            for action in word._actions
            if action.help != argparse.SUPPRESS
            for spelling in action.option_strings
        }
        of_command = _spellings(name) if name in commands() else set()
        only_magic = sorted(of_magic - of_command - {"-h", "--help"})
        only_command = sorted(of_command - of_magic - _OF_SHELLS)
        if name not in commands() or only_magic or only_command:
            summary = "" if name in commands() else summary_of(WORDS[name].documented)
            rows.append(
                [
                    f"`%topic {name}`",
                    ", ".join(map("`{}`".format, only_magic)),
                    ", ".join(map("`{}`".format, only_command)),
                    summary,
                ]
            )
    return ["word", "takes also", "does not take", ""], rows


_OF_SHELLS = {"--json", "--help", "-h", "--config", "--profile", "--state-dir", "--debug"}


def _spellings(command: str) -> set[str]:
    return {
        spelling
        for param in commands()[command].params
        if not param.hidden
        for spelling in param.opts
        if spelling[0] == "-"
    }


def magic(make_parser: Callable[[], argparse.ArgumentParser]) -> str:
    """A line for each argument of a magic."""
    lines = []
    for action in make_parser()._actions:
        if "--help" not in action.option_strings and action.help != argparse.SUPPRESS:
            names = ", ".join(action.option_strings) or action.metavar
            lines.append(f"- `{names}{_placeholder(action)}`: {_plain(action.help)}\n")
    return "".join(lines)


def _placeholder(action: argparse.Action) -> str:
    if not action.option_strings or action.nargs == 0:
        return ""
    return f" {'|'.join(map(str, action.choices)) if action.choices else action.metavar}"


# What faces and hosts call; and what both classes have, each with a meaning of its own.
_OURS = re.compile(
    "_|accept_|ask_for|broker|catalog_of|change_|check|desired|host_spark|newest|open_catalog|patient|plain_session"
    "|registry|settings_for|status_by|statuses|table_of|tails|watch"
)
_BOTH = {"status", "events", "logs"}


def methods(kind: type) -> str:
    """A line for each public method and property of a class, with its first sentence."""
    rows = []
    for name, member in _members(kind):
        call = "" if isinstance(member, property) else _parameters(member)
        rows.append(f"- `{name}{call}`: {_first(inspect.getdoc(member))}\n")
    return "".join(rows)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    names = [name for base in reversed(kind.__mro__[:-1]) for name in vars(base)]
    for name in dict.fromkeys(names):
        member = inspect.getattr_static(kind, name)
        by_name = kind is Workbench and hasattr(TableTopic, name) and name not in _BOTH
        if (isinstance(member, property) or inspect.isfunction(member)) and not (
            _OURS.match(name) or by_name
        ):
            yield name, member


def _parameters(function: Callable[..., Any]) -> str:
    shown, is_named = [], False
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not is_named:
            shown.append("*")
            is_named = True
        has_default = parameter.default is not parameter.empty and not callable(parameter.default)
        default = f"={parameter.default!r}" if has_default else ""
        shown.append(("**" if parameter.kind is parameter.VAR_KEYWORD else "") + parameter.name + default)
    return f"({', '.join(shown)})"


def _first(text: str | None) -> str:
    paragraph = " ".join((text or "").partition("\n\n")[0].split())
    return paragraph.replace("``", "`")


def exceptions() -> Rows:
    """The public exceptions: who acts, and what their base class is."""
    rows = []
    for name in tabletopic_kernel.__all__:
        kind = getattr(errors, name, None)
        if inspect.isclass(kind):
            rows.append([f"`{name}`", f"`{kind.__base__.__name__}`", _first(kind.__doc__)])
    return ["exception", "is a", "meaning"], rows


# --- states and dead letters ------------------------------------------------------------------------------

# What to do in a state that asks for something, with the section of the page on trouble that has more.
_TODO = {
    "waiting": "nothing at first: [waiting](../how-to/trouble.md#the-state-is-waiting)",
    "resolving": "nothing",
    "failed": "[failed](../how-to/trouble.md#the-state-is-failed)",
    "no host": "[no host](../how-to/trouble.md#the-state-is-no-host)",
    "paused": "`tabletopic resume TOPIC`",
    "off": "`tabletopic enable TOPIC`",
    "unknown": "[waiting](../how-to/trouble.md#the-state-is-waiting)",
    "behind": "[lag does not fall](../how-to/trouble.md#the-lag-does-not-fall)",
    "waiting for turn": "[lag does not fall](../how-to/trouble.md#the-lag-does-not-fall)",
    "open transaction": "[lag does not fall](../how-to/trouble.md#the-lag-does-not-fall)",
}


def state_words() -> Rows:
    """A state or delay in JSON, in words, and in metrics; what it means, and what to do."""
    rows = []
    for state, words in STATES.items():
        is_repeated = bool(rows) and rows[-1][0] == words.word and rows[-1][3] == words.meaning
        if is_repeated:
            rows[-1][1] += f", `{state}`"
            continue
        name = "" if state in (UNKNOWN, OFF) else f"`{state}`"
        metric = IN_METRICS.get(state, "")  # type: ignore[call-overload]
        rows.append([words.word, name, metric and f"`{metric}`", words.meaning, _TODO.get(words.word, "")])
    return ["people read", "JSON", "metrics", "meaning", "what to do"], rows


# Reasons of records, with what to do; a decoder's reasons begin with its format.
_REMEDIES = {
    "no_schema_id": "The value has no schema id. If all are JSON or text: enable the topic with that "
    "`value_format` and another `table`. If some are: fix their producer",
    "bad_schema_header": "The header `__value_schema_id` or Glue's prefix is damaged: fix the producer",
    "unknown_schema": "The registry has no such id: register the schema, or name the producer's registry. "
    "Then replay",
    "bad_schema": "The registry has the schema, but it cannot be read: fix it there. Then replay",
    "encrypted": "A rule of the schema encrypts the value: no key is used here, so the record stays",
    "incompatible_schema": "[An incompatible schema](incompatible-schemas.md). Then replay",
    "protobuf_other_message": "Another message of the Protobuf file: set `value_message` for another table",
    "no_key": "The table is kept by key, and a part of the record's is null: fix the producer, or set "
    "another `key` for another `table`",
    "key_not_text": 'The key is not UTF-8: enable the topic with `key_format = "raw"` and another `table`',
    "not_an_envelope": "No change event of Debezium: the wrong topic, or the connector removed the envelope",
    "projection_failed": "`message` has the error of the SQL: alter the `projection`. Then replay",
    "expectation": "`message` names the [rule](transforms.md#expectations) that is false: fix the producer, "
    "or alter the `expectations`. Then replay",
    "internal_error": "A fault of this program: report it with `message`. Replay after the next upgrade",
    "does_not_fit": "The value does not fit its column: fix the producer, or widen the column. Then replay",
}
_BYTES = "The bytes are not what the schema says: the producer is wrong, or names the wrong schema"


def dead_letter_reasons() -> Rows:
    """Every reason with what to do; those of a decoder in one row."""
    own = [
        value
        for name, value in vars(dead_letter).items()
        if name.isupper() and isinstance(value, str) and name not in ("SUFFIX", "PREFIX") and "." not in value
    ]
    rows = [[f"`{reason}`", _REMEDIES[reason]] for reason in own]
    for kind in ("avro", "json", "protobuf"):
        source = "".join(
            path.read_text("utf-8") for path in sorted((PACKAGE / "formats" / kind).rglob("*.py"))
        )
        reasons = sorted(set(re.findall(rf'"({kind}_[a-z_]+)"', source)) - set(own))
        rows.append([", ".join(f"`{reason}`" for reason in reasons), _BYTES])
    return ["reason", "what it is, and what to do"], rows


def dead_letter_columns() -> Rows:
    """The columns of the dead-letter table."""
    rows = [
        [f"`{field.name}`", f"`{field.field_type}`", field.doc or ""] for field in dead_letter.SCHEMA.fields
    ]
    for row in rows:
        row[1] = re.sub(r"\b\d+: ", "", row[1])
    return ["column", "type", ""], rows


PARTS: dict[str, Callable[[], str] | Callable[[], Rows]] = {
    "command-pages": command_pages,
    "every-command": every_command,
    "rest-alone": rest_alone,
    "topic-words": topic_words,
    "lake-magic": lambda: magic(lake_magic.make_parser),
    "dashboard-magic": lambda: magic(dashboard_magic.make_parser),
    "workbench": lambda: methods(Workbench),
    "table-topic": lambda: methods(TableTopic),
    "exceptions": exceptions,
    "state-words": state_words,
    "dead-letter-reasons": dead_letter_reasons,
    "dead-letter-columns": dead_letter_columns,
}
