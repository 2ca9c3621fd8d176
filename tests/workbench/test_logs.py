"""What hosts logged, read back."""

from __future__ import annotations

import logging
from pathlib import Path

from tabletopic_kernel.workbench.logs import log_to, read_logs


def test_records_about_a_topic_are_found_with_their_traces(tmp_path: Path) -> None:
    """A line with the time and what follows; without logs there are none."""
    assert read_logs(tmp_path, 10) == []
    handler = log_to(tmp_path, "kernel.log")
    log = logging.getLogger("tests.logs")
    try:
        log.warning("clicks: waits")
        log.warning("clicks-eu: waits")
        try:
            raise ValueError("broken")
        except ValueError:
            log.exception("coordinator of clicks")
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
    lines = read_logs(tmp_path, 100, "clicks")
    assert lines[0].endswith("clicks: waits")
    assert lines[-1] == "ValueError: broken"
    assert not any("clicks-eu" in line for line in lines)
    assert len(read_logs(tmp_path, 1)) == 1
