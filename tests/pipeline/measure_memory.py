"""Peak memory of a task over large records: ``python -m tests.pipeline.measure_memory``.

A process for each case stages batches as Spark hands them over: 16 MiB, or one record if it is longer.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tabletopic_kernel.formats.wire import WriterSchema, prefix
from tabletopic_kernel.pipeline.stage import StageTask
from tests.formats.avro_cases import zigzag
from tests.formats.protobuf_cases import text
from tests.pipeline.measure_letters import Format, batch, make_plan

BATCH_BYTES = 16 * 1024**2
TOTAL_BYTES = 512 * 1024**2
AVRO = {"type": "record", "name": "Row", "fields": [{"name": "text", "type": "string"}]}
JSON = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
PROTO = 'syntax = "proto3"; message Row { string text = 1; }'


def _avro(body: bytes) -> bytes:
    return prefix(7) + zigzag(len(body)) + body


def _protobuf(body: bytes) -> bytes:
    return prefix(7) + b"\0" + text(1, body)


def _json(body: bytes) -> bytes:
    return b'{"text": "' + body + b'"}'


def _json_schema(body: bytes) -> bytes:
    return prefix(7) + _json(body)


FORMATS = {
    "avro": (WriterSchema(json.dumps(AVRO)), _avro),
    "protobuf": (WriterSchema(PROTO, kind="PROTOBUF"), _protobuf),
    "json_schema": (WriterSchema(json.dumps(JSON), kind="JSON"), _json_schema),
    "json": (WriterSchema(kind="INFERRED"), _json),
}


@dataclass(frozen=True)
class Case:
    """Records of a size, good or cut, in batches of so many bytes."""

    name: str
    bytes: int
    bad: bool
    batch_bytes: int = BATCH_BYTES


def _batches(case: Case) -> Iterator[pa.RecordBatch]:
    _, frame = FORMATS[case.name]
    count = max(1, case.batch_bytes // case.bytes)
    body = frame(b"x" * case.bytes)
    made = batch([body[:-3] if case.bad else body] * count)
    for _ in range(max(1, TOTAL_BYTES // (count * case.bytes))):
        yield made


def _run(case: Case, answers: multiprocessing.Queue[tuple[int, int]]) -> None:
    writer, frame = FORMATS[case.name]
    form = Format(writer, lambda count: [frame(b"x")] * count, {})
    with tempfile.TemporaryDirectory() as root:
        task = StageTask(make_plan(root, form))
        for _ in task(iter([batch([frame(b"x")] * 100)])):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in task(_batches(case)):
            answers.put((before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def main() -> None:
    """Print the figures."""
    spawn = multiprocessing.get_context("spawn")
    for name in sys.argv[1:] or FORMATS:
        for size in (2_000, 1024**2, 10 * 1024**2):
            for bad in (False, True):
                for batch_bytes in (BATCH_BYTES, 16 * BATCH_BYTES):
                    case = Case(name, size, bad, batch_bytes)
                    answers: multiprocessing.Queue[tuple[int, int]] = spawn.Queue()
                    process = spawn.Process(target=_run, args=(case, answers))
                    process.start()
                    before, peak = answers.get(timeout=600)
                    process.join()
                    what = f"{size:>10,} B, {'cut' if bad else 'good'}"
                    told = f"{name}, {what}, batches of {batch_bytes >> 20} MiB"
                    print(f"{told:60} {before >> 10:6,} MiB, then {peak >> 10:6,} MiB")  # noqa: T201


if __name__ == "__main__":
    main()
