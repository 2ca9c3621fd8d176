"""The commands of the manual's pages, in the pages' order, on the shared stack: each does its work."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tabletopic_kernel.faces.cli import main
from tabletopic_kernel.local.stack import StackInfo
from tabletopic_kernel.model.topic_names import kafka_topic
from tabletopic_kernel.workbench.workbench import Workbench
from tests.integration.conftest import made_topic
from tests.integration.rows import FAST, field, record
from tests.test_architecture import blocks
from tests.test_pages import PAGES, commands

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("host")]

# In this order: later pages delete what earlier ones read.
HERE = (
    "docs/how-to/query.md",
    "docs/how-to/live.md",
    "docs/tutorial/find-a-record.md",
    "docs/how-to/trouble.md",
    "docs/how-to/commit-interval.md",
    "docs/how-to/dead-letters.md",
    "docs/how-to/operate/maintenance.md",
    "docs/how-to/incompatible-schemas.md",
    "docs/how-to/upsert.md",
    "docs/tutorial/delete-rows.md",
    "docs/how-to/change-a-topic.md",
)
# These need other servers, another machine, or are the set-up itself.
ELSEWHERE = {
    "CONTRIBUTING.md": "tests/test_pages.py",
    "README.md": "tests/faces/notebook/test_first_cells.py",
    "docs/explanation/sizing.md": "tests/test_sizing.py",
    "docs/how-to/change-data.md": "tests/database/test_page.py",
    "docs/how-to/operate/container.md": "tests/test_deploy.py",
    "docs/how-to/operate/cut-log.md": "tests/recovery/test_cut_log.py",
    "docs/how-to/operate/kubernetes.md": "tests/test_deploy.py",
    "docs/how-to/operate/monitor.md": "tests/recovery/test_monitoring.py",
    "docs/how-to/operate/spark-cluster.md": "tests/recovery/test_cluster.py",
    "docs/how-to/operate/systemd.md": "tests/test_deploy.py",
    "docs/how-to/s3-tables-and-athena.md": "tests/athena/test_walkthrough.py",
    "docs/how-to/your-servers.md": "tests/catalogs/test_conformance.py",
    "docs/reference/json-and-rest.md": "tests/integration/test_faces.py",
    "docs/reference/settings.md": "tests/test_pages.py",
    "docs/reference/types.md": "tests/integration/test_formats.py",
    "docs/tutorial/install.md": ".ci/run",
    "docs/tutorial/jupyterlab.md": "tests/browser/test_story.py",
}
LEFT_OUT = ("spark-shell", "--follow", "--engine spark", "serve")
FAILS = ("plan orders --schema",)  # so that a build can check each change
OUTPUT = {
    "query --live": "NL",
    "peek clicks --key": "u-47",
    "peek clicks --from oldest": "NL",
    "peek clicks --at": "no record",
    "letters clicks --where reason = 'avro_length' -n": "avro_length",
    "plan orders --schema": "does not fit the table",
    "plan orders --partition-by": "partition by day(ts), tenant",
    "events orders": "price is double in the table and string in the new schema",
    "replay orders": "became rows",
    "query SELECT id, price, price_string": "three",
    "erase clicks": "1 row",
}
NAMES = re.compile(r"\b(clicks|orders|sessions|customers|shop)(?![a-z])")
DAY = re.compile(r"2026-01-31T12:00:00Z")
_TIME = {"type": "long", "logicalType": "timestamp-millis"}
CLICK = record(
    *(field(name, "string") for name in ("user_id", "session_id", "event_type", "country")),
    field("price", "double"),
    field("event_time", _TIME),
    name="Click",
)


def order(price: str) -> str:
    """The schema of an order whose price has that type."""
    return record(
        field("id", "long"), field("price", price), field("ts", _TIME), field("tenant", "string"), name="Or"
    )


class Shop:
    """Topics with the names that the pages use, and an end of their own."""

    def __init__(self, stack: StackInfo, bench: Workbench, caught_up: Callable[..., Any]) -> None:
        self.end = uuid.uuid4().hex[:6]
        self._bench, self._caught_up = bench, caught_up
        made = partial(made_topic, stack)
        self.clicks, self.orders = made(2, f"clicks{self.end}"), made(1, f"orders{self.end}")
        others = ("sessions{}", "customers{}", "shop{}.carts", "shop{}.bills", "shop{}.test1")
        self.senders = [self.clicks, self.orders, *(made(1, name.format(self.end)) for name in others)]
        for number in range(50):
            self.clicks.avro(CLICK, self._click(number), key=b"u%05d" % number)
        negative = self.clicks.serialize(CLICK, self._click(0))[:5] + b"\1"  # the first text's length
        for bad in (b"no record", b"\x00\x7f\x00\x00\x00\x00", negative):
            self.clicks.raw(bad)
        self.clicks.flush()
        self._order("double", 1.5)
        for sender in (self.clicks, self.orders):
            bench.enable(sender.topic, FAST)
        for sender in (self.clicks, self.orders):
            caught_up(sender.topic)

    @staticmethod
    def _click(number: int) -> dict[str, Any]:
        """A click of the user with that number."""
        texts = {"user_id": f"u-{number}", "session_id": f"s{number:05}", "country": "NL"}
        price, at = number * 2.0, datetime.now(UTC)
        return {**texts, "event_type": "purchase", "price": price, "event_time": at}

    def _order(self, kind: str, price: float | str) -> None:
        value = {"id": 5, "price": price, "ts": datetime.now(UTC), "tenant": "a"}
        self.orders.avro(order(kind), value)

    def prepare(self, words: str) -> None:
        """What the page's text says has happened before a command."""
        if words.startswith("plan orders --schema"):
            Path("order-v2.avsc").write_text(order("string"))
        if words.startswith("events orders"):
            self.orders.registry.set_compatibility(f"{self.orders.topic}-value", level="NONE")
            self._order("string", "three")
            self._caught_up(self.orders.topic)

    def run(self, words: list[str], output: Callable[[], str]) -> None:
        """Run a command, with this shop's names and the time of now; ``output``: what it wrote."""
        text = " ".join(words)
        self.prepare(text)
        now = datetime.now(UTC).isoformat()
        named = [DAY.sub(now, NAMES.sub(rf"\g<1>{self.end}", word)) for word in words]
        state = ["--state-dir", str(self._bench.servers.state_dir)]
        code, written = main([*state, *named]), output()
        assert code == int(text.startswith(FAILS)), f"{text}: {written}"
        for begin, part in OUTPUT.items():
            assert part in written or not text.startswith(begin), f"{text}: {written}"

    def close(self) -> None:
        """Disable what was enabled."""
        for sender in self.senders:
            sender.registry.close()
        own = {sender.topic for sender in self.senders}
        for name in self._bench.desired_topics():
            if kafka_topic(name) in own:
                self._bench.disable(name)


@pytest.fixture(scope="module")
def shop(stack: StackInfo, bench: Workbench, caught_up: Callable[..., Any]) -> Iterator[Shop]:
    """Clicks, some of them bad, and orders, whose next schema does not fit."""
    shop = Shop(stack, bench, caught_up)
    yield shop
    shop.close()


@pytest.mark.parametrize("page", HERE)
def test_the_commands_of_a_page_work(
    page: str, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One after the other, with the exit code and the figures that the page names."""

    def output() -> str:
        return "".join(capfd.readouterr())

    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "console"):
        for words in commands(block):
            if words[:1] == ["tabletopic"] and not any(left in " ".join(words) for left in LEFT_OUT):
                shop.run(words[1:], output)


def test_each_page_with_commands_is_tried() -> None:
    """Here, or by a test that exists."""
    assert {page for page in PAGES if blocks(page, "console")} == {*HERE, *ELSEWHERE}
    assert all(Path(test).exists() for test in ELSEWHERE.values())
