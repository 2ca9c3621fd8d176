"""The formulas behind "How much it needs" in docs/explanation/sizing.md."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from docs import sizing
from docs.sizing import Case, need


def test_sizes_by_hand() -> None:
    """100,000 records/s of 4 + 1 µs need a core, half idle; commits are early; S3 Tables for a month."""
    case = Case(100, 1_048.576, cpu_us=4, compaction_us=1, busy=0.5, interval_s=10, commit_bytes=1e12)
    found = need(replace(case, price_core_hour=0.5, price_1000_put=2, price_1000_get=1, price_gb_month=0.01))
    assert found.records == pytest.approx(100_000)
    assert (found.cores, found.executors, found.topics) == (1, 0, 1)
    # A million records a commit are 20 tasks, so 20 files; 360 commits an hour.
    assert (found.commits, found.files) == (360, 7_200)
    assert (found.puts, found.gets) == (7_200 + 3 * 360, 7_200 + 2 * 360)
    assert found.gb == pytest.approx(100_000 * 50 * 3600 * 730 / 1e9)
    requests = (8_280 * 2 + 7_920 * 1) / 1000
    assert found.price == pytest.approx(730 * (0.5 + requests) + 0.01 * found.gb)
    assert need(Case(100, 1_048.576, interval_s=10, commit_bytes=10e6)).commits == 1_800
    case = Case(100, 1_048.576, cpu_us=4, compaction_us=0, busy=0.5, interval_s=10, commit_bytes=1e12)
    prices = {
        "price_gb_month": 0.1, "price_1000_objects": 3, "price_1000_compacted": 2, "price_gb_compacted": 5,
    }  # fmt: skip
    found = need(replace(case, compacted_bytes=1e9, **prices))
    assert found.storage == pytest.approx(found.gb * 0.1 + found.gb * 3 / 1000)
    assert found.compaction == pytest.approx(730 * 7_200 * 2 / 1000 + found.gb * 5)
    assert found.price == found.storage + found.compaction


def test_a_list_of_prices(capsys: pytest.CaptureFixture[str]) -> None:
    """Is what the page's table is made of; an option goes before it."""
    sizing.main(["--mib-per-second", "100", "--prices", "aws-s3"])
    told = dict(line.split() for line in capsys.readouterr().out.splitlines())
    _, rows = sizing.prices()
    assert told["price"] == next(row[4] for row in rows if row[0] == "100 MiB/s")
    sizing.main(["--mib-per-second", "100", "--prices", "aws-s3", "--price-core-hour", "0"])
    own = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert own["compute"] == "0"
    assert own["storage"] == told["storage"]


def test_more_records_never_need_less() -> None:
    """Each figure of the page grows with the rate, but for commits, which an interval limits."""
    rows = [need(Case(mib_per_second=rate)) for rate in sizing._RATES]
    for less, more in pairwise(rows):
        assert more.cores >= less.cores
        assert more.memory_gib >= less.memory_gib
        assert more.files >= less.files
        assert more.topics * 20 >= more.cores
