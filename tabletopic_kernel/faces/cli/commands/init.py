"""``init``: ask for the user's servers, check each at once, and write the settings file."""

# Imports are deferred: see the package's docstring.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabletopic_kernel.faces.cli import screen
from tabletopic_kernel.faces.cli.call import INTERRUPTED, Call
from tabletopic_kernel.faces.cli.commands.servers import check_line
from tabletopic_kernel.faces.operations.operation import Option
from tabletopic_kernel.local.machine import write_whole
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.redact import learn
from tabletopic_kernel.model.settings.names import variable_name

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.server_questions import Answers, Question, Server, Way

_NOTHING = "-"  # clears a previous answer


def init(
    call: Call,
    file: Annotated[
        Path | None,
        Option("File to write", metavar="FILE", default_text="tabletopic.toml in this folder"),
    ] = None,
    force: Annotated[bool, Option("Overwrite an existing file", ("--force", "-f"))] = False,
    catalog: Annotated[str | None, Option("Add another catalog to the existing file", metavar="NAME")] = None,
) -> None:
    """Ask for your servers, check each, and write tabletopic.toml.

    Kafka, schema registry, Iceberg catalog and storage: each is yours, or the one
    that `up` starts. Passwords go into the file, which only you can read, or into
    variables that it names. With --catalog, the program only asks for one more
    catalog, and adds it to the file as [catalogs.NAME].

    Example:  tabletopic init
    """
    from tabletopic_kernel.workbench.config.profiles import DEFAULT_PROFILE, file_of, profile_of, variables_of
    from tabletopic_kernel.workbench.config.trust import FILE_NAME
    from tabletopic_kernel.workbench.server_questions import SERVERS, settings_text

    profile = profile_of(call.environ)
    usual = file_of(Path(FILE_NAME), profile)
    if file is not None and profile != DEFAULT_PROFILE:
        raise UsageError(f"--file and the profile {profile} name two files: leave one out")
    file = file or usual
    if file != usual:  # the commands to copy find that by themselves
        call = replace(call, config=file)
    if catalog is not None:
        _add_catalog(call, file, catalog, variables_of(profile))
        return
    if file.exists() and not force:
        raise UsageError(
            f"{file} exists; --force overwrites it, --file names another file, --catalog NAME adds a "
            "catalog to it"
        )
    sections, secrets_too = _ask_all(SERVERS)
    with _writing(file):
        write_whole(file, settings_text(sections, secrets_too=secrets_too, prefix=variables_of(profile)))
    _show_next(call, sections, variables_of(profile), secrets_too=secrets_too)


def _add_catalog(call: Call, file: Path, name: str, prefix: str) -> None:
    from tabletopic_kernel.clients.catalog.catalog import catalog_name
    from tabletopic_kernel.workbench.config import load_settings
    from tabletopic_kernel.workbench.config.editing import read_settings, with_properties, write_settings
    from tabletopic_kernel.workbench.server_questions import further_catalog

    if not file.is_file():
        raise UsageError(f"{file} does not exist; `tabletopic init` writes one, --file names another")
    environ = {"TABLETOPIC_CONFIG": str(file.absolute())}
    settings = load_settings(environ=environ).settings
    if name in settings.catalogs:
        raise UsageError(f"{file} has [catalogs.{name}]; change it there, or choose another name")
    if name == catalog_name(settings.catalog).lower():
        raise UsageError(f"{name} is the name of [catalog] in SQL; choose another name")
    load_settings({"catalogs": {name: {"type": "rest"}}}, environ=environ)  # whether the name is valid
    server = further_catalog(name)
    sections, secrets_too = _ask_all((server,))
    answers = sections[server.section]
    changed = with_properties(read_settings(file), server, answers, secrets_too=secrets_too, prefix=prefix)
    with _writing(file):
        write_settings(file, changed, secrets_too=secrets_too)
    _show_next(call, sections, prefix, secrets_too=secrets_too, catalog=name)


def _ask_all(servers: Sequence[Server]) -> tuple[dict[str, Answers], bool]:
    """The user's answers about servers, by section, and whether secrets go into the file."""
    from tabletopic_kernel.workbench.server_questions import secrets_of

    try:
        sections = {server.section: _ask_server(server) for server in servers}
        secrets = [name for answers in sections.values() for name in secrets_of(answers)]
        secrets_too = bool(secrets) and _confirm(
            f"Write {', '.join(secrets)} into the file, which only you can read? Otherwise set variables",
            default=False,
        )
    except (KeyboardInterrupt, EOFError):
        screen.note("\nnothing was written")
        raise typer.Exit(INTERRUPTED) from None
    return sections, secrets_too


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror}); --file names another") from error
    screen.show(f"wrote [bold]{screen.plain(file)}[/]")


def _ask_server(server: Server) -> Answers:
    from tabletopic_kernel.workbench.doctor.run import check_server
    from tabletopic_kernel.workbench.server_questions import answer_way

    screen.side().print(f"\n{server.text}", style="bold")
    answers: Answers = {}
    while True:
        # Previous answers are the defaults of the next attempt.
        answers = answer_way(_choose("", server.ways), partial(_ask, before=answers), _choose)
        if not answers:
            return answers
        screen.note("checking …")
        failed = False
        for check in check_server(server.section, answers):
            screen.side().print(check_line(check))
            failed = failed or check.status == "fail"
        if not failed or not _confirm("Change the answers?", default=True):
            return answers


def _choose(text: str, ways: tuple[Way, ...]) -> Way:
    from rich.prompt import Prompt

    if text:
        screen.side().print(text)
    for number, way in enumerate(ways, 1):
        screen.side().print(f"  {number}  {screen.plain(way.text)}")
    numbers = [str(number) for number in range(1, len(ways) + 1)]
    chosen = Prompt.ask("Number", console=screen.side(), choices=numbers, show_choices=False, default="1")
    return ways[int(chosen) - 1]


def _ask(question: Question, before: Answers) -> str:
    from rich.prompt import Prompt

    default, answer = before.get(question.key, question.default), ""
    text = screen.plain(question.text)
    if question.optional:
        text += f" ({_NOTHING} for none)" if default else " (optional)"
    while not answer:
        answer = Prompt.ask(
            text,
            console=screen.side(),
            default=default,
            show_default=bool(default) and not question.secret,
            choices=list(question.choices) or None,
            password=question.secret and sys.stdin.isatty(),  # getpass would not read a pipe
        ).strip()
        if question.optional:
            break
    if question.optional and answer == _NOTHING:
        return ""
    learn({question.key: answer})
    return answer


def _confirm(text: str, *, default: bool) -> bool:
    from rich.prompt import Confirm

    return Confirm.ask(screen.plain(text), console=screen.side(), default=default)


def _show_next(
    call: Call, sections: dict[str, Answers], prefix: str, *, secrets_too: bool, catalog: str | None = None
) -> None:
    from tabletopic_kernel.workbench.server_questions import secrets_of

    if not secrets_too:
        for section, answers in sections.items():
            for key in secrets_of(answers):
                screen.show(f"  [cyan]export {prefix}{variable_name(section, key)}=…[/]")
    commands = {}
    if not all(sections.values()):
        commands[call.command("up", "--detach")] = "starts what the file does not name"
    commands[call.command("doctor")] = "checks everything"
    catalog_option = ("--catalog", catalog) if catalog else ()
    commands[call.command("enable", "TOPIC", *catalog_option)] = "makes a topic a table topic"
    commands[call.command("serve")] = f"runs the table topics{'; restart a running host' * bool(catalog)}"
    screen.console().print(screen.steps(commands))
