"""The partitions of a consumer group's members, from Kafka's own bytes."""

import struct

from tabletopic_kernel.clients.kafka.broker import assigned


def _bytes(topics: dict[str, list[int]], user_data: bytes = b"") -> bytes:
    raw = struct.pack(">hi", 1, len(topics))
    for topic, partitions in topics.items():
        name = topic.encode()
        raw += struct.pack(
            f">h{len(name)}si{len(partitions)}i", len(name), name, len(partitions), *partitions
        )
    return raw + struct.pack(">i", len(user_data)) + user_data


def test_an_assignment_is_read_whole() -> None:
    """Several topics, names that are not ASCII, data behind them; empty while a group finds its balance."""
    raw = _bytes({"a": [0, 7], "none": [], "größe": [2]}, b"more")
    assert assigned(raw) == [("a", 0), ("a", 7), ("größe", 2)]
    assert assigned(b"") == []
    assert assigned(_bytes({})) == []
