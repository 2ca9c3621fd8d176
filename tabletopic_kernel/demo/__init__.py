"""The demo: a topic becomes a table while its schema changes and its host is killed; then the proof."""

from __future__ import annotations

from pathlib import Path

__all__ = ["run"]


def run(
    events: int = 100_000, state_dir: Path | None = None, keep: bool = False, as_json: bool = False
) -> int:
    """Run the demo with its own servers, and stop everything it started.

    Args:
        events: the number of click events to send.
        state_dir: folder for servers, tables and logs; it must not contain a topic ``clicks`` yet. Without
            it, a temporary folder that is deleted at the end.
        keep: keep the temporary folder, to continue with it.
        as_json: print one JSON summary on stdout at the end; text for people goes to stderr.

    Returns:
        The exit code: 0, or 1 if a comparison failed, 128 + signal number if interrupted.

    Raises:
        UsageError: too few events, or a folder in use.
        StackError: a server or the host did not start.
        TableTopicError: what the parts raise; by then everything is stopped, and the logs are kept.
    """
    # Loaded here: a helper process of the demo imports this package and must stay small.
    from tabletopic_kernel.demo.scenario import play  # noqa: PLC0415

    return play(events, state_dir, keep=keep, as_json=as_json)
