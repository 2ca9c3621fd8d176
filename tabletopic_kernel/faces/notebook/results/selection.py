"""Which rows of a result, and in which order, as SQL over its columns.

Columns have the names c0, c1 …: those of a result may be the same, or anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast

from tabletopic_kernel.faces.notebook.results.desk import ROW, Desk
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.query.statements.sql import literal

if TYPE_CHECKING:
    import duckdb

    from tabletopic_kernel.faces.notebook.results.kept import Kept

_COMPARISONS = {"=": "=", "!=": "IS DISTINCT FROM", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_NULLS = {"null": "IS NULL", "not null": "IS NOT NULL"}
_NUMERIC = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL[^\]]*")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_DIGITS = 38  # of DuckDB's decimals


def is_numeric(kind: str) -> bool:
    """Whether values of this type of DuckDB are numbers."""
    return _NUMERIC.fullmatch(kind) is not None


def is_moment(kind: str) -> bool:
    """Whether values of this type of DuckDB are on a time axis."""
    return kind.startswith(("DATE", "TIMESTAMP")) and not is_nested(kind)


def is_nested(kind: str) -> bool:
    """Whether this type of DuckDB has values within values."""
    return kind.endswith("]") or kind.startswith(("STRUCT", "MAP"))


def _operand(text: str, kind: str) -> str:
    """What was typed, to compare with a column of this type; a number is never rounded to it."""
    if not is_numeric(kind) or kind == "FLOAT":
        return f"CAST({literal(text)} AS {kind})"
    try:
        # 1,5 is one and a half to many.
        number = Decimal(text.replace(",", "") if _THOUSANDS.fullmatch(text.strip()) else text)
    except InvalidOperation:
        raise UsageError(f"{text!r} is not a number") from None
    if kind == "DOUBLE" or not number.is_finite():
        return f"CAST({literal(str(number))} AS DOUBLE)"
    exponent = number.as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    fits = number.adjusted() + 1 + scale <= _DIGITS
    return f"CAST({literal(format(number, 'f'))} AS {f'DECIMAL({_DIGITS},{scale})' if fits else 'DOUBLE'})"


@dataclass(frozen=True)
class Selection:
    """``filters``: (column, comparison, text); ``sort``: (column, whether descending), first ones first."""

    filters: tuple[tuple[int, str, str], ...] = ()
    sort: tuple[tuple[int, bool], ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Selection:
        """From a message."""
        filters = tuple((int(index), str(how), str(text)) for index, how, text in data.get("filters", ()))
        return cls(filters, tuple((int(index), bool(down)) for index, down in data.get("sort", ())))

    def where(self, names: Sequence[str], kinds: Sequence[str]) -> str:
        """The WHERE clause, or nothing; columns by names quoted for SQL. UsageError: no such comparison."""
        rules = [_rule(names[index], kinds[index], how, text) for index, how, text in self.filters]
        return f" WHERE {' AND '.join(rules)}" if rules else ""

    def clauses(self, connection: duckdb.DuckDBPyConnection, kinds: Sequence[str]) -> str:
        """WHERE and ORDER BY for ``t``; nulls last, equal ones as they came. Raises as ``where``."""
        where = self.where(columns(kinds), kinds)
        keys = [
            f"{_key(connection, f'c{index}', kinds[index], where)} {'DESC' if down else 'ASC'} NULLS LAST"
            for index, down in self.sort
        ]
        return f"{where} ORDER BY {', '.join([*keys, ROW])}"

    def numbers(self, kept: Kept, desk: Desk) -> Sequence[int]:
        """The numbers of the rows, in order: all of them without a query where nothing is selected."""
        if not self.filters and not self.sort:
            return range(kept.rows.num_rows)
        return kept.order(self, lambda: self._numbers(kept, desk))

    def _numbers(self, kept: Kept, desk: Desk) -> Sequence[int]:
        with desk.table(kept) as (connection, kinds):
            sql = f"SELECT {ROW}::INTEGER AS n FROM t{self.clauses(connection, kinds)}"
            return cast("Sequence[int]", connection.execute(sql).fetchnumpy()["n"])


def columns(kinds: Sequence[str]) -> list[str]:
    """The columns' names in ``t``."""
    return [f"c{index}" for index in range(len(kinds))]


def _key(connection: duckdb.DuckDBPyConnection, name: str, kind: str, where: str) -> str:
    """What sorts like a column: texts without what all of them begin with.

    DuckDB sorts by the first bytes of texts, and is three times as slow where these are the same, as in URLs.
    """
    if kind != "VARCHAR":
        return name
    least, greatest = connection.execute(f"SELECT min({name}), max({name}) FROM t{where}").fetchall()[0]
    pairs = zip(least or "", greatest or "", strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return f"substring({name}, {shared + 1})" if shared else name


def _rule(name: str, kind: str, how: str, text: str) -> str:
    if how in _NULLS:
        return f"{name} {_NULLS[how]}"
    if how == "contains":
        return f"contains(lower(CAST({name} AS VARCHAR)), lower({literal(text)}))"
    if how not in _COMPARISONS or is_nested(kind):
        raise UsageError(f"{how!r} is no comparison for {kind}: use contains, null or not null")
    return f"{name} {_COMPARISONS[how]} {_operand(text, kind)}"
