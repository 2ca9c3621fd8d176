"""The demo: a topic becomes a table while its schema changes and its host is killed; then the proof."""

from __future__ import annotations

from pathlib import Path

__all__ = ["run"]


def run(
    events: int = 100_000, state_dir: Path | None = None, keep: bool = False, as_json: bool = False
) -> int:
    """Play the demo with servers of its own and stop everything it started.

    Args:
        events: how many click events to send.
        state_dir: folder for servers, tables and logs; it must not hold a topic ``clicks`` yet. Without it,
            a temporary folder that is removed at the end.
        keep: leave the temporary folder in place, to play on.
        as_json: one JSON summary on stdout at the end; what people read goes to stderr.

    Returns:
        The exit code: 0, or 1 where a comparison failed, 128 + signal number where it was interrupted.

    Raises:
        UsageError: too few events, or a folder that is in use.
        StackError: a server or the host did not start.
        TableTopicError: what the parts raise; everything is stopped by then, the logs are kept.
    """
    # Loaded here: a helper process of the demo imports this package and must stay small.
    from tabletopic_kernel.demo.scenario import play  # noqa: PLC0415

    return play(events, state_dir, keep=keep, as_json=as_json)
