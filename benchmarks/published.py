"""``python -m benchmarks.published``: the shape of other products' published runs, on REST and S3.

144 bytes a record, five partitions. Both servers run on this machine; their requests are counted, their CPU
is not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.load import make_load
from benchmarks.measure import cpu_of_floor, cpu_of_path, running_host
from tabletopic_kernel.local.progress import CountBar, TerminalReport
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.model.settings.table_names import table_identifier
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.servers.aws import Aws
from tests.servers.http_proxy import HttpProxy
from tests.servers.jvm_servers import ReferenceRest

_BUCKET = "lake"
_PARTITIONS = 5
_PUBLISHED = 1_009_000_000


@dataclass(frozen=True)
class Published:
    """CPU in µs per record of the host's process tree; ``requests`` to S3 by method, warm-up included."""

    records: int
    warm_up: int
    bytes_per_record: int
    cpu_us: float
    cpu_us_jvm: float
    floor_us: float
    records_per_second: int
    commits: int
    files: int
    file_mib: float
    requests: dict[str, int]


def main(arguments: list[str] | None = None) -> int:
    """Print the result as JSON; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.published", description=__doc__)
    parser.add_argument("--records", type=int, default=100_000_000, help="measured (default: %(default)s)")
    parser.add_argument("--warm-up", type=int, default=4_000_000, help="before (default: %(default)s)")
    parser.add_argument("--full", action="store_true", help=f"all {_PUBLISHED:,} records: 145 GB of disk")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="tabletopic-published-") as name,
        Aws(Path(name) / "aws") as aws,
        HttpProxy(aws.url) as storage,
    ):
        aws.bucket(_BUCKET)
        with ReferenceRest(Path(name) / "rest", aws, _BUCKET) as rest:
            catalog = {"name": "lake", "type": "rest", "uri": rest.uri, **aws.properties(storage.url)}
            local = LocalStack(Path(name) / "stack", TerminalReport())
            try:
                bench = _workbench(stack := local.up(die_with_parent=True), catalog)
                records = _PUBLISHED if options.full else options.records
                result = _measured(bench, stack, storage, records, options.warm_up)
            finally:
                local.down()
    sys.stdout.write(json.dumps(asdict(result), indent=1) + "\n")
    return 0


def _workbench(stack: StackInfo, catalog: dict[str, str]) -> Workbench:
    """With the local broker and registry, and this catalog; the host reads the same file."""
    config = stack.state_dir / "published.toml"
    lines = [f"state_dir = {json.dumps(str(stack.state_dir))}", "[catalog]"]
    lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in catalog.items()]
    config.write_text("\n".join(lines) + "\n")
    os.environ["TABLETOPIC_CONFIG"] = str(config)
    return Workbench(load_settings().settings)


def _measured(
    bench: Workbench, stack: StackInfo, storage: HttpProxy, records: int, warm_up: int
) -> Published:
    load = make_load(bench, "load", "avro")
    with CountBar(records + warm_up, "filling the topic", "records") as bar:
        load.send(bench, records + warm_up, bar.to, _PARTITIONS)
    with running_host(stack) as host:
        jvm, python, rate = cpu_of_path(bench, host, load, records, warm_up)
    requests = Counter(method for method, _ in storage.requests)
    table = bench.open_catalog().load_table(table_identifier(load.topic, TopicSettings()))
    folder = f"file://{stack.state_dir}/floor"  # the floor has no store
    local_metadata = table.metadata.model_copy(update={"location": folder}).model_dump_json()
    sizes = table.inspect.files()["file_size_in_bytes"].to_pylist()
    return Published(
        records=records,
        warm_up=warm_up,
        bytes_per_record=round(load.bytes_per_record),
        cpu_us=round(jvm + python, 2),
        cpu_us_jvm=round(jvm, 2),
        floor_us=round(cpu_of_floor(local_metadata, load, 1_000_000), 2),
        records_per_second=round(rate),
        commits=sum("added-records" in (snapshot.summary or {}) for snapshot in table.metadata.snapshots),
        files=len(sizes),
        file_mib=round(sum(sizes) / len(sizes) / 2**20, 1),
        requests=dict(requests),
    )


if __name__ == "__main__":
    sys.exit(main())
