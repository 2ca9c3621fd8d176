"""The common part of this folder's measurements: the same clicks, and the minimum CPU time of five runs."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable, Iterator
from typing import Any

KINDS = ("VIEW", "CLICK", "BUY")


def clicks(count: int) -> Iterator[dict[str, Any]]:
    """The same events for every format; ``ts`` in ms since 1970."""
    rng = random.Random(1)

    def text(length: int) -> str:
        return "".join(rng.choices(string.ascii_letters, k=length))

    for index in range(count):
        yield {
            "event_id": text(24),
            "user_id": text(12) if rng.random() < 0.7 else None,
            "session": text(16),
            "url": "/" + text(28),
            "referrer": text(24) if rng.random() < 0.5 else None,
            "duration": rng.random(),
            "status": 200,
            "bytes": rng.randrange(100_000),
            "ts": 1_767_225_600_000 + index,
            "kind": rng.choice(KINDS),
            "geo": {
                "country": text(2),
                "lat": rng.random(),
                "city": text(8) if index % 5 else None,
            },
        }


def report(what: str, records: int, run: Callable[[], object]) -> None:
    """Print the cost per record of ``run``, which processes this many."""
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    print(f"{what:45} {best * 1e6 / records:8.3f} µs/record  {best * 1e3:8.2f} ms")  # noqa: T201
