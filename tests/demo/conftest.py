"""The demo's stream, generated once."""

from __future__ import annotations

from typing import Any

import pytest

from tabletopic_kernel._datasets.clickstream.generator import Tallies
from tests.demo.made_up import rows_of_events


@pytest.fixture(scope="package")
def sent() -> tuple[list[dict[str, Any]], Tallies]:
    """Rows and the tallies of the generator."""
    return rows_of_events()
