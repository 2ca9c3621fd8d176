"""Changes of a server's section in the settings file; comments, order and everything else stay."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tabletopic_kernel.local.machine import write_whole
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.names import flatten_properties
from tabletopic_kernel.workbench.config.sources import PREFIX
from tabletopic_kernel.workbench.server_questions import (
    Answers,
    Server,
    secret_line,
    secrets_of,
    section_lines,
)

_SECRET = re.compile(r"^# (\S+): set \S+\r?\n", re.MULTILINE)


def read_settings(file: Path) -> str:
    """The text of a settings file, with its line ends."""
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return lines.read()


def write_settings(file: Path, text: str, *, secrets_too: bool) -> None:
    """Replace a settings file; one that gets secrets becomes private, another keeps its mode."""
    target = Path(os.path.realpath(file))
    is_private = secrets_too or not target.exists()
    write_whole(target, text, 0o600 if is_private else stat.S_IMODE(target.stat().st_mode))


def properties_in(text: str, section: str) -> Answers:
    """The properties of a section in the text of a settings file; empty without it."""
    return _split(text, section)[0] or {}


def new_secrets(text: str, section: str, answers: Mapping[str, str]) -> list[str]:
    """Names of the properties with a secret that the text does not have."""
    now = properties_in(text, section)
    return [name for name in secrets_of(answers) if now.get(name) != answers[name]]


def with_properties(
    text: str,
    server: Server,
    answers: Answers,
    *,
    secrets_too: bool,
    elsewhere: Collection[str] = (),
    prefix: str = PREFIX,
) -> str:
    """The text with ``answers`` as all properties of a server's section.

    Without ``secrets_too`` new secrets become comments with their variables, which begin with ``prefix``, and
    old ones stay. Comments of other secrets go, unless these are set ``elsewhere``. Raises UsageError, with
    lines to copy, for a text that cannot be changed so.
    """
    now, rest = _split(text, server.section)
    hidden = [] if secrets_too else new_secrets(text, server.section, answers)
    wanted = {name: value for name, value in answers.items() if name not in hidden}
    wanted |= {name: now[name] for name in hidden if now and name in now}
    why = "its sections are written in another way"
    try:
        if now is not None:
            bare = _without_comments(text, server.section, {*hidden, *elsewhere} - wanted.keys(), prefix)
            changed = _edited(bare, server.section, wanted, hidden, prefix)
        else:
            changed = _extended(text, section_lines(server, answers, secrets_too=secrets_too, prefix=prefix))
        changed.encode()
        properties, others = _split(changed, server.section)
        if (properties or {}, others) == (wanted, rest):
            return changed
    except (ValueError, LookupError) as error:  # of tomllib and tomlkit; and a text may have half a character
        why = str(error)
    own = "\n".join(section_lines(server, answers, secrets_too=False, prefix=prefix))
    raise UsageError(f"the settings file cannot be changed by a program ({why}); add this yourself:\n{own}")


def _split(text: str, section: str) -> tuple[Answers | None, dict[str, Any]]:
    """A section's properties, None without the section, and everything else."""
    rest = tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    *outer, name = section.split(".")
    parent = rest
    for part in outer:
        parent = parent.setdefault(part, {})
    table = parent.pop(name, None)
    return None if table is None else flatten_properties(table), rest


def _extended(text: str, lines: list[str]) -> str:
    gap = [] if not text else [""] if text.endswith("\n") else ["", ""]
    return text + "\n".join([*gap, *lines, ""])


def _without_comments(text: str, section: str, kept: Collection[str], prefix: str) -> str:
    """Without the comments that name the variables of a section's secrets, but for those of ``kept``."""

    def rest(line: re.Match[str]) -> str:
        own = line[0].rstrip() == secret_line(section, line[1], prefix)
        return "" if own and line[1] not in kept else line[0]

    return _SECRET.sub(rest, text)


def _edited(text: str, section: str, wanted: Answers, hidden: list[str], prefix: str) -> str:
    import tomlkit  # noqa: PLC0415 - 40 ms that only a change needs
    from tomlkit.items import Table  # noqa: PLC0415

    now = properties_in(text, section)
    document = tomlkit.parse(text)
    table: Any = document
    for part in section.split("."):
        table = table[part]
    for name in now:
        outer, key = _place(table, name)
        if name not in wanted:
            del outer[key]
        elif wanted[name] != now[name]:
            outer[key] = wanted[name]
    is_plain = isinstance(table, Table)  # neither in braces nor in several places
    rest = _cut_end(table) if is_plain else []
    for name, value in wanted.items():
        if name not in now:
            table[name] = value
    for name in hidden:
        if is_plain and name not in now and (line := secret_line(section, name, prefix)) not in text:
            table.add(tomlkit.comment(line.removeprefix("# ")))
    if rest:
        table.value.body.extend(rest)
    return tomlkit.dumps(document)


def _place(table: Any, name: str) -> tuple[Any, str]:
    """Where a table has a property: TOML nests the dots of a bare name. Raises LookupError."""
    for key, inner in table.items():
        if key == name and not isinstance(inner, Mapping):
            return table, key
        if name.startswith(f"{key}.") and isinstance(inner, Mapping):
            try:
                return _place(inner, name.removeprefix(f"{key}."))
            except LookupError:
                continue
    raise LookupError(f"{name} is not at a place of its own")


def _cut_end(table: Any) -> list[Any]:
    """Take off what follows a section's properties: after a blank line, a comment is the next section's."""
    from tomlkit.items import Whitespace  # noqa: PLC0415 - as above

    body = table.value.body
    last = max((at for at, (name, _) in enumerate(body) if name is not None), default=-1)
    end = next((at for at in range(last + 1, len(body)) if isinstance(body[at][1], Whitespace)), len(body))
    rest: list[Any] = body[end:]
    del body[end:]
    return rest
