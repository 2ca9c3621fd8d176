"""The sample file equals the generator's output."""

import json

from tabletopic_kernel._datasets.clickstream.sample import SAMPLE, sample_text


def test_sample_is_in_step() -> None:
    """It equals a new run, and shows both schema versions and a sale; else run the module again."""
    assert SAMPLE.read_text(encoding="utf-8") == sample_text()
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    assert {row["schema_version"] for row in rows} == {"v1", "v2"}
    assert any(row["value"]["event_type"] == "purchase" for row in rows)
