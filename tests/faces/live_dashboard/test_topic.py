"""The page of one topic shows the numbers of the record."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from datetime import UTC
from typing import Any

import panel as pn
import pytest
from bokeh.document import Document
from bokeh.document.events import ColumnsPatchedEvent, ColumnsStreamedEvent
from bokeh.models import ColumnDataSource, Plot

from tabletopic_kernel._dashboards.topic import TopicPage, opening, page
from tabletopic_kernel.faces.live_dashboard import cards
from tabletopic_kernel.faces.live_dashboard.view import Retention, View
from tabletopic_kernel.model.progress import events
from tabletopic_kernel.model.progress.progress_view import Record
from tabletopic_kernel.table.health import FileSizes, NextWork
from tests.faces.health import health
from tests.faces.live_dashboard.conftest import NOW, progress


def texts(panel: Any) -> str:
    """All HTML of a page."""
    return "\n".join(pane.object for pane in panel.select(pn.pane.HTML))


def sources(panel: Any) -> dict[str, dict[str, Any]]:
    """The plots' data by the name of their first column."""
    found = panel.get_root().select({"type": ColumnDataSource})
    return {next(name for name in one.data if name != "at"): one.data for one in found}


def test_plots_have_the_record_s_numbers(view: View) -> None:
    """Lag, seconds, rates, files and sizes are the events'; each plot is a figure with a name."""
    drawn = sources(page(view, "clicks"))
    assert (drawn["line0"]["line0"][-1], drawn["line0"]["line1"][-1]) == (40, 0)
    assert drawn["rows"]["rows"][-1] == pytest.approx(100)
    assert drawn["bytes"]["bytes"][-1] == pytest.approx(8_000)
    assert set(drawn["files"]["files"]) == {2}
    assert set(drawn["file_bytes"]["file_bytes"]) == {20_000}
    assert drawn["changed"]["at"] == [NOW - 300_000, NOW - 200_000]
    assert (drawn["changed"]["changed"][0], drawn["changed"]["refused"][1]) == (2, 2)
    made = page(view, "clicks")
    headings = re.findall("<h2>(.*?)</h2>", texts(made))
    plots = list(made.get_root().select({"type": Plot}))
    assert len(plots) == 8
    for plot in plots:
        assert plot.html_attributes["role"] == "figure"
        (name,) = re.findall(r"^Plot: (.*)\. The text before it", plot.html_attributes["aria-label"])
        assert name in headings


def test_text_says_what_the_plots_show(view: View) -> None:
    """State, lag, snapshot, retention, schema changes, dead letters and owners are in words too."""
    html = texts(page(view, "clicks"))
    for told in (
        "40 records",
        "oldest is 4.0 s old",
        "100 rows/s",
        "v1, v2",
        "9000000000000000120",
        "6 d 23 h",
        "add country string",
        "clicks-value version 2 (id 2)",
        "15 records refused; 15 stored in default.clicks__dead_letters.",
        "No row: 2,000 filtered.",
        "unknown_schema",
        "replace (external)",
        "vm-1 owns this topic",
        "taken over by vm-1, epoch 3",
    ):
        assert told in html, told


def shown_titles(panel: Any) -> list[str]:
    """Titles of the displayed cards, in order."""
    (box,) = panel.select(pn.FlexBox)
    return [
        title
        for card in box
        if card.visible
        for title in re.findall(r"<h2>([^<:]*)", "".join(pane.object for pane in card.select(pn.pane.HTML)))
    ]


def test_before_the_first_commit_no_plot_is_empty(view: View) -> None:
    """Cards are there for what there is to draw; a line says what comes with the first commit."""
    first = progress("new", 0).model_copy(update={"refused": {}, "passed_over": {}, "dead_letters": 0})
    view.record.fold([events.Heartbeat(topic="new", host="vm-1", at_ms=NOW - 500, progress=first)])
    view.record.observe_ends(NOW - 4_000, {"new": {0: 300, 1: 50}})
    made = page(view, "new")
    assert shown_titles(made) == [
        "Commit lag by partition", "Commit lag in seconds", "Table health", "Schema versions", "Snapshots",
        "Dead letters", "Hosts and events",
    ]  # fmt: skip
    html = texts(made)
    assert "Rates, files and file sizes appear after the first commit." in html
    assert "every record became a row" not in html.lower()


def test_a_topic_that_rests_has_no_plots_of_commits(view: View) -> None:
    """Rates and files of the last ten minutes, long after the last commit; how long ago it was is drawn."""
    view.now_ms = NOW + 3_600_000
    view.record.observe_ends(view.now_ms, {"clicks": {0: 36_040, 1: 24_000}})
    made = page(view, "clicks")
    assert "No commit in this time range" in texts(made)
    assert "Seconds since the last commit" in shown_titles(made)
    assert not {"Rows committed per second", "Data files per commit"} & set(shown_titles(made))


def test_text_from_outside_is_escaped(view: View) -> None:
    """A record's message cannot become markup."""
    html = texts(page(view, "clicks"))
    assert "<script>" not in html
    assert "<b>text</b>" not in html
    assert "&lt;script&gt;" in html


def test_a_page_begins_with_its_figures(view: View) -> None:
    """What stands before the plots is there without them, word for word, and escaped too."""
    view.troubles = {"broker": "<b>no answer</b>"}
    html = texts(page(view, "clicks"))
    begun = opening(view, "clicks")
    for told in ("<h1>clicks</h1>", "40 records", "100 rows/s", "&lt;b&gt;no answer&lt;/b&gt;"):
        assert told in begun, told
        assert told in html, told
    assert "<b>no answer</b>" not in begun


def test_a_commit_is_a_patch(view: View, record: Record) -> None:
    """The next commit adds to the plots; what is drawn already is not sent again."""
    made = TopicPage("clicks")
    made.show(view)
    document = Document()
    document.add_root(made.panel.get_root())
    sources: Any = document.select({"type": ColumnDataSource})
    source = next(one for one in sources if "line0" in one.data)
    sent: list[Any] = []
    document.on_change(sent.append)
    record.fold(
        [
            events.Committed(
                topic="clicks",
                at_ms=NOW + 4_000,
                host="vm-1",
                snapshot_id=121,
                rows=500,
                files=1,
                bytes=1,
                seconds=0.1,
                progress=progress("clicks", 121),
            )
        ]
    )
    record.observe_ends(NOW + 4_500, {"clicks": {0: 36_300, 1: 24_200}})
    view.now_ms = NOW + 5_000
    made.show(view)
    ours = [one for one in sent if getattr(one, "model", None) is source]
    assert {type(one) for one in ours} <= {ColumnsStreamedEvent, ColumnsPatchedEvent}
    assert sum(len(one.data["at"]) for one in ours if isinstance(one, ColumnsStreamedEvent)) == 1
    assert source.data["line0"][-1] == 0
    assert "60,500" in texts(made.panel)


def test_what_to_do_next(view: View) -> None:
    """No host, not enabled, failed, and records about to be lost are told with the next step."""
    alone = texts(page(view, "views"))
    assert "resumes at the table" in alone
    assert "<code>%topic host start</code> in a notebook or <code>tabletopic serve</code> in a term" in alone
    assert "<code>tabletopic enable nothing</code>" in texts(page(view, "nothing"))
    assert "partition 1, offset 77: no number" in texts(page(view, "orders"))
    view.retention = {"views": Retention(3_600_000 + 60_000, None, "delete")}
    assert "not in the table in 1 m 0 s" in texts(page(view, "views"))


def test_letters_can_be_tried_again(view: View) -> None:
    """The button asks once, the page goes on meanwhile, and the outcome is told in words."""
    asked: list[str] = []
    go_on = threading.Event()

    def replay(topic: str) -> str:
        asked.append(topic)
        assert go_on.wait(240)
        return "12 letters <are> rows"

    made = TopicPage("clicks", replay=replay)
    made.show(view)
    (button,) = made.panel.select(pn.widgets.Button)
    assert (button.visible, button.disabled) == (True, False)
    button.clicks += 1
    button.clicks += 1
    made.show(view)
    assert button.disabled
    assert "replays them" in texts(made.panel)
    go_on.set()
    deadline = time.monotonic() + 240
    while "12 letters &lt;are&gt; rows" not in texts(made.panel):
        assert time.monotonic() < deadline
        made.show(view)
    assert asked == ["clicks"]
    assert not button.disabled


def test_health_shows_sizes_deletes_and_what_comes_next(view: View) -> None:
    """Files by size with bars, rows that are deleted, and why maintenance does something or nothing."""
    assert "shortly after the first commit" in cards.health(view, "clicks", UTC)
    sizes = [FileSizes(131_072, 30, 900_000), FileSizes(None, 10, 9_000_000_000)]
    nexts = [NextWork("compact", due=True, why="40 files of 30 KiB <b>can</b> be one")]
    found = health("clicks", sizes=sizes, files=40, small_files=30, deleted_rows=1_234, next_work=nexts)
    html = cards.health(replace(view, health={"clicks": found}), "clicks", UTC)
    for text in ("40 files, 75% below a quarter", "to 128.0 KiB", "larger", "width:33%", "1,234 rows by"):
        assert text in html
    assert "Next compaction" in html
    assert "&lt;b&gt;can" in html
