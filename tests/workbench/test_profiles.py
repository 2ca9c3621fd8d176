"""Profiles: files beside each other, of which nothing of one reaches another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tabletopic_kernel.faces.jupyter_server.settings_in_force import SettingsInForce
from tabletopic_kernel.model.errors import SettingsError, UsageError
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.config.profiles import base_of, file_of, make_profile, profiles_beside
from tabletopic_kernel.workbench.config.server_sections import ServerSections
from tests.workbench.complaints import complaint

STAGING = {"TABLETOPIC_PROFILE": "staging"}
_KAFKA = '# {0}\n[kafka]\n"bootstrap.servers" = "{0}:9092"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two profiles, in which the process is."""
    for name in ("tabletopic.toml", "tabletopic.staging.toml"):
        (tmp_path / name).write_text(_KAFKA.format(name.removesuffix(".toml")))
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    for name in [name for name in os.environ if name.startswith("TABLETOPIC_")]:
        monkeypatch.delenv(name)
    return tmp_path


def test_a_profile_is_whole_in_itself(project: Path) -> None:
    """Neither the file nor the variables of the default profile count, and its state folder is its own."""
    plain = {"TABLETOPIC_KAFKA__CLIENT__ID": "plain", "TABLETOPIC_STATE_DIR": "/plain"}
    own = {"TABLETOPIC_PROFILE_STAGING__KAFKA__CLIENT__ID": "own"}
    staging = load_settings(environ={**plain, **own, **STAGING})
    assert staging.settings.kafka == {"bootstrap.servers": "tabletopic.staging:9092", "client.id": "own"}
    assert (staging.profile, staging.file) == ("staging", project / "tabletopic.staging.toml")
    assert staging.settings.state_dir == str(project / ".tabletopic.staging")
    assert staging.origins["kafka.client.id"] == next(iter(own))
    default = load_settings(environ={**plain, **own})
    assert default.settings.kafka == {"bootstrap.servers": "tabletopic:9092", "client.id": "plain"}
    assert (default.profile, default.settings.state_dir) == ("default", "/plain")
    assert load_settings(environ={**plain, "TABLETOPIC_PROFILE": "default"}) == load_settings(environ=plain)


def test_an_option_and_the_file_itself_choose_the_state_folder(project: Path) -> None:
    """As for the default profile: an option is for this command, and a path is relative to the file."""
    with (project / "tabletopic.staging.toml").open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write(f'state_dir = "st"\n{text}')
    assert load_settings(environ=STAGING).settings.state_dir == str(project / "st")
    assert load_settings({"state_dir": "/x"}, environ=STAGING).settings.state_dir == "/x"


def test_beside_a_named_file(project: Path) -> None:
    """TABLETOPIC_CONFIG names the default profile's file, and the profile's lies beside it."""
    named = {"TABLETOPIC_CONFIG": str(project / "lab.toml"), **STAGING}
    assert f"no lab.staging.toml in {project} or above" in complaint(lambda: load_settings(environ=named))
    (project / "lab.staging.toml").write_text("")
    assert load_settings(environ=named).file == project / "lab.staging.toml"


def test_a_missing_profile_is_an_error(project: Path) -> None:
    """It never becomes another one in silence; the message lists those that are there."""
    (project / "below" / "tabletopic.local.toml").write_text("")
    message = complaint(lambda: load_settings(environ={"TABLETOPIC_PROFILE": "prod"}))
    assert message.startswith("there is no profile prod: no tabletopic.prod.toml in")
    assert message.endswith("`tabletopic init --profile prod` writes one. Profiles there: default, local")
    for wrong in ("Prod", "a_b", "../x", "-a", "a--b"):
        with pytest.raises(SettingsError, match="cannot be a profile"):
            load_settings(environ={"TABLETOPIC_PROFILE": wrong})


def test_an_unknown_variable_of_a_profile_is_named(project: Path) -> None:
    """With the profile's prefix in the hint, but only where the profile is in use."""
    wrong = {"TABLETOPIC_PROFILE_STAGING__STATE_DIRR": "all"}
    assert load_settings(environ=wrong).profile == "default"
    message = complaint(lambda: load_settings(environ={**wrong, **STAGING}))
    assert "did you mean TABLETOPIC_PROFILE_STAGING__STATE_DIR?" in message


def test_names_and_files(tmp_path: Path) -> None:
    """A file says which profile it is; other files beside it are none."""
    base = tmp_path / "tabletopic.toml"
    for name in ("tabletopic.eu-west.toml", "tabletopic.Old.toml", "tabletopic.a.b.toml", "tabletopic.txt"):
        (tmp_path / name).touch()
    assert profiles_beside(base) == ["default", "eu-west"]
    assert base_of(file_of(base, "eu-west"), "eu-west") == base
    made = make_profile(base, "prod")
    assert made.read_text() == "# The profile prod: for --profile prod, or TABLETOPIC_PROFILE=prod\n"
    with pytest.raises(UsageError, match="exists"):
        make_profile(base, "prod")
    assert profiles_beside(base) == ["default", "eu-west", "prod"]


def test_the_page_edits_a_profile_and_names_its_variables(project: Path) -> None:
    """Comments stay, and a secret's comment names the variable that this profile reads."""
    in_force = SettingsInForce(profile="staging")
    sections = ServerSections(in_force.load)
    named = sections.all()
    assert (named.profile, named.file) == ("staging", str(project / "tabletopic.staging.toml"))
    typed = {"url": "http://r", "basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "u:p"}
    saved = sections.save("registry", typed, named.version, secrets_too=False)
    variable = "TABLETOPIC_PROFILE_STAGING__REGISTRY__BASIC__AUTH__USER__INFO"
    assert saved.variables[-1] == variable
    text = (project / "tabletopic.staging.toml").read_text()
    assert text.startswith("# tabletopic.staging\n")
    assert f"# basic.auth.user.info: set {variable}\n" in text
    assert "registry" not in (project / "tabletopic.toml").read_text()
    assert (
        load_settings(environ={variable: "u:p", **STAGING}).settings.registry["basic.auth.user.info"] == "u:p"
    )


def test_a_kernel_finds_each_profile_where_its_server_does(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the notebook chose another one, and from the notebook's own folder."""
    monkeypatch.chdir(project)
    servers = {name: SettingsInForce(profile=name) for name in ("default", "staging")}
    for name, in_force in servers.items():
        kernel = in_force.kernel_environment()
        assert kernel["TABLETOPIC_PROFILE"] == name
        for chosen, server in servers.items():
            loaded = load_settings(environ={**kernel, "TABLETOPIC_PROFILE": chosen}, cwd=project.parent)
            assert (loaded.file, loaded.settings) == (server.load().file, server.settings())
