"""Next steps in messages, translated for each face.

A message names an action as the command line spells it, in backquotes: "start one with `tabletopic serve`".
Events and errors contain this spelling; each face replaces it by its own words with ``for_face``. Other text
in backquotes stays, and so do commands marked for a terminal: "`tabletopic doctor` in a terminal".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tabletopic_kernel.faces.operations import OPERATIONS
from tabletopic_kernel.model.errors import TableTopicError

if TYPE_CHECKING:
    from tabletopic_kernel.workbench.topics.topic import TableTopic

T = TypeVar("T")


class Face(StrEnum):
    """Who shows a message. The command line shows messages unchanged."""

    NOTEBOOK = "notebook"
    SIDEBAR = "sidebar"
    DASHBOARD = "dashboard"  # its reader may have a notebook or a terminal


_COMMAND = re.compile(r"`tabletopic ([a-z][a-z-]*)((?: [^`]*)?)`(?! in a terminal)")

# Commands that are no operation differ from face to face.
MAGICS: Mapping[str, str] = {operation.name: f"%topic {operation.name}" for operation in OPERATIONS} | {
    "up": "%topic up",
    "down": "%topic down",
    "serve": "%topic host start",
    "dashboard": "%dashboard",
    "query": "%lake",
    "docs": "%topic docs",
}
# The labels on the sidebar's buttons and in a topic's menu.
BUTTONS: Mapping[str, str] = {
    operation.name: operation.button for operation in OPERATIONS if operation.button
} | {
    "up": "Start the local stack",
    "down": "Stop the Local Stack",
    "serve": "Start a host",
    "dashboard": "Open Dashboard",
}


def for_face(text: str, face: Face) -> str:
    """The message with its actions in the face's words.

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
    if face is Face.SIDEBAR and command == "docs":  # a link there, see dom.ts
        return f"“Manual:{arguments or ' README'}”"
    if face is Face.SIDEBAR:
        return f"“{BUTTONS[command]}”" if command in BUTTONS else terminal
    if command not in MAGICS:
        return terminal
    magic = f"`{MAGICS[command]}{arguments}`"
    return magic if face is Face.NOTEBOOK else f"{magic} in a notebook or {terminal}"


def topic_html(topic: TableTopic) -> str:
    """The HTML of a topic handle: its status, or why it is unknown."""
    from tabletopic_kernel.render.topics import facts, status_facts  # noqa: PLC0415 - as operations do

    try:
        grid = status_facts(topic.status())
    except TableTopicError as error:
        grid = facts(topic.name, {"": error.advice})
    return grid.with_texts(partial(for_face, face=Face.NOTEBOOK)).html()
