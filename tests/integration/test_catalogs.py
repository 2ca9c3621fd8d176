"""Two catalogs, with two topics whose tables have the same name and are in one folder."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import Sender
from tests.integration.rows import FAST, V1, check_rows, row_v1

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]


@pytest.fixture
def pair(
    bench: Workbench, new_topic: Callable[..., Sender], caught_up: Callable[..., Any]
) -> tuple[Sender, Sender, str]:
    """A topic in each catalog, with two records and three; and the name that both tables have."""
    ours, theirs = new_topic(), new_topic()
    table = f"both_{ours.topic}"
    ours.avro(V1, row_v1(1), row_v1(2))
    theirs.avro(V1, row_v1(1), row_v1(2), row_v1(3))
    bench.enable(ours.topic, {**FAST, "table": table})
    bench.enable(theirs.topic, {**FAST, "table": table, "catalog": "prod"})
    for sender in (ours, theirs):
        caught_up(sender.topic)
    return ours, theirs, table


def test_tables_of_one_name_are_two(
    bench: Workbench, pair: tuple[Sender, Sender, str], caught_up: Callable[..., Any]
) -> None:
    """Each has its rows and dead letters; DuckDB and Spark join them, and maintenance mixes up no files."""
    ours, theirs, table = pair
    for sender in pair[:2]:
        check_rows(bench, sender)
    assert bench.table_of(theirs.topic) == bench.status(theirs.topic)[0].table == f"prod.default.{table}"
    assert bench.table_of(ours.topic) == f"default.{table}"
    counts = (
        "SELECT count(*) AS theirs, count(a.id) AS joined, count(DISTINCT a.id) AS ours "
        f"FROM prod.default.{table} b LEFT JOIN {table} a ON a.id = b.id"
    )
    for engine in ("duckdb", "spark"):
        answer = bench.query(counts, engine)  # type: ignore[arg-type]
        assert answer.rows.to_pylist() == [{"theirs": 3, "joined": 2, "ours": 2}], engine
        assert {one.table for one in answer.tables} == {f"default.{table}", f"prod.default.{table}"}, engine
    theirs.raw(b"\x00no record", None)
    theirs.avro(V1, row_v1(4))
    status = caught_up(theirs.topic)
    letters = f"prod.default.{table}__dead_letters"
    assert (status.dead_letters, status.dead_letter_table) == (1, letters)
    assert bench.query(f"SELECT count(*) AS n FROM {letters}").rows.to_pylist() == [{"n": 1}]
    with pytest.raises(UsageError, match=r"there is no table .*__dead_letters"):
        bench.query(f"SELECT * FROM {table}__dead_letters")
    assert bench.topic(theirs.topic).health().topic == theirs.topic
    assert bench.topic(theirs.topic).history()[0].rows == 4
    plan = bench.plan_replay(theirs.topic)
    assert sum(plan.stayed.values()) == 1
    for topic in (ours.topic, theirs.topic):
        assert bench.expire(topic, orphans=True, timeout_s=120) is not None
        compacted = bench.compact(topic, timeout_s=120)
        assert compacted is not None
        assert compacted.error is None
    assert bench.query(f"SELECT count(*) AS n FROM {table}").rows.to_pylist() == [{"n": 2}]
    assert bench.query(f"SELECT count(*) AS n FROM prod.default.{table}").rows.to_pylist() == [{"n": 4}]


def test_where_a_table_lies_is_settled(bench: Workbench, pair: tuple[Sender, Sender, str]) -> None:
    """Another catalog is another table: alter says so, and a name that the settings lack is an error."""
    ours, theirs, table = pair
    with pytest.raises(UsageError, match=f"catalog cannot be changed.*enable {ours.topic} --catalog prod"):
        bench.alter(ours.topic, {"catalog": "prod"})
    assert bench.alter(ours.topic, {"catalog": "lake"}).settings.catalog is None
    with pytest.raises(UsageError, match=r"\[catalogs.nope\] is not in the settings here, only prod"):
        bench.plan(ours.topic, {"catalog": "nope"})
    plan = bench.plan(ours.topic, {"catalog": "prod", "table": table})
    assert plan.refused == [
        f"the table prod.default.{table} belongs to the topic '{theirs.topic}'; choose another name with "
        "--table or --namespace"
    ]


def test_an_outage_is_that_of_one_catalog(
    bench: Workbench, pair: tuple[Sender, Sender, str], caught_up: Callable[..., Any]
) -> None:
    """Topics of the other one go on; status names the section, and what waited is there once afterwards."""
    ours, theirs, table = pair
    folder = Path(bench.servers.state_dir) / "prod"
    away = folder.rename(folder.with_name("prod-away"))
    try:
        theirs.avro(V1, row_v1(4))
        deadline = time.monotonic() + 240
        while "[catalogs.prod]" not in (bench.status(theirs.topic)[0].error or ""):
            assert time.monotonic() < deadline, bench.status(theirs.topic)
            time.sleep(0.3)
        ours.avro(V1, row_v1(3))
        caught_up(ours.topic)
        check_rows(bench, ours)
        assert {one.topic for one in bench.status()} >= {ours.topic, theirs.topic}
        assert bench.query(f"SELECT count(*) AS n FROM {table}").rows.to_pylist() == [{"n": 3}]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        away.rename(folder)
    if bench.status(theirs.topic)[0].state == "failed":
        bench.resume(theirs.topic)
    deadline = time.monotonic() + 240
    while bench.status(theirs.topic)[0].lag_records != 0:
        assert time.monotonic() < deadline, bench.status(theirs.topic)
        time.sleep(0.3)
    check_rows(bench, theirs)
