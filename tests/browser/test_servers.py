"""The servers of the settings file in a tab, with fake responses."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tabletopic_kernel.faces.operations.operation import plain
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.config.server_sections import ServerSections
from tests.browser.fake_api import FakeApi
from tests.browser.lab_server import Lab
from tests.browser.pages import LabPage
from tests.browser.test_grid import check_accessible

pytestmark = pytest.mark.integration
_SOON_MS = 60_000
_ODD = '<img src=x onerror="window.hurt = 1">'
_FILE = f"""\
[kafka]
"security.protocol" = "SASL_SSL"
"bootstrap.servers" = "b:9092"
"sasl.mechanism" = "PLAIN"
"sasl.username" = '{_ODD}'
"sasl.password" = "kept-in-the-file"
"client.id" = "lab"

[catalog]
type = "rest"
uri = "http://c"
warehouse = "s3://lake"
"s3.region" = "eu-west-1"
"""


def test_a_server_is_tried_and_saved(page: LabPage, api: FakeApi, tmp_path: Path) -> None:
    """What is typed is tried, then saved; secrets are kept, and a new one is written only if wanted."""
    (tmp_path / "tabletopic.toml").write_text(_FILE)
    environ = {"TABLETOPIC_KAFKA__CLIENT__ID": "ours"}
    now = ServerSections(lambda text: load_settings(environ=environ, cwd=tmp_path, file_text=text))
    used = {"used_profile": "default", "profiles": ["default"]}
    api.answers["GET", "servers"] = (200, {**plain(now.all()), **used})
    checks = [
        {"name": "broker", "status": "fail", "detail": f"no answer {_ODD}", "remedy": "“Manual: trouble”"},
        {"name": "rights", "status": "ok", "detail": "all", "remedy": ""},
    ]
    api.answers["POST", "servers/kafka/test"] = (200, {"checks": checks})
    variable = "TABLETOPIC_REGISTRY__BASIC__AUTH__USER__INFO"
    saved = {"version": "new", "section": plain(now.of("registry")), "variables": [variable]}
    api.answers["PUT", "servers/registry"] = (200, saved)
    api.answers["PUT", "servers/kafka"] = (409, {"message": "the file has changed; reload this page"})
    page.open()
    page.page.evaluate("jupyterapp.commands.execute('tabletopic:servers')")
    kafka, registry, catalog = (
        page.page.get_by_role("region", name=name) for name in ("Kafka", "Schema registry", "Iceberg catalog")
    )
    expect(kafka.get_by_label("How it is reached").locator("option:checked")).to_have_text(
        "TLS, user and password"
    )
    password = kafka.get_by_label("Password")
    assert (password.input_value(), password.get_attribute("placeholder")) == ("", "***")
    expect(kafka.get_by_label("client.id")).to_be_disabled()
    expect(catalog.get_by_label("Where are tables stored?").locator("option:checked")).to_contain_text("S3")
    kafka.get_by_label("Brokers").fill("c:9092")
    kafka.get_by_role("button", name="Test connection").press("Enter")
    expect(kafka.get_by_role("status")).to_contain_text("no answer <img")
    typed = {
        "security.protocol": "SASL_SSL", "bootstrap.servers": "c:9092", "sasl.mechanism": "PLAIN",
        "sasl.username": _ODD, "sasl.password": None, "client.id": None,
    }  # fmt: skip
    assert api.asked[-1] == ("POST", "servers/kafka/test", {"properties": typed, "profile": None})
    kafka.get_by_role("status").scroll_into_view_if_needed()
    page.shot("servers-tested")
    kafka.get_by_role("button", name="Save").click()
    expect(kafka.get_by_role("status")).to_contain_text("the file has changed")
    registry.get_by_label("How it is reached").select_option("User and password")
    registry.get_by_role("button", name="Save").click()
    expect(registry.get_by_text("This is needed.")).to_be_visible()
    registry.get_by_label("URL of its API").fill("http://r")
    registry.get_by_label("user:password").fill("u:new")
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.set_theme(theme)
        page.page.wait_for_timeout(500)
        page.shot(f"servers-{theme[-5:].strip().lower()}")
        check_accessible(page.page, ".jp-TableTopic-servers")
    registry.get_by_role("button", name="Save").click()
    expect(registry.get_by_role("status")).to_contain_text(f"Not written: set {variable}")
    properties = {
        "basic.auth.credentials.source": "USER_INFO", "url": "http://r", "basic.auth.user.info": "u:new"
    }  # fmt: skip
    body = {"properties": properties, "version": now.all().version, "secrets_too": False, "profile": None}
    assert api.asked[-1] == ("PUT", "servers/registry", body)
    assert "kept-in-the-file" not in page.page.content()
    assert page.page.evaluate("window.hurt") is None


def test_a_profile_is_made_tried_and_used(page: LabPage, lab: Lab) -> None:
    """By keyboard, with the real server: what is in use is on every screen, and an older page is refused."""
    files = lab.folder / "files"
    page.open()
    page.page.evaluate("void jupyterapp.commands.execute('tabletopic:servers')")
    page.page.get_by_role("button", name="New profile…").press("Enter")
    page.page.locator(".jp-Dialog input").fill("staging")
    page.page.keyboard.press("Enter")
    servers = page.page.locator(".jp-TableTopic-servers")
    expect(servers).to_contain_text("tabletopic.staging.toml")
    registry = page.page.get_by_role("region", name="Schema registry")
    registry.get_by_label("How it is reached").select_option("Without a login")
    registry.get_by_label("URL of its API").fill("http://127.0.0.1:1")
    registry.get_by_role("button", name="Test connection").press("Enter")
    expect(registry.get_by_role("status")).to_contain_text("fail", timeout=_SOON_MS)
    registry.get_by_role("button", name="Save").press("Enter")
    expect(registry.get_by_role("status")).to_contain_text("JupyterLab uses another profile")
    text = (files / "tabletopic.staging.toml").read_text()
    assert text.startswith("# The profile staging")
    assert 'url = "http://127.0.0.1:1"' in text
    assert not (files / "tabletopic.toml").exists()
    chip = page.page.locator(".jp-TableTopic-statusButton")
    expect(chip).to_contain_text("default · ", timeout=_SOON_MS)
    page.page.evaluate(
        "void jupyterapp.commands.execute('tabletopic:dashboard', { topic: 'clicks', pane: 'lag' })"
    )
    page.page.get_by_role("tab", name="Servers").click()
    page.page.get_by_role("button", name="Use in JupyterLab…").press("Enter")
    check_accessible(page.page, ".jp-Dialog")
    with page.page.expect_navigation(timeout=_SOON_MS):
        page.page.keyboard.press("Enter")
    expect(chip).to_contain_text("staging · ", timeout=_SOON_MS)
    expect(page.page.get_by_label("Profile", exact=True).locator("option:checked")).to_have_text(
        "staging (in use)"
    )
    expect(page.page.get_by_role("tab", name="clicks · Commit Lag")).to_have_count(0)
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.set_theme(theme)
        page.page.wait_for_timeout(500)
        page.shot(f"profiles-{theme[-5:].strip().lower()}")
        for place in (".jp-TableTopic-servers", "#tabletopic-sidebar", ".jp-TableTopic-statusItem"):
            check_accessible(page.page, place)
    lab.ask("PUT", "tabletopic/api/profiles/default")
    expect(page.sidebar.get_by_role("alert").filter(has_text="uses the profile default now")).to_be_visible()
    (files / "tabletopic.staging.toml").unlink()
