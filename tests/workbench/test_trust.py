"""Settings files that were found: whose they are, and what they may run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tabletopic_kernel.faces.jupyter_server.settings_in_force import NoServersError, SettingsInForce
from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.workbench.config import LoadedSettings, load_settings
from tabletopic_kernel.workbench.config.trust import trust_file

STRANGER = 65534
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to another user")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cloned folder, in which the program starts; the user has accepted nothing yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _load(text: str, environ: Mapping[str, str] = {}) -> LoadedSettings:
    Path("tabletopic.toml").write_text(text)
    return load_settings(environ={**os.environ, **environ})


@pytest.mark.parametrize(
    "text",
    [
        '[kafka]\n"plugin.library.paths" = "evil.so"', '[kafka]\n"ssl.engine.location" = "evil.so"',
        '[kafka]\n"sasl.kerberos.kinit.cmd" = "touch x"', '[catalog]\n"py-catalog-impl" = "os.system"',
        '[catalog]\n"py-io-impl" = "os.system"', '[catalog]\n"s3.retry-strategy-impl" = "os.system"',
        '[catalogs.prod]\ntype = "rest"\n"auth.impl" = "os.system"',
        '[spark.conf]\n"spark.jars" = "evil.jar"', '[spark.conf]\n"spark.driver.extraClassPath" = "."',
        '[spark.conf]\n"spark.driver.memory" = "1g -javaagent:evil.jar"',
        '[spark.conf]\n"spark.plugins" = "Evil"', '[spark.conf]\n"spark.master" = "spark://evil:1"',
        '[spark]\nmaster = "spark://evil:1"',
        '[notify]\ncommand = "touch x"', '[lineage]\nto = "/home/evil/.profile"',
    ],
)  # fmt: skip
def test_what_can_run_code_needs_consent_once(project: Path, text: str) -> None:
    """Again for other values, but not for other settings, nor if the file is named or a variable says it."""
    with pytest.raises(SettingsError, match=r"can run code: .*\. If you trust them, run `tabletopic trust`"):
        _load(text)
    assert _load(text, {"TABLETOPIC_CONFIG": "tabletopic.toml"}).file == project / "tabletopic.toml"
    assert trust_file() == (project / "tabletopic.toml", [_name(text)])
    _load(text)
    _load(f'state_dir = "elsewhere"\n{text}')
    with pytest.raises(SettingsError, match="can run code"):
        _load(
            text.replace("evil", "worse")
            .replace("os.", "sys.")
            .replace("Evil", "W")
            .replace('"."', '".."')
            .replace(" x", " y")
        )
    (project / "tabletopic.toml").rename(project.parent / "tabletopic.toml")
    with pytest.raises(SettingsError, match="can run code"):
        load_settings(environ=os.environ)


def _name(text: str) -> str:
    section, _, line = text.rpartition("\n")
    key = line.partition(" = ")[0].strip('"')
    return f"{section.split()[0].strip('[]')}.{key}"


def test_the_rest_needs_none(project: Path) -> None:
    """Servers, logins, sizes, topics."""
    _load("""
[kafka]
"bootstrap.servers" = "a:1"
"sasl.password" = "x"
[registry]
url = "http://a"
[catalog]
type = "rest"
uri = "http://a"
"s3.signer.uri" = "http://a"
[spark]
master = "local[2]"
[spark.conf]
"spark.driver.memory" = "4g"
"spark.sql.shuffle.partitions" = 8
[lineage]
to = "https://a/api/v1/lineage"
[topics.clicks]
commit_interval_ms = "1s"
""")
    assert trust_file()[1] == []
    assert not (project.parent / "config").exists()


def test_a_poll_of_the_jupyter_server_loads_nothing(project: Path) -> None:
    """JupyterLab was opened in a clone: its own page polls, and says what to do."""
    mark = project / "ran"
    (project / "evil_catalog.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (project / "tabletopic.toml").write_text(
        '[kafka]\n"bootstrap.servers" = "127.0.0.1:1"\n[registry]\nurl = "http://127.0.0.1:1"\n'
        '[catalog]\ntype = "sql"\n"py-catalog-impl" = "evil_catalog.Catalog"\n'
    )
    sys.path.insert(0, str(project))
    try:
        with pytest.raises(NoServersError, match="tabletopic trust"):
            SettingsInForce().workbench().open_catalog()  # type: ignore[attr-defined]
    finally:
        sys.path.remove(str(project))
    assert not mark.exists()
    assert "TABLETOPIC_CONFIG" not in SettingsInForce().kernel_environment()


@pytest.mark.parametrize("mode", [0o666, 0o602])
def test_a_file_that_others_may_write_is_refused(project: Path, mode: int) -> None:
    """As ssh does; the remedy is in the message, and a file that is named is the user's own decision."""
    file = project / "tabletopic.toml"
    file.touch()
    file.chmod(mode)
    with pytest.raises(SettingsError, match=r"others may write to it; .*`chmod go-w .*tabletopic.toml`"):
        load_settings(environ={})
    assert load_settings(environ={"TABLETOPIC_CONFIG": str(file)}).file == file
    file.chmod(0o644)
    project.chmod(0o777)
    with pytest.raises(SettingsError, match=r"`chmod o-w .*project`"):
        load_settings(environ={})
    project.chmod(0o755)
    assert load_settings(environ={}).file == file


@only_root
def test_a_group_of_ones_own_may_write(project: Path) -> None:
    """With a umask of 002 files get the user's private group; one with other members is shared."""
    file = project / "tabletopic.toml"
    file.touch()
    file.chmod(0o664)
    assert load_settings(environ={}).file == file
    os.chown(file, 0, STRANGER)  # the primary group of the account nobody
    with pytest.raises(SettingsError, match="others may write to it"):
        load_settings(environ={})


@only_root
def test_a_foreign_file_is_refused_and_in_a_shared_folder_ignored(project: Path) -> None:
    """Anybody may put one into /tmp: that neither counts nor disturbs."""
    file = project.parent / "tabletopic.toml"
    file.touch()
    os.chown(file, STRANGER, STRANGER)
    with pytest.raises(SettingsError, match=r"it belongs to nobody; if its content is right: `chown root "):
        load_settings(environ={})
    project.parent.chmod(0o1777)
    assert load_settings(environ={}).file is None
    os.chown(file, 0, 0)
    assert load_settings(environ={}).file == file
    file.unlink()
    (project.parent / "mine").touch()
    file.symlink_to(project.parent / "mine")
    os.chown(file, STRANGER, STRANGER, follow_symlinks=False)
    assert load_settings(environ={}).file is None


def test_kernels_do_not_believe_what_their_server_found(project: Path) -> None:
    """Somebody may change the file while a kernel runs: opening a folder named nothing."""
    (project / "tabletopic.toml").write_text("[spark]\n")
    kernel = SettingsInForce().kernel_environment()
    assert (
        load_settings(environ={**os.environ, **kernel}, cwd=project.parent).file
        == project / "tabletopic.toml"
    )
    with pytest.raises(SettingsError, match=r"tabletopic trust"):
        _load('[spark.conf]\n"spark.jars" = "evil.jar"', kernel)
