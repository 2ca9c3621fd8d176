"""Tests that skip themselves if something is missing fail in CI, so that no suite disappears unnoticed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """For CI."""
    parser.addoption("--no-skips", action="store_true", help="a test that skips itself fails")


def _judged(report: Any, config: pytest.Config) -> Any:
    if report.skipped and not hasattr(report, "wasxfail") and config.getoption("no_skips"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} did not run, and with --no-skips each test must. {why}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test, or a fixture for it."""
    return _judged((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A whole module."""
    return _judged((yield), collector.config)
