"""Table properties in settings: which are taken, and with which values."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.settings.options import validated
from tabletopic_kernel.model.settings.table_properties import _LEVELS, outside

CODEC, LEVEL = "write.parquet.compression-codec", "write.parquet.compression-level"


@pytest.mark.parametrize(
    "properties",
    [
        {
            "write.metadata.metrics.default": "full", "commit.retry.num-retries": "3",
            "read.split.target-size": "1",
        },
        {
            "history.expire.max-snapshot-age-ms": "1", "gc.enabled": "false", "format-version": "2",
            "owner": "ann",
        },
        {CODEC: "Snappy"},
        {CODEC: "gzip", LEVEL: "9"},
        {LEVEL: "22"},
    ],
)  # fmt: skip
def test_what_icebergs_writers_know_is_taken(properties: dict[str, str]) -> None:
    """With the codec in either case; without one, new tables have zstd."""
    assert validated({"table_properties": properties}).table_properties == properties


@pytest.mark.parametrize(
    "name",
    [
        "py-io-impl", "io-impl", "write.py-location-provider.impl", "write.location-provider.impl",
        "s3.endpoint", "client.factory", "/home/mallory/logging.ini", "tabletopic.topic",
        "metrics-reporter-impl", "write.client.factory",
    ],
)  # fmt: skip
def test_a_class_or_anything_else_is_refused(name: str) -> None:
    """With what is possible."""
    with pytest.raises(
        SettingsError, match=r"^table_properties: .* is not a property for Iceberg's writers; they read"
    ):
        validated({"table_properties": {name: "logging.config.fileConfig"}})


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({CODEC: "bzip"}, "'bzip' is not one of zstd, gzip, brotli, lz4, snappy, uncompressed"),
        ({CODEC: "gzip", LEVEL: "10"}, "'10' is not possible, as gzip has the levels 0 to 9"),
        ({CODEC: "gzip", LEVEL: "high"}, "'high' is not possible, as gzip has the levels 0 to 9"),
        ({LEVEL: "99"}, "as zstd has the levels -7 to 22"),
        ({CODEC: "snappy", LEVEL: "1"}, "as snappy has no levels: remove it"),
    ],
)
def test_codec_and_level_are_possible_ones(properties: dict[str, str], message: str) -> None:
    """The message names them; the storage is not blamed at the first batch."""
    with pytest.raises(SettingsError, match=message):
        validated({"table_properties": properties})


def test_every_level_that_is_taken_can_be_written() -> None:
    """By PyArrow; and none outside, where it checks."""
    rows = pa.table({"a": [1]})
    for codec, levels in _LEVELS.items():
        for level in [None, *levels]:
            name = "none" if codec == "uncompressed" else codec
            pq.write_table(rows, io.BytesIO(), compression=name, compression_level=level)


@pytest.mark.parametrize(
    ("path", "warehouse", "is_outside"),
    [
        ("s3://lake/w/data", "s3a://lake/w/", False),
        ("s3://lake/w2", "s3://lake/w", True),
        ("s3://other/w/data", "s3://lake/w", True),
        ("/lake/x", "file:///lake", False),
        ("file:/lake/../etc", "/lake", True),
        ("lake/x", "/lake", False),
        ("https://evil.example/lake", "/lake", True),
        ("s3://anywhere", None, False),
    ],
)
def test_paths_stay_in_the_warehouse(path: str, warehouse: str | None, is_outside: bool) -> None:
    """However they are spelled; if the catalog chooses the warehouse, it alone can say."""
    for name in ("write.data.path", "write.metadata.path", "write.object-storage.path"):
        assert outside({"owner": "ann", name: path}, warehouse) == (name if is_outside else None)
