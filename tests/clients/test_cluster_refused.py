"""A cluster whose executors reach neither warehouse nor broker is refused everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.doctor.run import run_checks
from tabletopic_kernel.workbench.workbench import Workbench

ELSEWHERE = {
    "kafka": {"bootstrap.servers": "127.0.0.1:1"},
    "registry": {"url": "http://127.0.0.1:1"},
    "catalog": {"type": "sql", "uri": "sqlite://", "warehouse": "file:/lake"},
    "spark": {"master": "spark://127.0.0.1:1"},
}


def test_no_host_is_made_where_executors_reach_nothing(tmp_path: Path) -> None:
    """`serve` and a kernel refuse with the reasons, before they join anything."""
    workbench = Workbench(Settings.model_validate({**ELSEWHERE, "state_dir": str(tmp_path)}))
    with pytest.raises(SettingsError, match=r"shared_files.*; .*shared_network"):
        workbench.host()


def test_doctor_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among the checks of servers, without starting Spark."""
    settings = tmp_path / "tabletopic.toml"
    lines = [
        f"[{name}]\n" + "".join(f'"{key}" = "{value}"\n' for key, value in values.items())
        for name, values in ELSEWHERE.items()
    ]
    settings.write_text("\n".join(lines))
    loaded = load_settings(environ={"TABLETOPIC_CONFIG": str(settings)}, cwd=tmp_path)
    checks = {check.name: check for check in run_checks(loaded)}
    assert "shared_files" in checks["Spark"].detail
