"""What staged rows in memory do to a table that is kept by key, as their commit would: for live reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.clients.storage.locations import file_name
from tabletopic_kernel.model.errors import ActionNeededError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.table.changes.ledger_history import locations
from tabletopic_kernel.table.changes.upsert.kept_values import with_kept_values
from tabletopic_kernel.table.changes.upsert.leaves import FILE, POSITION, LiveRows, rows_in_memory
from tabletopic_kernel.table.changes.upsert.lookup import open_lookup
from tabletopic_kernel.table.changes.upsert.staged import Upsert, remembered_rows
from tabletopic_kernel.table.changes.upsert.upserted import live_rows


def applied(
    table: Table, upsert: Upsert, ledger: Ledger, rows: pa.Table, deletes: Sequence[pa.Table]
) -> tuple[pa.Table, pa.Table]:
    """The rows that the head gets, and those that it loses: the name of a file, and the position there.

    Raises as the commit; ActionNeededError, too, if names of files do not tell them apart.
    """
    columns, parts = upsert.columns(table), list[pa.Table]()
    if not len(rows) and not deletes:
        return rows, _places({})
    with reachable("the storage", lent=lends_keys(table)), open_lookup(columns) as lookup:
        live = LiveRows(table)
        paths = [entry.data_file.file_path for entry in live.head.data]
        staged = [*rows_in_memory(rows, columns, 0)]
        staged += [batch for part in deletes for batch in rows_in_memory(part, columns, None)]
        remembered = remembered_rows(table, upsert, columns, ledger, locations(table, ledger))
        superseded = lookup.superseded(staged, remembered, partial(live_rows, table, 1, columns, live))
        if upsert.unavailable:
            files = [rows, *(entry.data_file for entry in live.head.data)]
            restored, superseded = with_kept_values(table, files, 1, upsert.unavailable, superseded, lookup)
            parts = list(restored)
    stays = np.ones(len(rows), np.bool_)
    stays[superseded.pop(0, [])] = False
    replaced = {file_name(paths[index - 1]): positions for index, positions in superseded.items()}
    if len(replaced) < len(superseded) or len(set(map(file_name, paths))) < len(paths):
        raise ActionNeededError(
            f"files of {'.'.join(table.name())} in several folders have the same name, which a live read "
            "cannot distinguish: query it without --live"
        )
    kept = rows.filter(pa.array(stays))
    return pa.concat_tables([kept, *(part.cast(kept.schema) for part in parts)]), _places(replaced)


def _places(replaced: dict[str, np.ndarray]) -> pa.Table:
    files = [pa.repeat(pa.scalar(name), len(positions)) for name, positions in replaced.items()]
    return pa.table(
        {
            FILE: pa.chunked_array(files, pa.string()),
            POSITION: pa.chunked_array([pa.array(p) for p in replaced.values()], pa.int64()),
        }
    )
