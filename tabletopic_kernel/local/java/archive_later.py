"""Makes the class archive beside a host that runs without it, when nobody waits any more.

A process of its own, with what the processors have left over; it ends with the host.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from tabletopic_kernel.local.java import class_archive, jvm
from tabletopic_kernel.model.errors import StackError

# The first topics are at work by then, and a demo is over.
_DELAY_S = 120.0
_LOOK_EVERY_S = 1.0


def make_later(delay_s: float = _DELAY_S) -> None:
    """Make the archive in ``delay_s`` seconds, if it was never tried and this process is still there."""
    threading.Thread(target=_wait_and_make, args=(delay_s,), name="class archive", daemon=True).start()


def _wait_and_make(delay_s: float) -> None:
    try:
        due = class_archive.is_due(jvm.java(), jvm.spark_jars())
    except StackError:  # Spark did not start either
        return
    if due:
        time.sleep(delay_s)
        command = [sys.executable, "-m", __name__, str(os.getpid())]
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )


def main(parent_pid: int) -> None:
    """Make it, unless the parent ends first."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    threading.Thread(target=_end_with, args=(parent_pid,), daemon=True).start()
    jvm.make_spark_archive()


def _end_with(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(_LOOK_EVERY_S)
    os.killpg(0, signal.SIGKILL)  # Spark's JVM too; we lead a group of our own


if __name__ == "__main__":
    main(int(sys.argv[1]))
