"""The allowed form of a projection: at most one row out per row in, and deterministic.

DuckDB's own parser reads the statement (``json_serialize_sql``), so what is checked here is what runs.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import duckdb

from tabletopic_kernel.model.errors import ProjectionError

TABLE: Final = "batch"
# A column of the batch that numbers the rows. No statement can guess its name.
ROW: Final = f"row_{uuid.uuid4().hex}"
_Node = dict[str, Any]

_LOCK = threading.Lock()
_SETTINGS: Final = (
    "SET TimeZone = 'UTC'",
    # Arrow gets UUIDs as such, and 64-bit offsets, as in data files.
    "SET arrow_lossless_conversion = true",
    "SET arrow_large_buffer_size = true",
    # A name that is not in the batch is a mistake, not a variable of the process.
    "SET python_enable_replacements = false",
    # An expression shared by two others would be moved out of TRY, and fail for all rows.
    "SET disabled_optimizers = 'common_subexpressions'",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_CLAUSES: Final = {
    "ORDER_MODIFIER": "ORDER BY",
    "LIMIT_MODIFIER": "LIMIT",
    "LIMIT_PERCENT_MODIFIER": "LIMIT",
    "DISTINCT_MODIFIER": "DISTINCT",
}
_REFUSED_CLASSES: Final = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "PARAMETER": "a parameter",
    "DEFAULT": "DEFAULT",
    "POSITIONAL_REFERENCE": "a positional reference",
}

# Words that are columns for the parser, but functions for the binder.
_CLOCKS: Final = frozenset(
    ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")
)
# Functions of DuckDB's own state, which it considers constant.
_OUTSIDE: Final = frozenset(("current_setting", "getvariable", "version"))


@dataclass(frozen=True)
class Statement:
    """A checked projection.

    ``query`` is the statement with the column ``ROW`` at the end. ``probe`` gives, for each row, ``ROW`` and
    the name of the first output that fails on it (``WHERE`` for the condition), null if none does.
    """

    query: str
    probe: str


def connect() -> duckdb.DuckDBPyConnection:
    """This thread's connection to a DuckDB that can access only what it is given."""
    with _LOCK:
        return _database().cursor()


@lru_cache(maxsize=1)
def _database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "threads": "1",  # tasks already run in parallel
            "memory_limit": "512MB",
            "temp_directory": "",  # exceeding memory is the record's error, and spills nowhere
        }
    )
    for setting in _SETTINGS:
        connection.execute(setting)
    return connection


@lru_cache(maxsize=64)
def statement(text: str) -> Statement:
    """Check a projection; ProjectionError unless it SELECTs expressions FROM batch, maybe with a WHERE."""
    connection = connect()
    tree = _parse(connection, text)
    node = tree["statements"][0]["node"]
    _check_clauses(node, tree["statements"][0])
    alias = node["from_table"]["alias"] or TABLE
    outputs: list[_Node] = node["select_list"]
    for output in outputs:
        _check_output(output, alias)
    where = node["where_clause"]
    if where is not None:
        _check_expressions(where, alias)
    parts = {name: _text(connection, tree, part) for name, part in _may_fail(outputs)}
    probe = _probe(None if where is None else _text(connection, tree, where), parts, alias)
    row = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "query_location": 0}
    outputs.append({**row, "column_names": [ROW]})
    return Statement(_sql(connection, tree), probe)


def _parse(connection: duckdb.DuckDBPyConnection, text: str) -> _Node:
    row = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchone()
    tree: _Node = json.loads(row[0]) if row else {}
    if tree.get("error", True):
        wrong = tree.get("error_type") != "parser"
        raise ProjectionError(ONLY if wrong else f"{tree.get('error_message')}")
    if len(tree["statements"]) != 1 or tree["statements"][0]["node"]["type"] != "SELECT_NODE":
        raise ProjectionError(ONLY)
    return tree


ONLY: Final = f"it must be one SELECT … FROM {TABLE}, with or without a WHERE"


def _check_clauses(node: _Node, whole: _Node) -> None:
    source = node["from_table"]
    plain = source["type"] == "BASE_TABLE" and not (source["schema_name"] or source["catalog_name"])
    if not plain or source["table_name"].lower() != TABLE or source["sample"] or source["column_name_alias"]:
        raise ProjectionError(f"{ONLY}: it reads from {TABLE} alone, without joins or functions")
    clauses = [_CLAUSES.get(modifier["type"], modifier["type"]) for modifier in node["modifiers"]]
    if node["cte_map"]["map"]:
        clauses.append("WITH")
    if node["group_expressions"] or node["group_sets"] or node["aggregate_handling"] != "STANDARD_HANDLING":
        clauses.append("GROUP BY")
    clauses += [name.upper() for name in ("having", "qualify", "sample") if node[name] is not None]
    if whole["named_param_map"]:
        clauses.append("a parameter")
    if clauses:
        raise ProjectionError(f"{ONLY}; it has {', '.join(clauses)}, but each record must become one row")


def _check_output(output: _Node, alias: str) -> None:
    if output["class"] == "STAR" and not output["columns"]:
        for _, part in _replaced(output):
            _check_expressions(part, alias)
        return
    _check_expressions(output, alias)
    if not output["alias"] and output["class"] != "COLUMN_REF":
        raise ProjectionError("give each expression the name of its column, with AS")


def _check_expressions(tree: _Node, alias: str) -> None:
    for node in _nodes(tree):
        kind = node["class"]
        if kind in _REFUSED_CLASSES:
            raise ProjectionError(f"{_REFUSED_CLASSES[kind]} is not allowed: each record must become one row")
        if kind == "STAR":
            raise ProjectionError("* must stand alone, and COLUMNS is not allowed: name the columns")
        if kind == "COLUMN_REF" and len(node["column_names"]) == 1:
            _check_name(node["column_names"][0], alias)
        if kind == "FUNCTION":
            _check_function(node["function_name"], len(node["children"]))


def _check_name(name: str, alias: str) -> None:
    if name.lower() in (TABLE, alias.lower()):
        raise ProjectionError(f"{name} is the table: name its columns")
    if name.lower() in _CLOCKS:
        raise ProjectionError(f"{name} varies: the same record must always become the same row")


def _check_function(name: str, arguments: int) -> None:
    if name.lower() in _OUTSIDE:
        raise ProjectionError(f"{name}() reads data outside the record")
    if name.lower() == "age" and arguments == 1:
        raise ProjectionError("age() of one time counts from today, which varies: give it two times")
    kinds = _functions().get(name.lower(), frozenset())
    if "aggregate" in kinds:
        raise ProjectionError(f"{name}() combines rows, but each record must become one row")
    if name.lower() in ("unnest", "unlist", "generate_subscripts"):
        raise ProjectionError(f"{name}() makes several rows, but each record must become one row")
    if "varies" in kinds:
        raise ProjectionError(f"{name}() varies: the same record must always become the same row")


@lru_cache(maxsize=1)
def _functions() -> dict[str, frozenset[str]]:
    """Properties of functions, by name: ``aggregate``, and ``varies`` between calls."""
    by_name: dict[str, set[str]] = {}
    macros: list[tuple[str, str]] = []
    query = "SELECT lower(function_name), function_type, stability, macro_definition FROM duckdb_functions()"
    for name, kind, stability, macro in connect().execute(query).fetchall():
        kinds = by_name.setdefault(name, set())
        kinds.add("varies" if kind == "scalar" and stability != "CONSISTENT" else kind)
        if macro:
            macros.append((name, macro))
    varying = _CLOCKS | {name for name, kinds in by_name.items() if "varies" in kinds}
    for name, macro in macros:
        if varying.intersection(re.findall(r"\w+", macro.lower())):
            by_name[name].add("varies")
    # A name that is both, like a list function's, counts as scalar here: if it is not, DuckDB says so.
    return {
        name: frozenset(kinds - {"aggregate"} if "scalar" in kinds else kinds)
        for name, kinds in by_name.items()
    }


def _nodes(tree: Any) -> Iterator[_Node]:
    """All expressions of a tree, outermost first."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for inner in tree.values():
            yield from _nodes(inner)
    elif isinstance(tree, list):
        for inner in tree:
            yield from _nodes(inner)


def _replaced(star: _Node) -> list[tuple[str, _Node]]:
    """``* REPLACE (expression AS column)``: the expressions by column."""
    return [(entry["key"], entry["value"]) for entry in star["replace_list"]]


def _may_fail(outputs: list[_Node]) -> Iterator[tuple[str, _Node]]:
    for output in outputs:
        if output["class"] == "STAR":
            yield from _replaced(output)
        elif output["class"] != "COLUMN_REF":
            yield output["alias"], output


def _text(connection: duckdb.DuckDBPyConnection, tree: _Node, expression: _Node) -> str:
    whole = tree["statements"][0]
    node = {**whole["node"], "select_list": [{**expression, "alias": ""}], "where_clause": None}
    alone = {**tree, "statements": [{**whole, "node": node}]}
    text = _sql(connection, alone).removeprefix("SELECT ")
    return text[: text.rindex(" FROM ")]


def _sql(connection: duckdb.DuckDBPyConnection, tree: _Node) -> str:
    row = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchone()
    assert row is not None
    return str(row[0])


def _probe(where: str | None, outputs: dict[str, str], alias: str) -> str:
    # TRY returns null for an error; a struct around the value distinguishes that from a null value.
    cases = []
    if where is not None:
        cases.append(f"WHEN TRY(struct_pack(v := CAST(({where}) AS BOOLEAN))) IS NULL THEN 'WHERE'")
        cases.append(f"WHEN TRY(CAST(({where}) AS BOOLEAN)) IS DISTINCT FROM true THEN NULL")
    for name, text in outputs.items():
        quoted = name.replace("'", "''")
        cases.append(f"WHEN TRY(struct_pack(v := ({text}))) IS NULL THEN '{quoted}'")
    case = f"CASE {' '.join(cases)} END" if cases else "NULL"
    return f'SELECT {ROW}, CAST({case} AS VARCHAR) AS failed FROM {TABLE} AS "{alias}"'
