"""Properties are really tested: none passes because its examples never reached the point."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent


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


def test_an_example_that_is_given_up_is_counted() -> None:
    """``assume`` and ``reject`` draw another example, and hypothesis fails where that is most of them."""
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text()
        if "hypothesis" not in text or path == Path(__file__):
            continue
        assert "list(HealthCheck)" not in text, "hypothesis must tell when most examples are given up"
        assert "filter_too_much" not in text, path
        found = [
            f"{path.name}: {property_.name}, {line}"
            for property_ in properties(text)
            for line in ways_out(property_)
        ]
        assert not found, "use assume() or reject()"
