"""A notebook in a subfolder uses the same settings as the sidebar beside it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.faces.jupyter_server.live_server import LiveServer, forget_afterwards, private_jupyter

pytestmark = pytest.mark.integration


def test_a_kernel_in_a_subfolder_has_the_servers_state_folder(tmp_path: Path) -> None:
    """Also where nothing was started yet, and where the folder has settings of its own."""
    below = tmp_path / "notebooks" / "deep"
    below.mkdir(parents=True)
    (below / ".tabletopic").mkdir()
    with pytest.MonkeyPatch.context() as patch, private_jupyter(tmp_path / "jupyter") as variables:
        for name, value in variables.items():
            patch.setenv(name, value)
        forget_afterwards(patch)
        patch.chdir(tmp_path)
        with LiveServer(tmp_path) as live:
            beside = live.backend.in_force.settings().state_dir
            made = live.ask(
                "POST",
                "api/sessions",
                {
                    "path": "notebooks/deep/a.ipynb",
                    "name": "a.ipynb",
                    "type": "notebook",
                    "kernel": {"name": "python3"},
                },
            )
            assert made.status == 201, made.body
            said = asyncio.run_coroutine_threadsafe(_run(live, made.json["kernel"]["id"]), live._loop).result(
                120
            )
            assert live.ask("DELETE", f"api/sessions/{made.json['id']}").status == 204
    assert said.split() == [str(below), beside]
    assert beside == str(tmp_path / ".tabletopic")
    assert "TABLETOPIC_STATE_DIR" not in os.environ


async def _run(live: LiveServer, kernel_id: str) -> str:
    """The output of a cell that prints the current settings."""
    client = live.app.kernel_manager.get_kernel(kernel_id).client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=100)
        client.execute(
            "import os\nfrom tabletopic_kernel.workbench.config import load_settings\n"
            "print(os.getcwd(), load_settings().settings.state_dir)"
        )
        while True:
            message = await client.get_iopub_msg(timeout=60)
            if message["msg_type"] in ("stream", "error"):
                content = message["content"]
                return str(content.get("text") or content["evalue"])
    finally:
        client.stop_channels()
