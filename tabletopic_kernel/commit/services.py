"""What a coordinator works with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from tabletopic_kernel.adapters.kafka import Broker
from tabletopic_kernel.adapters.registry import Registry
from tabletopic_kernel.commit.control_log import ControlLog


@dataclass(frozen=True)
class Services:
    """What a coordinator works with. ``catalog`` and ``spark`` are made when first called."""

    catalog: Callable[[], Catalog]
    spark: Callable[[], SparkSession]
    broker: Broker
    registry: Registry
    control: ControlLog
    host: str
    still_mine: Callable[[str], bool] = lambda _: True
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
