"""The settings of Spark, and what a cluster's executors could not reach according to them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import Field

from tabletopic_kernel.model.settings.values import Frozen, NonEmpty

_HOST = re.compile(r"^(?:\w+://)?(?:[^@/]*@)?(\[[^\]]*\]|[^:/]*)")
_STORES = ("s3.endpoint", "gcs.service.host", "adls.blob-storage-authority")


class SparkSettings(Frozen):
    """The Spark session that runs the workers."""

    master: NonEmpty = Field("local[*]", description="spark.master")
    conf: dict[str, str] = Field(default_factory=dict, description="any Spark property")
    # No other setting reveals this: the cluster's operator sets it. A host still tests the files.
    shared_files: bool = Field(
        False, description="executors of a cluster see this machine's folders, at the same paths"
    )
    shared_network: bool = Field(
        False, description="executors of a cluster run where 127.0.0.1 leads to the same servers as here"
    )

    @property
    def effective_master(self) -> str:
        """The effective master: a property of ``conf`` takes precedence over ``master``."""
        return self.conf.get("spark.master", self.master)

    @property
    def is_local(self) -> bool:
        """Whether the executors run on this machine."""
        return self.effective_master.startswith("local")

    @property
    def is_in_process(self) -> bool:
        """Whether the executors are threads of the driver."""
        return self.is_local and not self.effective_master.startswith("local-")


def local_warehouse(catalog: Mapping[str, str]) -> str | None:
    """The warehouse if it is a local folder; None for object stores, and if the catalog chooses.

    >>> local_warehouse({"warehouse": "file:/lake"}), local_warehouse({"warehouse": "s3://lake"})
    ('file:/lake', None)
    """
    warehouse = catalog.get("warehouse", "")
    is_path = warehouse.startswith("/") or (catalog.get("type") == "sql" and "://" not in warehouse)
    return warehouse if warehouse and (is_path or warehouse.lower().startswith("file:")) else None


def is_loopback(address: str) -> bool:
    """Whether ``host:port`` or a URL refers to the machine that reads it.

    >>> is_loopback("127.0.0.1:9092"), is_loopback("http://localhost"), is_loopback("[::1]:9092")
    (True, True, True)
    >>> is_loopback("broker:9092")
    False
    """
    match = _HOST.match(address.strip())
    host = match[1].strip("[]").lower() if match else ""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")


def connect_url(conf: Mapping[str, str], environ: Mapping[str, str]) -> str | None:
    """The address of Spark Connect, if properties or variables select it, otherwise None.

    >>> connect_url({"spark.master": "sc://host:15002"}, {}), connect_url({"spark.master": "yarn"}, {})
    ('sc://host:15002', None)
    """
    url = conf.get("spark.remote") or environ.get("SPARK_REMOTE")
    if url is None and conf.get("spark.master", "").startswith("sc://"):
        url = conf["spark.master"]
    mode = conf.get("spark.api.mode") or environ.get("SPARK_API_MODE", "")
    return url or ("spark.api.mode = connect" if mode.lower() == "connect" else None)


def no_connect(url: str) -> str:
    """Why table topics do not run on Spark Connect, and what to do."""
    return (
        f"Spark Connect ({url}) cannot run table topics: a host must be Spark's driver. It reads "
        "the offsets of each batch from the query's checkpoint and commits what the tasks return. Name the "
        "cluster's own master as [spark] master, such as spark://host:7077, k8s://https://host:6443 or yarn, "
        "and unset SPARK_REMOTE and SPARK_API_MODE"
    )


def out_of_reach(spark: SparkSettings, kafka: Mapping[str, str], catalog: Mapping[str, str]) -> list[str]:
    """The reasons why executors could not reach what they need; empty if everything is shared."""
    if url := connect_url({"spark.master": spark.master, **spark.conf}, {}):
        return [no_connect(url)]
    if spark.is_local:
        return []
    master, reasons = spark.effective_master, []
    folder = local_warehouse(catalog)
    if folder is not None and not spark.shared_files:
        reasons.append(
            f"Spark's executors run on a cluster ({master}) and the warehouse is a folder ({folder}): other "
            "machines cannot read files that they write there. Use an object store, or set [spark] "
            "shared_files = true if that folder is the same one on every machine"
        )
    brokers = (kafka.get("bootstrap.servers") or kafka.get("metadata.broker.list") or "").split(",")
    stores = (catalog.get(name, "") for name in _STORES)
    addresses = {"broker": brokers, "object store": [next(filter(None, stores), "")]}
    for system, urls in addresses.items():
        if urls != [""] and all(map(is_loopback, urls)) and not spark.shared_network:
            reasons.append(
                f"Spark's executors run on a cluster ({master}) and the {system} is at {','.join(urls)}, an "
                "address that is local to each machine. Use one that all machines can reach, or set [spark] "
                "shared_network = true if the executors run where that address is right"
            )
    return reasons
