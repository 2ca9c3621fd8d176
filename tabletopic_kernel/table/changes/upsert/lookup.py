"""Finds the rows that an upsert replaces, in the table and among those staged, in a DuckDB of its own.

Everything that is known of a key is compared: staged rows and deletes, live rows, and remembered deletes. The
newest wins, whatever the split into files, batches and commits; all other rows are deleted by position.

*Newer* is decided by the order's columns. Where one of two has no value there, or the table has no such
columns, the place decides: the offset within a partition, and the timestamp across partitions. Timestamps
count as the newest so far in their partition, so both agree. A truncate beats what is older.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabletopic_kernel.model.columns.upsert_columns import Leaf, UpsertColumns
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.ledger import CLOCK_TOLERANCE_MS
from tabletopic_kernel.model.moved_rows import Positions
from tabletopic_kernel.pipeline.transform.deletes import ALL_KEYS
from tabletopic_kernel.table.changes.upsert.leaves import FILE, POSITION, rows_schema

if TYPE_CHECKING:
    import duckdb

_LOG = logging.getLogger(__name__)
# What is sent again after a crash loses, too, but within minutes.
_LATE: Final = (
    "%s changes lost to rows of the table that are later by %s, but came at least an hour earlier. If "
    "another database took the place of the first, its positions began again: enable the topic with another "
    "--table"
)
_MEMORY: Final = "1GB"  # beyond, DuckDB spills to the temporary folder
Batches = Iterable[pa.RecordBatch]
Place = tuple[int, int]  # the index of a file, and a position in it


class Lookup:
    """One look-up. Rows and deletes are of ``rows_schema``."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, columns: UpsertColumns) -> None:
        self._duck, self._schema, self._columns = connection, rows_schema(columns), columns
        self._keys, self._order = _names(columns.key), _names(columns.order)
        self._partition, self._offset, self._timestamp = _names(columns.place)
        self._losers: pa.Table = pa.table({})
        self._key = ", ".join(self._keys)
        first = self._order[0] if self._order else None
        self._has_order = f"{first} IS NOT NULL" if first else "false"
        self._by_order = "".join(f"{name} DESC NULLS LAST, " for name in self._order)
        self._by_place = (
            f"moment DESC, {self._partition} DESC NULLS LAST, {self._offset} DESC NULLS LAST, {FILE} IS NULL"
        )

    def superseded(
        self, staged: Batches, remembered: Batches, live: Callable[[pa.Table | None], Batches]
    ) -> dict[int, Positions]:
        """By file, the positions of rows that are not the newest of their key; ascending.

        ``live`` gets the keys that were written or deleted; None: all rows are needed.
        """
        self._load("events", staged)
        self._load("remembered", remembered)
        self._duck.execute(
            f"CREATE TEMP TABLE touched AS SELECT DISTINCT {self._key} FROM events WHERE NOT {ALL_KEYS.name}"
        )
        truncates = self._count(f"FROM events WHERE {ALL_KEYS.name}")
        self._duck.execute(
            f"INSERT INTO events FROM remembered SEMI JOIN touched ON {self._same('remembered', 'touched')} "
            f"WHERE NOT remembered.{ALL_KEYS.name} UNION ALL FROM remembered WHERE {ALL_KEYS.name}"
        )
        self._drop_followers()
        keys = None if truncates else self._duck.execute("FROM touched").to_arrow_table()
        with self._reader("live", live(keys)):
            of_keys = "" if truncates else f"SEMI JOIN touched ON {self._same('live', 'touched')}"
            self._duck.execute(f"INSERT INTO events FROM live {of_keys}")
        self._losers = losers = self._duck.execute(self._losers_sql()).to_arrow_table()
        if late := pc.sum(losers["is_late"]).as_py():
            _LOG.warning(_LATE, f"{late:,}", ", ".join(".".join(leaf.path) for leaf in self._columns.order))
        return _by_file(losers)

    def _drop_followers(self) -> None:
        """Leave out deletes that only follow that of their key, whose order says where they belong.

        Debezium's: within a task ``transform.deletes.Followers`` does it, but a task may begin between both.
        """
        if self._order:
            self._duck.execute(
                "DELETE FROM events later USING events earlier "
                f"WHERE later.{FILE} IS NULL AND NOT later.{ALL_KEYS.name} AND earlier.{FILE} IS NULL "
                f"AND later.{self._order[0]} IS NULL AND earlier.{self._order[0]} IS NOT NULL "
                f"AND later.{self._partition} = earlier.{self._partition} "
                f"AND later.{self._offset} = earlier.{self._offset} + 1 AND {self._same('earlier', 'later')}"
            )

    def updated(self, first: int) -> int:
        """After ``superseded``: how many rows of files from index ``first`` have a newer row of their key."""
        is_live = pc.greater_equal(self._losers[FILE], first)
        return pc.sum(pc.and_(is_live, self._losers["is_updated"])).as_py() or 0

    def rows_before(self, rows: pa.Table) -> dict[Place, Place]:
        """After ``superseded``: for rows, by ``file`` and ``position``, the newest older one of their key.

        If there is none, or it was deleted, the event may have changed its key: then that of the key whose
        delete alone has the same order. What a truncate deleted is not among them.
        """
        self._duck.register("asked", rows)
        moment = self._order[0] if self._order else "NULL"
        order = f"ORDER BY {self._by_order}{self._by_place}"
        newest = f"row_number() OVER (PARTITION BY of_file, of_position {order}) = 1"
        pairs = self._duck.execute(f"""
            WITH every AS MATERIALIZED ({self._timed()}),
            truncates AS (SELECT * FROM every WHERE {ALL_KEYS.name}),
            timed AS MATERIALIZED (
                SELECT * FROM every earlier
                WHERE NOT EXISTS (SELECT 1 FROM truncates later WHERE {self._is_older()})
            ),
            wanted AS (
                SELECT timed.*, {FILE} AS of_file, {POSITION} AS of_position, {moment} AS own_order
                FROM timed JOIN asked USING ({FILE}, {POSITION})
            ),
            own AS (
                FROM (SELECT later.of_file, later.of_position, earlier.* FROM wanted later
                JOIN timed earlier ON {self._same("earlier", "later")} AND {self._is_older(by_place=True)})
                QUALIFY {newest}
            ),
            kept AS (FROM own WHERE {FILE} IS NOT NULL),
            deletes AS (
                SELECT *, {moment} AS their_order FROM timed WHERE {FILE} IS NULL AND NOT {ALL_KEYS.name}
                QUALIFY count(DISTINCT ({self._key})) OVER (PARTITION BY their_order) = 1
            ),
            moved AS (
                SELECT later.of_file, later.of_position, earlier.*
                FROM wanted later ANTI JOIN kept USING (of_file, of_position)
                JOIN deletes ON deletes.their_order = later.own_order
                JOIN timed earlier ON {self._same("earlier", "deletes")} AND earlier.{FILE} IS NOT NULL
                    AND {self._is_older()}
            )
            SELECT of_file, of_position, {FILE}, {POSITION} FROM kept
            UNION ALL SELECT of_file, of_position, {FILE}, {POSITION} FROM (FROM moved QUALIFY {newest})
            """).fetchall()
        return {(file, position): (older, at) for file, position, older, at in pairs}

    def newest_deletes(self, deletes: Batches, since_us: int | None) -> pa.Table:
        """The newest deletes of each key, without those whose record is older than ``since_us``."""
        self._load("events", deletes)
        self._drop_followers()
        recent = "true" if since_us is None else f"coalesce(epoch_us({self._timestamp}) >= {since_us}, true)"
        kept = ", ".join(name for name in self._schema.names if name not in (FILE, POSITION))
        return self._duck.execute(
            f"SELECT {kept} FROM ({self._timed()}) WHERE {recent} QUALIFY row_number() OVER (PARTITION BY "
            f"{self._key}, {ALL_KEYS.name}, {self._has_order} ORDER BY {self._by_order}{self._by_place}) = 1"
        ).to_arrow_table()

    def _timed(self) -> str:
        """Events with their ``moment``: the newest timestamp so far of their partition."""
        return (
            f"SELECT *, coalesce(max(epoch_us({self._timestamp})) OVER (PARTITION BY {self._partition} "
            f"ORDER BY {self._offset}), 0) AS moment FROM events"
        )

    def _same(self, left: str, right: str) -> str:
        """Whether two have the same key; a part of which may be null in a foreign row."""
        if len(self._keys) == 1:
            return f"{left}.{self._key} = {right}.{self._key}"
        return " AND ".join(f"{left}.{name} IS NOT DISTINCT FROM {right}.{name}" for name in self._keys)

    def _is_older(self, *, by_place: bool = False) -> str:
        """Whether ``earlier`` is older than ``later``.

        Of two with one order, ``by_place`` decides, as if one was sent again; otherwise neither is older.
        """
        place = ("moment", self._partition, self._offset)
        if not self._order:
            return _is_before(place)
        have_order = f"earlier.{self._order[0]} IS NOT NULL AND later.{self._order[0]} IS NOT NULL"
        by_order = _is_before((*self._order, *place) if by_place else self._order)
        return f"CASE WHEN {have_order} THEN {by_order} ELSE {_is_before(place)} END"

    def _losers_sql(self) -> str:
        return f"""
            WITH timed AS MATERIALIZED ({self._timed()}),
            truncates AS (SELECT * FROM timed WHERE {ALL_KEYS.name}),
            ranked AS (
                SELECT *, row_number() OVER ranks = 1 AS is_first, {self._has_order}
                    AND moment - first_value(moment) OVER ranks > {CLOCK_TOLERANCE_MS * 1000} AS is_late
                FROM timed WHERE NOT {ALL_KEYS.name} WINDOW ranks AS (
                    PARTITION BY {self._key}, {self._has_order} ORDER BY {self._by_order}{self._by_place}
                )
            ),
            judged AS (
                SELECT *, is_first AND row_number() OVER (
                    PARTITION BY {self._key}, is_first ORDER BY {self._by_place}
                ) = 1 AS is_newest FROM ranked
            )
            SELECT {FILE}, {POSITION}, is_late, has_row AND NOT is_newest AS is_updated FROM (
                SELECT *, bool_or(is_newest AND {FILE} IS NOT NULL) OVER (PARTITION BY {self._key}) AS has_row
                FROM judged
            ) earlier WHERE {FILE} IS NOT NULL AND (
                NOT is_newest OR EXISTS (SELECT 1 FROM truncates later WHERE {self._is_older()})
            ) ORDER BY ALL"""

    def _load(self, name: str, batches: Batches) -> None:
        with self._reader(f"{name}_read", batches):
            self._duck.execute(f"CREATE TEMP TABLE {name} AS FROM {name}_read")

    @contextmanager
    def _reader(self, name: str, batches: Batches) -> Iterator[None]:
        """A view of batches, which can be read once; their errors are raised as they are."""
        trouble: list[BaseException] = []

        def watched() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except BaseException as error:
                trouble.append(error)
                raise

        self._duck.register(name, pa.RecordBatchReader.from_batches(self._schema, watched()))
        try:
            yield
        except Exception:
            if trouble:
                raise trouble[0] from None
            raise
        finally:
            self._duck.unregister(name)

    def _count(self, source: str) -> int:
        (count,) = self._duck.execute(f"SELECT count(*) {source}").fetchone() or (0,)
        return int(count)


@contextmanager
def open_lookup(columns: UpsertColumns) -> Iterator[Lookup]:
    """A look-up with memory and a folder of its own; DuckDB's errors are RetryableError."""
    import duckdb  # noqa: PLC0415 - 20 MB that only tables kept by key need

    folder = tempfile.mkdtemp(prefix="tabletopic-upsert-")  # mode 0700: it may get keys
    options: dict[str, Any] = {"memory_limit": _MEMORY, "threads": 1, "temp_directory": folder}
    options |= dict.fromkeys(("autoinstall_known_extensions", "autoload_known_extensions"), "false")
    try:
        # One thread: the commits of a host's other topics, and its workers, need the cores.
        with duckdb.connect(config=options | {"preserve_insertion_order": False}) as connection:
            yield Lookup(connection, columns)
    except duckdb.Error as error:
        raise RetryableError(f"the rows that a commit replaces could not be found: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _names(leaves: Sequence[Leaf]) -> list[str]:
    return [f"column_{leaf.field_id}" for leaf in leaves]


def _is_before(names: Sequence[str]) -> str:
    """Whether ``earlier`` is before ``later``, by the first name, then the next; null is before any value."""
    first, *others = names
    old, new = f"earlier.{first}", f"later.{first}"
    before = f"{old} < {new} OR ({old} IS NULL AND {new} IS NOT NULL)"
    if not others:
        return f"({before})"
    return f"({before} OR ({old} IS NOT DISTINCT FROM {new} AND {_is_before(others)}))"


def _by_file(losers: pa.Table) -> dict[int, Positions]:
    files, positions = (losers[name].to_numpy() for name in (FILE, POSITION))
    starts = np.flatnonzero(np.diff(files, prepend=-1))
    parts = np.split(positions, starts[1:]) if len(starts) else ()
    return dict(zip(files[starts].tolist(), parts, strict=True))
