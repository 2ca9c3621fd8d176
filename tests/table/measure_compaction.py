"""The cost of compaction, and the gain for a query: ``python -m tests.table.measure_compaction``.

Ten million rows of the clickstream, in files of 8,000 rows as left by a busy topic, are compacted like the
owner does. DuckDB's sum over them is compared with that over the same rows freshly written into large files.
CPU time of this process; the queries take turns. The last commit follows the compaction: in the compaction's
own snapshot, manifests still name the files that it replaced.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.aging import QUERY, Life
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.table.expiry import Retention

SMALL, COMMITS, TIMES = 8_000, 1_250, 125  # rows of a file, commits, commits that one large batch has at once
TURNS = 9


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory(prefix="tabletopic-measure-") as folder:
        small, fresh = _table(Path(folder) / "small", 1), _table(Path(folder) / "fresh", TIMES)
        of_small, of_fresh = _sum(small), _sum(fresh)
        before = median(_cpu_s(of_small) for _ in range(3))
        files, rows, spent = small.data_files, of_small(), _cpu_s(small.compact)
        _tell(f"{files:,} files became {small.data_files}: {1e6 * spent / rows:.2f} µs a row")
        small.append()
        for life in (
            small,
            fresh,
        ):  # files count here; what snapshots cost is in docs/evidence/performance.md
            life.expire(Retention(time_travel_ms=60_000, at_least=1))
        assert of_small() == of_fresh() == SMALL * COMMITS
        turns = [(_cpu_s(of_small), _cpu_s(of_fresh)) for _ in range(TURNS)]
        after, new = (median(column) for column in zip(*turns, strict=True))
        ratio = median(one / other for one, other in turns)
        _tell(f"DuckDB's sum over {SMALL * COMMITS:,} rows: {before:.2f} s before, {after:.3f} s after")
        _tell(
            f"freshly written, in {fresh.data_files} files: {new:.3f} s; compacted {ratio:.2f} times as much"
        )


def _table(folder: Path, times: int) -> Life:
    """All commits of large batches; of small ones all but the last, which comes after the compaction."""
    folder.mkdir()
    made = Life(folder, SMALL, times)
    for _ in range(COMMITS // times - (times == 1)):
        made.append()
    return made


def _tell(line: str) -> None:
    print(line)  # noqa: T201 - a script for people


def _sum(life: Life) -> Callable[[], int]:
    lake = DuckLake(life.catalog)
    return lambda: int(lake.sql(QUERY).to_pylist()[0]["rows"])


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
