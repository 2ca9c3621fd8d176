"""Bind variables in SQL."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.query.parameters import bound, names_in, respelled


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT $a, $b, $a", ["a", "b"]),
        ("SELECT '$a', \"$b\", `$c` -- $d\n, $e /* $f\n */", ["e"]),
        ("SELECT 'it''s $a', $b", ["b"]),
        ("SELECT $$a $b$$, $tag$ $c $tag$, $d", ["d"]),
        ("SELECT $1, 5 $ 3", []),
    ],
)
def test_variables_are_found_where_they_are_none_of_the_text(sql: str, names: list[str]) -> None:
    """Strings, quoted names and comments hold no variables."""
    assert names_in(sql) == names


def test_only_variables_are_respelled() -> None:
    """Everything else stays; what is missing is told, all of it; values are Python's."""
    assert respelled("SELECT '$a', $a -- $a", ":{}".format) == "SELECT '$a', :a -- $a"
    with pytest.raises(UsageError, match=r"\$a, \$c"):
        bound("SELECT $a, $b, $c", {"b": 1})
    values = {
        "count": np.int64(3), "at": pd.Timestamp("2026-01-31T12:00:00Z"), "ids": np.array([1, 2]),
        "name": "x", "unused": object(),
    }  # fmt: skip
    found = bound("SELECT $count, $at, $ids, $name", values)
    assert found["count"] == 3
    assert type(found["count"]) is int
    assert type(found["at"]) is datetime
    assert found["ids"] == [1, 2]
    assert list(found) == ["count", "at", "ids", "name"]
