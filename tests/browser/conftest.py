"""One JupyterLab for all browser tests, and a browser for each file of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect, sync_playwright

from tabletopic_kernel.local.processes.watchdog import Watchdog
from tests.browser.lab_server import Lab
from tests.browser.pages import LabPage

# For what is there at once where the machine has nothing else to do.
_LIMIT_MS = 30_000
# Nothing of the browser's own that asks the internet.
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, class_archive: None) -> Iterator[Lab]:
    """A JupyterLab below /user/alice/, without a stack yet."""
    sidebar = Path(sys.prefix, "share/jupyter/labextensions/@tabletopic/lab/package.json")
    assert sidebar.exists(), "the sidebar is not installed here; `make` installs it"
    server = Lab(tmp_path_factory.mktemp("lab"))
    # Tests that are killed leave nothing behind.
    watchdog = Watchdog(server.state_dir, temporary=False)
    watchdog.hold(server.start())
    yield server
    server.stop()
    watchdog.release()


# For each file: while Playwright runs, no other test can have an event loop.
@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """Chromium with a profile of its own."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the PATH; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=chromium,
            args=_ARGUMENTS,
            viewport={"width": 1280, "height": 800},
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(_LIMIT_MS)
        expect.set_options(timeout=_LIMIT_MS)
        yield context
        context.close()


@pytest.fixture
def page(browser: BrowserContext, lab: Lab) -> Iterator[LabPage]:
    """A page that is closed afterwards; it must not have thrown, nor asked anybody else."""
    shown = LabPage(browser.new_page(), lab)
    yield shown
    shown.page.close()
    assert shown.errors == []
    assert shown.outside() == []
