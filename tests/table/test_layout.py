"""A coordinator's changes to a table when it takes over: partitions, gaps."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.transforms import BucketTransform, TruncateTransform

from tabletopic_kernel.model.columns.partitions import partition_spec
from tabletopic_kernel.model.commit_cycle import Event, State
from tabletopic_kernel.model.errors import ActionNeededError, HeadMovedError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.layout import lay_out
from tabletopic_kernel.table.topic_table import TopicTable
from tests.host.rig import Rig, order
from tests.table.samples import IDENTIFIER, SCHEMA, TOPIC


def test_a_gap_that_may_be_skipped_is_noted_exactly(rig: Rig) -> None:
    """With ``on_gap = go_on`` the ledger goes behind it; event, progress and table say what is lost (I8)."""
    coordinator = rig.running(commit_interval_ms="100ms", on_gap="go_on")
    rig.staged(coordinator, 0, 4)
    order(coordinator, Event.PAUSE, State.PAUSED)
    rig.broker.change(first={0: 10, 1: 0})
    order(coordinator, Event.RESUME)
    assert coordinator.state is State.RUNNING
    gaps = [event for event in rig.control.written if event.type == "GapDetected"]
    assert [(event.missing, event.skipped) for event in gaps] == [({0: (4, 10)}, True)]
    assert coordinator.progress().lost == {0: 6}
    assert rig.worker.spec.start[0] == 10
    ledger = rig.table.ledger
    assert (dict(ledger.lost), rig.offset()) == ({0: 6}, 10)
    rig.stage(10, 12, epoch=ledger.epoch)
    rig.after(100, coordinator)
    assert (rig.rows(), rig.offset()) == (6, 12)


@pytest.mark.parametrize(("on_gap", "state"), [("stop", State.FAILED), ("go_on", State.RUNNING)])
def test_a_partition_that_was_added_and_emptied_is_a_gap(rig: Rig, on_gap: str, state: State) -> None:
    """It began at 0, after the table did: what retention took of it was never read, and is counted (I8)."""
    coordinator = rig.running(commit_interval_ms="100ms", on_gap=on_gap)
    rig.staged(coordinator, 0, 4)
    order(coordinator, Event.PAUSE, State.PAUSED)
    rig.broker.change(first={0: 0, 1: 0, 2: 7}, end={0: 4, 1: 0, 2: 9})
    order(coordinator, Event.RESUME)
    assert coordinator.state is state
    if state is State.FAILED:
        assert "partition 2: 7 records from offset 0" in str(coordinator.progress().error)
    else:
        assert coordinator.progress().lost == {2: 7}
        assert rig.worker.spec.start[2] == 7


def test_what_a_gap_hides_still_stops(rig: Rig) -> None:
    """A topic that lost records elsewhere, too, is not gone on with."""
    coordinator = rig.running(commit_interval_ms="100ms", on_gap="go_on")
    rig.staged(coordinator, 0, 4)
    order(coordinator, Event.PAUSE, State.PAUSED)
    rig.broker.change(first={0: 10}, end={0: 100})
    order(coordinator, Event.RESUME)
    assert coordinator.state is State.FAILED
    assert "no longer has partitions [1]" in str(coordinator.progress().error)
    assert rig.offset() == 4


def test_new_settings_lay_the_table_out_anew(rig: Rig) -> None:
    """Partitions and properties follow the settings of the next owner; rows of both specs are there."""
    first = rig.running(commit_interval_ms="100ms")
    rig.stage(0, 4)
    order(first, Event.STOP, State.STOPPED)
    settings = {"partition_by": ("bucket(4, a)",), "table_properties": {"write.x": "y"}}
    second = rig.running(commit_interval_ms="100ms", target_file_size_bytes="2MB", **settings)
    table = rig.table.table
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[4]"]
    assert table.properties["write.target-file-size-bytes"] == str(2 * 1024**2)
    assert table.properties["write.x"] == "y"
    changes = [event.changes for event in rig.control.written if event.type == "SchemaEvolved"]
    assert changes[-1] == ["partition by bucket(4, a), before by nothing"]
    rig.stage(4, 9, epoch=2)
    rig.after(100, second)
    assert (rig.rows(), rig.offset()) == (9, 9)
    files = rig.table.table.inspect.data_files().to_pylist()
    assert {file["spec_id"] for file in files} == {0, 1}


@pytest.mark.parametrize("theirs", ["bucket", "truncate"])
def test_partitions_that_came_and_went_are_anothers(table: TopicTable, catalog: Catalog, theirs: str) -> None:
    """The partitions are what they were, but the next ids are taken, by the same partitions or by others."""
    transform = BucketTransform(4) if theirs == "bucket" else TruncateTransform(9)
    with catalog.load_table(IDENTIFIER).update_spec() as update:
        update.add_field("a", transform, "theirs")
    with catalog.load_table(IDENTIFIER).update_spec() as update:
        update.remove_field("theirs")
    settings = TopicSettings(partition_by=("bucket(4, a)",))
    with pytest.raises(HeadMovedError):
        lay_out(table, settings)
    table.reload()
    lay_out(table, settings)
    specs = table.table.metadata.partition_specs
    assert [str(field.transform) for field in table.table.spec().fields] == ["bucket[4]"]
    assert len(specs) == len({spec.spec_id for spec in specs})


def test_partitions_that_the_table_cannot_have_fail_the_topic(rig: Rig) -> None:
    """The reason names the column, and the table stays as it is."""
    first = rig.running()
    order(first, Event.STOP, State.STOPPED)
    second = rig.make(partition_by=("day(nowhere)",))
    order(second, Event.START)
    assert second.state is State.FAILED
    assert "no column 'nowhere'" in str(second.progress().error)
    assert rig.table.table.spec().is_unpartitioned()


def test_settings_lead_no_files_out_of_the_warehouse(catalog: Catalog, tmp_path: Path) -> None:
    """A new table is not made, an existing one not changed; a path that it already has stays."""
    folder = {"write.data.path": f"file://{tmp_path}/elsewhere"}
    settings = TopicSettings(table_properties=folder)
    with pytest.raises(ActionNeededError, match=r"table_properties.write.data.path: .* is outside"):
        TopicTable.create(catalog, IDENTIFIER, SCHEMA, partition_spec((), SCHEMA), TOPIC, settings)
    table = TopicTable.create(catalog, IDENTIFIER, SCHEMA, partition_spec((), SCHEMA), TOPIC, TopicSettings())
    with pytest.raises(ActionNeededError, match="is outside"):
        lay_out(table, settings)
    table.table.transaction().set_properties(folder).commit_transaction()
    table.reload()
    assert lay_out(table, settings) == []
