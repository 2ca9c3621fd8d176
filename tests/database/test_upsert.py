"""A table that is kept by key: row by row what the database has, whatever is killed; also in a live answer.

``python -m pytest tests/database/test_upsert.py --changes 100000`` makes a run of that size.
"""

from __future__ import annotations

import random

import pytest

from tests.database.compare import differences, table_rows
from tests.database.rig import AVRO, JSON, Rig

pytestmark = [pytest.mark.integration, pytest.mark.servers, pytest.mark.timeout(3000)]
_KEYS = 3_000
_TABLE = """CREATE TABLE item (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric(12,2),
    changed timestamptz(6), doc text)"""
# PostgreSQL keeps so large a text elsewhere, and Debezium leaves it out if an update did not touch it.
_DOC = "(SELECT string_agg(md5(n::text || '{seed}'), '') FROM generate_series(1, 80) n)"


def _change(dice: random.Random) -> str:
    """An insert or update, with the large text or without, a delete, or another key for a row."""
    key, kind, amount = dice.randrange(_KEYS), dice.random(), dice.randrange(-(10**11), 10**11) / 100
    if kind < 0.45:
        doc = _DOC.format(seed=amount) if kind < 0.05 else "NULL"
        return (
            f"INSERT INTO item VALUES ({key}, 'owner {key % 97}', {amount}, clock_timestamp(), {doc}) "
            "ON CONFLICT (id) DO UPDATE SET balance = excluded.balance"
        )
    if kind < 0.8:
        text = f", doc = {_DOC.format(seed=amount)}" if kind < 0.48 else ""
        return f"UPDATE item SET balance = {amount}, changed = clock_timestamp(){text} WHERE id = {key}"
    if kind < 0.95:
        return f"DELETE FROM item WHERE id = {key}"
    other = dice.randrange(_KEYS)
    is_free = f"NOT EXISTS (SELECT FROM item WHERE id = {other})"
    return f"UPDATE item SET id = {other} WHERE id = {key} AND {is_free}"


def test_the_table_is_the_database_s_whatever_is_killed(rig: Rig, pytestconfig: pytest.Config) -> None:
    """Inserts, updates without their large values, deletes, changed keys; Connect and a host are killed."""
    dice, changes = random.Random(11), pytestconfig.getoption("--changes")
    topics = [f"{prefix}.public.item" for prefix in (AVRO, JSON)]

    def change() -> None:
        for _ in range(0, changes, 6 * 20):
            rig.sql("; ".join(_change(dice) for _ in range(20)))

    rig.sql(_TABLE)
    change()  # these are in the snapshot
    rig.start_host()
    connect = rig.connected("public.item")
    for topic in topics:
        rig.enable(topic, {"mode": "upsert", "key": ["id"]})
    change()
    for topic in topics:  # by then Connect has noted its place; without, it would take another snapshot
        rig.wait_until_equal(topic)
    change()
    connect.kill()
    change()
    connect.start()
    rig.hosts[-1].kill()
    change()
    rig.start_host()
    change()
    for topic in topics:
        wanted = rig.wait_until_equal(topic)
        (status,) = rig.bench.status(topic)
        assert (status.refused, status.dead_letters) == ({}, 0)
        live = table_rows(rig.bench, f"FROM {rig.bench.table_of(topic)}$live")
        assert not differences(live, wanted)
        events = sum(rig.bench.broker.facts(topic).end.values())
        print(f"{topic}: {events:,} records, {len(wanted):,} rows, {status.changes}")  # noqa: T201
