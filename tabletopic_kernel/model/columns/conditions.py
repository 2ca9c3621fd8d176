"""User-written conditions on the columns of a table, in PyIceberg's expression language."""

from __future__ import annotations

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind
from pyiceberg.schema import Schema
from pyparsing.exceptions import ParseException

from tabletopic_kernel.model.errors import UsageError


def read_condition(where: str | None, schema: Schema, hint: str) -> BooleanExpression | None:
    """The condition ``where``; None stays None. Raises UsageError, which ends in ``hint``."""
    if where is None or not where.strip():
        return None
    try:
        condition = parse(where)
        bind(schema, condition, case_sensitive=True)
    except (ParseException, ValueError, TypeError) as error:
        # The parser's own message lists pages of grammar.
        position = f"at character {error.loc + 1}" if isinstance(error, ParseException) else error
        raise UsageError(f"cannot read the condition {where!r}: {position}. {hint}") from error
    return condition
