"""Commands made from functions: options, help, and execution."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import DEBUG_VARIABLE, FAILED, Call, duration_ms, reporting_errors
from tabletopic_kernel.faces.operations.operation import (
    Argument,
    JsonText,
    Message,
    Operation,
    Option,
    SettingOptions,
    Signature,
    details_of,
    signature_of,
    summary_of,
)
from tabletopic_kernel.model.settings.options import (
    FIXED_SETTINGS,
    SettingOption,
    given_settings,
    setting_options,
)
from tabletopic_kernel.render.grid import Grid

# Values in a message that are set in bold.
_STRONG = frozenset({"topic", "table"})
_METAVARS: Mapping[Any, str] = {str: "TEXT", int: "N", float: "NUMBER", Path: "FILE"}
_PANEL = "Options of every command"
_FORMER: Mapping[str, str] = {"produce-clickstream": "sample"}

_JSON = Argument("as_json", bool, False, Option("JSON on standard output", ("--json",)))
Json = Annotated[bool, _JSON.option]


def _help(text: str, default: str) -> str:
    """A help text as a sentence, with its default in Typer's form."""
    shown = f" [dim]\\[default: {screen.plain(default)}][/]" if default else ""
    return f"{screen.plain(text)}.{shown}" if text else ""


def _state_dir(text: str) -> Path:
    """A folder that may not exist yet; refuses empty text, such as an unset variable's."""
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
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help=_help("Use tabletopic.NAME.toml, with a state folder of its own", "TABLETOPIC_PROFILE"),
        rich_help_panel=_PANEL,
    ),
]
DebugOption = Annotated[
    bool,
    typer.Option(
        "--debug", help=f"Show the trace of an error; so does {DEBUG_VARIABLE}=1.", rich_help_panel=_PANEL
    ),
]


class Command(TyperCommand):
    """A command whose help shows no value for switches."""

    def get_params(self, ctx: Any) -> Any:
        """Its parameters, for the help page."""
        return _without_values(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; name the command in a parser's error, which refers to its help."""
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
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""  # typer's own would be <bool>
    return parameters


def add_operation(
    app: typer.Typer, operation: Operation[..., Any], own: Callable[..., None] | None = None
) -> None:
    """Register an operation as a command; ``own`` runs instead of it, with arguments of its own."""
    if own is not None:
        _register(app, operation.name, operation.panel, operation.run, signature_of(own), own)
        return

    def run(call: Call, as_json: bool, **values: Any) -> None:
        show_result(call, operation, operation(call.workbench, **values), values, as_json=as_json)

    base = signature_of(operation.run)
    signature = Signature((*base.arguments, _JSON), base.settings)
    _register(app, operation.name, operation.panel, operation.run, signature, run)


def add_command(app: typer.Typer, panel: str, run: Callable[..., None]) -> None:
    """Register a function as a command; it is called with the call, then its arguments by name."""
    _register(app, run.__name__, panel, run, signature_of(run), run)


def _register(
    app: typer.Typer,
    name: str,
    panel: str,
    documented: Callable[..., Any],
    signature: Signature,
    work: Callable[..., None],
) -> None:
    """Register a command with the global options, which may precede or follow its name."""
    parameters = [_parameter(argument) for argument in signature.arguments]
    if signature.settings is not None:
        parameters += [_setting(setting, signature.settings) for setting in setting_options()]

    def run(**values: Any) -> None:
        context: typer.Context = values.pop("context")
        after = Call(**{name: values.pop(name) for name in ("config", "state_dir", "debug", "profile")})
        before = context.obj if isinstance(context.obj, Call) else Call()
        call = before.under(after)
        with reporting_errors(debug=call.debug):
            work(call, **_read(signature, values))

    parts = (f"{summary_of(documented)}.", details_of(documented))
    run.__doc__ = "\n\n".join(screen.plain(part) for part in parts if part)
    run.__signature__ = inspect.Signature([*parameters, *_COMMON])  # type: ignore[attr-defined]
    app.command(name, cls=Command, rich_help_panel=panel)(run)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_COMMON = (
    _keyword("config", ConfigOption, None),
    _keyword("profile", ProfileOption, None),
    _keyword("state_dir", StateDirOption, None),
    _keyword("debug", DebugOption, False),
    _keyword("context", typer.Context, inspect.Parameter.empty),
)


def _parameter(argument: Argument) -> inspect.Parameter:
    option = argument.option
    kind, default = argument.kind, argument.default
    if option.is_duration:
        kind, default = str, argument.default_text or argument.default
    metavar = option.metavar or "|".join(argument.choices) or _METAVARS.get(kind)
    attributes: dict[str, Any] = {"help": _help(option.help, option.default_text), "metavar": metavar}
    info: Any
    if option.positional:
        info = typer.Argument(**attributes, show_default=False)
    else:
        attributes |= {"min": option.least, "max": option.most, "hidden": option.hidden}
        info = typer.Option(*argument.spellings, **attributes)
    return _keyword(argument.name, Annotated[kind | None if default is None else kind, info], default)


def _setting(setting: SettingOption, options: SettingOptions) -> inspect.Parameter:
    changeable = options.changeable
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


def _read(signature: Signature, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in the function's types. Raises UsageError."""
    read: dict[str, Any] = {}
    for argument in signature.arguments:
        value = values[argument.name]
        if argument.option.is_duration and value is not None:
            value = duration_ms(argument.spellings[0], value) / 1000
        read[argument.name] = value
    if signature.settings is not None:
        settings = (setting.field for setting in setting_options())
        read["settings"] = given_settings({field: values[field] for field in settings})
    return read


def show_result(
    call: Call, operation: Operation[..., Any], result: Any, values: Mapping[str, Any], *, as_json: bool
) -> None:
    """Print what an operation returned; raises ``typer.Exit`` if that is a failure."""
    if as_json:
        json = operation.json(result)
        if isinstance(json, Iterator):
            for json_text in json:
                screen.show_text(json_text.text)
        elif isinstance(json, JsonText):
            screen.show_text(json.text)
        else:
            screen.show_json(json)
    elif operation.empty and not result:
        screen.note(operation.empty)
    else:
        text = operation.text(result, values)
        if isinstance(text, Grid):
            screen.show_grid(text)
        else:
            show_messages(call, text)
    if operation.has_failed(result):
        raise typer.Exit(FAILED)


def show_messages(call: Call, messages: Iterable[Message]) -> None:
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
            if index % 2
            else piece.format_map(values)
            for index, piece in enumerate(pieces)
        ]
        screen.show("".join(parts))


def _command(call: Call, template: str, values: Mapping[str, str]) -> str:
    words = [word.format_map(values) for word in template.split()]
    return call.command(*words[1:])
