"""A table topic's table with partitions and rows chosen by the test, and its compactions."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.columns.sort_orders import sort_order
from tabletopic_kernel.model.ledger import Ledger, StagedOffsets
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.pipeline.conform import conform, file_schema
from tabletopic_kernel.pipeline.rewrite import RewriteResult, RewriteTask, read_result
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.changes.change import appended
from tabletopic_kernel.table.compaction.group import Group
from tabletopic_kernel.table.compaction.plan import CompactionPlan, plan_compaction, rows_where
from tabletopic_kernel.table.compaction.replace import compacted
from tabletopic_kernel.table.topic_table import TopicTable
from tests.table.samples import IDENTIFIER, TOPIC

Rows = Mapping[str, Sequence[Any] | pa.Array]
LEDGER = Ledger(TOPIC, "cluster", "topic-id", {0: 0}, 1, "claim")


class Lake:
    """A table topic's table, its ledger, and who appends to it."""

    def __init__(self, catalog: Catalog, schema: Schema, by: tuple[str, ...] = (), **settings: Any) -> None:
        self.catalog = catalog
        spec = partition_spec(by, schema) if by else PartitionSpec()
        options = TopicSettings(partition_by=by, **settings)
        order = sort_order(options.sort_by, schema)
        self.topic = TopicTable.create(catalog, IDENTIFIER, schema, spec, TOPIC, options, order)
        self.topic.claim(LEDGER, None)
        self.ledger = LEDGER

    @property
    def table(self) -> Table:
        """As it is now."""
        return self.catalog.load_table(IDENTIFIER)

    def append(self, rows: Rows) -> None:
        """A commit of the topic with these rows."""
        self.topic.reload()
        count = len(next(iter(rows.values())))
        plan = self.topic.plan()
        writer = DataFileWriter(plan.metadata, plan.io_properties, 1)
        target = file_schema(writer.schema)
        columns = {
            name: values if isinstance(values, pa.Array) else pa.array(values, target.field(name).type)
            for name, values in rows.items()
        }
        files = writer.write(pa.Table.from_batches([conform(columns, count, target)]))
        end = self.ledger.next_offsets[0] + count
        after = self.ledger.advanced(
            StagedOffsets({0: self.ledger.next_offsets[0]}, {0: end}), str(uuid.uuid4())
        )
        self.topic.commit(self.ledger, appended(after, files))
        self.ledger = after

    def plan(self, where: str | None = None, *, due_only: bool = False) -> CompactionPlan:
        """What would be put together."""
        table = self.table
        return plan_compaction(table, where=rows_where(where, table.schema()), due_only=due_only)

    def rewrite(self, group: Group) -> RewriteResult:
        """A group's rows in new files, as returned by a task."""
        task = RewriteTask(self.topic.plan(), 1, group.to_read(), group.files[0].partition)
        (batch,) = task(iter(()))
        result = read_result(batch["result"][0].as_py())
        if result.error is not None:
            raise result.error
        return result

    def commit(self, group: Group, made: RewriteResult, delete_files: frozenset[str]) -> None:
        """Replace the group by them."""
        after = replace(self.ledger, commit_id=str(uuid.uuid4()))
        self.topic.commit(self.ledger, compacted(after, made.files, group.replaced(made.moved, delete_files)))
        self.ledger = after

    def compact(self, where: str | None = None, *, due_only: bool = False) -> CompactionPlan:
        """All of it."""
        plan = self.plan(where, due_only=due_only)
        for group in plan.groups:
            self.commit(group, self.rewrite(group), plan.delete_files)
        return plan

    def files(self) -> list[DataFile]:
        """Of the head."""
        return [task.file for task in self.table.scan().plan_files()]

    def rows(self) -> list[dict[str, Any]]:
        """Of the head."""
        return sorted(self.table.scan().to_arrow().to_pylist(), key=str)

    def raw(self) -> list[dict[str, Any]]:
        """Of the head, as they lie in the files; PyIceberg makes empty lists of null ones."""
        found = [row for file in self.files() for row in read_file(file.file_path).to_pylist()]
        return sorted(found, key=str)


def read_file(path: str) -> pa.Table:
    """All that is in a data file."""
    return pq.ParquetFile(path.removeprefix("file://")).read()
