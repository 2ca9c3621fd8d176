"""The page about change data, from its first statement to its last, on a database and a Debezium."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from tabletopic_kernel.demo.change_data.connect import Connect, avro, debezium
from tests.database.compare import differences, table_rows
from tests.database.rig import Rig
from tests.environment import completed, without_settings
from tests.recovery.waiting import wait_until
from tests.test_architecture import blocks
from tests.test_pages import commands

pytestmark = [pytest.mark.integration, pytest.mark.servers]
PAGE = "docs/how-to/change-data.md"
# The page's own servers are the reader's.
_NUMBERS = "FROM generate_series(1, 50) n"
_PLACES = {"database.hostname", "database.port", "database.user", "database.password", "database.dbname"}


def _run(rig: Rig, words: list[str]) -> None:
    """A command of the page, as its reader types it."""
    program = [sys.executable, "-m", "tabletopic_kernel.faces.cli", *words[1:]]
    done = completed(
        program,
        env={**without_settings(), "TABLETOPIC_STATE_DIR": str(rig.folder)},
        cwd=rig.folder,
    )
    assert done.returncode == 0, (shlex.join(words), done.stdout, done.stderr)


def test_the_page_leads_to_a_table_that_equals_the_database(rig: Rig) -> None:
    """Each statement, setting and command of it: the last query gives what the database has."""
    in_database, newest_state = blocks(PAGE, "sql")
    (connector,) = blocks(PAGE, "json")
    _, steps = blocks(PAGE, "console")
    rig.sql(
        "CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, notes text)",
        "CREATE TABLE orders (id int PRIMARY KEY, customer int)",
        in_database,
        f"INSERT INTO customers SELECT n, 'customer ' || n, repeat('long ', 100 * n) {_NUMBERS}",
    )
    given = json.loads(connector)
    places = {name: value for name, value in debezium(rig.postgres, "", "", {}).items() if name in _PLACES}
    assert places.keys() == _PLACES & given.keys()
    config = {**given, **places, **avro(rig.bench.servers.registry)}
    rig.connect = Connect(rig.folder / "connect", rig.bench.servers, {"shop": config})
    rig.connect.start()
    topic = "shop.public.customers"
    wait_until("the first rows", lambda: topic in rig.bench.kafka_topics())
    for words in commands(steps):
        if words[0] == "tabletopic":
            _run(rig, words)
    rig.sql(
        "UPDATE customers SET name = upper(name) WHERE id % 3 = 0",
        "DELETE FROM customers WHERE id % 5 = 0",
        "UPDATE customers SET id = id + 1000 WHERE id % 7 = 0",
        "BEGIN; UPDATE customers SET name = 'a' WHERE id = 1; UPDATE customers SET name = 'b'; COMMIT",
        "TRUNCATE customers",
        f"INSERT INTO customers SELECT n, 'again ' || n, NULL {_NUMBERS} WHERE n <= 20",
        "UPDATE customers SET id = 21 WHERE id = 2",
    )
    wanted = rig.rows("customers")
    wait_until(
        "the table as the database",
        lambda: not differences(table_rows(rig.bench, newest_state), wanted),
    )
    assert len(wanted) == 20
