"""Tables of topics that are not enabled, in a real catalog."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

from tabletopic_kernel.faces.jupyter_server.left_tables import LeftTable, LeftTables
from tabletopic_kernel.faces.jupyter_server.overview import row_of_other
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.topic_table import TopicTable
from tests.table.samples import SCHEMA, catalog, catalog_properties

__all__ = ["catalog", "catalog_properties"]


def test_a_topic_s_own_table_is_found(catalog: Catalog) -> None:
    """By the name that enabling would give it; another's is not, and while the catalog is away it stays."""
    for name, topic in (("clicks", "clicks"), ("views", "another")):
        TopicTable.create(
            catalog, ("default", name), SCHEMA, UNPARTITIONED_PARTITION_SPEC, topic, TopicSettings()
        )

    def away(_: object) -> Any:
        raise RetryableError("the catalog is away")

    bench: Any = SimpleNamespace(settings_for=lambda _: TopicSettings(), open_catalog=lambda _: catalog)
    left = LeftTables()
    assert left.of(bench, ["clicks", "views", "carts"]) == {"clicks": LeftTable("default.clicks", 0)}
    row = row_of_other("clicks", 4, left.of(bench, ["clicks", "views", "carts"])["clicks"])
    assert (row["table"], row["rows"], row["enabled"]) == ("default.clicks", 0, False)
    bench.open_catalog = away
    assert left.of(bench, ["clicks", "orders"]) == {"clicks": LeftTable("default.clicks", 0)}
    assert left.of(bench, []) == {}
