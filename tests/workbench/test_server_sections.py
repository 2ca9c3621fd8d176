"""The servers in the settings file: shown without secrets, tried, and changed with all else kept."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.faces.operations.operation import plain
from tabletopic_kernel.model.errors import ActionNeededError, SettingsError, TableTopicError, UsageError
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.config.editing import with_properties
from tabletopic_kernel.workbench.config.server_sections import ServerSections
from tabletopic_kernel.workbench.doctor.check import first_line
from tabletopic_kernel.workbench.server_questions import KAFKA
from tests.workbench.test_server_questions import PATHS, answers_of

FILE = """\
# The lab's servers.
[kafka] # ours
"security.protocol" = "SASL_SSL"   # with TLS
bootstrap.servers = ["a:9092", # first
  "b:9092"] # second
sasl.username = "u"
"sasl.password" = "hidden-old"
"client.id" = "lab"

# Where schemas are.
[registry]
url = "http://me:hidden-login@r"

# Topics
[topics.clicks] # web
commit_interval_ms = "10s"
"""
ENVIRON = {"TABLETOPIC_REGISTRY__BEARER__AUTH__TOKEN": "hidden-token", "TABLETOPIC_KAFKA__CLIENT__RACK": "r1"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A settings file with comments, all forms of values, and secrets."""
    file = tmp_path / "tabletopic.toml"
    file.write_text(FILE)
    file.chmod(0o640)
    return file


@pytest.fixture
def sections(tmp_path: Path) -> Callable[[], ServerSections]:
    """The sections as the folder has them now."""
    return lambda: ServerSections(lambda text: load_settings(environ=ENVIRON, cwd=tmp_path, file_text=text))


def _typed(**changes: str | None) -> dict[str, str | None]:
    """What a page sends that shows ``FILE``, with differences."""
    kept = {"bootstrap.servers": "a:9092,b:9092", "sasl.username": "u", "client.id": "lab"}
    return {"security.protocol": "SASL_SSL", "sasl.password": None, **kept, **changes}


def test_secrets_go_in_and_never_out(file: Path, sections: Callable[[], ServerSections]) -> None:
    """Nothing that a page gets has one: of the file, of a variable, or inside a URL; each says its source."""
    servers = sections().all()
    text = json.dumps(plain(servers))
    assert "hidden" not in text
    known = {
        (section.section, found.key): found for section in servers.sections for found in section.properties
    }
    password, url = known["kafka", "sasl.password"], known["registry", "url"]
    assert (password.value, password.shown, password.origin) == (None, "***", "tabletopic.toml:7")
    assert password.variable == "TABLETOPIC_KAFKA__SASL__PASSWORD"
    assert (url.value, url.shown) == (None, "http://***@r")
    token = known["registry", "bearer.auth.token"]
    assert (token.value, token.origin) == (None, "TABLETOPIC_REGISTRY__BEARER__AUTH__TOKEN")
    assert known["kafka", "ssl.ca.location"].origin == "default"
    typed = _typed(**{"sasl.password": "hidden-new"})
    saved = sections().save("kafka", typed, servers.version, secrets_too=True)
    assert "hidden" not in json.dumps(plain(saved))
    assert '"sasl.password" = "hidden-new"\n' in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_change_keeps_everything_else(file: Path, sections: Callable[[], ServerSections]) -> None:
    """Comments, order, forms of values, mode: only what was typed differs; unwritten secrets are named."""
    typed = _typed(**{"sasl.username": "v", "sasl.password": "hidden-new", "ssl.ca.location": "/ca"})
    del typed["client.id"]
    saved = sections().save("kafka", typed, sections().all().version, secrets_too=False)
    assert saved.variables == ["TABLETOPIC_KAFKA__SASL__PASSWORD"]
    changed = FILE.replace('= "u"', '= "v"').replace('"client.id" = "lab"\n', '"ssl.ca.location" = "/ca"\n')
    assert file.read_text() == changed
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    typed = {"url": "http://r", "bearer.auth.token": None, "basic.auth.user.info": "u:hidden"}
    saved = sections().save("registry", typed, saved.version, secrets_too=False)
    line = '"http://r"\n# basic.auth.user.info: set TABLETOPIC_REGISTRY__BASIC__AUTH__USER__INFO\n\n# Topics'
    assert line in file.read_text()
    saved = sections().save(
        "registry", {"url": "http://r", "bearer.auth.token": None}, saved.version, secrets_too=False
    )
    assert "basic.auth" not in file.read_text()
    sections().save("catalogs.lab", {"type": "rest", "uri": "http://c"}, saved.version, secrets_too=False)
    assert file.read_text().endswith(
        '# Iceberg catalog lab\n[catalogs.lab]\ntype = "rest"\nuri = "http://c"\n'
    )


def test_what_is_tried_would_be_in_force(file: Path, sections: Callable[[], ServerSections]) -> None:
    """Typed values, kept secrets of the file, and variables, which win; nothing is written."""
    tried = sections().to_try("kafka", _typed(**{"client.rack": "mine", "sasl.username": "v"}))
    assert tried == {
        "security.protocol": "SASL_SSL", "bootstrap.servers": "a:9092,b:9092", "sasl.username": "v",
        "sasl.password": "hidden-old", "client.id": "lab", "client.rack": "r1",
    }  # fmt: skip
    assert sections().to_try("registry", {"url": None})["url"] == "http://me:hidden-login@r"
    assert file.read_text() == FILE


@pytest.mark.parametrize(
    ("section", "typed", "version", "error", "reason"),
    [
        ("kafka", {"bootstrap.servers": "x"}, "old", ActionNeededError, "has changed; reload"),
        ("kafka", {"plugin.library.paths": "evil.so"}, None, UsageError, "can run code"),
        ("catalog", {"token\n[topics.x]\n#": "p"}, None, UsageError, "add this yourself"),
        ("kafka", {"client.id": "\ud800"}, None, UsageError, "add this yourself"),
        ("catalogs.lake", {"type": "rest"}, None, SettingsError, "has this name in SQL"),
        ("catalogs.Lab!", {"type": "rest"}, None, UsageError, "cannot name a catalog"),
        ("catalogs.lab", {"name": "x"}, None, SettingsError, "remove the property name"),
        ("topics.clicks", {"start": "latest"}, None, UsageError, "names no server"),
    ],
)
def test_refused_changes_leave_the_file(
    file: Path,
    sections: Callable[[], ServerSections],
    section: str,
    typed: Any,
    version: str | None,
    error: type[TableTopicError],
    reason: str,
) -> None:
    """Another's change, code, a name that is taken, and text that is no property."""
    with pytest.raises(error, match=reason):
        sections().save(section, typed, version or sections().all().version, secrets_too=False)
    assert file.read_text() == FILE


@pytest.mark.parametrize(
    "text",
    [
        'kafka.bootstrap.servers = "x"\n',
        'kafka = { bootstrap = { servers = "x" } }\n',
        '[kafka]\nbootstrap.servers = "x"\n[topics.a]\n[kafka.sasl]\nusername = "u"\n',
        '[kafka]\r\n"bootstrap.servers" = "x" # c\r\n\r\n# z\r\n[topics.a]\r\n',
        "[topics.a]",
        "",
    ],
)
def test_every_way_to_write_a_section_can_be_changed(text: str) -> None:
    """Dotted, inline, in two places, with Windows' line ends, missing."""
    wanted = {"bootstrap.servers": 'b"\\\n\x7fü', "sasl.username": "v", "ssl.ca.location": "/ca"}
    changed = with_properties(text, KAFKA, wanted, secrets_too=False)
    assert changed.count("# z\r\n") == text.count("# z\r\n")
    again = with_properties(changed, KAFKA, {**wanted, "bootstrap.servers": "y"}, secrets_too=False)
    assert again.count('"y"') == 1


def test_the_page_shows_the_way_that_was_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what a way writes, the page knows it again; without a file, all is embedded, and Save makes one."""
    monkeypatch.chdir(tmp_path)

    def sections() -> ServerSections:
        return ServerSections(lambda text: load_settings(environ={}, file_text=text))

    assert [section.way for section in sections().all().sections] == [0, 0, 0]
    version = sections().all().version
    for server, path in PATHS:
        sections().save(server.section, dict(answers_of(path)), version, secrets_too=True)
        now = sections().of(server.section)
        way = server.ways[now.way or 0]
        ways = [way, *([] if now.storage is None else [way.then[now.storage]])]
        assert [each.text for each in ways] == [each.text for each in path]
        version = sections().all().version


def test_a_page_in_an_answer_is_cut() -> None:
    """A server that is no registry answers with HTML: a check says so, and does not show all of it."""
    assert len(first_line(UsageError("not a registry: " + "<p>" * 10_000))) < 700
