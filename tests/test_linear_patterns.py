"""Texts of people and servers, however long, are searched in linear time."""

import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterator

import pytest

import tabletopic_kernel
from tabletopic_kernel.model.redact import Net, mask, secrets_in, without_login

# Repeated, they are what a pattern that starts again at each of them is slow with.
_UNITS = (
    "a", "1", "a1", "aB3.", ".", "-", "_", " ", "\n", "a\n", "\t", ":", "a:", "a:1,", "@", "a@", "://",
    "://a", "/", '"', "'", "\\", '\\"', '"\\', "=", "a=", ",", "a,", "(", ")", "()", "[", "]", "<", "{",
    "}", "%", "$", "/*", "--", "token", "token=", "token: ", 'token="', "token='", 'token=\\"', "password",
    "bearer ", "basic 1 ", "sig=", "authorization: ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN A ",
    "PRIVATE KEY", "a b ", "(s)", " asc", " nulls ", " (after 1ms in state ", " (TID 1) (",
    "(Background on this error at: ", " error_info={", "Error: ", "java.lang.", 'import "a" ', "at a.",
    "select ", "from a, ", "http://me:a@b", "Column(/0) chan",
)  # fmt: skip
_AROUND = (("", "\n!"), ("x@ ://", " @"))
_QUICK_S = 0.004

# For short texts: a topic's name has 249 characters, and the rows of errors see the first line.
_SHORT = ("tabletopic_kernel.model.topic_names", "tabletopic_kernel.clients.outside_errors.rules")
# Used by match() alone: the scan is tried at one position.
_ANCHORED = ("tabletopic_kernel.faces.notebook.sql.text._OPTION",)


def _is_linear(work: Callable[[str], object], unit: str, before: str, after: str) -> bool:
    """Whether doubling the text, again and again, less than triples the CPU time that ``work`` takes.

    A quick search is not measured further: at 4,000 characters the square takes longer.
    """

    def cpu_s(length: int, times: int = 3) -> float:
        text = before + unit * (length // len(unit)) + after
        return min(_cpu_s(work, text) for _ in range(times))

    length = 4_000
    if cpu_s(length, 1) < _QUICK_S:
        return True
    last = cpu_s(length)
    for _ in range(3):
        length *= 2
        now = cpu_s(length)
        if now < max(3 * last, _QUICK_S):
            return True
        last = now
    return False


def _cpu_s(work: Callable[[str], object], text: str) -> float:
    start = time.thread_time()
    work(text)
    return time.thread_time() - start


def _slow(work: Callable[[str], object]) -> list[str]:
    return [
        f"{before!r} + {unit!r}… + {after!r}"
        for unit in _UNITS
        for before, after in _AROUND
        if not _is_linear(work, unit, before, after)
    ]


def _patterns(value: object, where: str, depth: int = 0) -> Iterator[tuple[str, re.Pattern[str]]]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield where, value
    elif depth < 3 and isinstance(value, tuple | list | set | frozenset | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _patterns(item, where, depth + 1)


@pytest.mark.parametrize(
    "work",
    [
        Net().redact, mask, without_login, lambda text: list(secrets_in("url", text)),
        lambda text: list(secrets_in("token", text)),
    ],
    ids=["redact", "mask", "without_login", "secrets_in a text", "secrets_in a token"],
)  # fmt: skip
def test_redaction_is_linear(work: Callable[[str], object]) -> None:
    """A token of Entra ID or Keycloak has thousands of characters."""
    assert _slow(work) == []


@pytest.mark.integration
def test_patterns_are_linear() -> None:
    """Every pattern of the package, on what would make it start again at each character."""
    patterns: dict[re.Pattern[str], str] = {}
    for module in pkgutil.walk_packages(tabletopic_kernel.__path__, "tabletopic_kernel."):
        if not module.name.endswith("__main__") and not module.name.startswith(_SHORT):
            for name, value in vars(importlib.import_module(module.name)).items():
                for where, pattern in _patterns(value, f"{module.name}.{name}"):
                    patterns.setdefault(pattern, where)
    slow = {
        where: texts
        for pattern, where in patterns.items()
        if where not in _ANCHORED
        if (texts := _slow(lambda text, pattern=pattern: [*pattern.finditer(text)]))
    }
    assert slow == {}
