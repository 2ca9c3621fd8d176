"""An operation of the product: each face derives its own form from a function's signature and docstring.

The command line makes it a command, ``%topic`` a word, the Jupyter server a route. The first sentence of the
docstring is its summary everywhere; the rest is in the command's help. A face has a function of its own where
it does more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from string import Formatter
from types import NoneType, SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel

from tabletopic_kernel.model.errors import UsageError

if TYPE_CHECKING:
    from tabletopic_kernel.render.grid import Grid
    from tabletopic_kernel.workbench.workbench import Workbench

Arguments = Mapping[str, Any]
P = ParamSpec("P")
T = TypeVar("T")
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Option:
    """How people type an argument: ``limit: Annotated[int, Option("How many rows", ("-n",))] = 20``.

    Attributes:
        help: a sentence without its period.
        spellings: empty: ``--name``.
        metavar: placeholder for the value in the help.
        least, most: limits of a number.
        default_text: the default in words, if its value says too little.
        positional: identified by position, not by an option.
        names: what completes it.
        is_duration: typed as ``500ms``, ``5s``, ``2m``; the function gets seconds.
        hidden: only for our own programs; no help shows it.
    """

    help: str = ""
    spellings: tuple[str, ...] = ()
    metavar: str = ""
    least: float | None = None
    most: float | None = None
    default_text: str = ""
    positional: bool = False
    names: Literal["topics"] | None = None
    is_duration: bool = False
    hidden: bool = False


@dataclass(frozen=True)
class SettingOptions:
    """An argument with the settings of a table topic, an option each: all, or those that can change."""

    changeable: bool = False


@dataclass(frozen=True)
class Argument:
    """An argument of a function; ``kind`` is its type without None, ``default`` may be ``REQUIRED``."""

    name: str
    kind: Any
    default: Any
    option: Option

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed texts, if only some are."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def spellings(self) -> tuple[str, ...]:
        """The options that people type; none of a positional argument."""
        if self.option.positional:
            return ()
        return self.option.spellings or (f"--{self.name.replace('_', '-')}",)

    @property
    def default_text(self) -> str:
        """The default as typed, if the help has to say it."""
        if self.option.is_duration and self.default:
            return f"{self.default / 60:g}m" if self.default % 60 == 0 else f"{self.default:g}s"
        return self.option.default_text


@dataclass(frozen=True)
class Signature:
    """What people can give to a function."""

    arguments: tuple[Argument, ...]
    settings: SettingOptions | None


def parameters_of(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Types, and defaults or ``REQUIRED``, of all parameters but the first, which the face itself passes.

    The first parameter's type may be imported for type checkers only.
    """
    _, *parameters = inspect.signature(function).parameters.values()
    annotated = SimpleNamespace(__annotations__={each.name: each.annotation for each in parameters})
    hints = get_type_hints(annotated, inspect.unwrap(function).__globals__, include_extras=True)
    return {parameter.name: (hints[parameter.name], parameter.default) for parameter in parameters}


@cache
def signature_of(function: Callable[..., Any]) -> Signature:
    """What people can give to a function."""
    arguments, settings = [], None
    for name, (hint, default) in parameters_of(function).items():
        kind, about = get_args(hint)
        if isinstance(about, SettingOptions):
            settings = about
        else:
            kinds = [inner for inner in get_args(kind) if inner is not NoneType]
            is_optional = NoneType in get_args(kind)
            arguments.append(Argument(name, kinds[0] if is_optional else kind, default, about))
    return Signature(tuple(arguments), settings)


def summary_of(function: Callable[..., Any]) -> str:
    """The first sentence of a docstring, without its period."""
    return _paragraphs(function)[0].replace("\n", " ").removesuffix(".")


def details_of(function: Callable[..., Any]) -> str:
    """The docstring's other paragraphs."""
    return "\n\n".join(_paragraphs(function)[1:])


def _paragraphs(function: Callable[..., Any]) -> list[str]:
    return (inspect.getdoc(function) or "").split("\n\n")


@dataclass(frozen=True)
class Route:
    """An operation's place in the REST interface. Its arguments are in the path, settings, or ``takes``.

    Attributes:
        verb: HTTP's, in lower case.
        path: below ``tabletopic/api/``; ``{topic}`` is the argument with that name.
        status: for a success; 202 and 204 have no body.
        key: the body is an object with the result under this key.
        checks_topic: refuses deleted topics, whose tables the operation supports.
        notes, takes: added to the summary in its description; names of further arguments.
        body: turns a result and the arguments into the response, if that is something else.
        verbatim: its texts are no messages: commands in them stay.
    """

    verb: Literal["get", "put", "post", "delete"]
    path: str
    status: int = 200
    key: str = ""
    checks_topic: bool = False
    notes: str = ""
    takes: tuple[str, ...] = ()
    body: Callable[[Any, Arguments], Any] | None = None
    verbatim: bool = False


@dataclass(frozen=True)
class Message:
    """A result in words. ``{name}`` is replaced by a value, and backquotes enclose the next command.

    Values are text from outside: a face escapes them, and may highlight them.
    """

    template: str
    values: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.template.format_map(self.values)


def line(text: str) -> Message:
    """A line without highlights or commands."""
    return Message("{text}", {"text": text})


def says(template: str) -> Callable[[Any, Arguments], list[Message]]:
    """The text of an operation in one line, with attributes of its result."""
    names = [name for _, name, _, _ in Formatter().parse(template) if name]
    return lambda result, _: [Message(template, {name: str(getattr(result, name)) for name in names})]


def drawn(name: str, *parts: Any) -> Grid:
    """What the function of ``render/topics.py`` with this name makes of a result; it loads Arrow."""
    grid: Grid = getattr(import_module("tabletopic_kernel.render.topics"), name)(*parts)
    return grid


def draws(name: str) -> Callable[[Any, Arguments], Grid]:
    """The text of an operation as ``drawn`` from its result alone."""
    return lambda result, _: drawn(name, result)


@dataclass(frozen=True)
class JsonText:
    """Finished JSON text: Python's writer would lose digits or bytes."""

    text: str


def plain(result: Any) -> Any:
    """A result as JSON values."""
    if isinstance(result, list | tuple):
        return [plain(item) for item in result]
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json")
    if hasattr(result, "to_json"):
        return result.to_json()
    return asdict(result) if is_dataclass(result) and not isinstance(result, type) else result


@dataclass(frozen=True)
class Operation(Generic[P, T]):
    """One operation; calling it runs it.

    Attributes:
        run: what it does, called with the workbench and the arguments.
        panel: in the program's help.
        text: turns a result and the arguments into output: a ``Grid``, or a ``Message`` per line; as they
            come, if the result is an iterator.
        json: turns a result into what programs get, if that is something else; of an iterator, an iterator.
        has_failed: whether a result is a failure: then the program's exit code is 1.
        empty: text for an empty result.
        starts_host: useless while no host runs: faces with their own host start it.
        aliases: other words of ``%topic``.
        button: its label in the sidebar.
        route: its place in the REST interface.
    """

    run: Callable[Concatenate[Workbench, P], T]
    panel: str
    text: Callable[[T, Arguments], Grid | Iterable[Message]]
    json: Callable[[T], Any] = plain
    has_failed: Callable[[T], bool] = lambda _: False
    empty: str = ""
    starts_host: bool = False
    aliases: tuple[str, ...] = ()
    button: str = ""
    route: Route | None = None

    def __call__(self, workbench: Workbench, /, *args: P.args, **named: P.kwargs) -> T:
        """Run it."""
        return self.run(workbench, *args, **named)

    @cached_property
    def name(self) -> str:
        """Its command, its word of ``%topic`` and its id in OpenAPI."""
        return self.run.__name__


def operation(
    panel: str, text: Callable[[Any, Arguments], Grid | Iterable[Message]], **attributes: Any
) -> Callable[[Callable[Concatenate[Workbench, P], T]], Operation[P, T]]:
    """Declare a function as an operation; arguments as the attributes of ``Operation``."""
    return lambda run: Operation(run, panel, text, **attributes)


# --- arguments that several operations have -----------------------------------------------------------------

Topic = Annotated[str, Option("Name of the Kafka topic", metavar="TOPIC", positional=True, names="topics")]
AnyTopic = Annotated[
    str | None, Option("Only this topic", metavar="[TOPIC]", positional=True, names="topics")
]
_LEAST_PAUSE_S = 0.1


def check_pause(every_s: float | None) -> None:
    """Raise UsageError if a query would be repeated without a pause."""
    if every_s is not None and every_s < _LEAST_PAUSE_S:
        raise UsageError("--every: at least 100ms")


_LIMIT = Option("Give up after this long, e.g. 30s", metavar="DURATION", is_duration=True)
Timeout = Annotated[float, _LIMIT]
Wait = Annotated[float, replace(_LIMIT, spellings=("--timeout", "--wait"))]  # for an outcome
