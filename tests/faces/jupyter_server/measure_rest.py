"""How fast JupyterLab responds while its host ingests: ``python -m tests.faces.jupyter_server.measure_rest``.

Servers, Jupyter, its host and the producer run on this machine. The overview is polled every 2 s, as by an
open sidebar; in parallel, JupyterLab's own requests are timed one by one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tests.faces.jupyter_server.live_server import until
from tests.faces.jupyter_server.test_server_processes import Jupyter, jupyter_process

TOPIC = "clicks"
ASKED = {"status": "api/status", "files": "api/contents", "overview": "tabletopic/api/overview"}
PRODUCE = """
import sys
from tabletopic_kernel._datasets.clickstream.produce import produce
broker, registry, topic, count, rate = sys.argv[1:]
produce({"bootstrap.servers": broker}, {"url": registry}, topic, int(count), rate=float(rate) or None,
        distinct=None if float(rate) else 20_000)
"""


def produced(stack: StackInfo, count: int, rate: float) -> subprocess.Popen[bytes]:
    """A producer in a separate process; rate 0 is as fast as possible."""
    words = [stack.bootstrap_servers, stack.registry_url, TOPIC, str(count), str(rate)]
    return subprocess.Popen([sys.executable, "-c", PRODUCE, *words])


@contextmanager
def polled(server: Jupyter) -> Iterator[list[float]]:
    """Request the overview every 2 s; returns the rows per second that it reports."""
    over, rates = threading.Event(), list[float]()

    def poll() -> None:
        while not over.wait(2):
            rates.append(server.row(TOPIC).get("rows_per_second") or 0.0)

    thread = threading.Thread(target=poll)
    thread.start()
    yield rates
    over.set()
    thread.join()


def timed(server: Jupyter, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each request, by request."""
    took: dict[str, list[float]] = {name: [] for name in ASKED}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, path in ASKED.items():
            began = time.perf_counter()
            status, _ = server.ask("GET", path)
            took[name].append((time.perf_counter() - began) * 1000)
            assert status == 200, path
            time.sleep(0.02)
    return took


def told(title: str, took: dict[str, list[float]], rates: list[float]) -> None:
    """One line per request."""
    fastest, load = max(rates, default=0.0), os.getloadavg()[0]
    print(f"{title}: up to {fastest:,.0f} rows/s, load {load:.1f}")  # noqa: T201
    for name, all_ in took.items():
        by_size = sorted(all_)
        p50, p95 = (by_size[int(len(by_size) * share)] for share in (0.5, 0.95))
        figures = f"p50 {p50:6.1f} ms  p95 {p95:6.1f} ms  max {by_size[-1]:6.1f} ms"
        print(f"  {name:9} n={len(by_size):4} {figures}")  # noqa: T201


def main() -> None:
    """Idle, at 500 records/s, and at full speed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--records", type=int, default=4_000_000, help="for full speed")
    given: Any = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="measure-") as folder:
        local = LocalStack(Path(folder) / "state")
        stack = local.up(die_with_parent=True)
        try:
            with jupyter_process(stack, Path(folder)) as server:
                produced(stack, 100, 0).wait()
                with polled(server) as rates:
                    told("nothing runs", timed(server, given.seconds / 2), rates)
                server.api("PUT", f"topics/{TOPIC}", {"settings": {"commit_interval_ms": "1s"}})
                until(lambda: server.row(TOPIC).get("lag_records") == 0, 180)
                for title, count, rate in (
                    ("500 records/s", int(500 * given.seconds * 3), 500.0),
                    ("full speed", given.records, 0.0),
                ):
                    producer = produced(stack, count, rate)
                    time.sleep(5)
                    with polled(server) as rates:
                        told(title, timed(server, given.seconds), rates)
                    producer.kill()
                    producer.wait()
        finally:
            local.down()


if __name__ == "__main__":
    main()
