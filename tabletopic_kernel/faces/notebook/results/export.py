"""Selected rows of a result as a file in the notebook's folder."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pyarrow as pa

from tabletopic_kernel.faces.notebook.results.desk import Desk
from tabletopic_kernel.faces.notebook.results.kept import Kept
from tabletopic_kernel.faces.notebook.results.selection import Selection, columns
from tabletopic_kernel.model.errors import ActionNeededError, UsageError
from tabletopic_kernel.query.statements.sql import literal, quote
from tabletopic_kernel.render.values import unique_names

_OPTIONS = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet, COMPRESSION zstd"}
_ARROW = "arrow"
_BATCH_ROWS = 100_000


def export(kept: Kept, selection: Selection, form: str, desk: Desk, folder: Path) -> Path:
    """Write a file that is not there yet, and return its path."""
    if form not in {*_OPTIONS, _ARROW}:
        raise UsageError(f"{form!r} is no format: csv, parquet or arrow")
    path = _free(folder, form)
    with desk.table(kept) as (connection, kinds):
        names = columns(kinds)
        pairs = zip(names, unique_names(kept.rows.column_names), strict=True)
        shown = ", ".join(f"{column} AS {quote(name)}" for column, name in pairs)
        sql = f"SELECT {shown} FROM t{selection.clauses(connection, kinds)}"
        try:
            path.touch(exist_ok=False)
        except OSError as error:
            raise ActionNeededError(f"{path} cannot be written: {error.strerror}") from None
        try:
            if form == _ARROW:
                reader = connection.execute(sql).to_arrow_reader(_BATCH_ROWS)
                with path.open("wb") as file, pa.ipc.new_file(file, reader.schema) as writer:
                    for batch in reader:
                        writer.write_batch(batch)
            else:
                connection.execute(f"COPY ({sql}) TO {literal(str(path))} ({_OPTIONS[form]})")
        except BaseException:
            path.unlink()
            raise
    return path


def _free(folder: Path, form: str) -> Path:
    names = (f"result{f'-{number}' if number > 1 else ''}.{form}" for number in count(1))
    return next(path for name in names if not (path := folder.resolve() / name).exists())
