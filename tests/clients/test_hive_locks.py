"""The error of a commit that gets no lock from a Hive metastore names the lock's owner."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from hive_metastore.ttypes import LockState, ShowLocksResponse, ShowLocksResponseElement
from pyiceberg.exceptions import CommitFailedException

from tabletopic_kernel.clients.catalog.hive_locks import lock_trouble
from tabletopic_kernel.model.errors import RetryableError

NO_LOCK = "Failed to acquire lock for ('default', 'clicks'), state: 2"


def metastore(answer: Any) -> Any:
    """A catalog whose metastore responds like this."""

    def show_locks(request: Any) -> ShowLocksResponse:
        assert (request.dbname, request.tablename) == ("default", "clicks")
        return ShowLocksResponse(locks=answer())

    return SimpleNamespace(_client=nullcontext(SimpleNamespace(show_locks=show_locks)))


def lock(state: int, **more: Any) -> ShowLocksResponseElement:
    """A lock as reported by the metastore."""
    return ShowLocksResponseElement(lockid=9, state=state, user="ann", hostname="db-1", **more)


def told(catalog: Any) -> str:
    """The error of a commit that got no lock."""
    found = lock_trouble(CommitFailedException(NO_LOCK), catalog, ("default", "clicks"), lambda: 100.0)
    assert type(found) is RetryableError
    return str(found)


def test_the_holder_is_named() -> None:
    """Not who waits as we do; what the metastore does not tell, or no lock at all, hides nothing."""
    held, waits = lock(LockState.ACQUIRED, acquiredat=5_000), lock(LockState.WAITING, acquiredat=None)
    text = told(metastore(lambda: [waits, held]))
    assert "a lock on default.clicks (of ann on db-1 for 95 s, lock id 9)" in text
    assert "metastore.txn.timeout" in text

    def fail() -> None:
        raise ConnectionResetError

    assert "owner unknown" in told(metastore(fail))
    assert "owner unknown" in told(metastore(lambda: None))
    error = CommitFailedException("Requirement failed: branch main has changed")
    assert lock_trouble(error, metastore(list), ("default", "clicks")) is None
