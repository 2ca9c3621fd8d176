"""What users see and do in the sidebar, in the screen's words."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from playwright.sync_api import Locator, Page, Request

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
LOAD_MS = 60_000
# Means of red, green and blue, 0 to 255: below, and above.
DARK, BRIGHT = 90, 180


def brightness(color: str) -> float:
    """Mean of the parts of ``rgb(…)`` or ``rgba(…)``; transparency is ignored."""
    return sum(float(part) for part in re.findall(r"[\d.]+", color)[:3]) / 3


class Site(Protocol):
    """Where a JupyterLab is."""

    @property
    def origin(self) -> str:
        """Scheme, address and port: everything else is outside."""
        ...

    @property
    def url(self) -> str:
        """A fresh page, logged in."""
        ...


class LabPage:
    """JupyterLab in a browser, with the sidebar open, and all its requests."""

    def __init__(self, page: Page, lab: Site) -> None:
        self.page = page
        self.lab = lab
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", self._asked)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)

    def open(self, *, sidebar: bool = True) -> LabPage:
        """Reload the page."""
        self.page.goto(self.lab.url, timeout=LOAD_MS)
        self.page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=LOAD_MS)
        self.page.locator(".jp-LauncherCard").first.wait_for(timeout=LOAD_MS)  # the last that comes
        if sidebar:
            self.page.locator('.jp-SideBar [data-id="tabletopic-sidebar"]').click()
            self.sidebar.wait_for()
        return self

    @property
    def sidebar(self) -> Locator:
        """The sidebar."""
        return self.page.locator("#tabletopic-sidebar")

    def button(self, name: str) -> Locator:
        """A button of the sidebar, by its name."""
        return self.sidebar.get_by_role("button", name=name, exact=True)

    def row(self, topic: str) -> Locator:
        """A topic's row."""
        return self.sidebar.locator(f'li[data-topic="{topic}"]')

    def switch(self, topic: str) -> Locator:
        """A topic's switch."""
        return self.row(topic).get_by_role("switch")

    def menu(self, topic: str, entry: str) -> None:
        """Select an item in a topic's menu."""
        self.row(topic).get_by_role("button", name=f"Actions for {topic}").click()
        self.page.get_by_role("menuitem", name=entry).click()

    def set_theme(self, name: str) -> None:
        """Change the theme through the menu."""
        self.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", name)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait while the page goes on."""
        deadline = time.monotonic() + LOAD_MS / 1000
        while not condition():
            assert time.monotonic() < deadline
            self.page.wait_for_timeout(50)

    def until_asked(
        self, asked: list[tuple[str, str, Any]], method: str, path: str, body: object = None
    ) -> None:
        """Wait for a request: the page shows that it is under way before it arrives."""
        self.until(lambda: (method, path, body) in asked)

    def outside(self) -> list[str]:
        """Requests to other servers."""
        local = (self.lab.origin, self.lab.origin.replace("http:", "ws:"), "data:", "blob:", "about:")
        return [url for url in self.requests if not url.startswith(local)]

    def shot(self, name: str) -> None:
        """Save a screenshot."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")
