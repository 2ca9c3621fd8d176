"""``dashboard``: starts the dashboard's server."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest


def test_a_port_that_is_taken(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and what to do, and exits as for wrong use."""
    monkeypatch.setenv("BOKEH_RESOURCES", "server")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        outcome = run("dashboard", "--port", str(taken.getsockname()[1]))
    assert outcome.code == 2
    assert "choose another with --port" in outcome.err
