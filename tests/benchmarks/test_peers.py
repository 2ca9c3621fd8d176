"""The comparison with other programs: what it counts and what it passes on, without the programs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from benchmarks.load import Load
from benchmarks.peers import changes, flink, programs, refused
from benchmarks.peers.site import NAMESPACE, Site, columns, growth, rows_of, wrong_at_last, wrong_rows

IDS = ("a", "b", "c")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site with a catalog of its own and servers that nobody asks."""
    properties = {"name": "lake", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    servers = SimpleNamespace(
        kafka={"bootstrap.servers": "localhost:1"},
        registry={"url": "http://localhost:2", "basic.auth.user.info": "u:it's"},
        catalog=properties,
    )
    bench = SimpleNamespace(servers=servers, open_catalog=lambda: SqlCatalog(**properties))
    return Site(cast(Any, bench), Load("load", "avro", 1, [(b"k", b"v")], IDS), parallelism=2, interval_s=5)


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (["a", "b", "c", "a", "b", "c"], (0, 0)),
        (["a", "b", "c", "a", "b"], (1, 0)),
        (["a", "b", "c", "a", "b", "b", "b"], (1, 2)),
    ],
)
def test_rows_are_compared_with_what_was_sent(site: Site, rows: list[str], wrong: tuple[int, int]) -> None:
    """Two rounds of three events: rows that are missing, and rows that are there too often."""
    table = site.create("loop")
    event = dict.fromkeys(field.name for field in columns("avro").fields)
    table.append(
        pa.Table.from_pylist([{**event, "event_id": text} for text in rows], table.schema().as_arrow())
    )
    assert wrong_rows(site, f"{NAMESPACE}.loop", 6) == wrong
    assert rows_of(site.catalog(), f"{NAMESPACE}.loop") == len(rows)
    assert [count for _, count in growth(site, f"{NAMESPACE}.loop", 0.01, lambda: True)] == [len(rows)]


def test_doubled_rows_hide_no_late_ones(site: Site) -> None:
    """A table may have as many rows as were sent before the last of them came: they are not lost."""
    table = site.create("loop")
    event = dict.fromkeys(field.name for field in columns("avro").fields)
    batches = iter((["a", "b", "b"], ["c"]))

    def append() -> bool:
        rows = [{**event, "event_id": text} for text in next(batches, [])]
        if rows:
            table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))
        return True

    assert append()
    assert wrong_at_last(site, f"{NAMESPACE}.loop", 3, 5, append) == (0, 1)


def test_flink_gets_the_catalog_and_the_login(site: Site) -> None:
    """Its statements name the same catalog as ours, and a quote in a password stays a part of it."""
    source, catalog, insert = flink._statements(site, {"event_id": "STRING"}, "event_id")
    assert "'avro-confluent.basic-auth.user-info' = 'u:it''s'" in source
    assert "jdbc:sqlite:" in catalog
    assert "`lake`.`bench`.`flink`" in insert


def test_a_script_gets_its_job_in_a_file(site: Site, tmp_path: Path) -> None:
    """No password is on a command line."""
    program = programs.loop(site, tmp_path)
    assert json.loads((tmp_path / "job.json").read_text())["kafka"]["bootstrap.servers"] == "localhost:1"
    assert not any("localhost" in word for word in program.command)


def test_every_thousandth_record_is_cut_in_half() -> None:
    """The others stay, and only these have no event that a table must have."""
    records = [(b"k", b"0123456789")] * 2_000
    load = refused.damaged(Load("load", "avro", 1, records, tuple(map(str, range(2_000)))))
    assert [at for at, event in enumerate(load.event_ids) if not event] == [999, 1999]
    assert [load.records[at][1] for at in (998, 999, 1999)] == [b"0123456789", b"01234", b"01234"]


def test_a_table_by_key_is_compared_with_what_was_sent(site: Site) -> None:
    """Readers agree on the rows before the changes; with these missing, each is said to be wrong."""
    accounts = changes.Accounts(100, rounds=1, changes=40)
    table, wrong = changes._prepared(site, "spark", accounts), dict[str, str]()
    for reader in changes._READERS:
        assert changes._read(site, table, accounts, reader, wrong) is not None
    assert (wrong, changes._added(site, table)) == ({}, 100)
    changed = accounts.change()
    assert len(set(changed["id"].to_pylist())) == len(changed) == 40
    for reader in changes._READERS:
        changes._read(site, table, accounts, reader, wrong)
        assert wrong[reader].startswith("100 rows of 106, sum ")
