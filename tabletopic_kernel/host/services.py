"""What a coordinator works with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry import Registry
from tabletopic_kernel.host.control_topic import ControlLog
from tabletopic_kernel.local.machine import now_ms
from tabletopic_kernel.pipeline.worker.turns import Turns


def in_a_thread(name: str, work: Callable[[], None]) -> None:
    """Do ``work`` beside everything else; it does not keep the process alive."""
    threading.Thread(target=work, name=name, daemon=True).start()


@dataclass(frozen=True)
class Services:
    """What a coordinator works with. ``catalog`` and ``spark`` are made when first called.

    ``spawn`` does work that a coordinator does not wait for; who simulates hosts says when.
    """

    catalog: Callable[[], Catalog]
    spark: Callable[[], SparkSession]
    broker: Broker
    registry: Registry
    control: ControlLog
    host: str
    still_mine: Callable[[str], bool] = lambda _: True
    turns: Turns = field(default_factory=Turns)  # of batches
    starts: Turns = field(default_factory=Turns)  # of queries
    now_ms: Callable[[], int] = now_ms
    spawn: Callable[[str, Callable[[], None]], None] = in_a_thread
