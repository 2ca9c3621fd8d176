"""What a person says about a schema id that a registry gave a second time: which text it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_ANSWER: Final = re.compile(r"(\d{1,10})=(\d{1,10}):([0-9a-f]{16})")


@dataclass(frozen=True)
class AcceptedText:
    """The text that records mean by ``id``: the registry has it as ``registry_id``; its fingerprint.

    >>> str(AcceptedText.of("7=12:1f2e3d4c5b6a7988"))
    '7=12:1f2e3d4c5b6a7988'
    """

    id: int
    registry_id: int
    text: str

    @classmethod
    def of(cls, spelled: str) -> AcceptedText:
        """An item of the setting ``accepted_texts``; raises ValueError for another form."""
        match = _ANSWER.fullmatch(spelled)
        if match is None:
            raise ValueError(
                f"{spelled!r} is not ID=ID:FINGERPRINT; `tabletopic schema TOPIC --accept` writes it"
            )
        return cls(int(match[1]), int(match[2]), match[3])

    def __str__(self) -> str:
        return f"{self.id}={self.registry_id}:{self.text}"


def checked(spelled: tuple[str, ...]) -> tuple[str, ...]:
    """The setting, the last word for each id; raises ValueError as ``AcceptedText.of``."""
    return tuple(map(str, accepted(spelled).values()))


def accepted(spelled: Iterable[str]) -> dict[int | str, AcceptedText]:
    """The accepted texts by the id in records."""
    return {answer.id: answer for answer in map(AcceptedText.of, spelled)}
