"""One JupyterLab for all browser tests, and a browser for each file of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from tests.browser.chromium import chromium
from tests.browser.fake_api import FakeApi
from tests.browser.lab_server import Lab
from tests.browser.pages import LabPage


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, class_archive: None) -> Iterator[Lab]:
    """A JupyterLab below /user/alice/, without a stack yet."""
    sidebar = Path(sys.prefix, "share/jupyter/labextensions/@tabletopic/lab/package.json")
    assert sidebar.exists(), "the sidebar is not installed here; `make` installs it"
    server = Lab(tmp_path_factory.mktemp("lab"))
    server.start()
    yield server
    server.stop()


# For each file: while Playwright runs, no other test can have an event loop.
@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """Chromium with its own profile."""
    with chromium(tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture
def page(browser: BrowserContext, lab: Lab) -> Iterator[LabPage]:
    """A page that is closed afterwards; it must not throw, or contact other servers."""
    shown = LabPage(browser.new_page(), lab)
    yield shown
    shown.page.close()
    assert shown.errors == []
    assert shown.outside() == []


@pytest.fixture
def api(page: LabPage) -> FakeApi:
    """Fake responses for the page."""
    fake = FakeApi()
    fake.serve(page.page)
    return fake
