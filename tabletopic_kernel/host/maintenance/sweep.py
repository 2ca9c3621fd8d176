"""The sweep after a takeover (I10), in a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyiceberg.catalog import Catalog

from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.table.sweep import sweep

_LOG = logging.getLogger(__name__)


def sweep_earlier_epochs(owner: Owner, open_catalog: Callable[[], Catalog]) -> None:
    """Remove what earlier epochs left; if that fails, the next owner does it.

    The last swept epoch is swept again: a process that hung while its owner lost the topic may have finished
    a file since.
    """
    removed, after, before = 0, max(0, owner.ledger.swept_epoch - 1), owner.ledger.epoch
    tables = [owned.table for owned in (owner.table, owner.dead_letters.table) if owned is not None]
    try:
        catalog = open_catalog()
        reach(Step.SWEEP)
        for table in tables:
            removed += sweep(table, after_epoch=after, before_epoch=before, catalog=catalog)
        reach(Step.SWEPT)
    except TableTopicError as error:
        _LOG.warning("%s: uncommitted files could not be removed yet: %s", owner.ledger.topic, error)
        return
    except Exception:
        _LOG.exception("%s: uncommitted files are left for the next start", owner.ledger.topic)
        return
    owner.files.swept_epoch = before - 1
    if removed:
        _LOG.info("%s: removed %d uncommitted data files", owner.ledger.topic, removed)
