"""The fingerprint of a record, by which the ledger knows the last one of each partition again (I8)."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

LastRecords = Mapping[int, tuple[int, str]]  # partition → offset and fingerprint of the last committed record
_LAST_MS = 253_402_300_799_999  # of the year 9999


def fingerprint(key: bytes | None, value: bytes | None, timestamp_ms: int | None) -> str:
    """Of key, value and timestamp; headers and offset do not count.

    Clients disagree on timestamps before 1970 and after 9999, and on missing ones: these count as none.

    >>> fingerprint(b"k", b"v", 1), fingerprint(b"kv", None, 1), fingerprint(None, b"", None)
    ('e0c620caa86c9d4f', '2a9f80ac9e3eab77', '726b4a02be3b636a')
    """
    stamp = timestamp_ms if timestamp_ms is not None and 0 < timestamp_ms <= _LAST_MS else 0
    lengths = (-1 if part is None else len(part) for part in (key, value))
    digest = blake2b(f"{stamp},{','.join(map(str, lengths))}:".encode(), digest_size=8)
    digest.update(key or b"")
    digest.update(value or b"")
    return digest.hexdigest()
