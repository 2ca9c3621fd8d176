"""The product broken on purpose, one rule at a time: the simulation must notice, or it proves nothing.

``MUTANTS`` names each, with its patches; ``SCENES`` has schedules for some. The sweep's are faults that it
once had.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update.snapshot import ManageSnapshots

from tabletopic_kernel.clients.catalog.pyiceberg_seams.snapshots import ChangeSnapshot
from tabletopic_kernel.clients.registry.registry import UnknownSchemaError
from tabletopic_kernel.clients.storage.storage import delete_files, list_files, live_files, manifests_of
from tabletopic_kernel.host import coordinator, owner
from tabletopic_kernel.host import resume_point as start
from tabletopic_kernel.host.maintenance import expiry as host_expiry
from tabletopic_kernel.host.maintenance.jobs import Job
from tabletopic_kernel.host.maintenance.maintenance import Maintenance
from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership import actions, cut_log, mend, ownership, take_over
from tabletopic_kernel.host.ownership.actions import Actions
from tabletopic_kernel.host.ownership.cut_log import Comparison
from tabletopic_kernel.host.replay.replay import Replay
from tabletopic_kernel.model.commit_cycle import Event
from tabletopic_kernel.model.errors import RetryableError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.pipeline import rewrite, write
from tabletopic_kernel.pipeline.plan import StagedBatch
from tabletopic_kernel.pipeline.write import data_root, epochs_root
from tabletopic_kernel.table import expiry
from tabletopic_kernel.table.changes import commit, ledger_history
from tabletopic_kernel.table.changes.change import TableChange, appended
from tabletopic_kernel.table.changes.upsert import upserted
from tabletopic_kernel.table.changes.upsert.staged import Upsert
from tabletopic_kernel.table.compaction import replace as replace_files
from tabletopic_kernel.table.dead_letters import DeadLetters
from tabletopic_kernel.table.expiry import without
from tabletopic_kernel.table.files.own import UnreachableFiles
from tabletopic_kernel.table.schemas.states import NamedSchemas
from tabletopic_kernel.table.sweep import Removed, removable
from tabletopic_kernel.table.topic_table import TopicTable
from tests.simulation import scenes
from tests.simulation.schedule import Move
from tests.simulation.store import place

Patch = Callable[[], AbstractContextManager[Any]]


def _put(where: object, name: str, what: object) -> Patch:
    return lambda: mock.patch.object(where, name, what)


def _all(*patches: Patch) -> Patch:
    @contextmanager
    def together() -> Iterator[None]:
        with ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch())
            yield

    return together


# -- the sweep of before, right but for one flaw


def _sweep(flaw: str) -> Callable[[Owner, Callable[[], Catalog]], None]:
    def sweep(self: Owner, open_catalog: Callable[[], Catalog]) -> None:
        after, before = self.ledger.swept_epoch, self.ledger.epoch
        tables = [one.table for one in (self.table, self.dead_letters.table) if one is not None]
        try:
            for table in tables:
                fresh = open_catalog().load_table(table.name())
                _swept(fresh, after, before + (flaw == "own epoch"), flaw)
        except Exception:  # as in the product: the next owner does
            return
        self.files.swept_epoch = before - 1

    return sweep


def _swept(table: Table, after: int, before: int, flaw: str) -> None:
    root = data_root(table.metadata) if flaw == "shared folder" else epochs_root(table.metadata)
    candidates = [
        path
        for path in list_files(table, root, recursive=True)
        if (epoch := re.search(r"/epoch-(\d+)/", path)) and after < int(epoch[1]) < before
    ]
    snapshots = table.metadata.snapshots
    first = min((one.sequence_number or 0 for one in snapshots if _epoch(one) > after), default=0)
    kept = {
        entry.data_file.file_path
        for snapshot in snapshots
        for manifest in snapshot.manifests(table.io)
        if flaw != "smallest sequence number" or manifest.sequence_number >= first
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }
    if flaw != "one side":
        kept = {place(path) for path in kept}
    delete_files(
        table, [path for path in candidates if (path if flaw == "one side" else place(path)) not in kept]
    )


def _epoch(snapshot: Any) -> int:
    ledger = Ledger.from_summary(dict(snapshot.summary.additional_properties) if snapshot.summary else {})
    return ledger.epoch if ledger else 0


# -- expiry, right but for one flaw

_to_expire, _remove_expired = host_expiry.to_expire, host_expiry.remove_expired
_check_head = commit.check_head


def _ignores_refs(metadata: TableMetadata, retention: Any, now_ms: int) -> tuple[int, ...]:
    main = {name: ref for name, ref in metadata.refs.items() if name == "main"}
    return _to_expire(metadata.model_copy(update={"refs": main}), retention, now_ms)


def _removes_unseen(table: Table, expired: UnreachableFiles, *, catalog: Catalog) -> Removed:
    gone = [snapshot for snapshot in table.metadata.snapshots if snapshot.snapshot_id in expired.ids]
    for _, files in live_files(table.io, manifests_of(table.io, gone).values()):
        delete_files(table, sorted(files))
    return Removed()


def _removes_as_planned(table: Table, expired: UnreachableFiles, *, catalog: Catalog) -> Removed:
    planned = {
        snapshot.snapshot_id
        for snapshot in table.metadata.snapshots
        if snapshot.manifest_list in expired.metadata
    }
    found = removable(without(table, planned), expired)
    return Removed(len(delete_files(table, list(found.paths))))


def _removes_staged(table: Table, expired: UnreachableFiles, *, catalog: Catalog) -> Removed:
    staged = dict.fromkeys(list_files(table, epochs_root(table.metadata), recursive=True), 0)
    return _remove_expired(table, replace(expired, data={**expired.data, **staged}), catalog=catalog)


# -- other rules


def _head_only(self: TopicTable, commit_id: str) -> bool:
    head = self.table.current_snapshot()
    return (
        head is not None
        and head.summary is not None
        and head.summary.get("tabletopic.commit-id") == commit_id
    )


def _ledger_of_head(self: TopicTable) -> Any:
    head = self.table.current_snapshot()
    found = Ledger.from_summary(dict(head.summary.additional_properties)) if head and head.summary else None
    return (found, head) if found else None


def _rows_first(self: Owner) -> None:
    pending = self.pending
    assert pending is not None
    self.keeper.needed_table().commit(self.ledger, appended(pending.after, pending.files))
    if pending.dead_letters:
        self.dead_letters.commit(pending.dead_letters, self.ledger, pending.after)


def _drops_all(self: Owner, batches: Any) -> None:
    self.pending, self._left_open = None, False
    self.files.discard([f for b in batches for f in b.files], [f for b in batches for f in b.dead_letters])


_plan_commit = Owner.plan_commit


def _plans_anew(self: Owner, batches: Any) -> Any:
    self.pending = None
    return _plan_commit(self, batches)


def _skips_silently(self: Ledger, missing: Any, commit_id: str) -> Ledger:
    firsts = {p: first for p, (_, first) in missing.items()}
    return replace(self, commit_id=commit_id, next_offsets={**self.next_offsets, **firsts})


_find = NamedSchemas.find


def _takes_outage_for_unknown(self: NamedSchemas, schema_id: Any) -> Any:
    try:
        return _find(self, schema_id)
    except RetryableError as error:
        raise UnknownSchemaError(str(error)) from error


_create_tag = ManageSnapshots.create_tag


def _moves_no_tag(self: ManageSnapshots, snapshot_id: int, tag_name: str, *args: Any) -> ManageSnapshots:
    return self if tag_name == "tabletopic-ledger" else _create_tag(self, snapshot_id, tag_name, *args)


def _only_loads(self: DeadLetters, owned: Ledger) -> None:
    self.load()
    self.ledger = self.table.ledger if self.table else None


def _leaves_the_worker(self: Actions) -> Event:
    self.worker = None
    return Event.WORKER_STOPPED


def _requires_nothing(self: TopicTable, transaction: Transaction) -> None:
    transaction._requirements = ()


class _Kept:
    """An attribute that cannot be emptied, as the product does so that PyIceberg tries nothing again."""

    def __get__(self, one: Transaction, _: Any = None) -> list[Any]:
        return one.__dict__.setdefault("_kept", [])  # type: ignore[no-any-return]

    def __set__(self, one: Transaction, value: list[Any]) -> None:
        one.__dict__["_kept"] = value or one.__dict__.get("_kept", value)


def _takes_unsettled(self: Replay) -> StagedBatch | None:
    while tasks := self._next_tasks():
        if (batch := self._round(tasks)) is not None:
            return batch
    return None


class _Never:
    """Of a topic, no work is ever under way: two may be at the same time."""

    def __get__(self, one: object, _: Any = None) -> None:
        return None

    def __set__(self, one: object, value: object) -> None:
        """It is not kept."""


def _two_at_once() -> AbstractContextManager[Any]:
    return mock.patch.object(Maintenance, "_current", _Never(), create=True)


def _stages_late(self: Replay) -> Job:
    """Letters are marked, and their rows are staged when others have been answered, too."""
    while (batch := (yield self._ownership.ask(lambda _: self.round()))) is not None:
        for _ in range(12):
            yield self._ownership.ask(lambda _: None)
        yield (yield self._ownership.ask(lambda _, batch=batch: self._ownership.stage(batch, at_once=True)))


_commit_compaction = DeadLetters.commit_compaction


def _settles_marked(self: DeadLetters, files: Any, replaced: Any, owned: Ledger) -> None:
    assert self.ledger is not None
    self.ledger = replace(self.ledger, replay_id=None)
    _commit_compaction(self, files, replaced, owned)


_snapshot_of = ChangeSnapshot.of


def _without_ledger(_: type, transaction: Transaction, change: TableChange) -> ChangeSnapshot:
    snapshot = _snapshot_of(transaction, change)
    if change.keeps_rows:
        snapshot.snapshot_properties = {}
    return snapshot


def _unseen(_: object, __: object, change: TableChange) -> TableChange:
    return change


def _nothing(*_: Any, **__: Any) -> None:
    return None


MUTANTS: dict[str, Patch] = {
    "the sweep is bound by the smallest sequence number there is": _put(
        coordinator, "sweep_earlier_epochs", _sweep("smallest sequence number")
    ),
    "the sweep normalises paths on one side": _put(coordinator, "sweep_earlier_epochs", _sweep("one side")),
    "the sweep takes a folder for its own that two tables share": _put(
        coordinator, "sweep_earlier_epochs", _sweep("shared folder")
    ),
    "the sweep takes the epoch under way too": _put(coordinator, "sweep_earlier_epochs", _sweep("own epoch")),
    "expiry ignores refs": _put(host_expiry, "to_expire", _ignores_refs),
    "expiry takes the way to the ledger": _put(expiry, "_of_ledger", lambda *_: ()),
    "files of expired snapshots go unseen": _put(host_expiry, "remove_expired", _removes_unseen),
    "files of expired snapshots go as they were planned": _put(
        host_expiry, "remove_expired", _removes_as_planned
    ),
    "files go with expired snapshots that are staged": _put(host_expiry, "remove_expired", _removes_staged),
    "files of snapshots go that are still there": _all(
        _put(host_expiry, "remove_expired", _removes_as_planned),
        _put(
            TopicTable, "expire", lambda self, planned, choose: (frozenset(choose(self.table.metadata)), True)
        ),
    ),
    "nothing is swept": _put(
        coordinator,
        "sweep_earlier_epochs",
        lambda owner, _: setattr(owner.files, "swept_epoch", owner.ledger.epoch - 1),
    ),
    "staged files are taken unseen": _put(
        commit, "check_head", lambda table, files=(), **more: _check_head(table, **more)
    ),
    "a commit does not look at the ledger": _put(TopicTable, "check_planned_on", _nothing),
    "no epoch is claimed": _put(TopicTable, "claim", _nothing),
    "the epoch of the next owner is not higher": _put(
        Ledger, "claimed", lambda self, epoch, commit_id: replace(self, commit_id=commit_id)
    ),
    "settle always finds the commit": _put(Owner, "is_in_table", lambda self: True),
    "the history is not searched for a commit": _put(TopicTable, "has_commit", lambda self, commit_id: False),
    "only the head is searched for a commit": _put(TopicTable, "has_commit", _head_only),
    "rows are committed before their letters": _put(Owner, "send", _rows_first),
    "the ledger is read from the head alone": _put(TopicTable, "ledger_snapshot", _ledger_of_head),
    "the tag does not move": _put(ManageSnapshots, "create_tag", _moves_no_tag),
    "PyIceberg tries a refused commit again": _all(
        _put(commit, "_without_retries", _nothing),
        lambda: mock.patch.object(Transaction, "_snapshot_producers", _Kept(), create=True),
        _put(time, "sleep", _nothing),
    ),
    "a request arrives wherever the head is": _put(commit, "_require_tag", _requires_nothing),
    "a refusal is a proof that nothing was committed": _put(commit, "_is_refused", lambda *_: True),
    "a second try is another commit": _put(Owner, "plan_commit", _plans_anew),
    "files of an unknown commit are discarded": _all(
        _put(Owner, "drop", _drops_all), _put(Owner, "answer_lost", _nothing)
    ),
    "letters above the ledger stay": _put(
        DeadLetters, "_remove", lambda self, _, owned: self.replace((), (), owned, None)
    ),
    "letters are not claimed": _put(DeadLetters, "adopt", _only_loads),
    "replayed letters are not marked": _put(Replay, "_mark", _nothing),
    "a replay takes letters that are rows": _put(Replay, "round", _takes_unsettled),
    "nobody looks for files that others deleted": _all(
        _put(commit, "check_head", _nothing),
        _put(actions, "check_head", _nothing),
        _put(mend, "way_back", _nothing),
    ),
    "a commit does not look at the one before": _all(
        _put(commit, "check_head", _nothing), _put(actions, "check_head", _nothing)
    ),
    "a gap is not noticed": _put(take_over, "gap_to_skip", lambda *_: {}),
    "a gap is skipped without a word": _put(Ledger, "skipping", _skips_silently),
    "a log that was cut is not noticed": _all(
        _put(take_over, "lost_part", lambda *_: {}), _put(ownership, "compare", lambda *_: Comparison({}, {}))
    ),
    "a log that was cut is noticed at the start alone": _put(
        ownership, "compare", lambda *_: Comparison({}, {})
    ),
    "a topic made anew is not noticed": _all(
        *(_put(module, "check_same_topic", _nothing) for module in (start, ownership, cut_log))
    ),
    "letters of a topic that had the name before are taken over": _put(
        DeadLetters, "check_same_topic", _nothing
    ),
    "a rollback to where the ledger is gone is not noticed": _put(TopicTable, "check_not_behind", _nothing),
    "a rollback that nobody's snapshots tell of is not noticed": _put(
        ledger_history, "has_newest_rows", lambda *_: True
    ),
    "an outage of the registry makes letters": _put(NamedSchemas, "find", _takes_outage_for_unknown),
    "texts of a schema are not compared": _put(NamedSchemas, "checked", lambda _, registered: registered),
    "the old worker goes on under the next owner": _put(Actions, "_stop_worker", _leaves_the_worker),
}

MUTANTS |= {
    "a compaction does not look whether its files are still there": _all(
        _put(replace_files, "_on_head", _unseen),
        _put(ChangeSnapshot, "_validate_required_deletes", _nothing),
    ),
    "deletes that come while files are put together are forgotten": _put(
        replace_files, "_late", lambda *_: ((), {})
    ),
    "deleted rows are put together with the others": _put(rewrite, "mark_deleted", _nothing),
    "letters are put together while they are replayed": _all(
        _two_at_once,
        _put(Replay, "run", _stages_late),
        _put(DeadLetters, "commit_compaction", _settles_marked),
    ),
    "letters that a replay took away are put together": _all(
        _two_at_once,
        _put(replace_files, "_on_head", _unseen),
        _put(ChangeSnapshot, "_validate_required_deletes", _nothing),
    ),
    "files say an order that they are not in": _all(
        _put(rewrite, "permutation", _nothing), _put(write, "permutation", _nothing)
    ),
    "a compaction does not know where sorting puts rows": _put(rewrite, "permutation", _nothing),
    "a compaction leaves the ledger out": _put(ChangeSnapshot, "of", classmethod(_without_ledger)),
}

_without = replace_files._without


def _forgets_what_stays(*args: Any) -> Any:
    removed, _, _ = _without(*args)
    return removed, (), {}


MUTANTS["positions in files that stay go with their delete file"] = _put(
    replace_files, "_without", _forgets_what_stays
)

_live, _columns = upserted.live_rows, Upsert.columns


def _skips_a_file(*args: Any) -> Iterator[Any]:
    return (batch for batch in _live(*args) if batch["file"][0].as_py() % 3)


# Of tables kept by key.
KEYED = {
    "a look-up leaves out some files": _put(upserted, "live_rows", _skips_a_file),
    "no look-up knows deleted keys": _put(upserted, "remembered_rows", lambda *_: iter(())),
    "deleted keys are forgotten at once": _put(upserted, "CLOCK_TOLERANCE_MS", -(10**13)),
    "an order in the data does not count": _put(
        Upsert, "columns", lambda self, table: replace(_columns(self, table), order=())
    ),
    "merged deletes are known by their spelling": _put(owner, "file_name", lambda path: path),
}
MUTANTS |= KEYED
# After how many histories of such tables chance meets what these break.
LATE = {"deleted keys are forgotten at once": 39, "merged deletes are known by their spelling": 18}

# What chance meets too rarely: the schedule that shows it.
SCENES: dict[str, Callable[[], list[Move]]] = {
    "a log that was cut is not noticed": scenes.cut_and_grown,
    "a log that was cut is noticed at the start alone": scenes.cut_and_grown,
    "a compaction does not look whether its files are still there": scenes.rewritten_twice,
    "deletes that come while files are put together are forgotten": scenes.deleted_meanwhile,
    "deleted rows are put together with the others": scenes.deleted_before,
    "a compaction does not know where sorting puts rows": scenes.deleted_meanwhile,
    "letters are put together while they are replayed": scenes.replayed_while_letters_are_put_together,
    "letters that a replay took away are put together": scenes.replayed_while_letters_are_put_together,
    "an outage of the registry makes letters": scenes.registry_away,
    "texts of a schema are not compared": scenes.ids_given_again,
    "a rollback that nobody's snapshots tell of is not noticed": scenes.rolled_back_and_expired,
    "a replay takes letters that are rows": scenes.replayed_twice,
    "expiry takes the way to the ledger": scenes.appended_to_and_expired,
    "files of expired snapshots go as they were planned": scenes.tagged_while_it_expires,
    "a request arrives wherever the head is": scenes.late_after_a_rollback,
    "only the head is searched for a commit": scenes.lost_and_built_upon,
    "settle always finds the commit": scenes.lost_and_not_done,
    "PyIceberg tries a refused commit again": scenes.overtaken,
    "a rollback to where the ledger is gone is not noticed": scenes.rolled_back_behind_its_ledger,
    "letters of a topic that had the name before are taken over": scenes.made_anew_beside_letters,
}
# Of tables with a sort order.
SORTED = ("a compaction does not know where sorting puts rows",)
