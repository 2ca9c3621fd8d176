"""For the tests of all faces."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Each call of the program silences libraries; in a separate process that would end with it."""
    root = logging.getLogger()
    before = root.handlers[:]
    yield
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
