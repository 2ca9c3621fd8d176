"""What the engines of every format say about records that they do not take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refused:
    """One record that cannot become a row."""

    index: int  # position in the array given to decode()
    reason: str  # short class, e.g. "avro_trailing_bytes"
    message: str  # what is wrong, for a person


class Refusal(Exception):  # noqa: N818 - a verdict on a record, not an error of ours
    """A record that is not what its schema says; ``reason`` is a short class, ``path`` outermost last."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.path: list[str] = []

    def text(self) -> str:
        """The message with the path to the place."""
        where = ".".join(reversed(self.path))
        return f"{where}: {self.message}" if where else self.message


class NotRows(Exception):  # noqa: N818 - a verdict on a group, not an error of ours
    """The group holds a record that the fast engine does not vouch for; ``row`` is it, where known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class UnsupportedError(Exception):
    """The fast engine cannot take this schema; the exact one can."""
