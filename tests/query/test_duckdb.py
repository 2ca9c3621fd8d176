"""Queries by DuckDB over tables that PyIceberg wrote."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.query.duckdb_connection import connect, folders_of, give_secret


def one(lake: DuckLake, sql: str, **more: object) -> object:
    """The only value of a query."""
    return lake.sql(sql, **more).column(0)[0].as_py()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "clicks", "default.clicks", '"default".clicks', "lake.default.clicks", 'LAKE."default".CLICKS',
        "DEFAULT.clicks",
    ],
)  # fmt: skip
def test_a_table_has_several_names(lake: DuckLake, name: str) -> None:
    """A table is found by its own name, with its namespace, and with the catalog's name, in any case."""
    assert one(lake, f"SELECT count(*) FROM {name}") == 3


@pytest.mark.parametrize("name", ["web.Orders", "web.orders", 'lake.web."Orders"'])
def test_other_namespaces_are_named(lake: DuckLake, name: str) -> None:
    """A table of another namespace is found under it, by SQL's rules on letter case."""
    assert one(lake, f"SELECT count(*) FROM {name} AS o") == 2


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM clicks c JOIN web.orders o ON c.id = o.click_id", 2),
        ("WITH clicks AS (SELECT 1) SELECT count(*) FROM clicks", 1),
        ("WITH c AS (FROM clicks) SELECT max(id) FROM c", 3),
        ("SELECT count(*) FROM clicks WHERE id IN (SELECT click_id FROM web.orders)", 2),
        ("SELECT (SELECT max(order_id) FROM web.orders) FROM clicks LIMIT 1", 11),
        ("SELECT count(*) FROM clicks JOIN web.orders ON id = click_id JOIN range(9) r(id) USING (id)", 2),
        ("SELECT column_name FROM (DESCRIBE clicks)", "id"),
        ("SELECT 'default.x' AS \"default.y\" -- default.z", "default.x"),
        ("SELECT 'é' FROM default.clicks", "é"),
        ("SELECT count(*) FROM (PIVOT clicks ON url USING sum(id))", 1),
    ],
)
def test_tables_are_found_wherever_sql_names_them(lake: DuckLake, sql: str, expected: object) -> None:
    """Joins, subqueries, common table expressions, several statements: each table is there."""
    assert one(lake, sql) == expected


def test_statements_that_are_no_select(lake: DuckLake) -> None:
    """DESCRIBE, SUMMARIZE, EXPLAIN, PIVOT and SHOW TABLES answer too."""
    for sql in (
        "DESCRIBE clicks",
        "SUMMARIZE web.orders",
        "EXPLAIN SELECT * FROM clicks",
        "PIVOT clicks ON url USING sum(id)",
    ):
        assert lake.sql(sql).num_rows > 0
    assert lake.sql("show tables;").to_pylist() == [
        {"namespace": "default", "name": "clicks"},
        {"namespace": "web", "name": "Orders"},
    ]


def test_only_tables_that_are_named_are_opened(catalog: Catalog, loaded: list[object]) -> None:
    """The catalog is asked for them alone, not for other words of a join or a function."""
    DuckLake(catalog).sql("SELECT c.id, c.url FROM clicks c WHERE url = 'web.orders'")
    assert loaded == [("default", "clicks")]


def test_each_query_sees_the_newest_snapshot(own: DuckLake, catalog: Catalog) -> None:
    """With new columns; a table that is gone is not answered from an old view."""
    assert one(own, "SELECT count(*) FROM clicks") == 3
    table = catalog.load_table("default.clicks")
    table.append(pa.table({"id": [4], "url": ["/c"]}))
    assert one(own, "SELECT count(*) FROM clicks") == 4
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("city", pa.string())]))
    assert one(own, "SELECT count(*) FROM clicks WHERE city IS NULL") == 4
    own.sql("FROM clicks")
    catalog.drop_table("default.clicks")
    with pytest.raises(UsageError, match="there is no table clicks"):
        own.sql("SELECT count(*) FROM clicks")


def test_what_a_query_says_is_its_own(lake: DuckLake, tmp_path: Path) -> None:
    """A USE does not outlive it, rows may be copied, values need no quoting, and a limit says if more."""
    lake.sql("USE memory.main; SELECT 1")
    assert one(lake, "SELECT count(*) FROM clicks") == 3
    target = tmp_path / "rows.csv"
    lake.sql(f"COPY (SELECT id FROM clicks ORDER BY id) TO '{target}' (HEADER false)")
    assert target.read_text() == "1\n2\n3\n"
    assert one(lake, "SELECT id FROM clicks WHERE url = ?", params=["/a"]) == 2
    assert one(lake, "SELECT id FROM clicks WHERE url = $url", params={"url": "/b"}) == 3
    cut = lake.query("SELECT range FROM range(100000)", limit=5)
    assert (cut.rows.num_rows, cut.truncated) == (5, True)
    bounded = lake.query("SELECT range FROM range(100000)", most_bytes=50_000)
    assert bounded.truncated
    assert 50_000 <= bounded.rows.nbytes < 100_000
    for bounds in ({"limit": 3}, {"most_bytes": 1}):
        whole = lake.query("FROM clicks", **bounds)
        assert (whole.rows.num_rows, whole.truncated) == (3, False)
    with pytest.raises(UsageError, match="the SQL contains 2 queries; run them one at a time"):
        lake.sql("SELECT 1; SELECT 2")


def test_time_travel_by_snapshot_and_by_time(own: DuckLake, catalog: Catalog) -> None:
    """``at`` takes a snapshot id, as a number or as text, or a time, with or without a zone."""
    table = catalog.load_table("default.clicks")
    first = table.current_snapshot()
    time.sleep(0.01)
    with table.update_schema() as update:
        update.rename_column("url", "page")
    table.append(pa.table({"id": [4], "page": ["/c"]}))
    between = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC) + timedelta(milliseconds=1)
    moments = [
        first.snapshot_id, str(first.snapshot_id), between, between.isoformat(), between.replace(tzinfo=None),
    ]  # fmt: skip
    for moment in moments:
        rows = own.sql("SELECT * FROM clicks", at=moment)
        assert (rows.num_rows, rows.column_names) == (3, ["id", "url"])
    answer = own.query("SELECT * FROM clicks")
    assert (answer.rows.num_rows, answer.rows.column_names) == (4, ["id", "page"])


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (12345, "default.clicks has no snapshot 12345; its newest: "),
        ("2001-01-01", "no snapshot as old as 2001-01-01"),
        (date(2001, 1, 1), "no snapshot as old as 2001-01-01"),
        ("yesterday", "neither a snapshot id nor a time"),
        (1.5, "neither a snapshot id nor a time"),
        (True, "neither a snapshot id nor a time"),
    ],
)
def test_a_moment_that_is_not_there(lake: DuckLake, at: Any, message: str) -> None:
    """A snapshot that a table does not have is a mistake of the question, said with what there is."""
    with pytest.raises(UsageError, match=message):
        lake.sql("FROM clicks", at=at)


def test_freshness_is_told(own: DuckLake, catalog: Catalog) -> None:
    """An answer names its tables and their snapshots; one without has columns, none and no rows."""
    catalog.create_table("default.empty", pa.schema([("id", pa.int64())]))
    answer = own.query("SELECT count(*) FROM clicks, empty")
    snapshot = catalog.load_table("default.clicks").current_snapshot()
    told = {read.table: (read.snapshot_id, read.snapshot_ms) for read in answer.tables}
    assert told == {
        "default.clicks": (snapshot.snapshot_id, snapshot.timestamp_ms),
        "default.empty": (None, None),
    }


def test_a_table_without_snapshot_has_columns_and_no_rows(own: DuckLake, catalog: Catalog) -> None:
    """A table that was switched on and has no records yet can be queried."""
    catalog.create_table("default.empty", pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
    rows = own.sql("FROM empty")
    assert (rows.num_rows, rows.column_names) == (0, ["id", "at"])


def _polars(columns: dict[str, list[int]]) -> Any:
    import polars

    return polars.DataFrame(columns)


@pytest.mark.parametrize("make", [pd.DataFrame, pa.table, pa.RecordBatch.from_pydict, _polars])
def test_a_table_of_the_program_is_read_by_name(lake: DuckLake, make: Callable[..., Any]) -> None:
    """For one query, if it is given; what is not given is a mistake as before."""
    frames = {"busy": make({"n": [1, 2]}), "other": None}
    assert lake.query("SELECT sum(n) AS n FROM busy", frames=frames).rows.to_pylist() == [{"n": 3}]
    with pytest.raises(UsageError, match="there is no table busy"):
        lake.query("SELECT * FROM busy")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT * FROM clikcs",
            r"there is no table clikcs; did you mean default\.clicks\?\n\nLINE 1: SELECT",
        ),
        ("SELECT * FROM orders", r"there is no table orders; did you mean web\.Orders\?"),
        ("SELECT * FROM wbe.orders", r"did you mean web\.Orders\?"),
        (
            "SELECT * FROM nothing.like.it",
            "there is no table nothing.like.it; existing tables: default.clicks, web.Orders",
        ),
    ],
)
def test_an_unknown_table_names_those_that_may_be_meant(lake: DuckLake, sql: str, message: str) -> None:
    """A misspelt table is answered with the catalog's names, not with DuckDB's own."""
    with pytest.raises(UsageError, match=message):
        lake.sql(sql)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", r'syntax error at or near "SELEC"\n\nLINE 1: SELEC 1\n        \^'),
        ("SELECT nope FROM clicks", r'"nope" not found in FROM clause'),
        ("SELECT CAST('a' AS INT)", "Could not convert string 'a' to INT32"),
        ("SELECT error('stop')", "stop"),
        ("SELECT ?", "Values were not provided"),
        ("-- nothing", "no statement in this SQL"),
    ],
)
def test_wrong_sql_is_a_usage_error_with_its_place(lake: DuckLake, sql: str, message: str) -> None:
    """What is wrong in a query is the asker's to correct; DuckDB's message shows where."""
    with pytest.raises(UsageError, match=message):
        lake.sql(sql)
    assert one(lake, "SELECT count(*) FROM clicks") == 3


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE mine AS SELECT 1", "create or replace temp view mine as select 1",
        "INSERT INTO clicks VALUES (1, '/')", "WITH t AS (SELECT 1) INSERT INTO clicks SELECT 1, '/'",
        "UPDATE clicks SET id = 1", "DELETE FROM clicks", "TRUNCATE clicks", "DROP TABLE clicks",
        "ALTER TABLE clicks ADD COLUMN x INT", "INSTALL spatial", "LOAD spatial", "ATTACH 'x.db'",
        "COPY clicks FROM 'x.csv'", "EXPLAIN ANALYZE CREATE TABLE mine AS SELECT 1",
        "SELECT 1; DROP TABLE clicks", "CHECKPOINT", "BEGIN",
    ],
)  # fmt: skip
def test_what_writes_is_refused_with_the_way_to_write(lake: DuckLake, sql: str) -> None:
    """What DuckDB would change is not in the catalog, so it is not begun; Spark is named."""
    with pytest.raises(UsageError, match=r"is refused: DuckDB queries change no table; write with Spark"):
        lake.sql(sql)
    with pytest.raises(UsageError, match="there is no table mine"):
        lake.sql("FROM mine")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SET VARIABLE least = 2; SELECT count(*) FROM clicks WHERE id >= getvariable('least')", [(2,)]),
        ("EXPLAIN ANALYZE SELECT 'CREATE' AS \"drop\" FROM clicks", None),
        ("PIVOT (SELECT 'a' AS k, 1 AS v) ON k USING sum(v)", [(1,)]),
        ("-- two\nSELECT 2; -- and no more;", [(2,)]),
        ("SELECT count(*) FROM clicks JOIN clicks AS other USING (id)", [(3,)]),
    ],
)
def test_what_only_reads_is_answered(lake: DuckLake, sql: str, rows: list[tuple[Any, ...]] | None) -> None:
    """Settings before a query, plans, PIVOT, which are two statements for DuckDB, and comments."""
    found = [tuple(row.values()) for row in lake.sql(sql).to_pylist()]
    assert found == rows if rows else len(found) == 1


def test_names_that_differ_only_in_case_are_not_mixed_up(own: DuckLake, catalog: Catalog) -> None:
    """Two that SQL cannot tell apart are refused together, answered one at a time; odd names in quotes."""
    catalog.create_table("default.Clicks", pa.schema([("id", pa.int64())]))
    with pytest.raises(UsageError, match="differ only in case"):
        own.sql('SELECT * FROM clicks, "Clicks" b')
    assert one(own, "SELECT count(*) FROM clicks") == 3
    assert one(own, 'SELECT count(*) FROM "Clicks"') == 0
    catalog.create_table(("default", 'my "odd" table-1'), pa.schema([("id", pa.int64())]))
    assert one(own, 'SELECT count(*) FROM "my ""odd"" table-1" AS "x y"') == 0


def test_several_threads_may_ask(lake: DuckLake) -> None:
    """Queries of several threads, at different moments of one table, do not disturb each other."""
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(5):
            got = one(lake, "SELECT sum(id) FROM clicks")
            if got != 6:
                wrong.append(got)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_query_can_be_interrupted(lake: DuckLake) -> None:
    """Ctrl-C ends a long query at once, also one whose rows are being fetched; the next one works."""
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    main = threading.main_thread().ident
    assert main is not None
    assert one(lake, "SELECT count(*) FROM clicks") == 3

    def interrupted(limit: int | None) -> None:
        threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT)).start()
        lake.query(endless, limit=limit)

    for limit in (None, 5):
        signal.siginterrupt(signal.SIGINT, limit is None)  # False as `import polars` does it: calls go on
        with pytest.raises(KeyboardInterrupt):
            interrupted(limit)
    signal.siginterrupt(signal.SIGINT, True)
    assert one(lake, "SELECT count(*) FROM clicks") == 3


@pytest.mark.parametrize("error", [duckdb.FatalException, duckdb.InternalException])
def test_duckdb_starts_again_after_a_fault_of_its_own(
    own: DuckLake, monkeypatch: pytest.MonkeyPatch, error: type[duckdb.Error]
) -> None:
    """It refuses every statement after one; a view and the parser are new, too."""
    own.sql("SELECT * FROM clicks")
    broken = own._connection

    def fails(*_: object) -> None:
        raise error("INTERNAL Error: a bug\n\nStack Trace:\n 1. frame")

    with monkeypatch.context() as patched:
        patched.setattr("tabletopic_kernel.query.duckdb._run", fails)
        with pytest.raises(ActionNeededError) as told:
            own.sql("SELECT * FROM clicks")
    assert "(INTERNAL Error: a bug); it is started again" in str(told.value)
    assert own.sql("SELECT count(*) AS n FROM clicks").to_pylist() == [{"n": 3}]
    assert own._connection is not broken


def test_nothing_is_downloaded_and_times_are_utc() -> None:
    """Extensions come from wheels alone; timestamps with zone are shown in UTC."""
    connection = connect()
    settings = dict(
        connection.execute(
            "SELECT name, value FROM duckdb_settings() "
            "WHERE name LIKE 'auto%known_extensions' OR name = 'TimeZone'"
        ).fetchall()
    )
    assert settings == {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "TimeZone": "UTC",
    }
    connection.close()


def test_what_exceeds_memory_is_spilled_where_nobody_else_reads() -> None:
    """To a folder with a random name, which only its owner may enter and which ends with the connection."""
    connection = connect()
    connection.execute("SET threads = 1; SET memory_limit = '24MB'")
    connection.execute("CREATE TEMP TABLE spilled AS SELECT hash(i) AS h, i FROM range(3_000_000) AS t(i)")
    (spill,) = connection.execute("SELECT current_setting('temp_directory')").fetchall()[0]
    folder = Path(spill)
    assert list(folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.name.endswith(str(os.getpid()))
    connection.close()
    del connection
    assert not folder.exists()


def test_s3_properties_become_a_secret() -> None:
    """What PyIceberg calls the S3 settings reaches DuckDB under its own names."""
    connection = connect()
    give_secret(
        connection,
        folders_of("s3://lake/t", {"write.data.path": "s3a://files/t", "write.metadata.path": ""}),
        {
            "s3.endpoint": "http://127.0.0.1:7070",
            "s3.access-key-id": "ad'min",
            "s3.secret-access-key": "x",
            "s3.region": "us-east-1",
        },
    )
    secrets = connection.execute("SELECT secret_string, scope FROM duckdb_secrets()").fetchall()
    scopes = [scope for _, scope in secrets]
    for folder in ("s3://lake/t/", "s3://lake/", "s3a://files/t/", "s3a://files/"):
        assert [folder] in scopes
    told = secrets[0][0]
    for part in (
        "endpoint=127.0.0.1:7070",
        "key_id=ad'min",
        "region=us-east-1",
        "url_style=path",
        "use_ssl=false",
    ):
        assert part in told
    connection.close()


def test_spark_writes_to_no_table_that_names_a_java_class(own: DuckLake, catalog: Catalog) -> None:
    """It would load the class; reading does not, nor does removing it, and those of Iceberg are fine."""
    table = catalog.load_table("default.clicks")
    name = "write.location-provider.impl"
    for value in ("org.apache.iceberg.LocationProviders$ObjectStoreLocationProvider", "evil.Provider"):
        table.transaction().set_properties({name: value, "py-io-impl": "x.Y"}).commit_transaction()
        for sql in ("SELECT * FROM clicks", f"ALTER TABLE clicks UNSET TBLPROPERTIES ('{name}')"):
            own.check_spark_writes(sql)
        if value.startswith("org."):
            own.check_spark_writes("INSERT INTO clicks SELECT * FROM clicks")
    for sql in (
        "INSERT INTO `clicks` VALUES (1)",
        "CALL lake.system.rewrite_data_files(table => 'default.clicks')",
    ):
        with pytest.raises(
            ActionNeededError, match=f"default.clicks names the class evil.Provider, .*: remove {name}"
        ):
            own.check_spark_writes(sql)


def test_only_what_spark_writes_to_is_looked_up(own: DuckLake, loaded: list[object]) -> None:
    """Not each word of a text that is inserted: a catalog may take long for one, or refuse it."""
    own.check_spark_writes("INSERT INTO clicks VALUES ('call it', \"a/b, c\", 'from d'), ('update e')")
    assert loaded == [("default", "clicks")]
