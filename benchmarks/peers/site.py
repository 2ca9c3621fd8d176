"""Where a compared program works: a broker, a registry, a catalog, a full topic and an empty table."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestamptzType,
)

from benchmarks import wide
from benchmarks.load import PARTITIONS, Format, Load
from tabletopic_kernel.clients.catalog.engine_properties import spark_catalog
from tabletopic_kernel.clients.kafka.java_properties import java_properties
from tabletopic_kernel.local.java import jars, jvm
from tabletopic_kernel.local.progress import TerminalReport
from tabletopic_kernel.local.stack import LocalStack
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.workbench import Workbench

NAMESPACE = "bench"
_HERE = Path(__file__).parent
_JARS = {
    name: jars.JarSet(f"peers-{name}", _HERE / "peers.xml", _HERE / f"{name}.sha256", (name,), size)
    for name, size in (("spark", 100_000), ("sink", 102_000_000), ("flink", 251_000_000))
}


@dataclass(frozen=True)
class Site:
    """A stack with a full topic. ``parallelism``: tasks of each program; ``interval_s``: between commits;
    ``tolerant``: programs that can pass over records which they cannot decode do so."""

    bench: Workbench
    load: Load
    parallelism: int
    interval_s: int
    tolerant: bool = False

    @property
    def java_kafka(self) -> dict[str, str]:
        """Properties of Kafka's Java client."""
        return java_properties(self.bench.servers.kafka)

    @property
    def registry_login(self) -> str:
        """``user:password``, or empty."""
        return self.bench.servers.registry.get("basic.auth.user.info", "")

    @property
    def catalog_name(self) -> str:
        """The name that the catalog's rows have in its database."""
        return self.bench.servers.catalog["name"]

    @property
    def java_catalog(self) -> dict[str, str]:
        """Properties of Iceberg's Java catalog, without a prefix."""
        prefix = f"spark.sql.catalog.{self.catalog_name}."
        conf = spark_catalog(self.bench.servers.catalog)
        return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}

    @property
    def jdbc_catalog(self) -> dict[str, str]:
        """The same for programs that take no ``type`` beside their own."""
        catalog = {
            key: text for key, text in self.java_catalog.items() if key not in ("type", "cache-enabled")
        }
        return {"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog", **catalog}

    @property
    def spark_conf(self) -> Mapping[str, str]:
        """Spark's own names of the same."""
        return spark_catalog(self.bench.servers.catalog)

    def catalog(self) -> Catalog:
        """A catalog of its own, for each program that is watched."""
        return self.bench.open_catalog()

    def create(self, table: str) -> Table:
        """An empty table with the value's columns, as a user of a sink creates it."""
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists(NAMESPACE)
        made = catalog.create_table((NAMESPACE, table), columns(self.load.format))
        if self.load.partition_by:
            with made.update_spec() as spec:
                spec.add_field("user_id", BucketTransform(PARTITIONS), "user_id_bucket")
        return made


@contextlib.contextmanager
def own_stack(folder: Path) -> Iterator[Workbench]:
    """A stack of its own for a program, so that no other's consumer group or table is in the way."""
    folder.mkdir()
    local = LocalStack(folder / "stack", TerminalReport())
    try:
        stack = local.up(die_with_parent=True)
        yield Workbench(Settings(state_dir=str(stack.state_dir)))
    finally:
        local.down()


def columns(format_: Format) -> Schema:
    """The columns of the events in a format; JSON has no type for times and decimals."""
    if format_ == "wide":
        return Schema(*(NestedField(at, name, kind) for at, (name, kind) in enumerate(_wide().items(), 1)))
    time_type: PrimitiveType = StringType() if format_ == "json" else TimestamptzType()
    price: PrimitiveType = DoubleType() if format_ == "json" else DecimalType(9, 2)
    names = "event_id", "event_time", "user_id", "session_id", "event_type", "url", "referrer", "product_id"
    device = StructType(
        *(NestedField(20 + at, name, StringType()) for at, name in enumerate(("type", "os", "browser")))
    )
    types = {
        **dict.fromkeys(names, StringType()),
        "event_time": time_type,
        "price": price,
        "quantity": IntegerType(),
        "device": device,
        "country": StringType(),
        "duration_ms": IntegerType(),
    }
    return Schema(*(NestedField(at, name, kind) for at, (name, kind) in enumerate(types.items(), 1)))


def _wide() -> dict[str, PrimitiveType]:
    kinds = {"long": LongType(), "double": DoubleType(), "string": StringType()}
    return {"event_id": StringType(), **{name: kinds[kind] for name, kind in wide.COLUMNS.items()}}


def installed(name: str) -> list[Path]:
    """The jars of a compared program; the first call downloads them."""
    return jvm.install(wanted=_JARS[name]).of(name)


def rows_of(catalog: Catalog, table: str) -> int:
    """Rows of the current snapshot; 0 without one."""
    with contextlib.suppress(NoSuchTableError):
        snapshot = catalog.load_table(table).current_snapshot()
        if snapshot is not None and snapshot.summary is not None:
            return int(snapshot.summary["total-records"] or 0)
    return 0


def growth(
    site: Site, table: str, limit_s: float, is_alive: Callable[[], bool]
) -> Iterator[tuple[float, int]]:
    """``(time, rows)`` each time the table has more rows, until nothing comes or the program has ended."""
    catalog, rows, deadline = site.catalog(), 0, time.monotonic() + limit_s
    while time.monotonic() < deadline and is_alive():
        if (now := rows_of(catalog, table)) > rows:
            rows = now
            yield time.monotonic(), rows
            deadline = time.monotonic() + limit_s
        time.sleep(0.2)


def wrong_rows(site: Site, table: str, total: int) -> tuple[int, int]:
    """Rows that are missing and rows that are there too often; the load repeats its events in order."""
    full, rest = divmod(total, len(site.load.event_ids))
    expected = Counter(dict.fromkeys(site.load.event_ids, full))
    expected.update(site.load.event_ids[:rest])
    scan = site.catalog().load_table(table).scan(selected_fields=("event_id",))
    counted = scan.to_arrow()["event_id"].value_counts().to_pylist()
    actual = Counter({entry["values"]: entry["counts"] for entry in counted})
    return sum((expected - actual).values()), sum((actual - expected).values())


def wrong_at_last(
    site: Site, table: str, total: int, limit_s: float, is_alive: Callable[[], bool]
) -> tuple[int, int]:
    """The same, once none is missing, or nothing comes any more: with doubled rows a table is full early."""
    wrong = wrong_rows(site, table, total)
    for _ in growth(site, table, limit_s, is_alive) if wrong[0] else ():
        wrong = wrong_rows(site, table, total)
        if not wrong[0]:
            break
    return wrong
