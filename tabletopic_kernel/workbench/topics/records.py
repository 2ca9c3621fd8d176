"""One topic's records and dead letters: look for them, replay or drop letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.desired import DesiredTopic, MaintenanceRequest, ReplayRequest
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.workbench.topics.orders import user_name
from tabletopic_kernel.workbench.topics.requests import Requests, check_where

if TYPE_CHECKING:  # loaded on first use: each takes a good part of a second
    from tabletopic_kernel.host.replay.dry_run import ReplayPlan
    from tabletopic_kernel.model.progress.events import LettersDropped, Replayed
    from tabletopic_kernel.workbench.peek import PeekedRecord
    from tabletopic_kernel.workbench.peek.erasure import Erasure
    from tabletopic_kernel.workbench.peek.letters import Letters
    from tabletopic_kernel.workbench.peek.search import Records
    from tabletopic_kernel.workbench.peek.suspect_keys import SuspectKeys


class RecordRequests(Requests):
    """Records and dead letters of one topic; ``where`` of letters is a condition on their table's columns."""

    def peek(self, n: int = 20, *, raw: bool = False, **search: Any) -> Records:
        """Records of the topic, decoded, and what became of each; by default the newest first.

        ``search``: ``start``, ``at``, ``before``, ``partition``, ``key``, ``where``, as in ``Search``;
        ``raw``: with the schemas that they name. The result's ``looked`` says how far it looked.
        """
        from tabletopic_kernel.workbench.peek.fates import with_fates  # noqa: PLC0415
        from tabletopic_kernel.workbench.peek.schemas import with_schemas  # noqa: PLC0415
        from tabletopic_kernel.workbench.peek.search import Records, look  # noqa: PLC0415
        from tabletopic_kernel.workbench.peek.wanted import Search  # noqa: PLC0415

        settings, bench = self._settings(), self._workbench
        records = look(self.name, settings, bench.broker, bench.registry, Search(limit=n, **search))
        if raw:
            whole = with_schemas(records, self.name, settings, bench.registry)
            records = Records(whole, records.looked, records.batch)
        return with_fates(
            records, self.name, settings, bench.registry, lambda: bench.open_catalog(settings.catalog)
        )

    def follow(self, **search: Any) -> Iterator[PeekedRecord]:
        """Records as they come, until the caller leaves; ``search`` as in ``peek``."""
        from tabletopic_kernel.workbench.peek.search import follow  # noqa: PLC0415
        from tabletopic_kernel.workbench.peek.wanted import Search  # noqa: PLC0415

        bench = self._workbench
        for records in follow(self.name, self._settings(), bench.broker, bench.registry, Search(**search)):
            yield from records

    def letters(self, where: str | None = None, limit: int = 0) -> Letters:
        """Dead letters by reason with their counts over time, and the newest ``limit`` of them, whole."""
        from tabletopic_kernel.workbench.peek.letters import read_letters  # noqa: PLC0415

        settings, bench = self._settings(), self._workbench
        catalog = bench.open_catalog(settings.catalog)
        return read_letters(self.name, settings, bench.registry, catalog, where, limit)

    def suspect_keys(self, where: str | None = None) -> SuspectKeys:
        """Keys with dead letters, whose rows in an upsert table may be too old until a replay."""
        from tabletopic_kernel.workbench.peek.suspect_keys import suspect_keys  # noqa: PLC0415

        settings, bench = self._settings(), self._workbench
        catalog = bench.open_catalog(settings.catalog)
        return suspect_keys(self.name, settings, bench.registry, catalog, where)

    def download_letters(self, file: Path, where: str | None = None, *, raw: bool = False) -> int:
        """Write dead letters into a new file, as JSON lines with bytes in base64; returns their number.

        ``raw``: their values, each into a file of the new folder ``file``.
        """
        from tabletopic_kernel.workbench.peek.letters import download  # noqa: PLC0415

        settings = self._settings()
        catalog = self._workbench.open_catalog(settings.catalog)
        return download(self.name, settings, catalog, file, where, raw=raw)

    def replay(self, where: str | None = None, timeout_s: float = 120) -> Replayed | None:
        """Replay dead letters with the current settings; ``where``: a condition on their table."""
        answers = self._answers(self.ask_for_replay(where), timeout_s)
        return answers[-1] if answers else None

    def ask_for_replay(self, where: str | None = None) -> ReplayRequest:
        """Request a replay."""
        from tabletopic_kernel.host.replay.letters import dead_letters_where  # noqa: PLC0415

        desired = self.desired_state()
        dead_letters_where(where)
        self._check_acts(desired)
        request = ReplayRequest(**self._stamp(), where=where)
        self._change(lambda current: current.model_copy(update={"replay": request}))
        return request

    def plan_replay(self, where: str | None = None) -> ReplayPlan:
        """What a replay would do."""
        from tabletopic_kernel.host.replay.dry_run import plan_replay  # noqa: PLC0415

        settings = self.desired_state().settings
        catalog = self._workbench.open_catalog(settings.catalog)
        return plan_replay(self.name, settings, where, self._workbench.registry, catalog)

    def drop_letters(
        self, note: str, where: str | None = None, timeout_s: float = 120
    ) -> LettersDropped | None:
        """Drop dead letters for good; ``note``: why, which the event keeps with the user's name."""
        answers = self._answers(self.ask_for_drop(note, where), timeout_s)
        return answers[-1] if answers else None

    def ask_for_drop(self, note: str, where: str | None = None) -> MaintenanceRequest:
        """Request that dead letters are dropped; UsageError without a note."""
        from tabletopic_kernel.host.replay.letters import dead_letters_where  # noqa: PLC0415

        if not note.strip():
            raise UsageError("say why with --note: the topic's events keep it")
        desired = self.desired_state()
        dead_letters_where(where)
        about = {"where": where} if where is not None else {}
        return self._requested(desired, work="drop_letters", note=note, by=user_name(), **about)

    def plan_erasure(self, where: str, letters: str | None = None) -> Erasure:
        """What an erasure would erase, and what the topic itself has; see ``erase``."""
        return self._erasure(where, letters)[0]

    def erase(self, where: str, letters: str | None = None, timeout_s: float = 600) -> Erasure | None:
        """Erase rows that match ``where``, and dead letters that do once they are decoded, with their files.

        ``letters``: a condition on the dead letters' columns, for more of them. None: it takes longer.
        """
        plan, condition = self._erasure(where, letters)
        about = {"letters": condition} if condition is not None else {}
        answers = self._done("erase", timeout_s, where, by=user_name(), **about)
        if answers and self.name in self._workbench.desired_topics():  # the condition may name a person
            self._change(_without_erasure)
        return replace(plan, done=answers[-1]) if answers else None

    def _erasure(self, where: str, more: str | None) -> tuple[Erasure, str | None]:
        """The plan, and the condition on the dead letters that it erases."""
        from tabletopic_kernel.table.dead_letters import LetterTable  # noqa: PLC0415
        from tabletopic_kernel.workbench.peek.erasure import find_letters, in_kafka, plan_erasure  # noqa: PLC0415

        settings, bench = self._owned()[0], self._workbench
        table = self._loaded(settings)
        check_where(where, table)
        letters = LetterTable(
            bench.open_catalog(settings.catalog), table_identifier(self.name, settings), self.name
        )
        to_erase = find_letters(self.name, settings, bench.registry, letters, where, more)
        kafka = in_kafka(self.name, settings, bench.broker, bench.registry, where)
        return plan_erasure(self.name, table, to_erase, where, kafka), to_erase.where


def _without_erasure(current: DesiredTopic) -> DesiredTopic:
    is_erasure = current.maintenance is not None and current.maintenance.work == "erase"
    return current.model_copy(update={"maintenance": None}) if is_erasure else current
