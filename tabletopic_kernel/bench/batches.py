"""How long a small batch takes, by the topic's partitions: Spark reads them one after the other."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from statistics import median

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.progress.events import Committed, FilesStaged
from tabletopic_kernel.workbench.workbench import Workbench

_RECORDS = 2_000
_BATCHES = 5
_LIMIT_S = 300.0


def seconds_of_batches(workbench: Workbench, partitions: Sequence[int]) -> dict[int, float]:
    """Median seconds of a batch of 2,000 records, by number of partitions; the first batch is not counted."""
    return {count: _seconds(workbench, f"wide-{count}", count) for count in partitions}


def _seconds(workbench: Workbench, topic: str, partitions: int) -> float:
    kafka: dict[str, str | int | float | bool] = {**workbench.servers.kafka}
    admin = AdminClient(kafka)  # in a name of its own: what it does ends with it
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
    producer = Producer(kafka)
    value = json.dumps({"n": 1, "text": "x" * 80}).encode()

    def send() -> None:
        for number in range(_RECORDS):
            producer.produce(topic, value, partition=number % partitions)
        producer.flush()

    send()
    workbench.enable(topic, {"commit_interval_ms": "1s", "value_format": "json"})
    deadline = time.monotonic() + _LIMIT_S
    found: list[float] = []
    seconds, rows = 0.0, 0
    for event in workbench.events(topic, follow=lambda: time.monotonic() < deadline):
        if isinstance(event, FilesStaged):
            seconds, rows = seconds + event.seconds, rows + event.rows
        elif isinstance(event, Committed) and rows >= _RECORDS * (len(found) + 1):
            found.append(seconds)
            seconds = 0.0
            if len(found) > _BATCHES:
                workbench.disable(topic)
                return round(median(found[1:]), 2)
            send()
    raise TableTopicError(f"{topic}: {len(found)} of {_BATCHES + 1} batches in {_LIMIT_S:.0f} s")
