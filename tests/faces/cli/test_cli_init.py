"""`init` asks, checks, writes; each test is a user at a keyboard."""

from __future__ import annotations

import io
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.doctor import run
from tabletopic_kernel.workbench.doctor.check import Check

_ALL_EMBEDDED = ["1", "1", "1"]
_LOGIN = ["4", "broker.example:9093", "PLAIN", "ann", "ann-hidden", ""]


@pytest.fixture
def person(run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Call `init` with typed lines, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def types(*lines: str, options: tuple[str, ...] = ()) -> Any:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return run("init", *options)

    return types


@pytest.fixture(autouse=True)
def tried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mapping[str, str]]]:
    """The servers checked; passwords other than ``ann-hidden`` are rejected."""
    asked: list[tuple[str, Mapping[str, str]]] = []

    def check(section: str, properties: Mapping[str, str]) -> Iterator[Check]:
        asked.append((section, dict(properties)))
        good = properties.get("sasl.password", "ann-hidden") == "ann-hidden"
        yield Check(section, "ok" if good else "fail", "answers" if good else "the login is wrong")

    monkeypatch.setattr(run, "check_server", check)
    return asked


def test_passwords_are_written_when_asked(
    person: Callable[..., Any], tmp_path: Path, tried: list[Any]
) -> None:
    """Without, the variable's name is printed and written; with, the file is the owner's alone."""
    out = person(*_LOGIN, "1", "1", "n")
    file = tmp_path / "tabletopic.toml"
    assert tried[0][1]["sasl.password"] == "ann-hidden"
    assert "ann-hidden" not in file.read_text() + out.out + out.err
    assert "export TABLETOPIC_KAFKA__SASL__PASSWORD=" in out.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    person(*_LOGIN, "1", "1", "y", options=("--force",))
    assert load_settings(environ={}, cwd=tmp_path).settings.kafka["sasl.password"] == "ann-hidden"


def test_a_wrong_answer_is_asked_again(person: Callable[..., Any], tried: list[Any], tmp_path: Path) -> None:
    """What was right stays as the default; only the password is typed anew."""
    person("4", "broker.example:9093", "PLAIN", "ann", "wrong", "", "y", "4", "", "", "", "ann-hidden", "",
           "1", "1", "y")  # fmt: skip
    assert [properties["sasl.password"] for _, properties in tried] == ["wrong", "ann-hidden"]
    kafka = load_settings(environ={}, cwd=tmp_path).settings.kafka
    assert kafka["bootstrap.servers"] == "broker.example:9093"
    assert kafka["sasl.username"] == "ann"


def test_nothing_of_ones_own_is_a_file_of_comments(person: Callable[..., Any], tmp_path: Path) -> None:
    """Three times Return, and the next step is `up`; a place that cannot be written costs one line."""
    out = person(*_ALL_EMBEDDED, options=("--file", str(tmp_path / "nowhere" / "x.toml")))
    assert out.code == 2
    assert "--file names another" in out.err
    out = person("", "", "")
    assert "tabletopic up --detach" in out.out
    assert load_settings(environ={}, cwd=tmp_path).settings.kafka == {}


def test_a_file_that_is_there_stays(person: Callable[..., Any], tmp_path: Path) -> None:
    """`init` overwrites settings only when told to."""
    (tmp_path / "tabletopic.toml").write_text("# mine\n")
    out = person(*_ALL_EMBEDDED)
    assert out.code == 2
    assert "--force" in out.err
    assert (tmp_path / "tabletopic.toml").read_text() == "# mine\n"


def test_who_leaves_in_between_writes_nothing(person: Callable[..., Any], tmp_path: Path) -> None:
    """The end of the input is a person who goes away."""
    out = person("4", "broker.example:9093")
    assert out.code == 130
    assert "nothing was written" in out.err
    assert not (tmp_path / "tabletopic.toml").exists()


def test_a_further_catalog_is_added(
    person: Callable[..., Any], tmp_path: Path, tried: list[tuple[str, Mapping[str, str]]]
) -> None:
    """Tried as its own section; what the file had stays as it was, and others may read it still."""
    file = tmp_path / "tabletopic.toml"
    file.write_text('# mine\n[catalog]\ntype = "glue"  # ours')  # without a line end
    file.chmod(0o640)
    out = person(
        "2", "https://c.example", "id:hidden-secret", "", "", "1", "prod", "n", options=("--catalog", "prod")
    )
    assert out.code == 0, out.err
    assert tried[0][0] == "catalogs.prod"
    assert file.read_text().startswith('# mine\n[catalog]\ntype = "glue"  # ours\n\n# Iceberg catalog prod\n')
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    settings = load_settings(environ={}, cwd=tmp_path).settings
    assert settings.catalogs["prod"] == {
        "type": "rest", "uri": "https://c.example", "warehouse": "prod"
    }  # fmt: skip
    assert "export TABLETOPIC_CATALOGS__PROD__CREDENTIAL=" in out.out
    assert "--catalog prod" in out.out
    assert "hidden-secret" not in file.read_text() + out.out + out.err
    person("3", "https://d.example", "hidden-token", "1", "", "y", options=("--catalog", "lab"))
    assert set(load_settings(environ={}, cwd=tmp_path).settings.catalogs) == {"prod", "lab"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        (None, "prod", "does not exist"),
        ('[catalogs.prod]\ntype = "glue"\n', "prod", r"has \[catalogs.prod\]"),
        ('[catalog]\nname = "prod"\ntype = "glue"\n', "prod", "is the name of .catalog."),
        ("", "Prod!", "cannot name a catalog"),
        ('catalogs = { lab = { type = "glue" } }\n', "prod", r"add this yourself(.|\n)*\[catalogs.prod\]"),
    ],
)
def test_no_catalog_added(
    person: Callable[..., Any], tmp_path: Path, text: str | None, name: str, reason: str
) -> None:
    """The reason, and what to do; the file stays."""
    file = tmp_path / "tabletopic.toml"
    if text is not None:
        file.write_text(text)
    out = person("1", "https://c.example", "1", "", options=("--catalog", name))
    assert out.code == 2, out.err
    assert re.search(reason, out.err), out.err
    assert (file.read_text() if file.exists() else None) == text
