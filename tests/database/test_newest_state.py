"""The log of a database's changes, with its newest state: as the database is, whatever is killed."""

from __future__ import annotations

import random

import pytest

from tests.database.rig import AVRO, Rig

pytestmark = [pytest.mark.integration, pytest.mark.servers]

_ACCOUNTS = """CREATE TABLE acct (
    id bigint PRIMARY KEY, owner text NOT NULL, balance numeric(12,2), note varchar(200),
    active boolean NOT NULL)"""


class Accounts:
    """Random changes of a table, reproducible by a seed; it knows which keys are there."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self._rig, self._random, self._keys, self._next = rig, random.Random(seed), list[int](), 1
        rig.sql(_ACCOUNTS)

    def change(self, count: int) -> None:
        """Inserts, updates, deletes, and now and then another key for a row."""
        for _ in range(count):
            kind = self._random.random()
            if kind < 0.45 or len(self._keys) < 10:
                self._keys.append(self._next)
                values = f"{self._next}, 'owner {self._next % 97}', {self._amount()}, NULL, true"
                self._rig.sql(f"INSERT INTO acct VALUES ({values})")
                self._next += 1
            elif kind < 0.8:
                text = "NULL" if kind < 0.5 else f"'nöte {kind}'"
                where = f"WHERE id = {self._random.choice(self._keys)}"
                self._rig.sql(f"UPDATE acct SET balance = {self._amount()}, note = {text} {where}")
            elif kind < 0.95:
                key = self._keys.pop(self._random.randrange(len(self._keys)))
                self._rig.sql(f"DELETE FROM acct WHERE id = {key}")
            else:
                at = self._random.randrange(len(self._keys))
                self._rig.sql(f"UPDATE acct SET id = {self._next} WHERE id = {self._keys[at]}")
                self._keys[at] = self._next
                self._next += 1

    def _amount(self) -> str:
        return f"{self._random.randrange(-(10**11), 10**11) / 100:.2f}"


def test_the_newest_state_is_the_database_s_whatever_is_killed(rig: Rig) -> None:
    """Inserts, updates, deletes, keys that change; Connect and a host are killed."""
    accounts = Accounts(rig, 7)
    accounts.change(300)  # these are in the snapshot
    rig.start_host()
    connect = rig.connected("public.acct")
    topics = [f"{prefix}.public.acct" for prefix in (AVRO,)]
    for topic in topics:
        rig.enable(topic, {})
    accounts.change(500)
    for topic in topics:  # by then Connect has noted its place; without, it would take another snapshot
        rig.wait_until_equal(topic)
    accounts.change(500)
    connect.kill()
    accounts.change(500)
    connect.start()
    for topic in topics:
        rig.wait_until_equal(topic)
    accounts.change(500)
    rig.hosts[-1].kill()
    accounts.change(500)
    rig.start_host()
    for topic in topics:
        rig.wait_until_equal(topic)
        (status,) = rig.bench.status(topic)
        assert (status.refused, status.dead_letters) == ({}, 0)
