"""Write the parts of the documents that derive from the code: ``python -m docs.generate``.

A part is between ``<!-- generated: name -->`` and ``<!-- end -->``. ``tests/test_architecture.py`` fails
while a document differs from this program's output.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from docs import aging, manual, monitoring, openapi, peers, sizing, type_examples
from docs.type_examples import Example, shown
from tabletopic_kernel.clients.catalog import engine_properties
from tabletopic_kernel.faces.operations import BY_NAME, OPERATIONS, Operation
from tabletopic_kernel.faces.operations.operation import signature_of
from tabletopic_kernel.model.commit_cycle import PROTOCOL, Action, Event, State
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.settings.sections import (
    AthenaSettings,
    LineageSettings,
    LiveSettings,
    LocalSettings,
    NotifySettings,
    Settings,
    SparkSettings,
    TopicSettings,
)
from tabletopic_kernel.render.states import STATES, Tone
from tabletopic_kernel.workbench.server_questions import CATALOG, KAFKA, REGISTRY, STORAGE, Question, Way

ROOT = Path(__file__).parents[1]
_PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
# The properties listed in the manuals of librdkafka, the registry client and PyIceberg.
_PROPERTY_EXAMPLES = {
    "kafka": "TABLETOPIC_KAFKA__SASL__PASSWORD",
    "registry": "TABLETOPIC_REGISTRY__URL",
    "catalog": "TABLETOPIC_CATALOG__S3__ACCESS_KEY_ID",
    "catalogs": "TABLETOPIC_CATALOGS__PROD__S3__ACCESS_KEY_ID",
}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(head), *(list(row) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def titled(tables: Mapping[str, manual.Rows]) -> str:
    """Tables, each below its title."""
    return "\n".join(f"{title}:\n\n{table(*rows)}" for title, rows in tables.items())


def code(text: object) -> str:
    """Text as code; empty for empty text."""
    return f"`{text}`" if str(text) else ""


# --- the state machine ------------------------------------------------------------------------------------


def states() -> str:
    """Every state: its meaning, and for its events the next state and the coordinator's actions."""
    meaning = _comments(State)
    rows = []
    for state in State:
        ways: dict[tuple[State, tuple[Action, ...]], list[Event]] = {}
        for event, way in PROTOCOL[state].items():
            ways.setdefault(way, []).append(event)
        lines = [_way(state, after, actions, triggers) for (after, actions), triggers in ways.items()]
        rows.append([code(state), meaning[state], "<br>".join(lines)])
    return table(["state", "meaning", "events"], rows)


def _way(before: State, after: State, actions: Iterable[Action], triggers: Iterable[Event]) -> str:
    head = f"{', '.join(map(code, triggers))}: {'stays' if after is before else code(after)}"
    return ", ".join([head, *map(code, actions)])


def _comments(kind: type[StrEnum]) -> dict[str, str]:
    """The comment after each member of an enum, by the member's value."""
    return dict(re.findall(r'^    [A-Z_]+ = "([a-z_]+)"  # (.+)$', inspect.getsource(kind), re.MULTILINE))


# --- events -----------------------------------------------------------------------------------------------


def control_events() -> str:
    """Every event of the control topic with its own fields."""
    kinds = get_args(get_args(events.ControlEvent)[0])
    common = {"topic", "at_ms", "host", "type"}
    rows = [
        [
            code(kind.__name__),
            _first_sentence(kind.__doc__),
            ", ".join(code(name) for name in kind.model_fields if name not in common),
        ]
        for kind in kinds
    ]
    return table(["event", "what happened", "fields besides `topic`, `at_ms`, `host`, `type`"], rows)


def progress_record() -> str:
    """The fields of the progress record, on one line."""
    return ", ".join(code(name) for name in events.Progress.model_fields) + "\n"


def _first_sentence(text: str | None) -> str:
    first = inspect.cleandoc(text or "").partition("\n\n")[0].replace("\n", " ")
    return first.removesuffix(".").replace("``", "`")


# --- settings ---------------------------------------------------------------------------------------------


def general_settings() -> str:
    """The settings of a process: the state folder, the Spark session, the embedded servers."""
    fields = [("state_dir", Settings.model_fields["state_dir"])]
    models = {"spark": SparkSettings, "athena": AthenaSettings, "live": LiveSettings}
    models |= {"notify": NotifySettings, "lineage": LineageSettings, "local": LocalSettings}
    for section, model in models.items():
        fields += [(f"{section}.{name}", field) for name, field in model.model_fields.items()]
    rows = [_row(name, field, f"TABLETOPIC_{name.upper().replace('.', '__')}") for name, field in fields]
    return table(["key", "type", "default", "meaning", "variable"], rows)


def server_settings() -> str:
    """The sections with properties of other programs."""
    rows = [
        [
            code(f"[{name}.<name>]" if name == "catalogs" else f"[{name}]"),
            field.description or "",
            code(_PROPERTY_EXAMPLES[name]),
        ]
        for name, field in Settings.model_fields.items()
        if name in _PROPERTY_EXAMPLES
    ]
    return table(["section", "contains", "example variable"], rows)


def topic_settings() -> str:
    """The settings of a table topic, with their limits and options."""
    shown = (option for option in manual.commands()["enable"].params if not getattr(option, "hidden", False))
    options = {option.name: option.opts[0] for option in shown}
    rows = [
        [*_row(name, field, "")[:-1], code(options.get(name, ""))]
        for name, field in TopicSettings.model_fields.items()
    ]
    return table(["key", "type", "default", "meaning", "option"], rows)


def _row(name: str, field: FieldInfo, variable: str) -> list[str]:
    default = field.get_default(call_default_factory=True)
    limits = [getattr(limit, side, None) for side in ("ge", "le") for limit in field.metadata]
    bounds = [_text(name, limit) for limit in limits if limit is not None]
    if get_origin(field.annotation) is dict:
        variable += "__<PROPERTY>"
    kind = ", ".join(filter(None, [_type(name, field.annotation), " to ".join(map(code, bounds))]))
    return [code(name), kind, code(_text(name, default)), field.description or "", code(variable)]


def _text(name: str, value: object) -> str:
    """A value as people write it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if name.endswith("_ms") and isinstance(value, int):
        return _in_units(value, {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000})
    if name.endswith("_bytes") and isinstance(value, int):
        return _in_units(value, {"KB": 1024, "MB": 1024**2, "GB": 1024**3})
    return "" if value is None or value == {} else str(value)


def _in_units(value: int, units: Mapping[str, int]) -> str:
    unit, size = [(unit, size) for unit, size in units.items() if value % size == 0][-1]
    return f"{value // size}{unit}"


def _type(name: str, hint: Any) -> str:
    choices = [choice for choice in _literals(hint) if isinstance(choice, str)]
    if name == "start":
        return "`earliest`, `latest` or a time"
    if get_origin(hint) is tuple:
        return f"list of {', '.join(map(code, choices))}" if choices else "list"
    if choices:
        return ", ".join(map(code, choices))
    if get_origin(hint) is dict:
        return "properties"
    if hint is bool:
        return "`true`, `false`"
    plain = "number" if set(_literals(hint)) <= {int, float} else "text"
    return {"_ms": "duration", "_bytes": "size"}.get(name[name.rfind("_") :], plain)


def _literals(hint: Any) -> list[Any]:
    inner = [literal for part in get_args(hint) if part is not type(None) for literal in _literals(part)]
    return inner if get_args(hint) else [hint]


# --- commands ---------------------------------------------------------------------------------------------


def commands_json() -> str:
    """What each command prints with ``--json`` that prints what its operation returns."""
    bodies = {
        operation.name: openapi.returned(operation.run)
        for operation in OPERATIONS
        if operation.name in _PLAIN
    }
    rows = [[code(_usage(BY_NAME[name])), openapi.keys(body)] for name, body in bodies.items()]
    return table(["command", "JSON"], rows)


# The others have sections of their own, or rows in the table that people write.
_PLAIN = {
    operation.name
    for operation in OPERATIONS
    if operation.name
    not in {"enable", "alter", "status", "wait", "events", "sample", "replay", "compact", "expire"}
}


def _usage(operation: Operation[..., Any]) -> str:
    arguments = signature_of(operation.run).arguments
    return " ".join(
        [operation.name, *(argument.option.metavar for argument in arguments if argument.option.positional)]
    )


# --- servers ----------------------------------------------------------------------------------------------


def ways(choices: Iterable[Way]) -> str:
    """The ways to reach a server, as `init` offers them, each with its properties."""
    rows = [[way.text, _properties(way)] for way in choices if way.fixed or way.questions]
    return table(["way", "properties"], rows)


def _properties(way: Way) -> str:
    fixed = [code(f'{key} = "{value}"') for key, value in way.fixed.items()]
    asked = [
        f"{code(question.key)} (optional)" if question.optional else code(question.key)
        for first in way.questions
        for question in (first, *(Question(key, "") for key in first.also))
    ]
    return ", ".join([*fixed, *asked])


def engine_rows() -> str:
    """PyIceberg's properties, by their names in Spark's catalog and in DuckDB's secret."""
    by_pyiceberg = engine_properties.IO
    rows: dict[tuple[str, str, str], list[str]] = {}
    for row in engine_properties.TABLE:
        spark = "the same" if row.spark == row.pyiceberg else code(row.spark or "")
        duckdb = by_pyiceberg if row.duckdb == by_pyiceberg else code(row.duckdb or "")
        rows.setdefault((spark, duckdb, row.note), []).append(code(row.pyiceberg))
    return table(
        ["`[catalog]`", "Spark", "DuckDB", ""], ([", ".join(names), *cells] for cells, names in rows.items())
    )


# --- types ------------------------------------------------------------------------------------------------


def types_of(examples: Iterable[Example], missing: str = "") -> str:
    """Every example of a format: type, schema, value (or ``missing``), column, and what DuckDB reads."""
    listed = list(examples)
    with_schema = any(example.schema for example in listed)
    rows = []
    for example in listed:
        schema, value = shown(example)
        read = "null" if example.read is None else code(example.read)
        rows.append(
            [example.kind, *([code(schema)] if with_schema else []), code(value), code(example.iceberg), read]
        )
    schema_head = ["in the schema"] if with_schema else []
    return table(["type", *schema_head, "sent", "column", "read back"], rows)


# --- the sidebar ------------------------------------------------------------------------------------------


def states_of_the_sidebar() -> str:
    """``render/states.py`` in TypeScript."""
    rows = "\n".join(
        f"  {state}: {{ text: '{words.word}', tone: '{words.tone}'"
        + (f", section: '{words.section}' }}," if words.section else " },")
        for state, words in STATES.items()
    )
    return f"""\
// Written by `python -m docs.generate` from tabletopic_kernel/render/states.py.

/** How much attention something needs. Each has a colour and a sign: colour is never the only cue. */
export type Tone = {" | ".join(f"'{tone}'" for tone in get_args(Tone))};

/** Its word and tone, and the section of the page on trouble that says what to do. */
interface IState {{
  readonly text: string;
  readonly tone: Tone;
  readonly section?: string;
}}

/** Each state, and each reason why a topic is late. */
export const STATES: Readonly<Record<string, IState>> = {{
{rows.removesuffix(",")}
}};
"""


# --- documents --------------------------------------------------------------------------------------------


def _shown(make: Callable[[], str | manual.Rows]) -> str:
    part = make()
    return part if isinstance(part, str) else table(*part)


PARTS: dict[str, Callable[[], str]] = {
    "states": states,
    "events": control_events,
    "progress": progress_record,
    "general-settings": general_settings,
    "server-settings": server_settings,
    "topic-settings": topic_settings,
    "commands-json": commands_json,
    "ways-kafka": lambda: ways(KAFKA.ways),
    "ways-registry": lambda: ways(REGISTRY.ways),
    "ways-catalog": lambda: ways(CATALOG.ways),
    "ways-storage": lambda: ways(STORAGE),
    "engine-properties": engine_rows,
    "metrics": lambda: table(*monitoring.metrics()),
    "alerts": lambda: table(*monitoring.alerts()),
    "aging": lambda: table(*aging.figures()),
    "aging-ratio": aging.ratio,
    "changes": lambda: table(*aging.changes()),
    "freshness": lambda: table(*aging.freshness()),
    "peers": lambda: titled(peers.figures()),
    "peers-promises": lambda: titled(peers.promises()),
    "peers-refused": lambda: table(*peers.refused()),
    "peers-changes": lambda: table(*peers.changes()),
    "growth-columns": lambda: table(*aging.columns()),
    "growth-files": lambda: table(*aging.files()),
    "growth-topics": lambda: table(*aging.topics()),
    "peers-settings": lambda: table(*peers.settings()),
    "peers-price": peers.price,
    "sizing": lambda: table(*sizing.table()),
    "sizing-assumptions": sizing.assumptions,
    "prices": lambda: table(*sizing.prices()),
    "intervals": lambda: table(*sizing.intervals()),
    "price-lists": sizing.price_lists,
    "types-avro": lambda: types_of(type_examples.AVRO, "null"),
    "types-protobuf": lambda: types_of(type_examples.PROTOBUF, "not set"),
    "types-json-schema": lambda: types_of(type_examples.JSON_SCHEMA, "absent"),
    "types-json": lambda: types_of(type_examples.JSON),
    **{name: partial(_shown, part) for name, part in manual.PARTS.items()},
    "types-whole": lambda: types_of(one for pair in type_examples.WHOLE.values() for one in pair),
}


# Files that are generated as a whole.
FILES: dict[Path, Callable[[], str]] = {
    ROOT / "docs/reference/openapi.yaml": openapi.text,
    ROOT / "deploy/alerts.yml": monitoring.alert_rules,
    ROOT / "deploy/grafana.json": monitoring.dashboard,
    ROOT / "labextension/src/states.ts": states_of_the_sidebar,
    **aging.pictures(),
    **peers.pictures(),
}


def documents() -> list[Path]:
    """The documents with generated parts."""
    return sorted(path for path in ROOT.glob("docs/**/*.md") if "<!-- generated: " in path.read_text("utf-8"))


def written(text: str) -> str:
    """The text with its generated parts renewed; raises KeyError for an unknown part."""
    return _PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n{part[3]}", text)


def main() -> int:
    """Write the documents that changed; returns the exit code."""
    for path in documents():
        before = path.read_text(encoding="utf-8")
        if (after := written(before)) != before:
            path.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)} written\n")
    for path, make in FILES.items():
        if path.read_text(encoding="utf-8") != (text := make()):
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)} written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
