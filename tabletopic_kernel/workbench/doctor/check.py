"""One check: its result, and what a failure is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tabletopic_kernel.model.errors import SettingsError, TableTopicError, error_of

Status = Literal["ok", "warn", "fail"]
_LONGEST = 600
# Of the manual, with a word of a heading, by a check's name, which may have a catalog's name behind it.
PAGES: Mapping[str, str] = {
    "Python": "install environment",
    "Kafka reader": "install environment",
    "JDK": "install need",
    "Java libraries": "install internet",
    "query extensions": "install internet",
    "limits": "install need",
    "disk space": "install need",
    "state folder": "files state",
    "ports": "trouble stack",
    "servers": "trouble stack",
    "login": "security machine",
    "broker": "your-servers kafka",
    "rights": "your-servers rights",
    "registry": "your-servers registry",
    "catalog": "your-servers catalog",
    "storage": "your-servers storage",
    "Spark": "spark-cluster errors",
    "hosts": "trouble host",
    "logs": "cut-log",
}


@dataclass(frozen=True)
class Check:
    """The result of one check; ``remedy`` is empty if it succeeded, or ``detail`` has the remedy."""

    name: str
    status: Status
    detail: str
    remedy: str = ""

    def with_page(self) -> Check:
        """The same; the remedy of a failure also names the page of the manual."""
        if self.status == "ok":
            return self
        see = f"see `tabletopic docs {PAGES.get(self.name) or PAGES[self.name.partition(' ')[0]]}`"
        return replace(self, remedy=f"{self.remedy} ({see})" if self.remedy else see)


class Failed(TableTopicError):  # noqa: N818 - never leaves this folder
    """A failed check."""

    def __init__(self, detail: str, remedy: str, status: Status = "fail") -> None:
        super().__init__(detail)
        self.check = (status, str(self), remedy)


def checked(name: str, check: Callable[[], str]) -> Check:
    """The result of a check; never raises."""
    try:
        return Check(name, "ok", check())
    except Failed as failure:
        return Check(name, *failure.check)
    except SettingsError as error:
        return Check(name, "fail", first_line(error), "correct it; `tabletopic config` shows where it is set")
    except Exception as error:
        return Check(name, "fail", first_line(error_of(error)))


def first_line(error: Exception) -> str:
    """The first line of an error's message, cut where it quotes a whole page; never empty."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
