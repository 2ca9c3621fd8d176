"""The tests' browser: Debian's chromium, with its own profile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect, sync_playwright

# For what is there at once where the machine has nothing else to do.
_LIMIT_MS = 30_000
# Nothing of the browser's own that asks the internet.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def chromium(profile: Path) -> Iterator[BrowserContext]:
    """A browser that keeps its profile in a folder; without chromium, a test skips itself."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium on the PATH; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=program,
            args=ARGUMENTS,
            viewport={"width": 1280, "height": 800},
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(_LIMIT_MS)
        expect.set_options(timeout=_LIMIT_MS)
        yield context
        context.close()
