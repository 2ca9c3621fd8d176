"""A table as it would be: changes of its metadata are made in this process, and nobody else sees them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyiceberg.manifest import DataFile
from pyiceberg.table.update import TableUpdate, update_table_metadata

from tabletopic_kernel.model.errors import InternalError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.table.snapshot import TopicTable


class TableDraft(TopicTable):
    """A copy of a table to plan on: it evolves as the table would, and takes no commits."""

    @classmethod
    def of(cls, table: TopicTable) -> TableDraft:
        """A draft that begins as the table is now."""
        return cls(table.table)

    def _change(self, updates: tuple[TableUpdate, ...], epoch: int) -> None:
        self.table.metadata = update_table_metadata(self.table.metadata, updates)

    def commit(
        self,
        files: Iterable[DataFile],
        planned: Ledger | None,
        after: Ledger,
        *,
        remove: Sequence[DataFile] = (),
    ) -> None:
        """Raises InternalError: a draft has no snapshots of its own."""
        raise InternalError(f"a commit to a draft of {self.identifier}")
