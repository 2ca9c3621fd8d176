"""Steps on a terminal and in a log."""

import io

from tabletopic_kernel.local.progress import Step, TerminalReport


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


STEPS = [
    Step("jars", "started", detail="fetching", total_bytes=100),
    Step("jars", "running", 1.0, done_bytes=50, total_bytes=100),
    Step("jars", "running", 2.0, done_bytes=120, total_bytes=100),
    Step("jars", "done", 3.21, "here"),
    Step("kafka", "started"),
    Step("kafka", "done", 2.5, "127.0.0.1:1"),
]


def test_a_log_gets_a_line_per_step() -> None:
    """With the time; a terminal gets a bar by bytes, which is gone when the step is done."""
    log = io.StringIO()
    report = TerminalReport(log)
    for step in STEPS:
        report(step)
    assert log.getvalue() == "… jars: fetching\n✓ jars: here (3.2 s)\n✓ kafka: 127.0.0.1:1 (2.5 s)\n"
    terminal = Terminal()
    report = TerminalReport(terminal)
    for step in STEPS:
        report(step)
    shown = terminal.getvalue()
    assert "100/100" in shown
    assert "120" not in shown
    assert shown.endswith("✓ jars: here (3.2 s)\n✓ kafka: 127.0.0.1:1 (2.5 s)\n")
