"""Plain Spark: Structured Streaming from Kafka into Iceberg's sink, as its documentation writes it."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import col, expr, from_json

JSON_SCHEMA = (
    "event_id string, event_time string, user_id string, session_id string, event_type string, url string, "
    "referrer string, product_id string, price double, quantity int, "
    "device struct<type: string, os: string, browser: string>, country string, duration_ms int"
)

job = json.loads(Path(sys.argv[1]).read_text())
builder = SparkSession.builder
for key, value in job["conf"].items():
    builder = builder.config(key, value)
session = builder.getOrCreate()

records = session.readStream.format("kafka").options(**job["source"]).load()
if job["schema"]:
    event = from_avro(expr("substring(value, 6, length(value) - 5)"), job["schema"])
else:
    event = from_json(col("value").cast("string"), JSON_SCHEMA)
rows = records.select(event.alias("event")).select("event.*")
writer = rows.writeStream.format("iceberg").outputMode("append").trigger(processingTime=job["interval"])
writer.option("checkpointLocation", job["checkpoint"]).toTable(job["table"]).awaitTermination()
