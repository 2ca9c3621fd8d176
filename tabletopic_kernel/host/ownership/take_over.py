"""How a host takes a topic over: it opens or creates the table, and raises the epoch (I5).

Why taking over is safe: the claim is a commit, and a commit goes through only on the ledger it was planned on
(I3). So of two hosts that claim a topic, one gets the epoch and the other learns that it lost. Until the
claim goes through, the previous owner may commit; then the claim is planned again on the new ledger.
Afterwards no older epoch commits, whatever is in flight (I5). Dead letters are adopted next, so a latecomer
with more of them sees the higher epoch (I7). A worker starts last, and reads from the claimed ledger (I1).
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from tabletopic_kernel.host.owner import Owner
from tabletopic_kernel.host.ownership.cut_log import lost_part, set_back
from tabletopic_kernel.host.ownership.mend import conclude, mend
from tabletopic_kernel.host.resume_point import first_ledger, gap_to_skip
from tabletopic_kernel.host.services import Services
from tabletopic_kernel.model.errors import StartOverError
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.model.steps import Step, reach
from tabletopic_kernel.table.changes.cut_rows import Lost
from tabletopic_kernel.table.dead_letters import DeadLetters
from tabletopic_kernel.table.schemas.keeper import SchemaKeeper
from tabletopic_kernel.table.topic_table import TopicTable


def take_over(topic: str, settings: TopicSettings, services: Services, before: Owner | None) -> Owner:
    """Open or create the table, check that it matches the topic, raise the epoch (I5).

    The epoch stays if the table is unchanged since ``before``, this coordinator's last ownership. Raises
    StartOverError if another host runs the topic; UsageError if the table cannot have the settings'
    partitions; GapError and ActionNeededError as ``check_topic`` and ``lost_part`` (I8), if the settings say
    stop. The latter also as ``mend``, for dead letters of another topic, and if rows can no longer be
    written.
    """
    # Longer than other functions: the order of these steps is why taking over is safe.
    if not services.still_mine(topic):
        raise StartOverError("another host runs this topic now")
    reach(Step.TAKE_OVER)
    catalog, identifier = services.catalog(), table_identifier(topic, settings)
    table = TopicTable.load(catalog, identifier, topic)
    # After the table: its previous owner may still commit, and the topic must not seem to lack records.
    facts = services.broker.facts(topic)
    dead_letters = before.dead_letters if before is not None else DeadLetters(catalog, identifier, topic)
    dead_letters.load()
    ways = mend(table, dead_letters.table, facts) if table else ()
    ledger_before = table.ledger_of_rows() if table else None
    lost = lost_part(ledger_before, facts, settings, table, services.broker)
    gap = gap_to_skip(ledger_before.cut_back(lost), facts, settings) if ledger_before else {}
    dead_letters.check_same_topic(facts.topic_id, facts.cluster_id)  # before anything is created or claimed
    keeper = SchemaKeeper(catalog, identifier, topic, settings, services)
    table = keeper.create() if table is None else table
    if ledger_before is None:  # a dropped table may have left letters of its last epoch
        ledger = replace(first_ledger(facts, settings, services.broker), epoch=dead_letters.epoch + 1)
        if before is not None and before.table is None and before.ledger.topic_id == facts.topic_id:
            # Records wait that came since ``start`` became an offset: "latest" would be behind them now.
            kept = before.ledger.next_offsets
            ledger = replace(
                ledger, next_offsets={p: max(at, kept.get(p, at)) for p, at in facts.first.items()}
            )
    else:
        newest = max(table.newest_epoch if table else 0, dead_letters.epoch)
        is_ours = before is not None and before.still_owns(ledger_before, newest)
        ledger = ledger_before if is_ours else ledger_before.for_next_owner(newest)
    if table is not None and ledger is not ledger_before:
        reach(Step.CLAIM)
        table.claim(ledger, ledger_before)
        reach(Step.CLAIMED)
    ledger = set_back(table, ledger, lost, settings)  # before adopting: it puts lost letters above the ledger
    dead_letters.adopt(ledger)  # after the table's claim: a latecomer sees the higher epoch
    if gap and table is not None:  # after adopting: the gap's letters whose rows never came are gone now
        ledger = _behind(gap, table, ledger)
    keeper.adopt(table, ledger)
    keeper.check_writable()
    dead_letters.check_writable()
    keeper.lay_out()
    # New partitions begin at their first offset.
    owner = Owner(keeper, dead_letters, ledger, {**facts.first, **ledger.next_offsets})
    owner.gap, owner.truncated = gap, lost
    owner.mended = conclude(ways, ledger, dead_letters.ledger)
    owner.files.claim_once()
    reach(Step.OWNED)
    return owner


def _behind(gap: Lost, table: TopicTable, ledger: Ledger) -> Ledger:
    after = ledger.skipping(gap, str(uuid.uuid4()))
    table.claim(after, ledger)
    return after
