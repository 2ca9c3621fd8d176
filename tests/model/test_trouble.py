"""What is wrong is a value until a face shows it."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

import tabletopic_kernel
from tabletopic_kernel.model.errors import (
    ActionNeededError,
    RetryableError,
    SettingsError,
    TableTopicError,
    Trouble,
    Verdict,
    error_of,
)

REFUSED = Trouble("refuses the login (words)", "check token in {section}", "the catalog")
DOWN = Trouble("is down", "is {section} right?", "the catalog", verdict=Verdict.WAIT, doing="no commit: ")


@pytest.mark.parametrize(
    ("trouble", "kind", "text"),
    [
        (REFUSED, ActionNeededError, "the catalog refuses the login (words); check token in [{}]"),
        (DOWN, RetryableError, "no commit: the catalog is down; is [{}] right?"),
        (Trouble("uri is not set"), SettingsError, "[{}] uri is not set"),
        (Trouble("uri is x", "correct it"), SettingsError, "[{}] uri is x: correct it"),
    ],
)
def test_an_error_names_the_section_of_its_catalog(
    trouble: Trouble, kind: type[TableTopicError], text: str
) -> None:
    """Also in another process; which catalog it is, the caller of the catalog knows."""
    error = pickle.loads(pickle.dumps(trouble.error()))
    assert (type(error), str(error)) == (kind, text.format("catalog"))
    error.of_catalog(None)
    assert str(error) == text.format("catalog")
    error.of_catalog("prod")
    error.of_catalog("lab")
    assert str(error) == text.format("catalogs.prod")


def test_a_trouble_holds_no_secret() -> None:
    """Other programs put logins into addresses; their errors become ours by name, without secrets."""
    error = RetryableError(Trouble("fails (https://me:s3cret@host)", "see https://me:s3cret@host", "x"))
    assert "s3cret" not in str(error)
    ours = RetryableError("later")
    assert error_of(ours) is ours
    assert str(error_of(KeyError("https://me:s3cret@host"))) == "KeyError: 'https://***@host'"


def test_only_a_message_that_says_what_a_resume_does_names_one() -> None:
    """Others get ", then resume the topic" where the topic stops: they are raised elsewhere, too."""
    package = Path(tabletopic_kernel.__file__).parent
    naming = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        if "ActionNeededError(" in (source := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "ActionNeededError"
        and re.search(r"resume (to|the topic)\b", ast.unparse(node), re.IGNORECASE)
    ]
    assert naming == []
