"""Plain Spark: Structured Streaming from Kafka into Iceberg, as the documentation writes it."""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import col, expr, from_json
from pyspark.sql.streaming.readwriter import DataStreamWriter

job = json.loads(Path(sys.argv[1]).read_text())
builder = SparkSession.builder
for key, value in job["conf"].items():
    builder = builder.config(key, value)
session = builder.getOrCreate()


def merge(batch: DataFrame, _number: int) -> None:
    """The newest row of each key of a batch replaces the table's."""
    batch.createOrReplaceTempView("changes")
    key = job["key"]
    batch.sparkSession.sql(
        f"MERGE INTO {job['table']} t USING (SELECT newest.* FROM (SELECT max_by(event, offset) AS newest "
        f"FROM changes GROUP BY event.{key})) c ON t.{key} = c.{key} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def writer(rows: DataFrame, checkpoint: str) -> DataStreamWriter:
    """A query with a checkpoint of its own."""
    query = rows.writeStream.trigger(processingTime=job["interval"])
    return query.option("checkpointLocation", f"{job['checkpoint']}/{checkpoint}")


records = session.readStream.format("kafka").options(**job["source"]).load()
if job["schema"]:
    mode = {"mode": "PERMISSIVE" if job["rejects"] else "FAILFAST"}
    event = from_avro(expr("substring(value, 6, length(value) - 5)"), job["schema"], mode)
else:
    event = from_json(col("value").cast("string"), job["columns"])
events = records.select(event.alias("event"), "offset", "value")
if job["rejects"]:
    rejects = events.where("event.event_id IS NULL").select("value")
    writer(rejects, "rejects").format("iceberg").toTable(job["rejects"])
    events = events.where("event.event_id IS NOT NULL")
if job["key"]:
    writer(events, "rows").foreachBatch(merge).start()
else:
    rows = writer(events.select("event.*"), "rows").format("iceberg")
    rows.option("fanout-enabled", job["fanout"]).toTable(job["table"])
session.streams.awaitAnyTermination()
