"""The C function that copies messages to Arrow, with its structures, and the buffers that it fills."""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_char, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError

from tabletopic_kernel.clients.kafka.ranges.batches import HEADERS, RECORDS, ROOM, Buffers
from tabletopic_kernel.clients.kafka.ranges.consumer import Problem, Pulled

SOURCE: Final = Path(__file__).with_name("copy.c")
_WAITS, _FULL, _ENDED, _FAILED = range(4)
_CHUNK: Final = 4096  # messages taken from the queue at once
_COPIED: Final = ("value", "key", "name", "item")


class _Bytes(Structure):
    _fields_ = (
        ("ends", c_void_p),
        ("data", c_void_p),
        ("valid", c_void_p),
        ("room", c_int64),
        ("nulls", c_int64),
    )


class _Range(Structure):
    _fields_ = tuple((name, c_int64) for name in ("partition", "next", "until", "first", "ended"))


class _Reader(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("consume", "timestamp", "headers", "header", "destroy", "queue")),
        ("taken", POINTER(c_void_p)),
        *((name, c_int64) for name in ("at", "count", "most")),
        ("ranges", POINTER(_Range)),
        *((name, c_int64) for name in ("range_count", "open", "place")),
        *((name, _Bytes) for name in ("value", "key", "name", "item")),
        *((name, c_void_p) for name in ("partition", "header_ends", "offset", "time")),
        *((name, c_void_p) for name in ("time_valid", "header_valid")),
        *((name, c_int64) for name in ("rows", "most_rows", "header_rows", "most_headers", "with_headers")),
        *((name, c_int64) for name in ("time_nulls", "header_nulls")),
        *((f"needs_{name}", c_int64) for name in ("value", "key", "name", "item", "headers")),
        *((name, c_int64) for name in ("error", "error_partition")),
        ("error_text", c_char * 512),
    )


def built_file() -> Path:
    """Where the C function is, if it was built from this source."""
    # Python takes a file that ends with .so for a module.
    return SOURCE.with_name(f"_copy_{zlib.crc32(SOURCE.read_bytes()):08x}.so.1")


@functools.cache
def take_function(file: Path | None = None) -> Any:
    """The C function; raises OSError if it was not built for this platform."""
    take = ctypes.CDLL(str(file or built_file())).take
    take.argtypes = (POINTER(_Reader), c_int, c_int)
    return take


class Copier:
    """Messages of a queue as record batches."""

    def __init__(self, functions: Mapping[str, Any], queue: Any, take: Any, chunk: int = _CHUNK) -> None:
        """``functions``: librdkafka's, by their names in the C structure; ``take``: see ``take_function``."""
        self._take, self._destroy = take, functions["destroy"]
        pointers = {name: ctypes.cast(function, c_void_p) for name, function in functions.items()}
        self._taken = (c_void_p * chunk)()
        self._state = _Reader(**pointers, queue=queue, taken=self._taken, most=chunk)
        self._ranges: Any = ()
        self._buffers: Buffers | None = None

    def begin(self, starts: Mapping[int, int], ends: Mapping[int, int], *, headers: bool) -> None:
        """Copy the records of these ranges."""
        self.drop()
        ranges = [_Range(p, start, ends[p], -1, 0) for p, start in starts.items()]
        self._ranges = (_Range * len(ranges))(*ranges)
        state = self._state
        state.ranges, state.range_count, state.open, state.place = self._ranges, len(starts), len(starts), 0
        state.with_headers = headers
        self._renew()

    @property
    def open(self) -> bool:
        """Whether a range has not ended."""
        return bool(self._state.open)

    def firsts(self) -> dict[int, int]:
        """The offset of each range's first record, if it has arrived."""
        return {its.partition: its.first for its in self._ranges if its.first >= 0}

    def ended(self) -> dict[int, int]:
        """The ends of the ranges that have ended since the last call, by partition."""
        ended = [its for its in self._ranges if its.ended == 1]
        for its in ended:
            its.ended = 2
        return {its.partition: its.until for its in ended}

    def pull(self, timeout_ms: int, *, flush: bool = False) -> Pulled:
        state, before = self._state, self._state.rows
        outcome = self._take(byref(state), timeout_ms, KafkaError._PARTITION_EOF)
        problem = batch = None
        moved = outcome != _WAITS or state.rows > before
        if outcome == _FAILED:
            problem = Problem(state.error, state.error_partition, state.error_text.decode(errors="replace"))
        if state.rows and (outcome == _FULL or flush or not state.open):
            batch = self._batch()
        elif outcome == _FULL:  # by one record, which needs more than the usual room
            room = {name: max(least, getattr(state, f"needs_{name}")) for name, least in ROOM.items()}
            self._renew(room, max(HEADERS, state.needs_headers))
        return Pulled(batch, problem, moved)

    def _batch(self) -> pa.RecordBatch:
        state = self._state
        assert self._buffers is not None
        nulls = {name: getattr(state, name).nulls for name in _COPIED}
        nulls |= {"time": state.time_nulls, "header": state.header_nulls}
        headers = state.header_rows if state.with_headers else None
        batch = self._buffers.batch(state.rows, headers, nulls)
        state.rows, self._buffers = 0, None
        if state.open:  # an idle one holds no buffers
            self._renew()
        return batch

    def _renew(self, room: Mapping[str, int] = ROOM, most_headers: int = HEADERS) -> None:
        state, new = self._state, Buffers(room, most_headers)
        for name in _COPIED:
            arrays = (array.ctypes.data for array in (new.ends[name], new.data[name], new.valid[name]))
            setattr(state, name, _Bytes(*arrays, room=room[name], nulls=0))
        for name in ("partition", "header_ends", "offset", "time", "time_valid", "header_valid"):
            setattr(state, name, getattr(new, name).ctypes.data)
        state.most_rows, state.most_headers = RECORDS, most_headers
        state.rows = state.header_rows = state.time_nulls = state.header_nulls = 0
        self._buffers = new

    def drop(self) -> None:
        """Give back messages that nobody reads."""
        state = self._state
        for place in range(state.at, state.count):
            self._destroy(c_void_p(self._taken[place]))
        state.at = state.count = 0
