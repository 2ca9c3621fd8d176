"""A result as it is displayed, and how long a kernel keeps its rows."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tabletopic_kernel.faces.notebook.results.kept import Query, Results
from tabletopic_kernel.faces.notebook.results.result import MIME, PagedResult
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.query.answer import Answer

_QUERY = Query("SELECT 1", "duckdb")


def shown(rows: pa.Table, results: Results, **more: Any) -> tuple[PagedResult, dict[str, Any]]:
    """A result, and what a notebook's file keeps of it."""
    result = PagedResult(Answer(rows, **more), 20, results, _QUERY)
    return result, json.loads(json.dumps(result._repr_mimebundle_()[MIME]))


def test_a_file_keeps_the_first_page() -> None:
    """Of rows, types and count; of wide rows, as many as fit. Two columns may have the same name."""
    results = Results(lambda: 2**30)
    rows = pa.table([list(range(5_000)), ["x"] * 5_000], names=["v", "v"])
    result, page = shown(rows, results, truncated=True)
    assert [(one["name"], one["type"], one["number"]) for one in page["columns"]] == [
        ("v", "BIGINT", True),
        ("v", "VARCHAR", False),
    ]
    assert (page["total"], page["truncated"], len(page["rows"]), page["rows"][99]) == (
        5_000, True, 100, ["99", "x"],
    )  # fmt: skip
    assert "the first 20 of at least 5,001 rows" in result._repr_html_()
    assert len(result) == result.arrow().num_rows == 5_000
    wide = pa.table({f"c{index}": ["x" * 150] * 100 for index in range(100)})
    assert len(shown(wide, results)[1]["rows"]) == 16
    assert shown(pa.table({"none": pa.array([], pa.int64())}), results)[1]["rows"] == []


def test_the_last_results_stay() -> None:
    """What is used stays longer; the newest stays whatever its size; small results are complete anyway."""
    results = Results(lambda: 100_000)
    rows = pa.table({"n": list(range(5_000))})  # 40 KB
    first, second = shown(rows, results)[0], shown(rows, results)[0]
    few = shown(rows.slice(0, 3), results)[0]
    assert first.df().shape == (5_000, 1)
    shown(rows, results)
    with pytest.raises(ActionNeededError, match="Run the cell again"):
        second.arrow()
    assert first.arrow().num_rows == 5_000
    large, _ = shown(pa.concat_tables([rows] * 5), results)
    assert large.arrow().num_rows == 25_000
    assert few.arrow().num_rows == 3
    with pytest.raises(ActionNeededError):
        first.arrow()
    assert "5,000 rows" in repr(first)


def test_a_shell_s_outputs_hold_one_page_only() -> None:
    """A shell never forgets an output: the rows beyond the first page are with the results alone."""
    results = Results(lambda: 1)
    result, _ = shown(pa.table({"n": list(range(100_000))}), results)
    kept = result._answer.rows
    assert kept.get_total_buffer_size() < 2_000
    large = shown(pa.table({"v": ["x" * 500_000] * 100}), results)[0]
    assert large._answer.rows.get_total_buffer_size() < 10 * 2**20
    assert (len(large), len(large._page)) == (100, 100)
    assert "the first 12 of 100 rows" in repr(large)
