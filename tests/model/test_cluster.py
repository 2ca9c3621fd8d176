"""What the executors of a cluster would not reach is known from the settings."""

from __future__ import annotations

import pytest

from tabletopic_kernel.model.settings.cluster import SparkSettings, connect_url, out_of_reach

FAR = {"bootstrap.servers": "broker-1:9092,broker-2:9092"}
STORE = {"type": "rest", "uri": "https://catalog", "warehouse": "s3://lake"}


def reasons(spark: dict[str, object], kafka: dict[str, str] = FAR, catalog: dict[str, str] = STORE) -> str:
    """All reasons as one text."""
    given = {"master": "spark://master:7077", **spark}
    return "; ".join(out_of_reach(SparkSettings.model_validate(given), kafka, catalog))


@pytest.mark.parametrize("warehouse", ["/lake", "file:/lake", "file:///lake", "FILE:///lake"])
def test_a_folder_is_refused_as_the_warehouse_of_a_cluster(warehouse: str) -> None:
    """Executors would write where nobody else reads, unless somebody says that it is shared."""
    catalog = {"warehouse": warehouse}
    assert "shared_files" in reasons({}, catalog=catalog)
    assert not reasons({"shared_files": True}, catalog=catalog)
    for master in ("local[*]", "local", "local-cluster[1,1,1024]"):
        assert not reasons({"master": master}, catalog=catalog)


def test_what_only_this_machine_reaches_is_refused_on_a_cluster() -> None:
    """A store at loopback, a folder below the working one; a master among the properties counts."""
    assert "shared_files" in reasons({}, catalog={"type": "sql", "warehouse": "lake"})
    assert not reasons({}, catalog={"type": "rest", "warehouse": "lake"})
    assert "object store" in reasons({}, catalog={**STORE, "s3.endpoint": "http://user@localhost:9000"})
    assert not reasons({}, catalog={**STORE, "s3.endpoint": "https://s3.eu-central-1.amazonaws.com"})
    conf = {"conf": {"spark.master": "local[2]"}}
    assert not reasons(conf, catalog={"warehouse": "/lake"})
    conf = {"conf": {"spark.master": "yarn"}, "master": "local[*]"}
    assert "(yarn)" in reasons(conf, catalog={"warehouse": "/lake"})
    assert connect_url({}, {"SPARK_REMOTE": "sc://host"}) == "sc://host"
    assert connect_url({}, {"SPARK_API_MODE": "Connect"})
    assert connect_url({"spark.api.mode": "classic"}, {"SPARK_API_MODE": "connect"}) is None


@pytest.mark.parametrize(
    "address", ["127.0.0.1:9092", "localhost:9092", "[::1]:9092", "PLAINTEXT://127.1.2.3:9"]
)
def test_a_broker_at_loopback_is_refused_on_a_cluster(address: str) -> None:
    """Each machine would ask itself; one other address is enough."""
    assert "shared_network" in reasons({}, {"bootstrap.servers": address})
    assert not reasons({"shared_network": True}, {"bootstrap.servers": address})
    assert not reasons({}, {"bootstrap.servers": f"{address},broker:9092"})


@pytest.mark.parametrize(
    "spark",
    [
        {"master": "sc://host:15002"},
        {"conf": {"spark.remote": "sc://host:15002"}},
        {"master": "local[*]", "conf": {"spark.remote": "sc://host:15002"}},
        {"master": "local[*]", "conf": {"spark.api.mode": "connect"}},
    ],
)
def test_spark_connect_is_refused_with_a_reason(spark: dict[str, object]) -> None:
    """Whichever property asks for it."""
    found = reasons(spark)
    assert "cannot run table topics" in found
    assert "spark://host:7077" in found
