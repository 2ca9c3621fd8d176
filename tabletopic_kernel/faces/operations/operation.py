"""An operation of the product: its name, arguments, result, and whether it changes anything.

Each face makes its own from it: the program a command, ``%topic`` a word, the Jupyter server a route. A face
has a function of its own only where it does more than to run the operation and to render the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from typing import Any, Literal

# Keeps every face from loading what a person did not ask for: functions of operations import late.
Run = Callable[..., Any]


class Faces(Flag):
    """The faces that offer something."""

    CLI = auto()
    MAGIC = auto()
    REST = auto()


CLI, MAGIC, REST = Faces.CLI, Faces.MAGIC, Faces.REST
TYPED = CLI | MAGIC  # where people type; spellings and texts are alike
ALL = CLI | MAGIC | REST


class Kind(Enum):
    """The type of an argument's value, as the operation gets it."""

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
        name: as Python and REST have it.
        help: a sentence without its period; where it names a default, that is in brackets at the end.
        options: spellings where people type it; empty: ``--name``. Not for a positional one.
        positional: it is named by its place, not by an option.
        required: it must be given; without it, ``default`` counts.
        metavar: what stands for the value in the help.
        choices: the texts that it may be.
        least, most: limits of a number.
        names: what completes it.
        pattern: a regular expression that a text must match.
        faces: where it is offered; the same name may be there twice, for faces that differ.
        hidden: it is for programs of ours, and no help shows it.
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
        verb: of HTTP, in lower case.
        path: below ``tabletopic/api/``; ``{topic}`` stands for the argument of that name.
        status: of a success.
        answer: gives the type of the body; None where there is no more to say than the status.
        key: the body is an object with the result under this key.
        message: body of an operation that has only begun, with the arguments as ``{name}``.
        checks_topic: the operation knows tables whose topics are gone; the route does not.
        notes: what its description has beside the summary.
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
    """A result in words. ``{name}`` stands for a value, and backquotes enclose a command to go on with.

    Values are texts of others: a face escapes them, and may make them stand out.
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
        name: the command's, too.
        summary: what it does, in a sentence without its period.
        run: called with the workbench and the arguments by name; None where every face has its own way.
        arguments: those of all faces, in the order in which help lists them.
        settings: whether the settings of a table topic are arguments as well: all, or those that can change.
        changes: whether anything is different afterwards.
        wants_host: it is in vain while no host runs: faces with a host of their own start it.
        render: makes of a result and the arguments what people see: a ``Grid``, or a ``Message`` a line.
        empty: what to say of an empty result instead.
        to_json: what programs get of a result.
        returns: that in words.
        has_failed: whether a result is a failure: the program's exit code is 1 then.
        panel: of the program's help; empty: it is no command.
        details: of the command's help, below the summary.
        example: a command line.
        magic: how a notebook spells it; a word of ``%topic`` under the same name is made from this.
        aliases: other words of ``%topic``.
        button: the label of it in the sidebar.
        route: where it is in the REST interface.
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
        """The arguments that a face offers; the settings are not among them."""
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
    "topic", "One topic only", positional=True, metavar="[TOPIC]", names="topics", faces=TYPED
)
JSON = Argument("as_json", "JSON on standard output", Kind.FLAG, False, ("--json",), faces=CLI)


def wait_for_outcome(default: str) -> tuple[Argument, Argument]:
    """How long to wait for the event of a request: ``--wait`` in a shell."""
    typed = Argument(
        "timeout",
        "How long to wait for the outcome, e.g. 30s",
        Kind.SECONDS,
        default,
        ("--wait",),
        metavar="DURATION",
        faces=CLI,
    )
    help_text = f"Give up after this long  ({default})"
    return typed, Argument("timeout", help_text, Kind.SECONDS, default, metavar="DURATION", faces=MAGIC)


def limit(default: int, noun: str) -> tuple[Argument, Argument]:
    """How many of the newest: ``-n`` where people type, ``limit`` in a query of REST."""
    typed = Argument("limit", f"How many {noun}", Kind.NUMBER, default, ("-n",), metavar="N", least=1)
    return typed, Argument("limit", f"How many {noun}", Kind.NUMBER, 50, least=1, most=1_000, faces=REST)
