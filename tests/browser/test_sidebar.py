"""Every state of the sidebar and the status bar in a real JupyterLab, with fake responses for each."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from tabletopic_kernel.faces import pages
from tabletopic_kernel.model.progress.delay import Delay
from tests.browser.fake_api import FakeApi, other, running
from tests.browser.pages import LabPage

pytestmark = pytest.mark.integration

NO_SERVERS = "no servers for [kafka]: start the local stack with “Start the local stack”"
# Counts rows that are made, and changes to the document; keeps the longest task of more than 50 ms.
_WATCH = """() => {
    window.watched = { rowsMade: 0, changes: 0, longestMs: 0 };
    new MutationObserver(all => {
        const made = all.flatMap(one => [...one.addedNodes]).filter(node => node.nodeName === 'LI');
        window.watched.rowsMade += made.length;
        window.watched.changes += all.length;
    }).observe(document.querySelector('#tabletopic-sidebar'),
        { childList: true, subtree: true, characterData: true, attributes: true });
    new PerformanceObserver(list => {
        const longest = Math.max(...list.getEntries().map(entry => entry.duration));
        window.watched.longestMs = Math.max(window.watched.longestMs, longest);
    }).observe({ type: 'longtask' });
}"""


def test_without_servers_it_says_what_to_start(page: LabPage, api: FakeApi) -> None:
    """No servers: the reason, and one button, which starts the local stack and then shows its steps."""
    api.servers, api.detail = "none", NO_SERVERS
    page.open()
    expect(page.sidebar).to_contain_text("No servers yet")
    expect(page.sidebar).to_contain_text(NO_SERVERS.replace("`", ""))
    expect(page.page.locator(".jp-TableTopic-statusButton")).to_have_text("no servers")
    page.shot("sidebar-no-servers")
    page.button("Start the local stack").click()
    api.servers, api.detail = "starting", "the local stack is starting: broker"
    expect(page.sidebar).to_contain_text("the local stack is starting: broker")
    item = page.page.locator(".jp-TableTopic-statusButton")
    expect(item).to_have_text("servers starting…")
    expect(item).to_have_attribute("title", "the local stack is starting: broker")
    page.until_asked(api.asked, "POST", "stack")
    # Servers that stop are not offered to be started, until they are gone.
    api.servers, api.detail = "stopping", "the local stack is stopping: hosts commit staged files"
    expect(page.sidebar).to_contain_text("Stopping the servers")
    expect(page.sidebar).to_contain_text(api.detail)
    expect(page.button("Start the local stack")).to_be_hidden()
    expect(item).to_have_text("servers stopping…")
    page.shot("sidebar-stopping")
    api.servers, api.detail = "none", NO_SERVERS
    expect(page.button("Start the local stack")).to_be_enabled()


def test_without_topics_it_offers_sample_events(page: LabPage, api: FakeApi) -> None:
    """No topics: a button sends events; once there is a topic, a hint says to enable it."""
    page.open()
    page.button("Send sample events").click()
    api.topics = [other("clicks")]
    expect(page.row("clicks")).to_contain_text("4 partitions")
    expect(page.sidebar).to_contain_text("No topic is enabled")
    page.until_asked(api.asked, "POST", "sample", {"count": 5000})


def test_a_row_says_state_lag_schema_and_error(page: LabPage, api: FakeApi) -> None:
    """Each state has its word, lag is told in records and time, an error with what to do next."""
    api.topics = [
        running("clicks", lag_records=1204, lag_seconds=3.2),
        running("carts", state="failed", error="the topic is gone; create it anew"),
        running("quiet", state="paused", run="paused"),
        running("alone", state="no_host", error="no host runs this topic"),
        other("orders", 12),
    ]
    page.open()
    for part in ("running", "1,204 behind · 3.2 s", "schema v1", "480 rows/s"):
        expect(page.row("clicks")).to_contain_text(part)
    expect(page.row("carts")).to_contain_text("failed")
    expect(page.row("carts")).to_contain_text("the topic is gone; create it anew")
    expect(page.row("quiet")).to_contain_text("paused")
    expect(page.row("alone")).to_contain_text("no host")
    expect(page.switch("clicks")).to_have_attribute("aria-checked", "true")
    expect(page.switch("orders")).to_have_attribute("aria-checked", "false")
    page.shot("sidebar-states")


def test_a_topic_that_is_late_says_why(page: LabPage, api: FakeApi) -> None:
    """By a word with a sign, and the reason below; the status bar counts them."""
    late = {"lag_records": 90, "lag_seconds": 40.0}
    api.topics = [
        running("clicks", delay="behind", delay_reason=Delay.BEHIND.reason, **late),
        running("orders", delay="waiting_for_turn", delay_reason=Delay.WAITING_FOR_TURN.reason, **late),
        running("views"),
    ]
    page.open()
    for topic, word, tone in (
        ("clicks", "behind", "warn"),
        ("orders", "waiting for turn", "warn"),
        ("views", "running", "good"),
    ):
        row = page.row(topic)
        state = row.locator(".jp-TableTopic-rowState")
        expect(state.locator(".jp-TableTopic-chip")).to_have_text(word)
        expect(state.locator(".jp-TableTopic-sign")).to_have_attribute("data-tone", tone)
    expect(page.row("clicks")).to_contain_text(Delay.BEHIND.reason)
    expect(page.row("orders")).to_contain_text(Delay.WAITING_FOR_TURN.reason)
    item = page.page.locator(".jp-TableTopic-statusButton")
    expect(item).to_have_attribute("title", re.compile("2 tables are more than 3 commits late"))
    page.shot("sidebar-late")


def test_the_status_bar_warns_above_the_limit(page: LabPage, api: FakeApi) -> None:
    """The total lag is in the status bar; above the limit it warns with a sign, and opens the sidebar."""
    api.topics = [running("clicks", lag_records=10, lag_seconds=5.0)]
    page.open(sidebar=False)
    item = page.page.locator(".jp-TableTopic-statusButton")
    expect(item).to_have_text("lag 10 · 5.0 s")
    assert item.get_attribute("data-warn") is None
    item.click()
    expect(page.sidebar).to_be_visible()
    api.topics = [running("clicks", lag_records=10, lag_seconds=61.0)]
    expect(item).to_have_attribute("data-warn", "true")
    expect(item).to_have_attribute("aria-label", re.compile("more than 1 m 0 s behind"))


def test_a_refused_click_says_why(page: LabPage, api: FakeApi) -> None:
    """A topic that cannot be enabled keeps its switch off, and the server's reason is in its row."""
    reason = "no such partition transform: hours(event_time); write hour(event_time)"
    api.topics = [other("clicks")]
    api.answers["PUT", "topics/clicks"] = (400, {"message": reason})
    page.open()
    page.switch("clicks").click()
    expect(page.row("clicks").get_by_role("alert")).to_contain_text(reason)
    expect(page.switch("clicks")).to_have_attribute("aria-checked", "false")
    page.row("clicks").get_by_role("button", name="Dismiss").click()
    expect(page.row("clicks").get_by_role("alert")).to_be_hidden()


def test_an_error_leads_to_its_page(page: LabPage, api: FakeApi) -> None:
    """The link behind it opens the manual at the section; links there lead on, and Back back."""
    api.topics = [running("carts", state="failed", standing="failed", error="its table was dropped")]
    for name in ("README", "trouble", "dead-letters"):
        api.answers["GET", f"manual/{name}"] = (200, {"text": pages.page(name)})
    page.open()
    page.row("carts").get_by_role("link", name="Manual: trouble failed", exact=True).click()
    manual = page.page.locator("#tabletopic-manual")
    section = manual.get_by_role("heading", name="The state is failed")
    expect(section).to_be_in_viewport()
    page.shot("manual")
    manual.get_by_role("link", name="dead letters").last.click()
    expect(manual.get_by_role("heading", name="Dead letters: inspect")).to_be_in_viewport()
    manual.get_by_role("button", name="Back").click()
    expect(section).to_be_in_viewport()
    page.button("Open the manual").click()
    expect(manual.get_by_role("heading", name="The manual")).to_be_in_viewport()


def test_a_server_that_is_away_is_shown(page: LabPage, api: FakeApi) -> None:
    """Jupyter gone: what was known stays, with a warning; when it is back, the warning goes."""
    api.topics = [running("clicks")]
    page.open()
    expect(page.row("clicks")).to_contain_text("up to date")

    def away(route: Route) -> None:
        route.abort()

    page.page.route("**/tabletopic/api/**", away)  # on top: the real server does not respond in between
    warning = page.sidebar.get_by_role("alert").filter(has_text="Jupyter does not respond")
    expect(warning).to_be_visible()
    expect(page.row("clicks")).to_be_visible()
    page.page.unroute("**/tabletopic/api/**", away)
    page.button("Refresh now").click()
    expect(warning).to_be_hidden()


def test_what_needs_a_person_is_on_top(page: LabPage, api: FakeApi) -> None:
    """Then by lag or name, as chosen; the filter also finds states; a state says why."""
    late = {"lag_records": 900, "lag_seconds": 90.0, "caught_up_s": 75.0}
    api.topics = [
        *(running(f"a{number}", lag_records=number) for number in range(7)),
        running("behind", delay="behind", standing="behind", delay_reason="still catching up", **late),
        running("broken", state="failed", standing="refused_too_much", error="none can become a row"),
        running("held", state="paused", run="paused", standing="paused", paused_by="alice"),
        running("idle", state="waiting", standing="waiting_for_registry", error="it does not respond"),
    ]
    page.open()
    rows = page.sidebar.locator("li[data-topic]")
    expect(rows.first).to_contain_text("refused too much")
    expect(rows.nth(1)).to_contain_text("about 1 m 15 s left")
    expect(rows.nth(2)).to_contain_text("waiting for registry")
    expect(page.row("held")).to_contain_text("by alice")
    page.shot("sidebar-needs")
    rows.last.hover()
    api.topics[0] = running("a0", state="failed", standing="failed", error="the topic is gone")
    expect(page.row("a0")).to_contain_text("the topic is gone")
    expect(rows.first).to_have_attribute("data-topic", "broken")  # no row moves under the pointer
    page.page.mouse.move(0, 0)
    expect(rows.first).to_have_attribute("data-topic", "a0")
    order = page.sidebar.get_by_label("Order of topics")
    order.select_option("Largest lag first")
    expect(rows.first).to_have_attribute("data-topic", "behind")
    order.select_option("By name")
    expect(rows.first).to_have_attribute("data-topic", "a0")
    page.sidebar.get_by_label("Filter topics").fill("paused")
    expect(rows).to_have_count(1)


def test_last_known_values_stay_while_the_broker_is_away(page: LabPage, api: FakeApi) -> None:
    """One banner; rows are greyed and say how old they are, and what is unfolded stays."""
    api.topics = [
        running("clicks", lag_records=295, lag_seconds=9.0, delay="behind", delay_reason="still catching up"),
        running("carts", state="failed", error="the topic is gone"),
    ]
    url = {"name": "url", "type": "string", "required": True, "doc": None}
    api.answers["GET", "topics/clicks/schema"] = (200, {"table": "t", "columns": [url], "versions": []})
    api.answers["GET", "topics/clicks/events"] = (200, {"events": []})
    page.open()
    row = page.row("clicks")
    row.get_by_role("button", name="clicks", exact=True).click()
    expect(row.get_by_text("url", exact=True)).to_be_visible()
    api.answers["GET", "topics/carts/schema"] = (503, {"message": "no answer"})
    page.row("carts").get_by_role("button", name="carts", exact=True).click()
    expect(page.row("carts")).to_contain_text("no answer")  # before the banner says so
    api.servers, api.missing, api.seen_s_ago = "unreachable", ["kafka"], 130
    api.detail = "the local stack's kafka has ended"
    for path in ("schema", "events"):
        api.answers["GET", f"topics/clicks/{path}"] = (503, {"message": api.detail})
    expect(page.sidebar.get_by_text(api.detail)).to_have_count(1)
    for part in ("unknown", "295 behind", "as of 2 m ago", "url"):
        expect(row).to_contain_text(part)
    expect(row).not_to_contain_text("still catching up")
    expect(page.row("carts")).to_contain_text("the topic is gone")
    expect(page.row("carts")).not_to_contain_text("no answer")
    expect(page.sidebar.get_by_text("The servers do not respond")).to_be_hidden()
    page.shot("sidebar-stale")
    api.servers, api.missing, api.seen_s_ago = "ready", [], 0
    expect(row).not_to_contain_text("as of")
    expect(row).to_contain_text("behind")


def test_a_hundred_topics_stay_smooth(page: LabPage, api: FakeApi) -> None:
    """With 100 topics whose figures all move, a poll makes no new rows and holds the page up for moments."""
    api.topics = [running(f"topic_{number:03}", lag_records=number) for number in range(100)]
    page.open()
    expect(page.row("topic_099")).to_be_attached()
    page.page.evaluate(_WATCH)
    longest: list[float] = []
    while 0 not in longest and len(longest) < 20:  # the machine may do something else for a while
        step = len(longest) + 1
        page.page.evaluate("window.watched.longestMs = 0")
        api.topics = [running(f"topic_{n:03}", lag_records=n + 1000 * step) for n in range(100)]
        page.button("Refresh now").click()
        expect(page.row("topic_099")).to_contain_text(f"{99 + 1000 * step:,} behind")
        longest.append(page.page.evaluate("window.watched.longestMs"))
    watched = page.page.evaluate("window.watched")
    assert watched["rowsMade"] == 0
    # Lag, its tooltip, the age of the commit: in each row, for each look; a poll may have come in between.
    assert watched["changes"] < 100 * 3 * 2 * len(longest)
    assert longest[-1] == 0, longest
    page.sidebar.get_by_label("Filter topics").fill("_09")
    expect(page.sidebar.locator("li[data-topic]")).to_have_count(10)
    page.shot("sidebar-100-topics")
