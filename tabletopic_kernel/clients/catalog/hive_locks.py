"""The lock of a table in a Hive metastore: who holds it when a commit does not get it.

A writer that died during a commit leaves its lock behind, until the metastore notices that nobody renews it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException

from tabletopic_kernel.clients.catalog.pyiceberg_seams.catalogs import hive_client
from tabletopic_kernel.model.errors import RetryableError

_LOG = logging.getLogger(__name__)
_NO_LOCK: Final = ("Failed to acquire lock", "Failed to check lock")
_ACQUIRED: Final = 1  # hive_metastore.ttypes.LockState.ACQUIRED


def lock_trouble(
    error: CommitFailedException,
    catalog: Catalog,
    identifier: tuple[str, ...],
    now_s: Callable[[], float] = time.time,
) -> RetryableError | None:
    """The message for a commit that got no lock, and so changed nothing; None if the reason is another."""
    if not str(error).startswith(_NO_LOCK):
        return None
    holders = "; ".join(_described(lock, now_s()) for lock in _locks(catalog, identifier))
    return RetryableError(
        f"the Hive metastore holds a lock on {'.'.join(identifier)} ({holders or 'owner unknown'}); "
        "the commit is retried. If the owner has died, the lock expires after the metastore's "
        "metastore.txn.timeout (300 s by default), provided that its housekeeper runs"
    )


def _locks(catalog: Catalog, identifier: tuple[str, ...]) -> list[Any]:
    try:
        from hive_metastore.ttypes import ShowLocksRequest  # noqa: PLC0415 - large, and only of this catalog

        request = ShowLocksRequest(dbname=identifier[0], tablename=identifier[-1], isExtended=False)
        with hive_client(catalog) as client:
            answer = client.show_locks(request)
        return [lock for lock in answer.locks or [] if lock.state == _ACQUIRED]
    except Exception as error:  # the commit's own error is what counts
        _LOG.info("the locks of %s are not known: %s", ".".join(identifier), error)
        return []


def _described(lock: Any, now_s: float) -> str:
    """The holder of a lock, and since when.

    >>> from types import SimpleNamespace
    >>> lock = SimpleNamespace(lockid=7, user="ann", hostname="db-1", acquiredat=5_000, lastheartbeat=0)
    >>> _described(lock, 95.0)
    'of ann on db-1 for 90 s, lock id 7'
    """
    since = f" for {max(0, round(now_s - lock.acquiredat / 1000))} s" if lock.acquiredat else ""
    return f"of {lock.user or 'somebody'} on {lock.hostname or 'some host'}{since}, lock id {lock.lockid}"
