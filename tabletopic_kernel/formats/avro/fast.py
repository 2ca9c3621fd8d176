"""The fast Avro engine: DataFusion's native reader on a whole group, with proof of the record boundaries.

The bodies of one schema id, laid end to end, are the block of an Avro object container file. The file is in
memory (``memfd``). Its schema is ours, not the writer's: the same bytes with simpler types (``fast_schema``),
because the reader is lax where the exact engine is strict.

*Why this is exact.* In the Kafka values, every body is followed by the next value's 5-byte prefix. In the
file, those 5 bytes are a random token, and the schema ends with ``fixed(5)``: a row is right only if its last
field is the token. n rows that all end at one of n tokens, the last one at the end of the file, take one
record each. A writer cannot forge the token, because it is drawn after the records were written.

**Bounds.** The batch size is the row count, and only the first batch is taken: asked for more, this reader
loops forever on bytes left in a block. Otherwise its time and memory are proportional to the bytes, except
for array items that take no bytes: schemas with such items are refused.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pyarrow as pa
from datafusion import DataFrame, SessionConfig, SessionContext

from tabletopic_kernel.formats import driver
from tabletopic_kernel.formats.arrays import Bodies, Mask
from tabletopic_kernel.formats.avro.fast_schema import Planner, fields_of, smallest, with_metadata
from tabletopic_kernel.formats.avro.prefilter import Prefilter
from tabletopic_kernel.formats.avro.schema import AvroSchema
from tabletopic_kernel.formats.avro.types import columns_of
from tabletopic_kernel.formats.driver import FastRows
from tabletopic_kernel.formats.rejection import NotRows, UnsupportedError, native_reader
from tabletopic_kernel.formats.wire import PREFIX_BYTES, varint

# Below this, halving a group finds its bad records as fast as a walk over it.
MIN_PREFILTERED_RECORDS: Final = 500
_SYNC: Final = b"tabletopic-sync."
_PROOF: Final = "proof"


class FastEngine(driver.FastEngine):
    """Decodes groups of records of one schema; raises UnsupportedError if it cannot take the schema."""

    min_records = 48  # a call takes about 1 ms, whatever the size

    def __init__(self, schema: AvroSchema, arrow_schema: pa.Schema) -> None:
        self._prefilter = Prefilter(schema)
        self._arrow_schema = arrow_schema
        planner = Planner()
        columns = columns_of(schema)
        plans = [planner.plan(node, f.type) for (_, node, _), f in zip(columns, arrow_schema, strict=True)]
        # Our own names: the proof cannot clash with a field, whatever its name.
        fields, self._convert = fields_of(plans)
        fields.append({"name": _PROOF, "type": {"type": "fixed", "name": "boundary", "size": PREFIX_BYTES}})
        record = {"type": "record", "name": "row", "fields": fields}
        self._header = _container_header(record)
        self._read_schema = self._probe(record)

    def _probe(self, record: dict[str, Any]) -> pa.Schema:
        """Let the reader read one record: finds schemas that it cannot read; returns its Arrow schema."""
        block = smallest(record)
        with _memory_file(self._header, _zigzag(1) + _zigzag(len(block)) + block + _SYNC) as path:
            try:
                # Its planner drops the names that its reader attaches to union branches, and then fails on
                # the difference: pass the schema explicitly.
                inferred = _open(path, 1, None).schema()
                fields = zip(inferred, record["fields"], strict=True)
                schema = pa.schema([with_metadata(field, avro["type"]) for field, avro in fields])
                _first_batch(_open(path, 1, schema))
            except Exception as error:  # DataFusion raises bare Exception
                raise UnsupportedError(f"the native reader refuses the schema: {error}") from error
        return schema

    def rows(self, bodies: Bodies) -> FastRows:
        """See ``driver.FastEngine``; ``bodies`` have a prefix in front. None of the rows is a suspect."""
        count = len(bodies)
        token = os.urandom(PREFIX_BYTES)
        begin, end = int(bodies.offsets[0]) + PREFIX_BYTES, int(bodies.offsets[-1])
        block = np.empty(end - begin + PREFIX_BYTES, np.uint8)
        block[:-PREFIX_BYTES] = bodies.data[begin:end]
        ends = bodies.offsets[1:] - begin  # positions of the next prefix
        for i, byte in enumerate(token):
            block[ends + i] = byte
        head = self._header + _zigzag(count) + _zigzag(len(block))
        with _memory_file(head, block.data, _SYNC) as path:
            batch = _first_batch(_open(path, count, self._read_schema))
        *columns, proofs = batch.columns
        if batch.num_rows != count or not _all_equal(proofs, token):
            raise NotRows("a record does not end where the next one begins")
        try:
            arrays = self._convert(columns, count)
        except pa.ArrowException as error:
            raise NotRows(str(error)) from error
        return FastRows(pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema))

    def suspects(self, bodies: Bodies) -> Mask | None:
        """See ``driver.FastEngine``: a walk over all records at once."""
        if len(bodies) < MIN_PREFILTERED_RECORDS:
            return None
        return self._prefilter.suspects(bodies)


def _open(path: str, rows: int, schema: pa.Schema | None) -> DataFrame:
    context = SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(rows))
    return context.read_avro(path, schema=schema, file_extension="")


def _first_batch(frame: DataFrame) -> pa.RecordBatch:
    with native_reader(Exception):  # DataFusion raises bare Exception
        for batch in frame.execute_stream():
            return batch.to_pyarrow()
    raise NotRows("no rows")


def _all_equal(proofs: pa.Array, token: bytes) -> bool:
    tails = np.frombuffer(proofs.buffers()[1], np.uint8, len(proofs) * PREFIX_BYTES)
    return bool((tails.reshape(-1, PREFIX_BYTES) == np.frombuffer(token, np.uint8)).all())


@contextmanager
def _memory_file(*parts: bytes | memoryview) -> Iterator[str]:
    """A path to a file with ``parts``: where Linux allows it, in memory and gone with the process."""
    in_memory = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")
    if in_memory:
        descriptor = os.memfd_create("tabletopic-avro")
        path = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, path = tempfile.mkstemp(prefix="tabletopic-", suffix=".avro")
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for part in parts:
                rest = memoryview(part)
                while rest:  # one write accepts at most 2 GiB
                    rest = rest[file.write(rest) :]
            yield path
    finally:
        if not in_memory:
            os.unlink(path)


def _zigzag(number: int) -> bytes:
    return varint(number << 1)


def _container_header(record: dict[str, Any]) -> bytes:
    """Avro specification, "Object container files": magic, metadata map, sync marker."""
    out = bytearray(b"Obj\x01" + _zigzag(2))
    for text in (b"avro.schema", json.dumps(record).encode(), b"avro.codec", b"null"):
        out += _zigzag(len(text)) + text
    return bytes(out + b"\0" + _SYNC)
