"""One profile at a time in a Jupyter server, and nothing of one in another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.jupyter_server.live_server import LiveServer, forget_afterwards

pytestmark = pytest.mark.integration
_HOST = "#!/bin/sh\nexec sleep 300\n"


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    """A server in a folder with two profiles that name brokers; its host only waits."""
    forget_afterwards(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for name in ("tabletopic.toml", "tabletopic.staging.toml"):
        servers = f'"bootstrap.servers" = "127.0.0.1:1"\n"client.id" = "{name}"\n'
        registry, catalog = (
            '[registry]\nurl = "http://127.0.0.1:1"\n',
            '[catalog]\ntype = "rest"\nuri = "http://c"\n',
        )
        (tmp_path / name).write_text(f"# kept\n[kafka]\n{servers}{registry}{catalog}")
    host = tmp_path / "host"
    host.write_text(_HOST)
    host.chmod(0o755)
    with LiveServer(tmp_path, host_command=[str(host)]) as server:
        yield server


def test_each_profile_has_a_backend_of_its_own(live: LiveServer, tmp_path: Path) -> None:
    """A host goes on in its profile, and is not the other one's; a page of before is refused."""
    overview = live.api("GET", "overview").json
    assert (overview["profile"], overview["profiles"]) == ("default", ["default", "staging"])
    live.backend.host.start()
    first = live.backend.host.child
    environment = Path(f"/proc/{first.pid}/environ").read_bytes().split(b"\0")
    assert b"TABLETOPIC_PROFILE=default" in environment
    assert live.api("PUT", "profiles/staging").status == 204
    overview = live.api("GET", "overview").json
    assert (overview["profile"], overview["host"]["state"]) == ("staging", "none")
    assert live.backend.in_force.settings().kafka["client.id"] == "tabletopic.staging.toml"
    assert live.backend.in_force.settings().state_dir == str(tmp_path / ".tabletopic.staging")
    assert live.backend.in_force.kernel_environment()["TABLETOPIC_PROFILE"] == "staging"
    stale = {"X-Table-Topic-Profile": "default"}
    refused = live.ask("POST", "tabletopic/api/host", headers=stale)
    assert (refused.status, first.pid is not None) == (409, True)
    assert "uses the profile staging now" in refused.json["message"]
    assert live.ask("GET", "tabletopic/dashboard/?profile=default").status == 409
    assert live.api("PUT", "profiles/nowhere").status == 400
    assert live.api("PUT", "profiles/default").status == 204
    assert live.api("GET", "overview").json["host"]["state"] != "none"
    assert live.backend.host.child is first
    assert os.environ["TABLETOPIC_PROFILE"] == "default"


def test_servers_of_a_profile_that_is_not_in_use(live: LiveServer, tmp_path: Path) -> None:
    """The page makes one, looks at it and saves it, while JupyterLab goes on with another."""
    assert live.api("POST", "profiles/prod").json == {"file": str(tmp_path / "tabletopic.prod.toml")}
    assert live.api("POST", "profiles/prod").status == 400
    assert live.api("POST", "profiles/a_b").status == 400
    shown = live.ask("GET", "tabletopic/api/servers?profile=prod").json
    assert (shown["profile"], shown["used_profile"]) == ("prod", "default")
    assert shown["profiles"] == ["default", "prod", "staging"]
    body = {"properties": {"url": "http://r"}, "version": shown["version"], "profile": "prod"}
    assert live.api("PUT", "servers/registry", body).status == 200
    text = (tmp_path / "tabletopic.prod.toml").read_text()
    assert text.startswith("# The profile prod")
    assert 'url = "http://r"' in text
    assert "http://r" not in (tmp_path / "tabletopic.toml").read_text()
    assert live.api("GET", "servers").json["profile"] == "default"
