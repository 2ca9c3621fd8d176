"""The services that a coordinator uses."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NoReturn

from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from tabletopic_kernel.clients.kafka.broker import Broker
from tabletopic_kernel.clients.registry.registry import Registry
from tabletopic_kernel.host.maintenance.jobs import Jobs
from tabletopic_kernel.host.topics.control_topic import ControlLog
from tabletopic_kernel.local.machine import elapsed_ms, now_ms
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.settings.desired import StandingPattern
from tabletopic_kernel.pipeline.rewrite import RewriteResult, RewriteTask
from tabletopic_kernel.pipeline.worker.ends import Ends
from tabletopic_kernel.pipeline.worker.jobs import Batches
from tabletopic_kernel.pipeline.worker.turns import Turns

_LOG = logging.getLogger(__name__)
_THREAD_S = 1.0  # between two attempts to start a thread


def in_a_thread(name: str, work: Callable[[], object]) -> None:
    """Run ``work`` in a daemon thread, once the process may start one more."""
    while True:
        try:
            threading.Thread(target=work, name=name, daemon=True).start()
            return
        except RuntimeError as error:  # the limit is reached; threads of a batch or a compaction end soon
            _LOG.warning("%s waits: %s", name, error)
            time.sleep(_THREAD_S)


def _no_other(catalog: str) -> NoReturn:
    raise SettingsError(f"[catalogs.{catalog}] is not in the settings")


@dataclass(frozen=True)
class Services:
    """What a coordinator works with. ``catalog`` and ``spark`` are made when first called.

    ``other_catalog`` and ``other_spark`` are the same for a catalog of ``[catalogs.<name>]``; see ``of``.

    ``now_ms`` is for dates: of events, of snapshots. ``elapsed_ms`` is for durations, because the machine's
    clock may be set. ``spawn`` runs work that a coordinator does not wait for; a simulation decides when.
    """

    catalog: Callable[[], Catalog]
    spark: Callable[[], SparkSession]
    broker: Broker
    registry: Registry
    control: ControlLog
    host: str
    other_catalog: Callable[[str], Catalog] = _no_other
    other_spark: Callable[[str], SparkSession] = _no_other
    still_mine: Callable[[str], bool] = lambda _: True
    batches: Batches = field(default_factory=Batches)
    starts: Turns = field(default_factory=Turns)  # of queries
    ends: Ends = field(default_factory=Ends)
    now_ms: Callable[[], int] = now_ms
    elapsed_ms: Callable[[], int] = elapsed_ms
    cpu_ms: Callable[[], int] = lambda: time.thread_time_ns() // 1_000_000  # of the calling thread
    spawn: Callable[[str, Callable[[], None]], None] = in_a_thread
    # Enables a topic as a pattern says, unless it is enabled by now.
    enable: Callable[[str, StandingPattern], object] = lambda *_: None
    # How a compaction rewrites a topic's files; None: as a task of Spark.
    rewrite: Callable[[str, RewriteTask], RewriteResult] | None = None
    jobs: Jobs = field(default_factory=lambda: Jobs(in_a_thread, elapsed_ms))  # of maintenance

    def of(self, catalog: str | None) -> Services:
        """These services for a topic with this catalog in its settings."""
        if catalog is None:
            return self
        return replace(
            self,
            catalog=partial(self.other_catalog, catalog),
            spark=partial(self.other_spark, catalog),
        )
