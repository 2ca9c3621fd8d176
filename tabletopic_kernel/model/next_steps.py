"""What to do next, in the words of the face that shows it.

A message names an action as the command line spells it, between backquotes: "start one with
`tabletopic serve`". This spelling is a template: events and errors carry it as it is, also to other
processes, and each face renders its own words for the action with ``for_face``. Anything else between
backquotes stays, and so does what is said to be for a terminal: "`tabletopic doctor` in a terminal".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Face(StrEnum):
    """Who shows a message. The command line shows messages as they are."""

    NOTEBOOK = "notebook"
    SIDEBAR = "sidebar"
    DASHBOARD = "dashboard"  # its reader may have a notebook or a terminal


_COMMAND = re.compile(r"`tabletopic ([a-z][a-z-]*)((?: [^`]*)?)`(?! in a terminal)")

# Commands that are words of %topic under the same name, with the same arguments.
_TOPIC_WORDS = (
    *("enable", "alter", "disable", "plan", "pause", "resume", "commit", "replay"),
    *("status", "events", "logs", "peek", "schema", "history", "up", "down"),
)
_MAGICS: Mapping[str, str] = {
    **{word: f"%topic {word}" for word in _TOPIC_WORDS},
    "serve": "%topic host start",
    "query": "%lake",
    "dashboard": "%dashboard",
}
# What the sidebar writes on its buttons and in a topic's menu.
BUTTONS: Mapping[str, str] = {
    "up": "Start the local stack",
    "serve": "Start a host",
    "enable": "Settings and Plan…",
    "alter": "Settings and Plan…",
    "plan": "Settings and Plan…",
    "disable": "Switch Off",
    "pause": "Pause",
    "resume": "Resume",
    "commit": "Commit Now",
    "replay": "Try Dead Letters Again…",
    "dashboard": "Open Dashboard",
    "down": "Stop the Local Stack",
}


def for_face(text: str, face: Face) -> str:
    """The message with its actions in the words of the face.

    >>> for_face("start one with `tabletopic serve`", Face.NOTEBOOK)
    'start one with `%topic host start`'
    >>> for_face("start one with `tabletopic serve`", Face.SIDEBAR)
    'start one with “Start a host”'
    >>> for_face("`tabletopic config` shows where it is set", Face.NOTEBOOK)
    '`tabletopic config` in a terminal shows where it is set'
    """
    if "`tabletopic " not in text:
        return text
    return _COMMAND.sub(lambda match: _action(match[1], match[2], face), text)


def values_for_face(value: T, face: Face) -> T:
    """The same for every text of a JSON value; its keys stay."""
    if isinstance(value, str):
        return for_face(value, face)  # type: ignore[return-value]
    if isinstance(value, dict):
        return {key: values_for_face(inner, face) for key, inner in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [values_for_face(inner, face) for inner in value]  # type: ignore[return-value]
    return value


def _action(command: str, arguments: str, face: Face) -> str:
    terminal = f"`tabletopic {command}{arguments}` in a terminal"
    if face is Face.SIDEBAR:
        return f"“{BUTTONS[command]}”" if command in BUTTONS else terminal
    if command not in _MAGICS:
        return terminal
    magic = f"`{_MAGICS[command]}{arguments}`"
    return magic if face is Face.NOTEBOOK else f"{magic} in a notebook or {terminal}"
