"""Commands made from operations: options, help, and execution."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import DEBUG_VARIABLE, FAILED, Call, duration_ms, reporting_errors
from tabletopic_kernel.faces.cli.screen import show_grid
from tabletopic_kernel.faces.operations.operation import CLI, Argument, JsonText, Kind, Message, Operation
from tabletopic_kernel.model.settings.options import (
    FIXED_SETTINGS,
    SettingOption,
    given_settings,
    setting_options,
)
from tabletopic_kernel.render.grid import Grid

# Values in a message that are set in bold.
_STRONG = frozenset({"topic", "table"})
# A command's own implementation: called with the call, then the operation's arguments by name.
Own = Callable[..., None]

_TYPES: Mapping[Kind, Any] = {
    Kind.TEXT: str,
    Kind.NUMBER: int,
    Kind.DECIMAL: float,
    Kind.FLAG: bool,
    Kind.SECONDS: str,
    Kind.PAIR: tuple[int, int],
    Kind.TEXTS: list[str],
    Kind.FILE: Path,
}
_METAVARS: Mapping[Kind, str] = {
    Kind.TEXT: "TEXT",
    Kind.NUMBER: "N",
    Kind.DECIMAL: "NUMBER",
    Kind.FILE: "FILE",
}
_PANEL = "Options of every command"
_FORMER: Mapping[str, str] = {"produce-clickstream": "sample"}


def _help(text: str, default: str) -> str:
    """A help text as a sentence, and its default in the form in which Typer shows values."""
    shown = f" [dim]\\[default: {screen.plain(default)}][/]" if default else ""
    return f"{screen.plain(text)}.{shown}" if text else ""


def _state_dir(text: str) -> Path:
    """A folder that may not exist yet. Empty text, such as an unset variable's, is not the current folder."""
    folder = Path(text)
    if not text or folder.is_file():
        raise typer.BadParameter(f"{text!r} is a file" if text else "must not be empty")
    return folder


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        readable=True,
        help=_help("Settings file", "the nearest tabletopic.toml upwards from this folder"),
        rich_help_panel=_PANEL,
    ),
]
StateDirOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        parser=_state_dir,
        help=_help("Folder of the local stack and of local state", ".tabletopic"),
        rich_help_panel=_PANEL,
    ),
]
DebugOption = Annotated[
    bool,
    typer.Option(
        "--debug", help=f"Show the trace of an error; so does {DEBUG_VARIABLE}=1.", rich_help_panel=_PANEL
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]


class Command(TyperCommand):
    """A command whose help shows no value for switches."""

    def get_params(self, ctx: Any) -> Any:
        """Its parameters, for the help page."""
        return _without_values(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; a parser's error lacks the command, to whose help it refers."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            error.ctx = getattr(error, "ctx", None) or ctx  # type: ignore[attr-defined]
            raise


class Group(TyperGroup):
    """The program itself, with the same help; it also knows former names of commands."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command with this name."""
        return super().get_command(ctx, _FORMER.get(cmd_name, cmd_name))

    def get_params(self, ctx: Any) -> Any:
        """Its parameters, for the help page."""
        return _without_values(super().get_params(ctx))


def _without_values(parameters: Any) -> Any:
    for one in parameters:
        if getattr(one, "is_flag", False):
            one.metavar = ""  # typer's own would be <bool>
    return parameters


def add_command(app: typer.Typer, operation: Operation, own: Own | None = None) -> None:
    """Register an operation as a command; ``own`` runs instead of the operation.

    The command gets the global options too, so they may precede or follow its name.
    """
    changeable = operation.settings == "changeable"
    parameters = [_parameter(one) for one in operation.arguments_of(CLI)]
    parameters += [_setting(one, changeable=changeable) for one in _settings(operation)]
    work = own or functools.partial(_perform, operation)

    def run(**values: Any) -> None:
        context: typer.Context = values.pop("context")
        after = Call(values.pop("config"), values.pop("state_dir"), values.pop("debug"))
        before = context.obj if isinstance(context.obj, Call) else Call()
        call = before.under(after)
        with reporting_errors(debug=call.debug):
            work(call, **_read(operation, values))

    parts = (f"{operation.summary}.", operation.details, f"Example:  {operation.example}")
    run.__doc__ = "\n\n".join(screen.plain(part) for part in parts if part)
    run.__signature__ = inspect.Signature([*parameters, *_COMMON])  # type: ignore[attr-defined]
    app.command(operation.name, cls=Command, rich_help_panel=operation.panel)(run)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_COMMON = (
    _keyword("config", ConfigOption, None),
    _keyword("state_dir", StateDirOption, None),
    _keyword("debug", DebugOption, False),
    _keyword("context", typer.Context, inspect.Parameter.empty),
)


def _parameter(argument: Argument) -> inspect.Parameter:
    kind: Any = Literal[argument.choices] if argument.choices else _TYPES[argument.kind]
    if not argument.required and argument.default is None:
        kind = kind | None
    metavar = argument.metavar or "|".join(argument.choices) or _METAVARS.get(argument.kind)
    about: dict[str, Any] = {"help": _help(argument.help, argument.default_text), "metavar": metavar}
    info: Any
    if argument.positional:
        info = typer.Argument(**about, show_default=False)
    else:
        about |= {"min": argument.least, "max": argument.most, "hidden": argument.hidden}
        info = typer.Option(*argument.spellings, **about)
    default = inspect.Parameter.empty if argument.required else argument.default
    return _keyword(argument.name, Annotated[kind, info], default)


def _settings(operation: Operation) -> Sequence[SettingOption]:
    return setting_options() if operation.settings else ()


def _setting(setting: SettingOption, *, changeable: bool) -> inspect.Parameter:
    option = typer.Option(
        setting.name,
        metavar=setting.metavar,
        help=_help(setting.help, "" if changeable else setting.default),  # alter keeps what is not given
        rich_help_panel="Settings of the table topic",
        hidden=not setting.offered or (changeable and setting.field in FIXED_SETTINGS),
        show_default=False,
    )
    kind: Any = list[str] if setting.several else str
    return _keyword(setting.field, Annotated[kind | None, option], None)


def _read(operation: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in the operation's types. Raises UsageError."""
    read: dict[str, Any] = {}
    for argument in operation.arguments_of(CLI):
        value = values[argument.name]
        if argument.kind is Kind.SECONDS and value is not None:
            value = duration_ms(argument.spellings[0], value) / 1000
        read[argument.name] = value
    if operation.settings:
        read["settings"] = given_settings({one.field: values[one.field] for one in _settings(operation)})
    return read


def _perform(operation: Operation, call: Call, *, as_json: bool = False, **values: Any) -> None:
    assert operation.run is not None, operation.name
    show_result(call, operation, operation.run(call.workbench, **values), values, as_json=as_json)


def show_result(
    call: Call, operation: Operation, result: Any, values: Mapping[str, Any], *, as_json: bool
) -> None:
    """Print what an operation returned.

    Raises:
        typer.Exit: the result is a failure.
    """
    if as_json:
        plain = operation.to_json(result)
        if isinstance(plain, JsonText):
            screen.show_text(plain.text)
        else:
            screen.show_json(plain)
    elif operation.empty and not result:
        screen.note(operation.empty)
    else:
        assert operation.render is not None, operation.name
        rendered: Grid | Sequence[Message] = operation.render(result, values)
        if isinstance(rendered, Grid):
            show_grid(rendered)
        else:
            show_messages(call, rendered)
    if operation.has_failed(result):
        raise typer.Exit(FAILED)


def show_messages(call: Call, messages: Sequence[Message]) -> None:
    """Print messages: names are highlighted, and commands carry the options of this call."""
    for message in messages:
        pieces = message.template.split("`")
        if len(pieces) == 1 and not _STRONG & message.values.keys():
            screen.show_text(str(message))
            continue
        values = {
            name: f"[bold]{screen.plain(value)}[/]" if name in _STRONG else screen.plain(value)
            for name, value in message.values.items()
        }
        parts = [
            f"[cyan]{screen.plain(_command(call, piece, message.values))}[/]"
            if at % 2
            else piece.format_map(values)
            for at, piece in enumerate(pieces)
        ]
        screen.show("".join(parts))


def _command(call: Call, template: str, values: Mapping[str, str]) -> str:
    words = [word.format_map(values) for word in template.split()]
    return call.command(*words[1:])
