"""The page of all topics shows the numbers of the record."""

from __future__ import annotations

from typing import Any

import panel as pn
from bokeh.models import ColumnDataSource

from tabletopic_kernel._dashboards.overview import OverviewPage, page, row, summary
from tabletopic_kernel.faces.live_dashboard.theme import DARK
from tabletopic_kernel.faces.live_dashboard.view import View
from tabletopic_kernel.faces.live_dashboard.widgets import TopicTable
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.progress_view import Record
from tabletopic_kernel.model.settings.desired import DesiredTopic
from tests.faces.live_dashboard.conftest import NOW, told


def texts(panel: Any) -> str:
    """All HTML of a page."""
    return "\n".join(pane.object for pane in panel.select(pn.pane.HTML))


def test_a_row_has_the_record_s_numbers(view: View) -> None:
    """Lag, rate, schema, commits, rows, letters and host are the record's; each topic has a line."""
    assert row(view, "clicks") == {
        "topic": "clicks", "need": 2, "state": "running", "lag": 40, "behind": 4.0, "rate": 100,
        "schema": "v1, v2", "committed": NOW - 1_000, "commits": 120, "rows": 60_000,
        "letters": 15, "host": "vm-1", "error": "",
    }  # fmt: skip
    made = page(view)
    (table,) = made.select(TopicTable)
    assert [one["topic"] for one in table.all["rows"]] == ["clicks", "orders", "views"]
    sources = list(made.get_root().select({"type": ColumnDataSource}))
    lines = next(source.data for source in sources if "line0" in source.data)
    assert (lines["line0"][-1], lines["line1"][-1], lines["line2"][-1]) == (40, 40, 7)
    assert summary(view) == (
        "3 table topics: 1 running, 1 failed, 1 no host. Lag 87 records. Hosts: vm-1 runs 2."
    )


def test_trouble_and_silence_are_told(view: View) -> None:
    """A failed topic says why; one without a host says what to do; what is not known is no zero."""
    assert row(view, "orders")["error"] == "partition 1, offset 77: no number"
    silent = row(view, "views")
    assert (silent["state"], silent["lag"], silent["rate"], silent["committed"]) == ("no host", 7, None, None)
    assert "tabletopic serve" in silent["error"]


def test_a_host_is_shown_with_what_it_reports(view: View, record: Record) -> None:
    """Its version, since when and its memory; of an older one the number of topics alone."""
    before = summary(view)
    assert "vm-1 runs" in before
    assert "version" not in before
    beat = events.HostHeartbeat(
        at_ms=NOW, host="vm-1", topics=[], started_ms=NOW - 75_000, version="1.2.3", memory_bytes=2**31
    )
    record.fold([beat])
    assert "(version 1.2.3, up 1 m 15 s, 2.0 GiB)" in summary(view)
    assert "" not in record.topics


def test_a_broker_that_is_away_says_nothing_of_hosts(view: View) -> None:
    """Heartbeats come through the broker: without it nobody is told to start a host."""
    view.now_ms = NOW + 60_000
    assert row(view, "clicks")["state"] == "no host"
    view.troubles = {"broker": "the broker does not respond"}
    told = row(view, "clicks")
    assert (told["state"], told["error"]) == ("unknown", "")


def test_only_cells_that_changed_are_sent(view: View, record: Record) -> None:
    """A commit of one topic changes its cells; the rows are not sent again."""
    made = OverviewPage()
    made.show(view)
    (table,) = made.panel.select(TopicTable)
    rows = table.all
    record.observe_ends(NOW + 500, {"clicks": {0: 36_050, 1: 24_000}})
    made.show(view)
    assert table.all is rows
    assert table.changes == {"clicks": {"lag": 50}}


def test_what_to_do_first() -> None:
    """Without servers, and without a topic, the page says what to do; servers away are told in full."""
    empty = View(Record(), NOW, desired_topics={})
    assert "<code>tabletopic enable NAME</code>" in texts(page(empty))
    away = View(Record(), NOW, troubles={"servers": "start the local stack with `tabletopic up`"})
    assert "tabletopic up" in texts(page(away))
    assert "Connecting to the broker" in texts(page(View(Record(), NOW)))


def test_names_from_outside_are_escaped(record: Record) -> None:
    """Text of a topic, an error or a host is text, never markup."""
    record.fold(told("x", error="<img src=x>"))
    away = View(
        record, NOW, desired_topics={"x": DesiredTopic(topic="x")}, hosts=("<b>h</b>",), troubles={"a": "<i>"}
    )
    html = texts(page(away, DARK))
    assert "<b>h</b>" not in html
    assert "<i>" not in html
    assert "&lt;i&gt;" in html
