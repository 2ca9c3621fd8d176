"""Files on S3 take no more requests than necessary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabletopic_kernel.clients.catalog.pyiceberg_seams.files import SmallFileIO
from tests.servers.answering_store import AnsweringStore


@pytest.fixture
def store() -> Iterator[AnsweringStore]:
    """S3 that returns the same response to every request."""
    with AnsweringStore() as started:
        yield started


def files_of(store: AnsweringStore) -> SmallFileIO:
    """Files there."""
    keys = {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.region": "eu-central-1"}
    return SmallFileIO({"s3.endpoint": store.url, "s3.request-timeout": "120", **keys})


def test_a_written_file_is_one_request(store: AnsweringStore) -> None:
    """Its length is what went out, and nothing is looked for under a name that has a new UUID."""
    rows = pa.table({"a": [1, 2, 3]})
    written, parquet = (files_of(store).new_output(f"s3://lake/{name}") for name in ("text", "rows"))
    with written.create(overwrite=True) as stream:
        stream.write(b"four")
        stream.write(b"teen")
    with parquet.create(overwrite=True) as stream:
        pq.write_table(rows, stream)
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    assert (len(written), len(parquet)) == (8, sink.getvalue().size)
    assert store.requests == ["PUT /lake/text", "PUT /lake/rows"]


def test_the_length_of_a_file_that_failed_is_asked_for(store: AnsweringStore, tmp_path: Path) -> None:
    """What the storage did not take, or somebody else wrote, is as long as the storage says."""
    store.aws_error("AccessDenied", 403)
    failed = files_of(store).new_output("s3://lake/text")
    with pytest.raises(OSError, match="ACCESS_DENIED"), failed.create(overwrite=True) as stream:
        stream.write(b"four")
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        len(failed)
    (tmp_path / "there").write_bytes(b"three")
    there = SmallFileIO().new_output(f"file://{tmp_path}/there")
    assert len(there) == 5
    with pytest.raises(FileExistsError):
        there.create()
