"""How a command that runs until it is stopped learns that it shall stop."""

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
    asked, was_asked = threading.Event(), False

    def ask(number: int, _: FrameType | None) -> None:
        nonlocal was_asked
        if was_asked and number == signal.SIGINT:
            os._exit(INTERRUPTED)
        was_asked = True
        # In a thread that nobody waits for: the one that is interrupted here may hold the event's lock, or be
        # in this handler already, and would wait for itself. Thread.start() takes a lock, too.
        _thread.start_new_thread(asked.set, ())

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
