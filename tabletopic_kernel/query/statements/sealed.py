"""What a query may do that nobody has read before it runs: SELECT from tables, and no more.

Two locks, each of which is enough for files: the statement's tree may contain known tables and harmless
functions alone, and DuckDB itself opens the folders of these tables alone, and takes no other setting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import duckdb
from pyiceberg.table import Table

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.query.duckdb_connection import folders_of
from tabletopic_kernel.query.statements.sql import literal

_MEMORY: Final = "1GB"
_REFUSED: Final = "it must be one SELECT from tables"
# Parts of a statement; of those with a class, expressions, DuckDB has no more than these either.
_CLASSES: Final = frozenset(
    (
        *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT"),
        *("FUNCTION", "LAMBDA", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW"),
    )
)
_PARTS: Final = frozenset(
    (
        *("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"),
        *(
            "BASE_TABLE",
            "EMPTY",
            "EXPRESSION_LIST",
            "JOIN",
            "PIVOT",
            "SHOW_REF",
            "SUBQUERY",
            "TABLE_FUNCTION",
        ),
        *("ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"),
        *("ORDER_DEFAULT", "ASCENDING", "DESCENDING"),
    )
)
_TABLE_FUNCTIONS: Final = frozenset(("unnest", "range", "generate_series", "json_each", "json_tree"))
# Functions that DuckDB declares constant, but which tell of the process or plan another statement, and
# those of other programs' catalogs.
_OUTSIDE: Final = re.compile(
    r"current_setting|getvariable|getenv|version|in_search_path|txid_current|json_(de)?serialize_\w+"
    r"|parse_duckdb_log_message|vector_type|stats|get_block_size|(pg|has|inet|obj|col|shobj|iceberg)_\w+|__\w+"
)
_VARYING: Final = frozenset(("random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "error"))


def check_sealed(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise UsageError unless the text is one SELECT, of parts and functions that reach nothing else."""
    row = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    assert row is not None
    tree: dict[str, Any] = json.loads(row[0])
    if tree["error"]:
        wrong = tree.get("error_type") == "parser"
        raise UsageError(str(tree["error_message"]) if wrong else _REFUSED)
    if len(tree["statements"]) != 1:
        raise UsageError(_REFUSED)
    for node in _nodes(tree["statements"]):
        _check(node)


def seal(connection: duckdb.DuckDBPyConnection, tables: Sequence[Table]) -> None:
    """Let a connection open the files of these tables alone, with bounded memory; there is no way back."""
    folders = [folder for table in tables for folder in folders_of(table.location(), table.properties)]
    paths = [table.metadata_location for table in tables]
    for name, values in (("allowed_directories", folders), ("allowed_paths", paths)):
        connection.execute(f"SET {name} = [{', '.join(map(literal, values))}]")
    connection.execute(
        f"SET memory_limit = '{_MEMORY}'; SET temp_directory = ''; SET threads = 2;"
        "SET enable_external_access = false; SET lock_configuration = true"
    )


def _check(node: dict[str, Any]) -> None:
    kind, part = node.get("class"), node["type"]
    if kind is None:
        if not (part in _PARTS or part.endswith("_TYPE_INFO")) or (part == "SHOW_REF" and node["table_name"]):
            raise UsageError(f"{part} is refused: {_REFUSED}")
        if part == "TABLE_FUNCTION" and node["function"]["function_name"].lower() not in _TABLE_FUNCTIONS:
            raise UsageError(f"{node['function']['function_name']}() is refused: {_REFUSED}")
    elif kind not in _CLASSES:
        raise UsageError(f"{kind} is refused: {_REFUSED}")
    elif kind in ("FUNCTION", "WINDOW"):
        name = node["function_name"].lower()
        if name not in harmless_functions():
            raise UsageError(f"{name}() is refused: it does not exist, or is not a function of values alone")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All parts of a tree."""
    if isinstance(tree, dict):
        if isinstance(tree.get("type"), str):
            yield tree
        tree = [*tree.values()]
    for inner in tree if isinstance(tree, list) else ():
        yield from _nodes(inner)


@lru_cache(maxsize=1)
def harmless_functions() -> frozenset[str]:
    """The names of functions of values alone, in DuckDB's version, which is pinned."""
    query = "SELECT lower(function_name), function_type, stability, macro_definition FROM duckdb_functions()"
    with duckdb.connect() as connection:
        functions = connection.execute(query).fetchall()
    harmless, refused = {"unnest", "generate_subscripts", *_TABLE_FUNCTIONS}, set[str]()
    for name, kind, stability, _ in functions:
        is_fixed = kind == "aggregate" or (kind == "scalar" and stability != "VOLATILE") or name in _VARYING
        if is_fixed and not _OUTSIDE.fullmatch(name):
            harmless.add(name)
        elif kind != "macro":
            refused.add(name)
    for name, kind, _, definition in functions:
        words = set(re.findall(r"\w+", (definition or "").lower()))
        reaches_out = _OUTSIDE.fullmatch(name) or words & {*refused - harmless, "from"}
        if kind == "macro" and not reaches_out:
            harmless.add(name)
    return frozenset(harmless)
