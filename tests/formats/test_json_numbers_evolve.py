"""A JSON Schema's integer becomes a number, or a number an integer: no value is rounded or omitted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path as Folder
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.registry.registry import RegisteredSchema
from tabletopic_kernel.formats.wire import prefix
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tests.pipeline.whole_path import Path
from tests.table.samples import FakeRegistry, sqlite_catalog


@pytest.fixture
def catalog(tmp_path: Folder) -> Catalog:
    """An empty catalog."""
    return sqlite_catalog(tmp_path)


def schema(kind: Any) -> str:
    """An object with numbers alone, in a list, in a map and in an object."""
    inner = {"type": kind}
    properties = {
        "n": inner,
        "l": {"type": "array", "items": inner},
        "m": {"type": "object", "additionalProperties": inner},
        "o": {"type": "object", "properties": {"x": inner}, "additionalProperties": False},
    }
    return json.dumps({"type": "object", "properties": properties, "additionalProperties": False})


class JsonRegistry(FakeRegistry):
    """Its schemas are JSON Schemas."""

    def by_id(self, schema_id: int, subject: str = "") -> RegisteredSchema:
        """See ``FakeRegistry``."""
        return replace(super().by_id(schema_id), kind="JSON")


def topic(catalog: Catalog, first: str, second: str, **settings: Any) -> Path:
    """Its table is created from a schema of the first kind; the second has id 2."""
    path = Path(catalog, TopicSettings(**settings), JsonRegistry({1: schema(first)}))
    path.registry.schemas[2] = schema(second)
    return path


def value(schema_id: int, text: str) -> bytes:
    """A record as it was written."""
    return prefix(schema_id) + text.encode()


def test_whole_numbers_go_into_a_column_of_integers(catalog: Catalog) -> None:
    """Those of the new schema that are whole are rows; a fraction is a letter, in whatever place it is."""
    path = topic(catalog, "integer", "number")
    big = 2**63 - 1
    assert path.send(value(1, f'{{"n": {big}}}'))[0]["n"] == big
    good = ['{"n": 5}', '{"n": 5.0, "l": [1, 2.0]}', '{"m": {"a": 1e3}}', '{"o": {"x": -4}}', '{"n": null}']
    bad = [
        '{"n": 1.5}',
        '{"l": [1, 2.5]}',
        '{"m": {"a": 0.1}}',
        '{"o": {"x": 1e300}}',
        '{"n": 9223372036854775808}',
    ]
    found = path.send(*(value(2, one) for one in (*good, *bad, good[0])), value(1, f'{{"n": {big}}}'))
    assert [row["n"] for row in found] == [5, 5, None, None, None, 5, big], path.messages
    assert (found[1]["l"], found[2]["m"], found[3]["o"]) == ([1, 2], [("a", 1000)], {"x": -4})
    assert set(path.dead_letters.values()) <= {"does_not_fit", "json_out_of_range"}
    assert sorted(path.dead_letters) == [6, 7, 8, 9, 10]
    assert path.columns()["n"] == "long"
    path.restart()
    assert path.send(value(2, '{"n": 7}'))[0]["n"] == 7


def test_integers_of_before_go_into_a_column_of_numbers(catalog: Catalog) -> None:
    """As far as a double tells them apart; the others are letters, and none is rounded."""
    path = topic(catalog, "number", "integer")
    assert path.send(value(1, '{"n": 1.5}'))[0]["n"] == 1.5
    exact = 2**53
    found = path.send(*(value(2, f'{{"n": {one}}}') for one in (3, exact, exact + 1, -exact)))
    assert [row["n"] for row in found] == [3.0, float(exact), -float(exact)]
    assert path.dead_letters == {3: "does_not_fit"}
    assert path.columns()["n"] == "double"


def test_who_wants_a_column_of_its_own_gets_one(catalog: Catalog) -> None:
    """on_incompatible decides, as for every other change of type."""
    path = topic(catalog, "integer", "number", on_incompatible="new_column")
    path.send(value(1, '{"n": 1}'))
    (found,) = path.send(value(2, '{"n": 2}'))
    assert (found["n"], found["n_double"]) == (None, 2.0)
    path = topic(catalog, "integer", "number", on_incompatible="stop")
    path.send(value(1, '{"n": 1}'))
    with pytest.raises(ActionNeededError, match="is long in the table and double"):
        path.send(value(2, '{"n": 2}'))
