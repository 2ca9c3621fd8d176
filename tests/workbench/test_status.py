"""How late a table is, told without servers."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tabletopic_kernel.workbench import status


class _Message:
    def __init__(self, topic: str, partition: int, stamp: int) -> None:
        self.topic, self.partition, self.timestamp = lambda: topic, lambda: partition, lambda: (1, stamp)


class _Reader:
    """Delivers one message of each partition."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None: ...

    def pause(self, topic: str, partition: int) -> None:
        """See ``Reader``."""

    def follow(self, *_: object) -> Iterator[list[_Message]]:
        """See ``Reader``."""
        yield [_Message("a", 0, 5_000), _Message("a", 1, -1), _Message("a", 2, 4_000), _Message("b", 0, -1)]


def test_a_record_without_a_timestamp_is_of_unknown_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's -1 is no time; it would be 1969, and the topic more than 50 years late."""
    monkeypatch.setattr(status, "Reader", _Reader)
    behind = {"a": {0: 7, 1: 0, 2: 3}, "b": {0: 0}}
    found = status.oldest_waiting(cast(Any, SimpleNamespace(properties={})), behind)
    assert found == {"a": 4_000}
