"""Properties are really tested: none passes because its examples never reached the point."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
EMPTY = """
@given(st.integers())
def test_{name}(number):
    {body}
"""
GIVES_UP = {
    "return": "if number:\n        return\n    assert number == 0",
    "continue": "for one in [number]:\n        if one:\n            continue\n        assert one == 0",
    "asks_first": "if number == 0:\n        assert not number",
}
TRIES = {
    "assume": "assume(number)\n    assert number != 0",
    "either_way": "if number:\n        assert number\n    else:\n        assert number == 0",
    "inner_function": "def double():\n        return 2 * number\n    assert double() % 2 == 0",
}


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """Everything in a function but the functions in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child
            yield from _below(child)


def properties(text: str) -> Iterator[ast.FunctionDef]:
    """Functions that get their arguments by ``given``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and any(
            "given" in ast.unparse(one) for one in node.decorator_list
        ):
            yield node


def ways_out(function: ast.FunctionDef) -> list[int]:
    """Lines where an example ends, or bypasses an assertion, unnoticed by hypothesis."""
    found = []
    for node in _below(function):
        asks = isinstance(node, ast.If) and not node.orelse
        if isinstance(node, ast.Return | ast.Continue) or (
            asks and any(isinstance(one, ast.Assert) for one in _below(node))
        ):
            found.append(node.lineno)  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: path.stem)
def test_an_example_that_is_given_up_is_counted(path: Path) -> None:
    """``assume`` and ``reject`` draw another example, and hypothesis fails where that is most of them."""
    text = path.read_text()
    if path != Path(__file__):
        assert "list(HealthCheck)" not in text, "hypothesis must tell when most examples are given up"
        assert "filter_too_much" not in text
    found = {f"{one.name}, line {line}" for one in properties(text) for line in ways_out(one)}
    assert not found, "use assume() or reject()"


@pytest.mark.parametrize("name", GIVES_UP)
def test_a_way_out_is_found(name: str) -> None:
    """Each of them."""
    (function,) = properties(EMPTY.format(name=name, body=GIVES_UP[name]))
    assert ways_out(function)


@pytest.mark.parametrize("name", TRIES)
def test_what_goes_on_is_none(name: str) -> None:
    """Where every example is judged, or is another one."""
    (function,) = properties(EMPTY.format(name=name, body=TRIES[name]))
    assert not ways_out(function)
