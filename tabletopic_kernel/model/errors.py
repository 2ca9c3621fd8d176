"""Every error this package raises, sorted by remedy.

``TableTopicError`` is the base; its branches say who has to act. A message names what is wrong and what
to do next; faces print it unchanged, without a traceback. It contains no secrets, not even in texts of other
programs: they are masked when the error is created.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Final

from tabletopic_kernel.model.redact import redact

# What an error is about; ``Progress`` carries it, and faces derive a topic's standing from it.
CATALOG: Final = "the catalog"
REGISTRY: Final = "the registry"
BROKER: Final = "the broker"
SUBJECT: Final = "the subject"  # it has no schema
RECORDS: Final = "the records"  # too many cannot become rows
CATALOG_SECTION: Final = "catalog"  # of the settings; that of a further catalog is ``catalogs.<name>``
_SECTION: Final = re.compile(r"\[(kafka|registry|catalog|spark)")  # of the settings, in a message
SECTION_PAGES: Final = {
    "kafka": "your-servers kafka",
    "registry": "your-servers registry",
    CATALOG_SECTION: "your-servers catalog",
    "spark": "spark-cluster errors",
}


class Verdict(StrEnum):
    """Who has to act."""

    WAIT = "wait"  # nobody: it is retried (I9)
    ACT = "act"  # the user
    BUG = "bug"  # we


_SECTIONS: Final = {CATALOG: CATALOG_SECTION, REGISTRY: "registry", BROKER: "kafka"}


@dataclass(frozen=True)
class Trouble:
    """Why a system does not work: a value, until a face shows its text.

    ``cause``: what the system does, with another program's message; or what is wrong with a setting.
    ``{section}`` in the ``remedy`` stands for the section of the settings. ``system``: empty if a setting is
    wrong, else the catalog, the storage or the table.
    """

    cause: str
    remedy: str = ""
    system: str = ""
    section: str = CATALOG_SECTION
    verdict: Verdict = Verdict.ACT
    doing: str = ""  # what could not be done, as the beginning of the sentence

    def __str__(self) -> str:
        section = f"[{self.section}]"
        lead, joint = (self.system, "; ") if self.system else (section, ": ")
        remedy = f"{joint}{self.remedy.replace('{section}', section)}" if self.remedy else ""
        return f"{self.doing}{lead} {self.cause}{remedy}"

    def error(self) -> TableTopicError:
        """The error for the verdict."""
        if self.verdict is Verdict.WAIT:
            return RetryableError(self)
        return ActionNeededError(self) if self.system else SettingsError(self)


class TableTopicError(Exception):
    """Base of all errors of this package; its argument is a text or a ``Trouble``.

    ``system``: what a text is about; a ``Trouble`` has its own. ``page`` of the manual on this kind, with a
    word of a heading, as ``tabletopic docs`` takes them; empty if the message is all there is to say.
    """

    page: ClassVar[str] = ""

    def __init__(self, *arguments: object, system: str = "") -> None:
        super().__init__(*map(_masked, arguments))
        self._system = system

    @property
    def trouble(self) -> Trouble:
        """What is wrong, with the fields that are known."""
        what = self.args[0] if self.args else ""
        if isinstance(what, Trouble):
            return what
        section = _SECTIONS.get(self._system, "")
        return Trouble(str(self), system=self._system, section=section, verdict=self._verdict)

    @property
    def _verdict(self) -> Verdict:
        if isinstance(self, RetryableError | OutcomeUnknownError):
            return Verdict.WAIT
        return Verdict.BUG if isinstance(self, InternalError) else Verdict.ACT

    @property
    def advice(self) -> str:
        """The message, and where the manual has more: what faces show."""
        message = str(self)
        if not self.page:
            return message
        section = _SECTION.search(message)
        page = SECTION_PAGES[section[1]] if section else self.page
        return f"{message} (see `tabletopic docs {page}`)"

    def behind(self, doing: str) -> Trouble | str:
        """What is wrong, behind the beginning of a sentence: the argument of another error."""
        what = self.args[0] if self.args else ""
        return replace(what, doing=doing + what.doing) if isinstance(what, Trouble) else f"{doing}{self}"

    def of_catalog(self, name: str | None) -> None:
        """Name a further catalog's section in its trouble; None changes nothing."""
        if name is not None:
            self.args = tuple(
                replace(argument, section=f"catalogs.{name}")
                if isinstance(argument, Trouble) and argument.section == CATALOG_SECTION
                else argument
                for argument in self.args
            )


def _masked(argument: object) -> object:
    if isinstance(argument, Trouble):
        return replace(argument, cause=redact(argument.cause), remedy=redact(argument.remedy))
    return redact(argument) if isinstance(argument, str) else argument


class RetryableError(TableTopicError):
    """A dependency is down or busy: retry with backoff (invariant I9)."""

    page = "trouble waiting"


class LoginRefusedError(RetryableError):
    """A server rejects the login or the certificate: report it at once, and retry after a minute.

    The password may have been changed on one side only; retrying every second would lock the account.
    """


class OutcomeUnknownError(TableTopicError):
    """A commit was sent but not answered: look it up in the table before anything else (I4)."""

    page = "failures servers"


class UsageError(TableTopicError):
    """The request cannot be fulfilled as given: wrong option, missing topic, bad setting."""


class UnknownTopicError(UsageError):
    """There is no topic with that name, or it is not enabled."""


class SettingsError(UsageError):
    """A setting is unknown or wrong; the message names source, key and allowed values."""

    page = "settings"


class ProjectionError(UsageError):
    """An unusable projection: its form is not allowed, or it does not match the columns."""

    page = "transforms projection"

    def __init__(self, why: str) -> None:
        super().__init__(f"the projection cannot be used: {why}")
        self.why = why


class ExpectationError(ProjectionError):
    """An expectation that is no condition on rows, or does not match the columns."""

    def __init__(self, name: str, why: str) -> None:
        UsageError.__init__(self, f"the expectation {name} cannot be used: {why}")
        self.why = why


class ActionNeededError(TableTopicError):
    """Work stopped and the user must decide: another program's table, gap, re-created topic, bad record."""

    page = "trouble"


class ResumeError(ActionNeededError):
    """As above, and the message says what resuming the topic does."""

    page = "trouble failed"


class BadRecordError(ActionNeededError):
    """A record that cannot become a row."""

    page = "dead-letters fix"


class ReusedIdError(ActionNeededError):
    """The registry has another text for the id of a schema that the table knows."""

    page = "types again"


class GapError(ActionNeededError):
    """Records were deleted before they were read; ``missing``: partition → (next, first available)."""

    page = "trouble failed"

    def __init__(self, missing: dict[int, tuple[int, int]], message: str) -> None:
        super().__init__(message)
        self.missing = missing


class StackError(ActionNeededError):
    """The embedded stack could not be started, found or stopped."""

    page = "trouble stack"


class HeadMovedError(TableTopicError):
    """Another writer committed first and the ledger is still ours: plan the commit again (I3)."""


class OutdatedError(TableTopicError):
    """The table no longer has the sources of the files: discard them, and write them again later."""


class StartOverError(TableTopicError):
    """Staged files no longer fit the table: discard them and resume from the table (I6)."""


class LostOwnershipError(StartOverError):
    """Another host owns the table topic now (I5): stop, commit nothing."""


class UnreadableFilesError(StartOverError):
    """Staged files in the storage differ from what was written: their records are read again."""


class MissingFilesError(StartOverError):
    """The table's newest snapshot names files that others deleted: nothing is committed on top of it."""


class TooMuchAtOnceError(TableTopicError):
    """Several records together take more memory than a batch may: take fewer at a time."""


class InternalError(TableTopicError):
    """A state that the rules exclude: a bug."""


def error_of(error: Exception) -> TableTopicError:
    """The error, if it is one of ours; else a bug by the name of its class."""
    if isinstance(error, TableTopicError):
        return error
    return InternalError(f"{type(error).__name__}: {str(error).strip() or 'no message'}")
