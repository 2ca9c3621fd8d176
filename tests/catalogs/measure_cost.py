"""What a record costs on another catalog and storage: ``python -m tests.catalogs.measure_cost``.

CPU of a host's process tree per record, in turns with the embedded stack's; the servers are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from benchmarks.load import make_load
from benchmarks.measure import cpu_of_path, running_host
from tabletopic_kernel.local.progress import CountBar, TerminalReport
from tabletopic_kernel.local.stack import LocalStack, StackInfo
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.workbench import Workbench
from tests.catalogs.lakes import LAKES

EMBEDDED = "embedded"


def main() -> None:
    """Print a line for each run, and the ratio of each turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lake", choices=LAKES, default="REST, S3")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--records", type=int, default=2_000_000, help="counted in a turn")
    parser.add_argument("--warm-up", type=int, default=1_000_000)
    asked = parser.parse_args()
    costs: dict[str, list[float]] = {EMBEDDED: [], asked.lake: []}
    with (
        tempfile.TemporaryDirectory(prefix="tabletopic-cost-") as name,
        LAKES[asked.lake](Path(name)) as lake,
    ):
        local = LocalStack(Path(name) / "stack", TerminalReport())
        try:
            stack = local.up(die_with_parent=True)
            sections = {EMBEDDED: {}, asked.lake: lake.properties}
            for turn in range(asked.turns):
                # Each is first in every other turn, as the machine's speed drifts.
                for what, catalog in list(sections.items())[:: 1 if turn % 2 == 0 else -1]:
                    cost = _cost(stack, catalog, f"{len(costs)}-{turn}-{len(catalog)}", asked)
                    costs[what].append(cost)
                    print(f"{what}: {cost:.2f} µs a record")  # noqa: T201 - a script for people
        finally:
            local.down()
    ratios = [lake / own for own, lake in zip(costs[EMBEDDED], costs[asked.lake], strict=True)]
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"{asked.lake}: {median(ratios):.2f} times as much, the median of {each}")  # noqa: T201


def _cost(stack: StackInfo, catalog: Mapping[str, str], name: str, asked: argparse.Namespace) -> float:
    """CPU µs per record of JVM and Python together."""
    config = stack.state_dir / f"{name}.toml"
    lines = [f"state_dir = {json.dumps(str(stack.state_dir))}"]
    if catalog:
        lines += ["[catalog]", *(f"{json.dumps(key)} = {json.dumps(one)}" for key, one in catalog.items())]
    config.write_text("\n".join(lines) + "\n")
    os.environ["TABLETOPIC_CONFIG"] = str(config)
    workbench = Workbench(load_settings().settings)
    load = make_load(workbench, f"load-{name}", "avro")
    total = asked.records + asked.warm_up
    with CountBar(total, "filling the topic", "records") as bar:
        load.send(workbench, total, bar.to)
    with running_host(stack) as host:
        jvm, python, _ = cpu_of_path(workbench, host, load, asked.records, asked.warm_up)
    return jvm + python


if __name__ == "__main__":
    main()
