"""The error of a commit that gets no lock from a Hive metastore names the lock's owner."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hive_metastore.ttypes import LockState, ShowLocksResponse, ShowLocksResponseElement
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema

from tabletopic_kernel.clients.catalog.hive_locks import lock_trouble
from tabletopic_kernel.model.errors import HeadMovedError, RetryableError
from tabletopic_kernel.table.topic_table import TopicTable

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


@pytest.mark.parametrize(("text", "kind"), [(NO_LOCK, RetryableError), ("main has changed", HeadMovedError)])
def test_locked_tables_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, kind: type[Exception]
) -> None:
    """It was tried again at once and without end, and nobody was told why."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("default")
    table = TopicTable(catalog.create_table(("default", "clicks"), Schema()))

    def refuse(*_: object) -> None:
        raise CommitFailedException(text)

    monkeypatch.setattr(catalog, "commit_table", refuse)
    with pytest.raises(kind) as raised:
        table.evolve(None, {}, epoch=1)
    assert type(raised.value) is kind
    catalog.close()
