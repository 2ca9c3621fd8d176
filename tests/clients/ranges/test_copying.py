"""The C function copies any messages as they are, and touches no byte beyond its buffers."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.clients.kafka.ranges.batches import schema_of
from tabletopic_kernel.clients.kafka.ranges.copying import SOURCE, Copier, take_function

_CC = shutil.which("cc")
_FUZZ = Path(__file__).with_name("fuzz.c")
END = KafkaError._PARTITION_EOF


class _Message(ctypes.Structure):
    _fields_ = (
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int),
        ("payload", c_char_p),
        ("len", c_size_t),
        ("key", c_char_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


@dataclass(frozen=True)
class Record:
    """A message; ``headers`` None: it has none."""

    partition: int
    offset: int
    value: bytes | None = None
    key: bytes | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    error: int = 0

    @property
    def row(self) -> dict[str, Any]:
        """As ``SOURCE_SCHEMA`` has it."""
        headers = [{"key": key.decode(errors="replace"), "value": value} for key, value in self.headers]
        stamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.timestamp_ms)
        return {
            "value": self.value,
            "key": self.key,
            "headers": headers or None,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": stamp,
        }


@dataclass
class Queue:
    """librdkafka's functions for a queue of these messages, in ``portions`` that arrive together."""

    portions: list[list[Record]]
    _alive: dict[int, tuple[_Message, Record]] = field(default_factory=dict)

    @property
    def functions(self) -> dict[str, Any]:
        """For ``Copier``."""
        return {
            "consume": CFUNCTYPE(c_size_t, c_void_p, c_int, POINTER(c_void_p), c_size_t)(self._consume),
            "timestamp": CFUNCTYPE(c_int64, c_void_p, c_void_p)(
                lambda at, _: self._alive[at][1].timestamp_ms
            ),
            "headers": CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))(self._headers),
            "header": CFUNCTYPE(
                c_int, c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_size_t)
            )(self._header),
            "destroy": CFUNCTYPE(None, c_void_p)(lambda at: self._alive.pop(at) and None),
        }

    def _consume(self, _: int, timeout_ms: int, into: Any, count: int) -> int:
        if timeout_ms and self.portions and not self.portions[0]:
            self.portions.pop(0)
        here = self.portions[0][:count] if self.portions else []
        if here:
            del self.portions[0][:count]
        for place, record in enumerate(here):
            value, key = record.value, record.key
            sizes = len(value or b""), len(key or b"")
            message = _Message(
                record.error, None, record.partition, value, sizes[0], key, sizes[1], record.offset
            )
            into[place] = ctypes.addressof(message)
            self._alive[ctypes.addressof(message)] = message, record
        return len(here)

    def _headers(self, at: int, into: Any) -> int:
        into[0] = at
        return 0 if self._alive[at][1].headers else -1

    def _header(self, at: int, index: int, name: Any, value: Any, size: Any) -> int:
        headers = self._alive[at][1].headers
        if index >= len(headers):
            return -1
        name[0], value[0] = headers[index]
        size[0] = len(headers[index][1] or b"")
        return 0

    @property
    def is_clean(self) -> bool:
        """Whether each message was given back."""
        return not self._alive


@pytest.fixture(scope="module")
def take(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The C function, compiled for this run."""
    if _CC is None:
        pytest.skip("there is no C compiler")
    file = tmp_path_factory.mktemp("copy") / "copy.so"
    subprocess.run([_CC, "-O2", "-shared", "-fPIC", "-o", file, SOURCE], check=True)
    return take_function(file)


TEXTS = st.none() | st.binary(max_size=30)
NAMES = st.binary(max_size=5).filter(lambda name: b"\0" not in name)
# Python's dates end in the year 9999.
TIMES = st.integers(-1, 250_000_000_000_000)


@st.composite
def portions(draw: st.DrawFn) -> list[list[Record]]:
    """Records of two partitions, with holes, and the ends of these."""
    sent: list[Record] = []
    at = [0, 10]
    for partition in draw(st.lists(st.sampled_from((0, 1)), max_size=60)):
        headers = draw(st.lists(st.tuples(NAMES, TEXTS), max_size=3))
        sent.append(Record(partition, at[partition], draw(TEXTS), draw(TEXTS), draw(TIMES), tuple(headers)))
        at[partition] += draw(st.sampled_from((1, 1, 1, 5)))
    sent += (Record(partition, 1_000, b"the end", error=END) for partition in (0, 1))
    cut = sorted(draw(st.lists(st.integers(0, len(sent)), max_size=4)))
    return [
        sent[start:stop] for start, stop in zip([0, *cut], [*cut, len(sent)], strict=True) if start < stop
    ]


def rows(copier: Copier) -> list[dict[str, Any]]:
    """The records of all batches, until all ranges have ended."""
    read: list[dict[str, Any]] = []
    while copier.open:
        batch = copier.pull(1).batch
        if batch is not None:
            batch.validate(full=True)
            read += batch.to_pylist()
    return read


@given(sent=portions(), ends=st.tuples(st.integers(1, 90), st.integers(11, 90)), headers=st.booleans())
def test_rows_are_the_records_of_the_ranges(
    take: Any, sent: list[list[Record]], ends: tuple[int, int], headers: bool
) -> None:
    """All of them, in their order, null apart from empty, and each message is given back."""
    there = [one for portion in sent for one in portion if not one.error and one.offset < ends[one.partition]]
    queue = Queue(sent)
    functions = queue.functions
    copier = Copier(functions, None, take, chunk=7)
    copier.begin({0: 0, 1: 10}, dict(enumerate(ends)), headers=headers)
    names = schema_of(headers=headers).names
    assert rows(copier) == [{name: one.row[name] for name in names} for one in there]
    copier.drop()
    assert queue.is_clean


def test_a_record_may_be_larger_than_all_buffers(take: Any) -> None:
    """The buffers grow for it alone, in a batch of its own."""
    values = [b"small", bytes(40 * 1024**2), b"small"]
    queue = Queue([[Record(0, offset, value) for offset, value in enumerate(values)]])
    functions = queue.functions
    copier = Copier(functions, None, take)
    copier.begin({0: 0}, {0: 3}, headers=True)
    batches = []
    while copier.open:
        batches.append(copier.pull(1).batch)
    assert [batch.num_rows for batch in batches if batch] == [1, 1, 1]
    assert [row for batch in batches if batch for row in batch["value"].to_pylist()] == values


@pytest.mark.parametrize("edge", [2**63 - 1, -(2**63), (2**63 - 1) // 1000 + 1])
def test_any_number_is_a_timestamp(take: Any, edge: int) -> None:
    """What Arrow cannot hold is null."""
    queue = Queue([[Record(0, 0, timestamp_ms=edge)]])
    functions = queue.functions
    copier = Copier(functions, None, take)
    copier.begin({0: 0}, {0: 1}, headers=False)
    batch = copier.pull(1).batch
    assert batch is not None
    assert batch["timestamp"].to_pylist() == [None]


def test_what_has_arrived_is_handed_over_on_request(take: Any) -> None:
    """A batch that is not full, once; the range goes on."""
    queue = Queue([[Record(0, 0, b"a")], [], [Record(0, 1, b"b")]])
    functions = queue.functions
    copier = Copier(functions, None, take)
    copier.begin({0: 0}, {0: 2}, headers=False)
    assert copier.pull(1).batch is None
    batches = [copier.pull(0, flush=True).batch, copier.pull(0, flush=True).batch, copier.pull(1).batch]
    assert [batch and batch["offset"].to_pylist() for batch in batches] == [[0], None, [1]]


def test_an_error_among_records_is_handed_over(take: Any) -> None:
    """With its text, and the records before and behind it stay."""
    sent = [Record(0, 0), Record(0, 0, b"away", error=-195), Record(0, 1), Record(0, 5, error=END)]
    queue = Queue([sent])
    functions = queue.functions
    copier = Copier(functions, None, take)
    copier.begin({0: 0}, {0: 3}, headers=False)
    problem = copier.pull(1).problem
    assert problem == (-195, 0, "away")
    assert [row["offset"] for row in rows(copier)] == [0, 1]


@pytest.mark.integration
def test_no_byte_beyond_a_buffer_is_touched(tmp_path: Path) -> None:
    """Random messages with buffers of exactly their room, under AddressSanitizer."""
    if _CC is None:
        pytest.skip("there is no C compiler")
    program = tmp_path / "fuzz"
    flags = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I", SOURCE.parent]
    built = subprocess.run([_CC, *flags, "-o", program, _FUZZ], capture_output=True, text=True, check=False)
    if "sanitize" in built.stderr or "asan" in built.stderr:
        pytest.skip("the C compiler has no AddressSanitizer")
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([program, "1", "3000"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "equal\n"), ran.stderr[-3000:]
