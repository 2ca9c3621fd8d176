"""The loads of ``make bench``: the same events in every format, each in its own form."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import StringType

from benchmarks import aging, growth, wide
from benchmarks.day import rates
from benchmarks.load import FORMATS, Format, Load, encoder
from benchmarks.peers.site import columns
from tabletopic_kernel._datasets.clickstream.generator import Clickstream


@pytest.mark.parametrize("what", [what for what in FORMATS if what != "wide"])
def test_every_format_tells_the_same_events(what: Format) -> None:
    """Decoded as a worker does it, nothing is refused and every field is there."""
    schema_id = None if what == "json" else 7
    encode = encoder(what, schema_id)
    events = list(Clickstream(7, "v1").events(500))
    load = Load("load", what, schema_id, [(event.key, encode(event.value)) for event in events])
    values = pa.array([value for _, value in load.records], pa.binary())
    columns = Schema()
    for _ in range(2):  # the first time, plain JSON only tells its columns
        decoder = load.decoder(columns)
        rows, refused = decoder.decode(values)
        columns = getattr(decoder, "needed", None) or decoder.iceberg_schema
    assert refused == []
    assert len(columns.fields) == 13
    is_text = isinstance(columns.find_field("event_time").field_type, StringType)
    for row, event in zip(rows.to_pylist(), events, strict=True):
        for name in ("event_id", "event_type", "referrer", "quantity", "device", "duration_ms"):
            assert row[name] == event.value[name]
        price = event.value["price"]
        assert (row["price"] is None) == (price is None)
        assert price is None or float(row["price"]) == float(price)
        if not is_text:
            assert round(row["event_time"].timestamp() * 1000) == event.value["event_time"]


def test_wide_events_have_a_hundred_columns() -> None:
    """Decoded as a worker does it, every value is what was encoded."""
    events = list(wide.events(200))
    load = Load("load", "wide", 7, [(b"", wide.encoder(7)(event)) for event in events])
    rows, refused = load.decoder(Schema()).decode(pa.array([value for _, value in load.records], pa.binary()))
    assert refused == []
    assert rows.to_pylist() == events
    assert len(rows.schema) == len(columns("wide").fields) == 100


def test_the_work_of_a_commit_is_counted(tmp_path: Path) -> None:
    """The same number each time, whatever the machine does meanwhile."""
    found = []
    for name in ("one", "other"):
        (folder := tmp_path / name).mkdir()
        found.append(aging.calls(folder, 8))
    assert found[0].slowest == pytest.approx(found[1].slowest, abs=0.02)
    assert 1 <= found[0].median <= found[0].p99 <= found[0].slowest < 2


def test_a_day_rises_and_falls_once() -> None:
    """From a tenth of the rate at noon and back to it."""
    day = rates(101, 1000)
    assert (day[0], max(day), day[-1]) == (100, 1000, 100)
    assert day[:51] == sorted(day[:51])
    assert day[50:] == sorted(day[50:], reverse=True)


def test_growth_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records have as many columns as asked for, and a table's rows are shared by as many files."""
    monkeypatch.setattr(growth, "_RECORDS", 100)
    narrow, broad = (growth.width(tmp_path, columns) for columns in (5, 50))
    assert 0 < 5 * narrow.bytes_per_record < broad.bytes_per_record
    assert growth.files(tmp_path / "files", 3, 30).files == 3
