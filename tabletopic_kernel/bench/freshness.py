"""How long a record takes from the broker to a query, at a quiet rate."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel._datasets.clickstream.produce import produce
from tabletopic_kernel.local.progress import CountBar
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.progress.events import Committed
from tabletopic_kernel.workbench.workbench import Workbench


def freshness_ms(workbench: Workbench, seconds: int) -> np.ndarray:
    """Ms from each record's timestamp to the commit that made it visible, at 500 records/s."""
    topic, rate = "quiet", 500
    produce(workbench.servers.kafka, workbench.servers.registry, topic, 100)
    workbench.enable(topic, {"commit_interval_ms": "1s"})
    _wait_for_rows(workbench, topic, 100)
    with CountBar(rate * seconds, "freshness at 500/s", "records") as bar:
        produce(
            workbench.servers.kafka,
            workbench.servers.registry,
            topic,
            rate * seconds,
            rate=rate,
            on_progress=bar.to,
        )
    _wait_for_rows(workbench, topic, 100 + rate * seconds)
    commits = [event for event in workbench.events(topic) if isinstance(event, Committed)]
    place = (
        workbench.open_catalog().load_table(workbench.table_of(topic)).scan().to_arrow()["_kafka_metadata"]
    )
    rows = pa.Table.from_struct_array(place)
    waits = []
    for partition in range(4):
        chosen = rows.filter(pc.equal(rows["partition"], partition)).sort_by("offset")
        offsets = chosen["offset"].to_numpy()
        stamps = chosen["timestamp"].cast(pa.int64()).to_numpy() / 1000
        ends = np.array([event.progress.next_offsets.get(partition, 0) for event in commits])
        visible = np.array([event.at_ms for event in commits])[np.searchsorted(ends, offsets, side="right")]
        waits.append(visible - stamps)
    return np.sort(np.concatenate(waits))[: rate * seconds]  # without the records that came before


def _wait_for_rows(workbench: Workbench, topic: str, rows: int) -> None:
    deadline = time.monotonic() + 120
    while workbench.status(topic)[0].rows < rows:
        if time.monotonic() > deadline:
            raise TableTopicError(f"{topic} did not reach {rows} rows: {workbench.status(topic)[0]}")
        time.sleep(0.5)
