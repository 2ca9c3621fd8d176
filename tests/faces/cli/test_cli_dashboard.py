"""``dashboard``: starts the dashboard's server."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.faces.live_dashboard import server


def test_it_serves_by_the_call(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reader of the pages reads the same settings as every other command."""
    asked: list[tuple[server.Place, str]] = []

    def serve(place: server.Place, *, ready: Callable[[str], None], load: Callable[[], Any]) -> None:
        asked.append((place, load().state_dir))
        ready("http://127.0.0.1:8050/")

    monkeypatch.setattr(server, "serve", serve)
    outcome = run("dashboard", "--port", "8050", "--state-dir", str(tmp_path / "other"))
    assert asked == [(server.Place(port=8050), str(tmp_path / "other"))]
    assert "http://127.0.0.1:8050/" in outcome.out


def test_a_port_that_is_taken(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and what to do, and exits as for wrong use."""
    monkeypatch.setenv("BOKEH_RESOURCES", "server")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        outcome = run("dashboard", "--port", str(taken.getsockname()[1]))
    assert outcome.code == 2
    assert "choose another with --port" in outcome.err
