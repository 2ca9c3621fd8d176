"""An operation of the product: its name, arguments, result, and whether it changes anything.

Each face derives its own form: the program a command, ``%topic`` a word, the Jupyter server a route. A face
has a function of its own only where it does more than run the operation and render the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from typing import Any, Literal

# Keeps faces from loading what nobody uses: functions of operations import late.
Run = Callable[..., Any]


class Faces(Flag):
    """The faces that offer something."""

    CLI = auto()
    MAGIC = auto()
    REST = auto()


CLI, MAGIC, REST = Faces.CLI, Faces.MAGIC, Faces.REST
TYPED = CLI | MAGIC  # where people type; spellings and texts are the same
ALL = CLI | MAGIC | REST


class Kind(Enum):
    """The type of an argument's value, as passed to the operation."""

    TEXT = "text"
    NUMBER = "whole number"
    DECIMAL = "number"
    FLAG = "true or false"
    SECONDS = "a duration such as 500ms, 5s, 2m; the operation gets seconds"
    PAIR = "two whole numbers"
    TEXTS = "list of texts"
    FILE = "path"


@dataclass(frozen=True)
class Argument:
    """One argument of an operation.

    Attributes:
        name: in Python and REST.
        help: a sentence without its period.
        default_text: the default in words, where its value does not say enough.
        options: spellings where people type it; empty: ``--name``. Not for a positional one.
        positional: identified by position, not by an option.
        required: it must be given; otherwise ``default`` applies.
        metavar: placeholder for the value in the help.
        choices: the allowed texts.
        least, most: limits of a number.
        names: what completes it.
        pattern: a regular expression that a text must match.
        faces: where it is offered; a name may occur twice, for faces that differ.
        hidden: only for our own programs; no help shows it.
    """

    name: str
    help: str = ""
    kind: Kind = Kind.TEXT
    default: Any = None
    options: tuple[str, ...] = ()
    positional: bool = False
    required: bool = False
    metavar: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    names: Literal["topics"] | None = None
    pattern: str = ""
    faces: Faces = TYPED
    hidden: bool = False
    default_text: str = ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """The options that people type; none of a positional argument."""
        if self.positional:
            return ()
        return self.options or (f"--{self.name.replace('_', '-')}",)


@dataclass(frozen=True)
class Route:
    """The operation in the REST interface.

    Attributes:
        verb: HTTP's, in lower case.
        path: below ``tabletopic/api/``; ``{topic}`` is the argument with that name.
        status: for a success.
        answer: returns the type of the body; None if the status says everything.
        key: the body is an object with the result under this key.
        message: body for an operation that has only begun, with the arguments as ``{name}``.
        checks_topic: the operation supports tables whose topics were deleted; the route does not.
        notes: added to the summary in its description.
    """

    verb: Literal["get", "put", "post", "delete"]
    path: str
    status: int = 200
    answer: Callable[[], Any] | None = None
    key: str = ""
    message: str = ""
    checks_topic: bool = False
    notes: str = ""


@dataclass(frozen=True)
class Message:
    """A result in words. ``{name}`` is replaced by a value, and backquotes enclose the next command.

    Values are text from outside: a face escapes them, and may highlight them.
    """

    template: str
    values: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format_map(self.values)


@dataclass(frozen=True)
class JsonText:
    """Finished JSON text, as Python's writer would lose digits or bytes."""

    text: str


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes:
        name: also the command's.
        summary: what it does, in a sentence without its period.
        run: called with the workbench and the arguments by name; None if each face has its own way.
        arguments: those of all faces, in the order of the help.
        settings: whether the settings of a table topic are also arguments: all, or those that can change.
        changes: whether it changes anything.
        wants_host: useless while no host runs: faces with their own host start it.
        render: turns a result and the arguments into output: a ``Grid``, or a ``Message`` per line.
        empty: text for an empty result.
        to_json: a result for programs.
        returns: that in words.
        has_failed: whether a result is a failure: then the program's exit code is 1.
        panel: in the program's help; empty: it is not a command.
        details: in the command's help, below the summary.
        example: a command line.
        magic: a notebook's spelling; a word of ``%topic`` with the same name is derived from this.
        aliases: other words of ``%topic``.
        button: its label in the sidebar.
        route: its place in the REST interface.
    """

    name: str
    summary: str
    run: Run | None = None
    arguments: tuple[Argument, ...] = ()
    settings: Literal["", "all", "changeable"] = ""
    changes: bool = False
    wants_host: bool = False
    render: Callable[[Any, Mapping[str, Any]], Any] | None = None
    empty: str = ""
    to_json: Callable[[Any], Any] = lambda result: result
    returns: str = ""
    has_failed: Callable[[Any], bool] = lambda _: False
    panel: str = ""
    details: str = ""
    example: str = ""
    magic: str = ""
    aliases: tuple[str, ...] = ()
    button: str = ""
    route: Route | None = None

    def arguments_of(self, face: Faces) -> Sequence[Argument]:
        """The arguments that a face offers, without the settings."""
        return [one for one in self.arguments if face in one.faces]

    @property
    def is_word(self) -> bool:
        """Whether it is a word of ``%topic``."""
        return self.magic == f"%topic {self.name}"


TOPIC = Argument(
    "topic",
    "Name of the Kafka topic",
    positional=True,
    required=True,
    metavar="TOPIC",
    names="topics",
    faces=ALL,
)
ANY_TOPIC = Argument(
    "topic", "Only this topic", positional=True, metavar="[TOPIC]", names="topics", faces=TYPED
)
JSON = Argument("as_json", "JSON on standard output", Kind.FLAG, False, ("--json",), faces=CLI)


def time_limit(default: str, *others: str) -> Argument:
    """``--timeout``: how long to wait for an outcome; ``others`` are further spellings."""
    return Argument(
        "timeout",
        "Give up after this long, e.g. 30s",
        Kind.SECONDS,
        default,
        ("--timeout", *others),
        metavar="DURATION",
    )


def limit(default: int, noun: str) -> tuple[Argument, Argument]:
    """How many of the newest: ``-n`` where people type, ``limit`` in a REST query."""
    typed = Argument("limit", f"How many {noun}", Kind.NUMBER, default, ("-n",), metavar="N", least=1)
    return typed, Argument("limit", f"How many {noun}", Kind.NUMBER, 50, least=1, most=1_000, faces=REST)
