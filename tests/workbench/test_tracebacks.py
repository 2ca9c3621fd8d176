"""Python's output for uncaught errors, in a separate script."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.environment import completed

_BEGIN = """
import threading
from tabletopic_kernel.model.redact import learn
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.workbench.tracebacks import hide_secrets
learn({"sasl.password": "hunter2-secret"})
hide_secrets()

def fail():
    try:
        raise ValueError("the server says: no entry for hunter2-secret")
    except ValueError as error:
        raise RetryableError("it refuses") from error
"""


@pytest.mark.parametrize(
    "end",
    [
        "fail()",
        "thread = threading.Thread(target=fail)\nthread.start()\nthread.join()",
        "try:\n    fail()\nexcept Exception as error:\n    raise ExceptionGroup('several', [error])",
    ],
)
def test_causes_hold_no_secrets(end: str) -> None:
    """In the main thread, in another one, and in a group."""
    done = completed([sys.executable, "-c", f"{_BEGIN}\n{end}\n"])
    assert "no entry for ***" in done.stderr
    assert "it refuses" in done.stderr
    assert "hunter2-secret" not in done.stderr.replace('"hunter2-secret"', "")


def test_a_hook_of_somebody_else_stays() -> None:
    """As IPython's, and those of services that collect errors."""
    script = "import sys\nsys.excepthook = lambda *_: print('mine')\n"
    done = completed([sys.executable, "-c", f"{script}{_BEGIN}\nfail()\n"])
    assert done.stdout == "mine\n"


def test_who_finds_servers_has_the_hooks() -> None:
    """As every workbench does, and every script with one."""
    script = (
        "import sys, threading\n"
        "from tabletopic_kernel.model.settings.sections import Settings\n"
        "from tabletopic_kernel.workbench.config.servers import find_servers\n"
        "from tabletopic_kernel.workbench.tracebacks import _print, _print_of_thread\n"
        "try:\n    find_servers(Settings())\nexcept Exception:\n    pass\n"
        "print(sys.excepthook is _print, threading.excepthook is _print_of_thread)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"
