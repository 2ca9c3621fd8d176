"""Copied and restored catalogs: what they do not know of stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.host.coordinator import Coordinator
from tabletopic_kernel.model.errors import StartOverError
from tabletopic_kernel.table.files.own import UnreachableFiles
from tabletopic_kernel.table.sweep import claim_files, load_same, remove_expired, sweep
from tabletopic_kernel.table.topic_table import TopicTable
from tests.host.rig import Rig, made_rig
from tests.table.histories import place_of
from tests.table.test_sweep import committed, next_owner, on_disk, taken_over


def _claim(table: Table) -> Path:
    (place,) = place_of(table.location()).glob("metadata/_tabletopic-*.json")
    return place


def _take(table: TopicTable) -> None:
    claim_files(table.table, lambda: load_same(table.table, table.table.catalog))


@pytest.fixture
def copied(owned: Any, catalog_properties: dict[str, str], tmp_path: Path) -> tuple[Any, Catalog]:
    """A table with a claim, and a catalog that was copied when it had one commit."""
    table, ledger = owned
    files, after = committed(table, ledger)
    _take(table)
    shutil.copy(tmp_path / "catalog.db", tmp_path / "copy.db")
    uri = catalog_properties["uri"].replace("catalog.db", "copy.db")
    return (table, after, files), open_catalog({**catalog_properties, "uri": uri})


def test_a_copied_catalog_removes_nothing_that_the_original_has(copied: Any) -> None:
    """Neither its newer files, by the next epoch's sweep, nor what the copy's snapshots do not reach."""
    (table, ledger, files), catalog = copied
    newer, ledger = committed(table, ledger)
    other = TopicTable.load(catalog, table.table.name(), "clicks")
    theirs = other.ledger
    mine = theirs.claimed(2, "copy")
    other.claim(mine, theirs)
    with pytest.raises(StartOverError, match=r"belong to the catalog sqlite:///.*catalog\.db, and this one"):
        sweep(other.table, after_epoch=0, before_epoch=2)
    assert all(on_disk([*files, *newer]))
    assert len(table.table.refresh().scan().to_arrow()) == 6
    # The original's own sweeps go on; and the copy's, once the claim was removed by its user.
    left = taken_over(table, ledger)[1]
    assert sweep(table.table, after_epoch=0, before_epoch=2) == len(left)
    _claim(table.table).unlink()
    with pytest.raises(StartOverError, match="is newer than the metadata that the catalog names"):
        sweep(other.table, after_epoch=0, before_epoch=2)


def test_nor_what_its_own_expiry_no_longer_reaches(copied: Any) -> None:
    """The original still has what the copy's snapshots do not reach."""
    (table, ledger, _), catalog = copied
    newer, _ = committed(table, ledger)
    expired = UnreachableFiles(frozenset({1}), {file.file_path: 1 for file in newer})
    with pytest.raises(StartOverError, match="belong to the catalog"):
        remove_expired(catalog.load_table(table.table.name()), expired)
    assert all(on_disk(newer))


def test_a_restored_catalog_removes_nothing(owned: Any, tmp_path: Path) -> None:
    """The backup is older than the files; the newer metadata is not forgotten after more commits."""
    table, ledger = owned
    _, ledger = committed(table, ledger)
    _take(table)
    (tmp_path / "backup.db").write_bytes((tmp_path / "catalog.db").read_bytes())
    lost, at = [], ledger
    for _ in range(3):
        files, at = committed(table, at)
        lost += files
    shutil.copy(tmp_path / "backup.db", tmp_path / "catalog.db")
    restored = TopicTable(table.table.catalog.load_table(table.table.name()))
    mine = ledger.claimed(2, "restored")
    restored.claim(mine, ledger)
    with pytest.raises(StartOverError, match="is newer"):
        _take(restored)
    for _ in range(4):
        _, mine = committed(restored, mine, epoch=2)
    with pytest.raises(StartOverError, match="if the older one is right, remove that file"):
        sweep(restored.table, after_epoch=0, before_epoch=2)
    assert all(on_disk(lost))
    newer = json.loads(_claim(restored.table).read_text())["newer"]
    (_claim(restored.table).parent / newer).unlink()
    assert sweep(restored.table, after_epoch=0, before_epoch=2) == 3
    assert len(restored.table.refresh().scan().to_arrow()) == 15


def test_a_failed_commit_is_no_newer_state(owned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves metadata that follows the current one."""
    table, ledger = owned
    _, left, second = taken_over(table, ledger)
    catalog = table.table.catalog
    with monkeypatch.context() as patched:
        patched.setattr(type(catalog), "commit_table", _write_only(catalog))
        with pytest.raises(CommitFailedException), table.table.transaction() as changes:
            changes.set_properties(owner="me")
    assert sweep(table.table, after_epoch=0, before_epoch=2) == len(left)
    assert json.loads(_claim(table.table).read_text()) == {
        "catalog": catalog.properties["uri"].partition("?")[0],
        "epoch": second.epoch,
        "newer": None,
    }


def _write_only(catalog: Catalog) -> Any:
    """A commit that ends between its file and the catalog's row."""

    def commit(self: Any, table: Table, requirements: Any, updates: Any) -> Any:
        current = catalog.load_table(table.name())
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        self._write_metadata(metadata=staged.metadata, io=staged.io, metadata_path=staged.metadata_location)
        raise CommitFailedException("somebody was faster")

    return commit


def test_hosts_claim_before_they_stage(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new table's files are claimed when it is made, and each owner's epoch is noted."""
    rig: Rig = made_rig(catalog, monkeypatch)
    coordinator: Coordinator = rig.running(commit_interval_ms="1s")
    assert json.loads(_claim(rig.table.table).read_text())["epoch"] == 1
    rig.stage(0, 10)
    rig.after(1_000, coordinator)
    next_owner(rig)
    assert json.loads(_claim(rig.table.table).read_text())["epoch"] == 2
