"""Queries that see tables and nothing else: each lock alone keeps them from files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.query.duckdb_connection import connect
from tabletopic_kernel.query.statements.sealed import check_sealed, harmless_functions, seal
from tests.query.conftest import small_catalog

_REFUSED = """
SELECT * FROM read_csv('{file}')
FROM '{file}'
FROM "{file}"
FROM 'https://example.org/x.csv'
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_parquet('{files}/data/*.parquet')
SELECT * FROM iceberg_scan('{files}')
SELECT * FROM read_avro('{files}/metadata/*.avro')
SELECT * FROM glob('{files}/**')
COPY (SELECT 1) TO '{files}/out.csv'
COPY clicks FROM '{file}'
EXPORT DATABASE '{files}/x'
ATTACH '{files}/x.db'
INSTALL httpfs
LOAD httpfs
SET memory_limit='99GB'
RESET enable_external_access
PRAGMA database_list
CALL pragma_version()
SELECT * FROM duckdb_secrets()
SELECT * FROM duckdb_settings()
FROM duckdb_settings
TABLE duckdb_logs
SELECT * FROM pg_catalog.pg_settings
SELECT * FROM information_schema.tables
SELECT * FROM system.main.duckdb_settings
SELECT getenv('HOME')
SELECT current_setting('secret_directory')
SELECT system.main.current_setting('threads')
SELECT ('threads').current_setting()
SELECT list_transform(['threads'], lambda x: current_setting(x))
SELECT * REPLACE (current_setting('threads') AS url) FROM clicks
SELECT string_agg(url, current_setting('threads')) FROM clicks
SELECT sum(id) OVER w FROM clicks WINDOW w AS (PARTITION BY current_setting('threads'))
SELECT pg_sleep(100)
SELECT write_log('x')
SELECT json_serialize_plan('SELECT * FROM read_csv(''{file}'')')
SELECT * FROM json_execute_serialized_sql('x')
SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')
SELECT * FROM query_table('duckdb_settings')
WITH a AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM a
WITH duckdb_settings AS (SELECT * FROM duckdb_settings) SELECT * FROM duckdb_settings
SELECT * FROM duckdb_settings, (WITH duckdb_settings AS (SELECT 1 x) SELECT x FROM duckdb_settings) z
SELECT 1 UNION ALL SELECT count(*) FROM read_text('/etc/passwd')
SELECT * FROM clicks ORDER BY (SELECT content FROM read_text('/etc/passwd'))
SELECT * FROM clicks LIMIT (SELECT count(*) FROM read_text('/etc/passwd'))
SELECT * FROM unnest((SELECT list(content) FROM read_text('/etc/passwd')))
FROM (PIVOT read_text('/etc/passwd') ON filename IN ('a') USING count(*))
SUMMARIZE SELECT * FROM read_text('/etc/passwd')
DESCRIBE '{file}'
FROM (SHOW DATABASES)
EXPLAIN ANALYZE COPY (SELECT 1) TO '{files}/o'
INSERT INTO clicks VALUES (1)
CREATE MACRO f() AS TABLE SELECT * FROM read_text('/etc/passwd')
SELECT 1; COPY (SELECT 1) TO '{files}/o'
USE memory
SELECT $x
FROM enable_logging()
FROM histogram_values(duckdb_settings, name)
"""
_ANSWERED = """
SHOW TABLES
DESCRIBE clicks
SUMMARIZE clicks
WITH RECURSIVE r AS (SELECT 1 x UNION ALL SELECT x+1 FROM r WHERE x<5) SELECT sum(x) FROM r
SELECT id, lag(id) OVER (ORDER BY id), count(*) FILTER (id > 1) OVER (PARTITION BY url) FROM clicks
SELECT * FROM clicks c JOIN web.orders o ON c.id=o.click_id, (SELECT max(id) FROM lake."default".clicks)
SELECT [x*2 FOR x IN range(5)], {{'a':1}}.a, '{{"a":1}}'::JSON->>'$.a', 1::DECIMAL(9,2), uuid(), now()
SELECT quantile_cont(id, 0.5), arg_max(url,id), list(id ORDER BY id), histogram(id), mode(url) FROM clicks
SELECT * EXCLUDE (id), COLUMNS('u.*') FROM clicks TABLESAMPLE 50%
FROM (PIVOT clicks ON url IN ('/') USING count(*))
SELECT GROUPING(url), url, count(*) FROM clicks GROUP BY CUBE (url)
"""


def _statements(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a catalog, with a file that nobody may read."""
    folder = tmp_path_factory.mktemp("sealed")
    (folder / "secret.csv").write_text("a,b\n1,2\n")
    return folder


@pytest.fixture(scope="module")
def catalog(folder: Path) -> Catalog:
    """A small catalog."""
    return small_catalog(folder)


@pytest.fixture(scope="module")
def lake(catalog: Catalog) -> Iterator[DuckLake]:
    """A sealed DuckDB over it."""
    made = DuckLake(catalog, sealed=True)
    yield made
    made.close()


@pytest.mark.parametrize("sql", _statements(_REFUSED))
def test_a_query_reaches_nothing_but_tables(lake: DuckLake, folder: Path, sql: str) -> None:
    """What reads or writes files, settings or secrets, in whatever place of a statement, is refused."""
    text = sql.format(file=folder / "secret.csv", files=folder / "warehouse/default/clicks")
    before = sorted(folder.rglob("*"))
    with pytest.raises(UsageError):
        lake.query(text)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.integration
def test_a_sealed_query_is_a_query(lake: DuckLake) -> None:
    """What SQL has for values and tables works: joins, windows, lists, JSON, pivots, descriptions."""
    for sql in _statements(_ANSWERED):
        assert lake.query(sql.replace("{{", "{").replace("}}", "}")).rows.num_columns


def test_duckdb_itself_is_locked(catalog: Catalog, folder: Path) -> None:
    """A statement that passed the check by mistake still opens no other file, and changes no setting."""
    with connect() as connection:
        seal(connection, [catalog.load_table("default.clicks")])
        for sql in ("FROM read_text('{}')", "COPY (SELECT 1) TO '{}'", "ATTACH '{}'", "SET threads = 9"):
            with pytest.raises((duckdb.PermissionException, duckdb.InvalidInputException)):
                connection.execute(sql.format(folder / "secret.csv"))


def test_every_function_of_this_duckdb_was_looked_at() -> None:
    """Another version's functions are known here only after somebody has read their names."""
    names = "\n".join(sorted(harmless_functions()))
    assert hashlib.sha256(names.encode()).hexdigest()[:16] == "01102f0c86cf1c26", (
        "read harmless_functions() for what reaches files, settings or the process; then write the new value"
    )
    with pytest.raises(UsageError, match="getenv"):
        check_sealed(duckdb.connect(), "SELECT getenv('HOME')")
