"""Which columns the fields of Protobuf's numbers had (ADR 0040).

A property of the table has the names of columns by the numbers that lead to a field: ``shop/Order.2.1`` is
field 1 of the message in field 2 of ``shop.Order``. So it is known that a name has another number in a
message, or a number another name. Fields of several messages share columns by their names alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyiceberg.schema import Schema

from tabletopic_kernel.model.columns.names import Renumbered, original_name, renamed_path
from tabletopic_kernel.model.ledger import PREFIX

NUMBERS_PROPERTY: Final = f"{PREFIX}field-numbers"
Names = Mapping[str, tuple[str, ...]]  # by numbers, older names first


def noted_names(properties: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The names of columns by numbers; none in tables that are older than this."""
    noted = json.loads(properties.get(NUMBERS_PROPERTY, "{}"))
    return {numbers: tuple(names) for numbers, names in noted.items()}


def names_property(names: Names | None) -> dict[str, str]:
    """The property that ``noted_names`` reads; none for None."""
    return {} if names is None else {NUMBERS_PROPERTY: json.dumps(names)}


def renumbered(written: Mapping[str, str], noted: Names) -> dict[str, Renumbered]:
    """The fields with a name that only other numbers had, by dotted path."""
    before = {(_message(numbers), name): numbers for numbers, names in noted.items() for name in names}
    others = {}
    for path, numbers in written.items():
        name = _last(path)
        owner = before.get((_message(numbers), name), numbers)
        if owner != numbers and name not in noted.get(numbers, ()):
            others[path] = _last(owner), _last(numbers)
    return others


def aliases_by_number(written: Mapping[str, str], noted: Names) -> dict[str, tuple[str, ...]]:
    """The names that the numbers of fields with a new name had, by dotted path, newer names first."""
    return {
        path: noted[numbers][::-1]
        for path, numbers in written.items()
        if numbers in noted and _last(path) not in noted[numbers]
    }


def names_after(
    written: Mapping[str, str], noted: Names, schema: Schema, renames: Mapping[str, str]
) -> Names | None:
    """The names with those of a covered schema's columns, to which ``renames`` leads; None if none is new."""
    names = dict(noted)
    for path, numbers in written.items():
        column = schema.find_field(renamed_path(path, renames))
        name = original_name(column.name, column.doc)
        known = names.get(numbers, ())
        names[numbers] = known if name in known else (*known, name)
    return None if names == noted else names


def _message(numbers: str) -> str:
    return numbers.rpartition(".")[0]


def _last(path: str) -> str:
    return path.rpartition(".")[2]
