"""The demo from its options to its exit code, without servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabletopic_kernel.demo import proof, scenario
from tabletopic_kernel.demo.report import Outcome
from tabletopic_kernel.demo.scenario import run
from tabletopic_kernel.demo.script import Script
from tabletopic_kernel.local import hosts
from tests.demo.made_up import EVENTS, answer


@pytest.mark.parametrize(("found", "code"), [(100, 0), (99, 1)])
def test_the_exit_code_is_the_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, found: int, code: int
) -> None:
    """One comparison that fails is exit code 1, and the JSON says which one."""

    def play(self: scenario.Demo) -> Outcome:
        outcome = self.outcome
        outcome.answers, outcome.checks = [answer([], [])], [proof.Check("rows", "Rows", found, 100)]
        return outcome

    monkeypatch.setattr(scenario.Demo, "play", play)
    assert run(EVENTS, state_dir=tmp_path, as_json=True) == code
    summary = json.loads(capsys.readouterr().out)
    assert summary["ok"] is (code == 0)
    assert [check["ok"] for check in summary["checks"]] == [code == 0]


@pytest.mark.parametrize("events", [1_000, 6_000, 100_000, 5_000_000])
def test_scenes_come_in_their_order(events: int) -> None:
    """Hold, switch, kill; from 10 to 36 seconds of sending whatever the number of events."""
    script = Script(events)
    assert 0 < script.hold_at < script.switch_at < script.kill_at < events
    assert 10 <= events / script.rate <= 36


def test_hosts_see_the_demo_s_servers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's own settings, from the environment or a file further up, do not reach them."""
    from tabletopic_kernel.workbench.config import load_settings

    (tmp_path / "tabletopic.toml").write_text('[kafka]\nbootstrap.servers = "prod:9092"\n')
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv("TABLETOPIC_REGISTRY__URL", "http://prod")
    settings = load_settings(environ=hosts.environment(folder), cwd=folder).settings
    assert (settings.kafka, settings.registry, settings.catalog) == ({}, {}, {})
    assert settings.state_dir == str(folder)
