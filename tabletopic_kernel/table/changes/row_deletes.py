"""Deletion of rows for which a condition is true: files with no others go, the rest are written anew.

Why this is safe: data files never change, so what was read in one stays true of it. Which of its rows are
left is read right before the commit, on the head that the request asserts (I3), with all deletes that apply:
so no row comes back, and files that others removed meanwhile are passed over. What is not true, like a
comparison with null, deletes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    BooleanExpression,
    BoundLiteralPredicate,
    BoundSetPredicate,
    Not,
    Or,
)
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, bind, extract_field_ids, visit
from pyiceberg.io.pyarrow import ArrowScan, expression_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import FixedType, UUIDType

from tabletopic_kernel.clients.catalog.catalog import lends_keys, reachable
from tabletopic_kernel.model.errors import ActionNeededError, OutdatedError, TableTopicError, UsageError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.moved_rows import Mask
from tabletopic_kernel.pipeline.plan import OwnCommit
from tabletopic_kernel.pipeline.write import REWRITTEN, DataFileWriter
from tabletopic_kernel.table.changes.change import ALWAYS_TRUE, TableChange, file_rows
from tabletopic_kernel.table.compaction.deleted_rows import Head
from tabletopic_kernel.table.topic_table import TopicTable

_ROUND_BYTES: Final = 128 * 1024**2  # of files that one commit writes anew, or one larger file


@dataclass(frozen=True)
class Holder:
    """A data file with rows that match; ``whole``: it has no others."""

    file: DataFile
    whole: bool


@dataclass(frozen=True)
class DeletingBatch(OwnCommit):
    """A deletion of the rows ``where``: of ``holders``, whether they have no others, by their location.

    ``done``: what the newest attempt to commit did: ``rows`` deleted, ``files`` removed whole, ``rewritten``.
    """

    where: BooleanExpression = field(kw_only=True)
    holders: Mapping[str, bool] = field(kw_only=True)
    done: Counter[str] = field(kw_only=True, default_factory=Counter)


def holders(
    table: Table,
    where: BooleanExpression,
    others: set[str],
    is_whole: Callable[[DataFile], bool] = lambda _: False,
) -> list[Holder]:
    """The head's files with rows ``where``, deleted ones included; others that were read go to ``others``.

    ``is_whole``: whether the metadata alone tell that all rows match. Raises ActionNeededError if rows are
    deleted by value, which not all readers understand.
    """
    with reachable("the storage", lent=lends_keys(table)):
        if Head(table).has_equality_deletes:
            raise ActionNeededError(
                f"another program has deleted rows of {'.'.join(table.name())} by value: have the engine "
                "that wrote such deletes rewrite its files"
            )
        tasks = list(table.scan(row_filter=where).plan_files())
    return list(holding((task.file for task in tasks), table, where, others, is_whole))


def holding(
    files: Iterable[DataFile],
    table: Table,
    where: BooleanExpression,
    others: set[str],
    is_whole: Callable[[DataFile], bool] = lambda _: False,
) -> Iterator[Holder]:
    """Those of the files, not in ``others``, which have rows ``where``; as ``holders``."""
    for file in files:
        if file.file_path in others:
            continue
        if is_whole(file):
            yield Holder(file, whole=True)
            continue
        matches = int(_of_file(table, file, where).sum())
        if matches:
            yield Holder(file, matches == file.record_count)
        else:
            others.add(file.file_path)


def in_rounds(matching: Sequence[Holder]) -> Iterator[list[Holder]]:
    """The files of one commit each: all that go whole, and so many of the others."""
    part, size = [holder for holder in matching if holder.whole], 0
    for holder in matching:
        if holder.whole:
            continue
        if size and size + holder.file.file_size_in_bytes > _ROUND_BYTES:
            yield part
            part, size = [], 0
        part.append(holder)
        size += holder.file.file_size_in_bytes
    if part:
        yield part


def deleted(ledger: Ledger, batch: DeletingBatch) -> TableChange:
    """The deletion, of what the batch's files still have."""
    return TableChange(ledger, still_true=partial(_on_head, batch))


def _on_head(batch: DeletingBatch, table: Table, change: TableChange) -> TableChange:
    batch.done.clear()
    name, plan = ".".join(table.name()), TopicTable(table).plan()
    writer = DataFileWriter(plan.metadata, plan.io_properties, change.ledger.epoch, suffix=REWRITTEN)
    added: list[DataFile] = []
    try:
        with reachable("the storage", lent=lends_keys(table)):
            tasks = list(table.scan().plan_files())
            old = [task for task in tasks if task.file.file_path in batch.holders]
            for task in old:
                added += _written(writer, table, task, batch)
    except (TableTopicError, ValueError, pa.ArrowException) as error:  # the topic goes on without it
        raise OutdatedError(f"rows of {name} could not be deleted: {error}") from error
    if not old:
        raise OutdatedError(f"another program has just rewritten files of {name}; try again")
    stays = {path for task in tasks if task not in old for path in _deletes_of(task)}
    deletes = {path: file for task in old for path, file in _deletes_of(task).items() if path not in stays}
    return replace(change, add=tuple(added), remove=(*(task.file for task in old), *deletes.values()))


def _deletes_of(task: FileScanTask) -> dict[str, DataFile]:
    return {file.file_path: file for file in task.delete_files}


def _written(
    writer: DataFileWriter, table: Table, task: FileScanTask, batch: DeletingBatch
) -> list[DataFile]:
    """The rest of a file's rows in new files."""
    whole = batch.holders[task.file.file_path]
    batch.done["files" if whole else "rewritten"] += 1
    if whole and not task.delete_files:
        batch.done["rows"] += task.file.record_count
        return []
    rows = file_rows(table, task)
    kept = rows.slice(0, 0) if whole else rows.filter(pa.array(~_true(rows, table.schema(), batch.where)))
    batch.done["rows"] += len(rows) - len(kept)
    return writer.write(kept) if len(kept) else []


def _of_file(table: Table, file: DataFile, where: BooleanExpression) -> Mask:
    """Which rows of a file match, deleted ones included."""
    schema = table.schema()
    columns = schema.select(*_names(schema, where)) if _names(schema, where) else schema
    with reachable("the storage", lent=lends_keys(table)):
        scan = ArrowScan(table.metadata, table.io, columns, ALWAYS_TRUE)
        return _true(scan.to_table([FileScanTask(file)]), schema, where)


def _names(schema: Schema, where: BooleanExpression) -> list[str]:
    names = (schema.find_column_name(field_id) for field_id in extract_field_ids(bind(schema, where, True)))
    return [name for name in names if name is not None]


def _true(rows: pa.Table, schema: Schema, where: BooleanExpression) -> Mask:
    """For which rows the condition is true; raises UsageError if Arrow has no such comparison."""
    numbered = pa.table({"": pa.array(np.arange(len(rows)))})
    for top in dict.fromkeys(name.partition(".")[0] for name in _names(schema, where)):
        column = rows[top]
        is_uuid = isinstance(schema.find_type(top), UUIDType)
        numbered = numbered.append_column(top, column.cast(pa.binary(16)) if is_uuid else column)
    fields = (
        field.model_copy(update={"field_type": FixedType(16)})
        if isinstance(field.field_type, UUIDType)
        else field
        for field in schema.fields
    )
    plain, bytewise = Schema(*fields), visit(where, _Bytewise(schema))
    try:
        chosen = numbered.filter(expression_to_pyarrow(bind(plain, bytewise, case_sensitive=True), plain))
    except pa.ArrowNotImplementedError as error:
        raise UsageError(f"rows cannot be chosen by this condition: {error}") from error
    mask = np.zeros(len(rows), np.bool_)
    mask[chosen[""].to_numpy()] = True
    return mask


class _Bytewise(BooleanExpressionVisitor[BooleanExpression]):
    """The condition with bytes instead of UUIDs, which Arrow does not compare."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def visit_true(self) -> BooleanExpression:
        return ALWAYS_TRUE

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        return Not(child_result)

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_unbound_predicate(self, predicate: Any) -> BooleanExpression:
        bound = predicate.bind(self._schema, case_sensitive=True)
        is_uuid = hasattr(bound, "term") and isinstance(bound.term.ref().field.field_type, UUIDType)
        result: BooleanExpression = predicate
        if is_uuid and isinstance(bound, BoundSetPredicate):
            result = type(predicate)(predicate.term, {_bytes(literal.value) for literal in bound.literals})
        elif is_uuid and isinstance(bound, BoundLiteralPredicate):
            result = type(predicate)(predicate.term, _bytes(bound.literal.value))
        return result

    def visit_bound_predicate(self, predicate: Any) -> BooleanExpression:
        raise AssertionError(predicate)


def _bytes(value: Any) -> bytes:
    return value.bytes if isinstance(value, UUID) else value
