"""The script that people write first: confluent-kafka, fastavro and PyIceberg in a loop."""

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from confluent_kafka import Consumer
from pyiceberg.catalog import load_catalog

job = json.loads(Path(sys.argv[1]).read_text())
schema = fastavro.parse_schema(json.loads(job["schema"])) if job["schema"] else None
name = job["catalog"].pop("name")
table = load_catalog(name, **job["catalog"]).load_table(job["table"])
columns = table.schema().as_arrow()
consumer = Consumer({**job["kafka"], "enable.auto.commit": False})
consumer.subscribe([job["topic"]])

rows: list[Any] = []
due = time.monotonic() + job["interval_s"]
while True:
    for message in consumer.consume(10_000, timeout=1.0):
        value = message.value() or b""
        if schema:
            rows.append(fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None))
        else:
            rows.append(json.loads(value))
    if rows and time.monotonic() >= due:
        table.append(pa.Table.from_pylist(rows, schema=columns))
        consumer.commit(asynchronous=False)
        rows, due = [], time.monotonic() + job["interval_s"]
