"""Signals that stop a command such as ``serve``."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from tabletopic_kernel.faces.cli.call import INTERRUPTED


@contextlib.contextmanager
def stop_event() -> Iterator[threading.Event]:
    """An event set by Ctrl-C, SIGTERM, or the terminal's end; a second Ctrl-C ends the process at once."""
    stop, interrupted = threading.Event(), False

    def ask(number: int, _: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted and number == signal.SIGINT:
            os._exit(INTERRUPTED)
        interrupted = True
        # In another thread: the interrupted one may hold the event's lock, and would wait for itself.
        # Not by Thread.start(), which takes a lock, too.
        _thread.start_new_thread(stop.set, ())

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
