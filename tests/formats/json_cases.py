"""JSON Schemas with values, their texts, and the expected table contents: written from the specifications.

Nothing here uses the package, so a mistake would have to be made twice to go unnoticed. A ``Case`` is a
schema with a strategy of ``Value``s: a JSON text, the column's content as returned by ``avro_cases.plain``,
and the rest, which the schema allows without naming it.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.formats.text_cases import TEXT

I64 = 2**63
DAY_US = 24 * 60 * 60 * 10**6
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
PREFIX = b"\x00\x00\x00\x00\x07"
SCHEMA_ID = 7
NONE = None  # nothing is left over: JSON's own null never is


@dataclass(frozen=True)
class Value:
    """One value; ``text`` is its JSON, ``plain`` the column's content, ``left`` what has no column."""

    text: str
    plain: Any
    left: Any = NONE


@dataclass(frozen=True)
class Case:
    """A type; ``text``: its column is JSON text."""

    schema: Any
    values: st.SearchStrategy[Value]
    text: bool = False


def framed(*texts: str | bytes) -> pa.Array:
    """The texts as Kafka values with a schema id."""
    return pa.array([PREFIX + (t.encode() if isinstance(t, str) else t) for t in texts], pa.binary())


SPACE = st.sampled_from(["", "", "", " ", "\n", "\t\r ", "  "])


def quoted(text: str, ascii_only: bool = False) -> str:
    """A JSON string."""
    return json.dumps(text, ensure_ascii=ascii_only)


@st.composite
def _strings(draw: st.DrawFn) -> Value:
    text = draw(TEXT)
    return Value(quoted(text, draw(st.booleans())), text)


@st.composite
def _longs(draw: st.DrawFn) -> Value:
    number = draw(
        st.one_of(st.integers(-I64, I64 - 1), st.sampled_from([0, -I64, I64 - 1, 2**53, 2**53 + 1]))
    )
    form = draw(st.sampled_from(["", "", "", ".0", "e0", "0E-1" if number else ""]))
    return Value(f"{number}{form}", number)


@st.composite
def _doubles(draw: st.DrawFn) -> Value:
    number = draw(st.floats(allow_nan=False, allow_infinity=False))
    form = draw(st.sampled_from(["r", ".17g"]))
    text = repr(number) if form == "r" else f"{number:.17g}"
    if form != "r" and text.lstrip("-").isdecimal():
        text += ".0"
    return Value(text, repr(number))


@st.composite
def _big_integers(draw: st.DrawFn) -> Value:
    number = draw(st.integers(-(10**38) + 1, 10**38 - 1))
    return Value(str(number), decimal.Decimal(number))


@st.composite
def _dates(draw: st.DrawFn) -> Value:
    day = draw(st.dates())
    return Value(quoted(day.isoformat()), (day - EPOCH.date()).days)


OFFSET = st.sampled_from(
    [("Z", 0), ("z", 0), ("+00:00", 0), ("+02:00", 120), ("-11:30", -690), ("+23:59", 1439)]
)
FRACTION = st.one_of(
    st.just(""), st.from_regex(r"\.[0-9]{1,6}0{0,3}", fullmatch=True, alphabet="0123456789.")
)


def _fraction_us(fraction: str) -> int:
    return int(fraction[1:7].ljust(6, "0")) if fraction else 0


@st.composite
def _times(draw: st.DrawFn) -> Value:
    seconds, fraction = draw(st.integers(0, 86_399)), draw(FRACTION)
    zone, minutes = draw(st.one_of(OFFSET, st.just(("", 0))))
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}{zone}"
    return Value(quoted(text), (seconds * 10**6 + _fraction_us(fraction) - minutes * 60 * 10**6) % DAY_US)


@st.composite
def _timestamps(draw: st.DrawFn) -> Value:
    moment = draw(st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)))
    moment = moment.replace(microsecond=0, tzinfo=datetime.UTC)
    fraction, (zone, minutes) = draw(FRACTION), draw(OFFSET)
    text = f"{moment.year:04}-{moment:%m-%d}{draw(st.sampled_from('TTTt '))}{moment:%H:%M:%S}{fraction}{zone}"
    since = (moment - EPOCH) // datetime.timedelta(seconds=1)
    return Value(quoted(text), since * 10**6 + _fraction_us(fraction) - minutes * 60 * 10**6)


@st.composite
def _uuids(draw: st.DrawFn) -> Value:
    one = draw(st.uuids())
    return Value(quoted(draw(st.sampled_from([str, lambda u: str(u).upper()]))(one)), one.bytes)


SCALARS: list[Case] = [
    Case({"type": "boolean"}, st.booleans().map(lambda b: Value("true" if b else "false", b))),
    Case({"type": "integer"}, _longs()),
    Case({"type": "integer", "minimum": -(2**80)}, _big_integers()),
    Case({"type": "number", "description": "a measure"}, _doubles()),
    Case({"type": ["integer", "number"]}, _doubles()),
    Case({"type": "string"}, _strings()),
    Case({"type": "string", "maxLength": 1000, "format": "hostname"}, _strings()),
    Case({"type": "string", "format": "date"}, _dates()),
    Case({"type": "string", "format": "time"}, _times()),
    Case({"type": "string", "format": "date-time"}, _timestamps()),
    Case({"type": "string", "format": "uuid"}, _uuids()),
    Case({"enum": ["A", "B"]}, st.sampled_from("AB").map(lambda s: Value(quoted(s), s))),
    Case({"const": 5}, st.just(Value("5", 5))),
    Case({"$ref": "#/definitions/flag"}, st.booleans().map(lambda b: Value(str(b).lower(), b))),
]
DEFINITIONS = {
    "flag": {"type": "boolean"},
    "tree": {"properties": {"next": {"$ref": "#/definitions/tree"}}},
}


@st.composite
def _joined(draw: st.DrawFn, parts: list[str], brackets: str) -> str:
    space = draw(SPACE)
    return brackets[0] + space + f"{space},{space}".join(parts) + space + brackets[1]


@st.composite
def _any_json(draw: st.DrawFn, depth: int = 2) -> tuple[str, str]:
    """Any JSON text and its shortest spelling."""
    leaf = st.sampled_from(["true", "false", "0", "-0", "1.50", "1e400", "123456789012345678901234567890"])
    which = draw(st.integers(0, 3 if depth else 1))
    if which == 0:
        found = draw(leaf)
        return found, found
    if which == 1:
        text = draw(TEXT)
        return quoted(text, draw(st.booleans())), quoted(text)
    inner = draw(st.lists(_any_json(depth=depth - 1), max_size=3))
    if which == 2:
        return draw(_joined([t for t, _ in inner], "[]")), f"[{','.join(s for _, s in inner)}]"
    keys = draw(st.lists(TEXT, min_size=len(inner), max_size=len(inner), unique=True))
    long = [f"{quoted(k, True)}:{t}" for k, (t, _) in zip(keys, inner, strict=True)]
    short = [f"{quoted(k)}:{s}" for k, (_, s) in zip(keys, inner, strict=True)]
    return draw(_joined(long, "{}")), f"{{{','.join(short)}}}"


ANY = [
    {},
    True,
    {"$ref": "#/definitions/tree"},
    {"type": ["string", "integer", "object", "array", "boolean", "number"]},
]


@st.composite
def _texts(draw: st.DrawFn) -> Case:
    return Case(draw(st.sampled_from(ANY)), _any_json().map(lambda pair: Value(*pair)), text=True)


@st.composite
def cases(draw: st.DrawFn, depth: int = 2) -> Case:
    """A type of any kind."""
    which = draw(st.integers(0, 6 if depth else 1))
    if which in (0, 1):
        return draw(st.sampled_from(SCALARS))
    if which == 2:
        return _nullable(draw(cases(depth=depth - 1)), draw(st.integers(0, 2)))
    if which == 3:
        return _array(draw(cases(depth=depth - 1)))
    if which == 4:
        return _map(draw(cases(depth=depth - 1)))
    return draw(structs(depth)) if which == 5 else draw(_texts())


def _nullable(inner: Case, how: int) -> Case:
    values = st.one_of(st.just(Value("null", None)), inner.values)
    if how == 0 and isinstance(inner.schema, dict) and isinstance(inner.schema.get("type"), str):
        return Case(inner.schema | {"type": [inner.schema["type"], "null"]}, values, inner.text)
    branches = [{"type": "null"}, inner.schema]
    return Case({"anyOf": branches[::-1] if how == 1 else branches}, values, inner.text)


def _array(inner: Case) -> Case:
    @st.composite
    def values(draw: st.DrawFn) -> Value:
        items = draw(st.lists(inner.values, max_size=3))
        left = [item.left for item in items]
        text = draw(_joined([item.text for item in items], "[]"))
        while left and left[-1] is NONE:
            left.pop()
        return Value(text, [item.plain for item in items], left or NONE)

    return Case({"type": "array", "items": inner.schema}, values())


def _map(inner: Case) -> Case:
    @st.composite
    def values(draw: st.DrawFn) -> Value:
        entries = draw(st.dictionaries(TEXT, inner.values, max_size=3))
        text = draw(_joined([f"{quoted(k)}:{v.text}" for k, v in entries.items()], "{}"))
        left = {k: v.left for k, v in entries.items() if v.left is not NONE}
        return Value(text, [(k, v.plain) for k, v in entries.items()], left or NONE)

    @st.composite
    def texts(draw: st.DrawFn) -> Value:
        entries = draw(st.dictionaries(TEXT, _any_json(), max_size=3))
        text = draw(_joined([f"{quoted(k)}:{v}" for k, (v, _) in entries.items()], "{}"))
        return Value(text, "{" + ",".join(f"{quoted(k)}:{s}" for k, (_, s) in entries.items()) + "}")

    schema = {"type": "object", "additionalProperties": inner.schema}
    return Case(schema, texts(), text=True) if inner.text else Case(schema, values())


@st.composite
def structs(draw: st.DrawFn, depth: int, prefix: str = "") -> Case:
    """An object with named properties, open or closed."""
    inner = draw(st.lists(cases(depth=depth - 1), min_size=1, max_size=4))
    names = [f"{prefix}{draw(st.sampled_from(['f', 'Größe ', 'x-', '😀']))}{i}" for i in range(len(inner))]
    required = [name for name in names if draw(st.booleans())]
    closed = draw(st.booleans())
    schema: dict[str, Any] = {
        "type": "object",
        "properties": dict(zip(names, (c.schema for c in inner), strict=True)),
    }
    if required:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return Case(schema, _objects(names, inner, set(required), closed))


@st.composite
def _objects(draw: st.DrawFn, names: list[str], inner: list[Case], required: set[str], closed: bool) -> Value:
    parts, plain, left = [], {}, {}
    for name, case in zip(names, inner, strict=True):
        how = draw(st.integers(0, 4))
        if name not in required and how == 0:
            plain[name] = None
            continue
        value = draw(case.values)
        parts.append(f"{draw(SPACE)}{quoted(name, draw(st.booleans()))}{draw(SPACE)}:{value.text}")
        plain[name] = value.plain
        if value.left is not NONE:
            left[name] = value.left
    if not closed and draw(st.integers(0, 3)) == 0:
        parts.append('"~more": {"is": [1, null, "text"]}')
        left["~more"] = {"is": [1, None, "text"]}
    parts += ['"~null":null'] if not closed and draw(st.booleans()) else []
    return Value(draw(_joined(draw(st.permutations(parts)), "{}")), plain, left or NONE)


def may_leave(schema: Any) -> bool:
    """Whether a schema allows what it does not name, which then has a column of its own."""
    if not isinstance(schema, dict):
        return False
    if "properties" in schema:
        inner = schema["properties"].values()
        return "additionalProperties" not in schema or any(map(may_leave, inner))
    parts = itertools.chain(
        [schema.get("items"), schema.get("additionalProperties")], schema.get("anyOf", ())
    )
    return any(map(may_leave, parts))


@st.composite
def rows(draw: st.DrawFn, max_records: int = 8) -> tuple[Any, list[Value]]:
    """A record schema and values of it."""
    case = draw(structs(depth=3))
    schema = case.schema | {"definitions": DEFINITIONS}
    return schema, draw(st.lists(case.values, min_size=1, max_size=max_records))
