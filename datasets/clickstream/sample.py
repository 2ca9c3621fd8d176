"""Write ``sample.jsonl``: ``python -m tabletopic_kernel._datasets.clickstream.sample``.

Consecutive events of the default seed, one JSON object per line, the last of them in version 2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tabletopic_kernel._datasets.clickstream.generator import Clickstream

SAMPLE: Final = Path(__file__).with_name("sample.jsonl")
_SKIPPED: Final = 400  # the first minutes, when hardly any visit has reached the end of the funnel
_EVENTS: Final = 50
_OF_V1: Final = 30


def sample_text() -> str:
    """The content of the sample; prices are text, as JSON has no decimals."""
    stream = Clickstream()
    for _ in stream.events(_SKIPPED):
        pass
    lines = []
    for number in range(_EVENTS):
        if number == _OF_V1:
            stream.switch_schema("v2")
        for event in stream.events(1):
            row = {
                "schema_version": stream.schema_version,
                "key": event.key.decode(),
                "timestamp_ms": event.timestamp_ms,
                "value": event.value,
            }
            lines.append(json.dumps(row, default=str))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    SAMPLE.write_text(sample_text(), encoding="utf-8", newline="\n")
