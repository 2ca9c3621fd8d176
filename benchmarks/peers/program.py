"""How a compared program is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

HEAP: Final = "2g"  # of each JVM; ours has Spark's driver at its default, 1 GB
QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


@dataclass(frozen=True)
class Program:
    """How to start one; the same command goes on after a kill. ``settings``: what differs from defaults."""

    command: Sequence[str]
    settings: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
