"""Metrics in Prometheus' text format.

Why not ``prometheus_client.generate_latest``: it takes 6 µs a sample, twice what a scrape of a hundred topics
may take. A test holds both to the same text (ADR 0018).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

from prometheus_client import Metric
from prometheus_client.utils import floatToGoString

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Labels(dict[str, str]):
    """Labels of samples, by name; kept between scrapes, as their text costs more than the values."""

    @cached_property
    def text(self) -> str:
        """The labels as text, as it follows the metric's name."""
        return _text(self)


def exposition(metrics: Iterable[Metric]) -> bytes:
    """The metrics as text, version 0.0.4 of the format."""
    lines: list[str] = []
    for metric in metrics:
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        lines.append(f"# HELP {name} {metric.documentation}\n# TYPE {name} {metric.type}\n")
        for sample in metric.samples:
            labels, value = sample.labels, sample.value
            text = labels.text if isinstance(labels, Labels) else _text(labels)
            # The library's notation, which differs only for large numbers.
            lines.append(f"{sample.name}{text} {value if 0 <= value < 100_000 else _large(value)}\n")
    return "".join(lines).encode()


def _large(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


def _text(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(labels[name])}"' for name in sorted(labels)) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
