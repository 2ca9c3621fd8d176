"""The Athena engine's statements, run by the engine behind Athena; DuckDB returns the same rows.

The catalog is the one of the conformance tests that is signed like S3 Tables.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import AthenaSettings
from tabletopic_kernel.query.athena import AthenaLake
from tabletopic_kernel.query.duckdb import DuckLake
from tests.athena.athena_server import Athena, answered_by
from tests.athena.trino import Trino
from tests.catalogs.lakes import LAKES
from tests.servers.aws import REGION

pytestmark = [pytest.mark.integration, pytest.mark.servers]

BUCKET = f"arn:aws:s3tables:{REGION}:111122223333:bucket/lake"
NAME = "s3tablescatalog/lake"
NOON = datetime(2026, 1, 31, 12, 0, 0, 123456)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("userId", pa.string()),
        ("order", pa.int32()),
        ("price", pa.decimal128(12, 3)),
        ("wide", pa.decimal128(38, 10)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("ok", pa.bool_()),
        ("small", pa.float32()),
        ("big", pa.float64()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("device", pa.struct([("type", pa.string()), ("width", pa.int32())])),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("_kafka_offset", pa.int64()),
    ]
)
FLAT = [field.name for field in SCHEMA if not pa.types.is_nested(field.type)]
ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "userId": 'it\'s 100 % ünïcode, "quoted"\nline', "order": 7, "price": Decimal("1.500"),
        "wide": Decimal("1234567890123456789012345678.0123456789"), "at": NOON.replace(tzinfo=UTC),
        "local": NOON, "day": date(2026, 1, 31), "ok": True, "small": 0.5, "big": 1e300, "raw": b"\x00hi\xff",
        "tags": ["a", None, "b, c"], "device": {"type": "phone", "width": None}, "counts": [("k", 1)],
        "_kafka_offset": 10,
    },
    {"id": 2, "userId": "", "price": Decimal("-0.001"), "ok": False, "raw": b"", "tags": [], "counts": []},
    {"id": 3, "at": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), "day": date(1900, 1, 1)},
]  # fmt: skip


@dataclass
class Both:
    """The two engines over one catalog; ``first`` is the older snapshot of two."""

    athena: AthenaLake
    duck: DuckLake
    catalog: Catalog
    server: Athena

    @property
    def first(self) -> int:
        """The id of the first snapshot of default.things."""
        return self.catalog.load_table("default.things").history()[0].snapshot_id

    def same(
        self, sql: str, params: Mapping[str, Any] | None = None, duck_sql: str = ""
    ) -> list[dict[str, Any]]:
        """The rows, the same from both."""
        found = self.athena.query(sql, params).rows.to_pylist()
        assert found == self.duck.sql(duck_sql or sql, params=params).to_pylist()
        return found


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """[catalog] as for a table bucket."""
    with LAKES["REST signed as for S3 Tables, S3"](tmp_path_factory.mktemp("lake")) as lake:
        yield lake.properties | {"warehouse": BUCKET}


@pytest.fixture(scope="module")
def catalog(properties: dict[str, str]) -> Catalog:
    """With two tables; default.things has two snapshots."""
    opened = open_catalog(properties)
    for namespace in ("default", "web"):
        opened.create_namespace(namespace)
    things = opened.create_table("default.things", SCHEMA)
    things.append(pa.Table.from_pylist(ROWS[:1], SCHEMA))
    things.append(pa.Table.from_pylist(ROWS[1:], SCHEMA))
    orders = pa.table({"thing_id": pa.array([1, 1, 3], pa.int64())})
    opened.create_table("web.orders", orders.schema).append(orders)
    return opened


@pytest.fixture(scope="module")
def served(catalog: Catalog, properties: dict[str, str], trino: Trino) -> Iterator[Athena]:
    """Athena, in which Trino knows the catalog by Athena's name."""
    trino.add_catalog(NAME, properties)
    with Athena(properties["s3.endpoint"], answered_by(trino)) as server:
        yield server


@pytest.fixture
def both(
    catalog: Catalog, properties: dict[str, str], served: Athena, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Both]:
    """Athena and DuckDB."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_ATHENA", served.url)
    with contextlib.closing(DuckLake(catalog)) as duck:
        settings = AthenaSettings(output_location="s3://lake/results/")
        yield Both(AthenaLake(properties, duck.tables, settings), duck, catalog, served)


def test_values_and_types_are_duckdbs(both: Both) -> None:
    """Decimals, instants, nulls apart from empty text: all that is not nested."""
    columns = ", ".join(map('"{}"'.format, FLAT))
    sql = f"SELECT {columns} FROM things ORDER BY id"
    answer = both.athena.query(sql)
    theirs = both.duck.sql(sql)
    assert answer.rows.to_pylist() == theirs.to_pylist()
    kinds = dict(zip(FLAT, answer.rows.schema.types, strict=True))
    assert kinds == {name: SCHEMA.field(name).type for name in FLAT}
    assert answer.scanned_bytes is not None
    assert answer.scanned_bytes > 0
    assert [read.table for read in answer.tables] == ["default.things"]


def test_nested_values_are_text_and_their_parts_are_not(both: Both) -> None:
    """As Athena writes them, which tells no types; a part of one, or JSON of it, is exact."""
    (row,) = both.athena.query("SELECT tags, device, counts FROM things WHERE id = 1").rows.to_pylist()
    assert row == {"tags": "[a, null, b, c]", "device": "{type=phone, width=null}", "counts": "{k=1}"}
    both.same("SELECT device.type AS kind, device.width AS width FROM things ORDER BY id")
    both.same(
        "SELECT t AS tag FROM things CROSS JOIN UNNEST(tags) AS u (t) WHERE id = 1 ORDER BY t NULLS LAST",
        duck_sql="SELECT unnest(tags) AS tag FROM things WHERE id = 1 ORDER BY tag NULLS LAST",
    )
    as_json = both.athena.query("SELECT json_format(CAST(tags AS JSON)) AS j FROM things WHERE id = 1")
    assert as_json.rows["j"].to_pylist() == ['["a",null,"b, c"]']


def test_time_travel(both: Both) -> None:
    """By a snapshot and by a time: the rows that DuckDB reads of the same."""
    count = "SELECT count(*) AS n FROM things"
    first = both.athena.query(f"SELECT count(*) AS n FROM things FOR VERSION AS OF {both.first}").rows
    assert first.to_pylist() == both.duck.sql(count, at=both.first).to_pylist() == [{"n": 1}]
    committed = both.catalog.load_table("default.things").history()[0].timestamp_ms
    then = datetime.fromtimestamp(committed / 1000, UTC)
    sql = f"SELECT count(*) AS n FROM things FOR TIMESTAMP AS OF TIMESTAMP '{then:%Y-%m-%d %H:%M:%S.%f} UTC'"
    assert both.athena.query(sql).rows.to_pylist() == both.duck.sql(count, at=then).to_pylist()
    by_value = both.athena.query("SELECT count(*) AS n FROM things FOR TIMESTAMP AS OF $then", {"then": then})
    assert by_value.rows.to_pylist() == [{"n": 1}]
    with pytest.raises(UsageError, match="Athena refused the query"):
        both.athena.query("SELECT 1 FROM things FOR VERSION AS OF 42")


@pytest.mark.parametrize(
    "name", ["things", "default.things", '"default"."things"', f'"{NAME}".default.things', "THINGS"]
)
def test_names_of_tables(both: Both, name: str) -> None:
    """Short, with the database, quoted, with the catalog, and without regard to case."""
    answer = both.athena.query(f"SELECT count(*) AS n FROM {name}")
    assert answer.rows.to_pylist() == [{"n": 3}]
    assert [read.table for read in answer.tables] == ["default.things"]


def test_names_of_columns(both: Both) -> None:
    """Reserved words in quotes, underscores without; case is not seen."""
    both.same('SELECT userId AS u, "order" AS o, _kafka_offset AS k FROM things ORDER BY id')
    both.same("SELECT USERID AS u, Device.Type AS d FROM Things ORDER BY ID")
    assert both.athena.query(
        "SELECT count(*) AS n FROM things t JOIN web.orders o ON o.thing_id = t.id"
    ).rows.to_pylist() == [{"n": 3}]


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("userId = $v", ROWS[0]["userId"]),
        ("userId = $v", ""),
        ("userId LIKE '%100 \\%%' ESCAPE '\\' AND id = $v", 1),
        ("price = $v", Decimal("1.500")),
        ("wide = $v", ROWS[0]["wide"]),
        ('"at" = $v', NOON.replace(tzinfo=UTC)),
        ('"at" = $v', NOON.replace(tzinfo=UTC).astimezone(ZoneInfo("Asia/Kolkata"))),
        ('"at" > $v', NOON.replace(tzinfo=UTC) - timedelta(microseconds=1)),
        ("local = $v", NOON),
        ("day = $v", date(2026, 1, 31)),
        ("ok = $v", False),
        ("big > $v", 1.5),
        ("raw = $v", b"\x00hi\xff"),
        ("id = $v OR userId = '$v'", 2),
    ],
)
def test_variables(both: Both, condition: str, value: object) -> None:
    """Each type finds its rows, as in DuckDB; text is no SQL."""
    found = both.same(f"SELECT id FROM things WHERE {condition} ORDER BY id", {"v": value})
    assert len(found) == 1


def test_lists_and_nothing_as_variables(both: Both) -> None:
    """A list is what IN takes; None is null."""
    rows = both.athena.query("SELECT id FROM things WHERE id IN $ids ORDER BY id", {"ids": [1, 3]}).rows
    assert rows["id"].to_pylist() == [1, 3]
    assert both.athena.query("SELECT $x AS x, 1 AS n", {"x": None}).rows.to_pylist() == [{"x": None, "n": 1}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELEC 1", "SELECT nothing FROM things", "SELECT 1 FROM nowhere", "SELECT 1 / 0",
        "SELECT CAST('x' AS int)",
    ],
)  # fmt: skip
def test_mistakes_are_the_persons(both: Both, sql: str) -> None:
    """Trino's words, which are Athena's."""
    with pytest.raises(UsageError, match="Athena refused the query"):
        both.athena.query(sql)


def test_snapshots_and_files_are_tables_too(both: Both) -> None:
    """What Athena knows of an Iceberg table."""
    answer = both.athena.query('SELECT count(*) AS n FROM "things$snapshots"')
    assert answer.rows.to_pylist() == [{"n": 2}]
