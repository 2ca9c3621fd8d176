"""Every screen of the sidebar in a real JupyterLab, with fake responses for each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tabletopic_kernel.faces import pages
from tabletopic_kernel.model.progress.delay import Delay
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.workbench.config.servers import MissingServers
from tests.browser.fake_api import FakeApi, other, running
from tests.browser.lab_server import Lab
from tests.browser.pages import BRIGHT, DARK, LabPage, brightness

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
_DARK_PLACES = ("settings", "plan", "form textarea")
PLAN = {
    "topic": "orders",
    "table": "default.orders",
    "creates": True,
    "columns": [
        {"name": name, "type": kind, "required": required, "doc": None, "change": "new"}
        for name, kind, required in (
            ("order_id", "long", True),
            ("placed_at", "timestamptz", True),
            ("items", "list<struct<sku: string, price: decimal(9, 2)>>", False),
            ("_kafka_key", "binary", False),
            ("_kafka_metadata", "struct<partition: int, offset: long, timestamp: timestamptz>", False),
        )
    ],
    "partition_by": [],
    "sort_by": ["placed_at desc nulls last"],
    "start": "earliest",
    "notes": [
        "the table starts with up to 4,000 records that are already in the topic",
        "columns of version 1 of orders-value (id 3)",
    ],
    "refused": [],
}
WRONG = "'banana' is not a duration; use a value such as 500ms, 5s, 2m or 1h"


@pytest.fixture
def api(page: LabPage) -> FakeApi:
    """Fake responses for the page."""
    fake = FakeApi()
    fake.serve(page.page)
    return fake


def _until_asked(page: LabPage, api: FakeApi, method: str, path: str, body: object = None) -> None:
    """Wait for a request: the page shows that it is under way before it arrives."""
    page.until(lambda: (method, path, body) in api.asked)


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
    _until_asked(page, api, "POST", "stack")


def test_servers_that_stop_are_not_offered_to_be_started(page: LabPage, api: FakeApi) -> None:
    """Until they are gone; then they are."""
    api.servers, api.detail = "stopping", "the local stack is stopping: hosts commit staged files"
    page.open()
    expect(page.sidebar).to_contain_text("Stopping the servers")
    expect(page.sidebar).to_contain_text(api.detail)
    expect(page.button("Start the local stack")).to_be_hidden()
    expect(page.page.locator(".jp-TableTopic-statusButton")).to_have_text("servers stopping…")
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
    _until_asked(page, api, "POST", "sample", {"count": 5000})


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


def test_dead_letters_are_tried_again_after_a_look_at_the_plan(page: LabPage, api: FakeApi) -> None:
    """A row counts its letters; its menu shows what trying them again would do, and does it when asked."""
    api.topics = [running("clicks", dead_letters=1_250), running("orders")]
    plan = {"topic": "clicks", "letters": 1_250, "rows": 1_200, "stayed": {"no_schema_id": 50}}
    api.answers["POST", "topics/clicks/replay/plan"] = (200, {**plan, "changes": ["add price double"]})
    page.open()
    dead_letters = page.row("clicks").locator(".jp-TableTopic-facts .jp-TableTopic-chip")
    expect(dead_letters).to_have_text("1,250 dead letters")
    expect(dead_letters.locator(".jp-TableTopic-sign")).to_have_attribute("data-tone", "warn")
    expect(page.row("orders")).not_to_contain_text("dead letter")
    page.menu("clicks", "Replay Dead Letters")
    dialog = page.page.get_by_role("dialog")
    for part in ("1,200 of 1,250 dead letters", "no_schema_id: 50 stay", "add price double"):
        expect(dialog).to_contain_text(part)
    assert ("POST", "topics/clicks/replay", None) not in api.asked
    page.shot("dead-letters")
    dialog.get_by_role("button", name="Replay").click()
    expect(page.sidebar.get_by_role("status")).to_contain_text("Replaying the dead letters of clicks")
    _until_asked(page, api, "POST", "topics/clicks/replay")


def test_a_table_is_maintained_from_the_menu_of_its_topic(page: LabPage, api: FakeApi) -> None:
    """A compaction deletes no row and begins at once; an expiry deletes files, so it is asked for twice."""
    api.topics = [running("clicks"), running("quiet", state="paused", run="paused"), other("orders")]
    page.open()
    page.menu("clicks", "Compact Small Files")
    expect(page.sidebar.get_by_role("status")).to_contain_text("Requested a compaction of clicks")
    _until_asked(page, api, "POST", "topics/clicks/compact")
    page.menu("clicks", "Expire Old Snapshots")
    dialog = page.page.get_by_role("dialog")
    expect(dialog).to_contain_text("queries can no longer go back to them")
    page.shot("expire")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert ("POST", "topics/clicks/expire", None) not in api.asked
    page.menu("clicks", "Expire Old Snapshots")
    dialog.get_by_role("button", name="Expire").click()
    expect(page.sidebar.get_by_role("status")).to_contain_text("Requested an expiry of old snapshots")
    _until_asked(page, api, "POST", "topics/clicks/expire")
    for topic in ("quiet", "orders"):  # no host works on them
        page.row(topic).get_by_role("button", name=f"Actions for {topic}").click()
        expect(page.page.get_by_role("menuitem", name="Settings and Plan")).to_be_visible()
        expect(page.page.get_by_role("menuitem", name="Compact Small Files")).to_have_count(0)
        page.page.keyboard.press("Escape")


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
    page.row("carts").get_by_role("link", name="“Manual: trouble failed”").click()
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


def test_the_plan_is_shown_before_it_is_done(page: LabPage, api: FakeApi) -> None:
    """The form is made of the schema, shows the plan, says at a field what is wrong, sends the changes."""
    api.topics = [other("orders")]
    api.answers["POST", "topics/orders/plan"] = (200, PLAN)
    page.open()
    page.menu("orders", "Settings and Plan")
    form, plan = page.page.get_by_role("form"), page.page.locator(".jp-TableTopic-plan")
    expect(plan).to_contain_text("default.orders (new)")
    expect(plan).to_contain_text("order_id")
    expect(plan).to_contain_text("Sorted byplaced_at desc nulls last")
    page.shot("settings-and-plan")
    shown = form.locator(".jp-TableTopic-field")
    choices = [
        name
        for name, field in TopicSettings.model_json_schema()["properties"].items()
        if "const" not in field
    ]
    assert shown.count() == len(choices)
    api.answers["POST", "topics/orders/plan"] = (400, {"message": f"commit_interval_ms: {WRONG}"})
    form.get_by_label("Commit interval").fill("banana")
    expect(form.locator("#jp-TableTopic-setting-orders-commit_interval_ms-complaint")).to_have_text(WRONG)
    expect(form.get_by_role("button", name="Enable")).to_be_disabled()
    api.answers["POST", "topics/orders/plan"] = (200, PLAN)
    form.get_by_label("Commit interval").fill("2s")
    form.get_by_label("Partition by").fill("hour(event_time)\nbucket(16, user_id)")
    form.get_by_role("button", name="Enable").click()
    expect(form).to_be_hidden()
    settings = {"commit_interval_ms": "2s", "partition_by": ["hour(event_time)", "bucket(16, user_id)"]}
    _until_asked(page, api, "PUT", "topics/orders", {"settings": settings})


def test_each_open_form_has_its_own_labels(page: LabPage, api: FakeApi) -> None:
    """A label of the second topic's form leads to that form's field."""
    api.topics = [other("orders"), other("payments")]
    for topic in ("orders", "payments"):
        api.answers["POST", f"topics/{topic}/plan"] = (200, PLAN)
    page.open()
    for topic in ("orders", "payments"):
        page.menu(topic, "Settings and Plan")
        form = page.page.get_by_role("form", name=f"Settings of the table topic {topic}")
        form.get_by_label("Commit interval").fill("2s")
        form.get_by_text("More settings").click()
        form.get_by_label("Value format").scroll_into_view_if_needed()
    page.shot("second-form")


def test_settings_of_a_running_topic_are_kept(page: LabPage, api: FakeApi) -> None:
    """The form of a topic that is on begins with its settings, and sends all of them and what was changed."""
    projection = "SELECT *\nFROM record\nWHERE amount > 1 -- cents\nAND id > 0"
    given = TopicSettings(commit_interval_ms=1000, partition_by=("hour(event_time)",), projection=projection)
    now = given.model_dump(mode="json")
    api.topics = [running("orders")]
    api.answers["GET", "topics/orders"] = (200, {"topic": "orders", "settings": now})
    api.answers["POST", "topics/orders/plan"] = (200, {**PLAN, "creates": False})
    page.open()
    page.menu("orders", "Settings and Plan")
    form = page.page.get_by_role("form")
    expect(form.get_by_label("Commit interval")).to_have_value("1s")
    expect(form.get_by_label("Partition by")).to_have_value("hour(event_time)")
    expect(form.locator("#jp-TableTopic-setting-orders-projection")).to_have_value(projection)
    form.get_by_label("Commit interval").fill("500ms")
    form.get_by_role("button", name="Apply").click()
    expect(form).to_be_hidden()
    _until_asked(page, api, "PUT", "topics/orders", {"settings": {**now, "commit_interval_ms": "500ms"}})


def test_columns_and_events_unfold(page: LabPage, api: FakeApi) -> None:
    """A row unfolds into columns, nested ones in turn, and the last events; data are text, never markup."""
    api.topics = [running("clicks")]
    column = {"name": "device", "type": "struct<os: struct<name: string>, price: decimal(9, 2)>"}
    api.answers["GET", "topics/clicks/schema"] = (
        200,
        {
            "table": "default.clicks",
            "columns": [{**column, "required": False, "doc": None}],
            "versions": [{"subject": "clicks-value", "version": 2, "id": 7, "table_schema_id": 1}],
        },
    )
    event = {"type": "Failed", "topic": "clicks", "at_ms": 1, "tone": "bad"}
    text = "<img src=x onerror=alert(1)>"
    api.answers["GET", "topics/clicks/events"] = (200, {"events": [{**event, "text": text}]})
    page.open()
    page.row("clicks").get_by_role("button", name="clicks", exact=True).click()
    page.row("clicks").get_by_text("device").click()
    expect(page.row("clicks")).to_contain_text("decimal(9, 2)")
    page.row("clicks").get_by_text("os", exact=True).click()
    expect(page.row("clicks").get_by_text("name", exact=True)).to_be_visible()
    expect(page.row("clicks")).to_contain_text("newest version 2 (id 7)")
    expect(page.row("clicks").locator(".jp-TableTopic-events")).to_contain_text(
        "<img src=x onerror=alert(1)>"
    )
    page.shot("sidebar-columns-and-events")


def test_what_is_unfolded_stays_so_at_a_commit(page: LabPage, api: FakeApi) -> None:
    """The columns are replaced only when they have changed."""
    api.topics = [running("clicks", commits=1)]
    device = {"name": "device", "type": "struct<os: string>", "required": False, "doc": None}
    schema = {"table": "default.clicks", "columns": [device], "versions": []}
    api.answers["GET", "topics/clicks/schema"] = (200, schema)
    api.answers["GET", "topics/clicks/events"] = (200, {"events": []})
    page.open()
    row = page.row("clicks")
    row.get_by_role("button", name="clicks", exact=True).click()
    row.get_by_text("device").click()
    expect(row.get_by_text("os", exact=True)).to_be_visible()
    asked = api.asked.count(("GET", "topics/clicks/schema", None))
    api.topics = [running("clicks", commits=2)]
    page.until(lambda: api.asked.count(("GET", "topics/clicks/schema", None)) > asked)
    expect(row.locator("section[aria-busy]")).to_have_count(0)
    expect(row.get_by_text("os", exact=True)).to_be_visible()
    url = {"name": "url", "type": "string", "required": True, "doc": None}
    api.answers["GET", "topics/clicks/schema"] = (200, {**schema, "columns": [device, url]})
    api.topics = [running("clicks", commits=3)]
    expect(row.get_by_text("url", exact=True)).to_be_visible()


def test_commits_that_follow_each_other_are_one_line(page: LabPage, api: FakeApi) -> None:
    """It unfolds, and stays unfolded when a commit is added; other events keep lines of their own."""
    api.topics = [running("clicks", commits=12)]
    api.answers["GET", "topics/clicks/schema"] = (
        200, {"table": "default.clicks", "columns": [], "versions": []}
    )  # fmt: skip

    def committed(count: int) -> list[dict[str, object]]:
        kinds = [("Committed", "good")] * count + [("SchemaEvolved", "note")]
        return [
            {"type": kind, "tone": tone, "at_ms": 1_000 * (count - n), "text": f"no. {n}", "rows": 225}
            for n, (kind, tone) in enumerate(kinds)
        ]

    api.answers["GET", "topics/clicks/events"] = (200, {"events": committed(12)})
    page.open()
    row = page.row("clicks")
    row.get_by_role("button", name="clicks", exact=True).click()
    line = row.get_by_text("12 commits, 2,700 rows in 11 s")
    expect(line).to_be_visible()
    expect(row.get_by_text("no. 12")).to_be_visible()  # the schema's
    expect(row.get_by_text("no. 3")).to_be_hidden()
    line.click()
    expect(row.get_by_text("no. 3")).to_be_visible()
    api.answers["GET", "topics/clicks/events"] = (200, {"events": committed(13)})
    api.topics = [running("clicks", commits=13)]
    expect(row.get_by_text("13 commits, 2,925 rows in 12 s")).to_be_visible()
    expect(row.get_by_text("no. 3")).to_be_visible()
    page.shot("sidebar-commits")


def test_a_late_response_does_not_replace_a_newer_one(page: LabPage, api: FakeApi) -> None:
    """Whichever arrives last, the newest question's answer is displayed."""
    api.topics = [running("clicks", commits=1)]
    api.answers["GET", "topics/clicks/events"] = (200, {"events": []})
    page.open()
    late = list[Route]()
    page.page.route("**/topics/clicks/schema*", lambda route: late.append(route))  # noqa: PLW0108 - it is marked
    row = page.row("clicks")
    row.get_by_role("button", name="clicks", exact=True).click()
    page.until(lambda: len(late) == 1)
    api.topics = [running("clicks", commits=2)]
    page.until(lambda: len(late) == 2)
    for route, name in zip(reversed(late), ("new", "old"), strict=True):
        column = {"name": name, "type": "string", "required": False, "doc": None}
        route.fulfill(json={"table": "default.clicks", "columns": [column], "versions": []})
        page.page.wait_for_timeout(300)
    expect(row.get_by_text("new", exact=True)).to_be_visible()
    expect(row.get_by_text("old", exact=True)).to_have_count(0)


@pytest.mark.parametrize(
    ("table", "name"),
    [("shop.web clicks", '"shop"."web clicks"'), ("order.table", '"order".table'), ('a"b.x', '"a""b".x')],
)
def test_a_query_cell_is_copied(page: LabPage, api: FakeApi, table: str, name: str) -> None:
    """The clipboard has a cell for the topic's table, with names quoted where they must be."""
    api.topics = [running("web.clicks-v2", table=table)]
    page.open()
    page.menu("web.clicks-v2", "Copy Query Cell")
    wanted = re.compile(rf"%%lake\n.*FROM {re.escape(name)}\n", re.DOTALL)
    page.until(lambda: wanted.match(page.page.evaluate("navigator.clipboard.readText()")) is not None)


def test_everything_by_keyboard(page: LabPage, api: FakeApi) -> None:
    """Without a mouse: the palette opens the sidebar, Tab reaches the switch, arrows go between rows."""
    api.topics = [other("clicks"), other("orders")]
    page.open(sidebar=False)
    keyboard = page.page.keyboard
    keyboard.press("Control+Shift+C")
    expect(page.page.locator(".jp-ModalCommandPalette input")).to_be_focused()
    keyboard.type("Show Table Topics")
    keyboard.press("Enter")
    expect(page.sidebar.get_by_role("button", name="Refresh now")).to_be_focused()
    for _ in range(10):
        keyboard.press("Tab")
        if page.switch("clicks").evaluate("element => element === document.activeElement"):
            break
    expect(page.switch("clicks")).to_be_focused()
    assert page.switch("clicks").evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
    keyboard.press("ArrowDown")
    expect(page.switch("orders")).to_be_focused()
    keyboard.press("Space")
    expect(page.row("orders")).to_contain_text("enabling…")
    _until_asked(page, api, "PUT", "topics/orders", {"settings": {}})
    api.topics = [running("orders"), other("clicks")]
    expect(page.switch("orders")).to_have_attribute("aria-checked", "true")
    expect(page.switch("orders")).to_be_focused()
    keyboard.press("Tab")
    keyboard.press("Enter")
    expect(page.page.get_by_role("menuitem", name="Settings and Plan")).to_be_visible()
    keyboard.press("Escape")
    expect(page.row("orders").get_by_role("button", name="Actions for orders")).to_be_focused()


def test_the_focus_stays_where_a_button_went_away(page: LabPage, api: FakeApi) -> None:
    """It goes to the words or the button that took its place, and Tab goes on from there."""
    focused = page.sidebar.locator(":focus")
    api.servers, api.detail = "none", NO_SERVERS
    page.open()
    page.button("Start the local stack").press("Enter")
    api.servers, api.detail = "starting", "the local stack is starting: broker"
    expect(focused).to_have_text("Starting the servers")
    api.servers, api.detail = "ready", ""
    expect(focused).to_have_text("No topics yet")
    page.page.keyboard.press("Tab")
    expect(focused).to_have_text("Send sample events")
    page.page.keyboard.press("Enter")
    api.topics = [other("clicks")]
    expect(page.row("clicks")).to_be_visible()
    expect(focused).to_be_visible()
    api.topics = [running("clicks", dead_letters=3, delay="behind", delay_reason=Delay.BEHIND.reason)]
    api.host = {"state": "none", "detail": "", "ids": []}
    page.button("Start a host").press("Enter")
    api.host = {"state": "running", "detail": "", "ids": ["here-1-a"]}
    expect(focused).to_have_text("Stop")
    api.missing, api.detail = ["registry"], MissingServers(("registry",), (), Path(".tabletopic")).message()
    page.button("Start the local stack").focus()
    page.shot("sidebar-registry-ended")
    api.missing, api.detail = [], ""
    expect(focused).to_have_text("Stop")


def test_changes_are_announced_and_polls_are_not(page: LabPage, api: FakeApi) -> None:
    """A screen reader hears that a topic failed, once, and nothing of figures that only move."""
    api.topics = [running("clicks")]
    page.open()
    live = page.sidebar.locator("[aria-live=polite][role=status]")
    expect(page.row("clicks")).to_contain_text("up to date")
    api.topics = [running("clicks", lag_records=7, lag_seconds=1.0)]
    expect(page.row("clicks")).to_contain_text("7 behind")
    expect(live).to_have_text("")
    api.topics = [running("clicks", state="failed", error="the table was dropped")]
    expect(live).to_have_text("clicks: failed, the table was dropped")


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


def test_what_fails_is_notified_once_with_the_button_that_helps(page: LabPage, api: FakeApi) -> None:
    """A failed topic, dead letters, a refused schema, a host that ended; not what was so before."""
    api.topics = [running("old", state="failed", error="long ago"), running("clicks"), running("views")]
    page.open()
    expect(page.row("clicks")).to_contain_text("up to date")
    toasts = page.page.locator(".Toastify__toast")
    api.topics = [api.topics[0], running("clicks", state="failed", error="no such table"), running("views")]
    expect(toasts.filter(has_text="clicks failed: no such table")).to_have_count(1)
    refused = {"type": "SchemaRefused", "topic": "views", "tone": "bad", "text": "price is text"}
    events = [{**refused, "at_ms": api.overview()["at_ms"]}]
    api.answers["GET", "topics/views/events"] = (200, {"events": events})
    api.topics = [*api.topics[:2], running("views", dead_letters=3)]
    expect(toasts.filter(has_text="views refused a schema: price is text")).to_have_count(1)
    api.host = {"state": "failed", "detail": "the host ended with exit code 9", "ids": []}
    api.topics = [*api.topics[:2], running("views", dead_letters=9)]
    host = toasts.filter(has_text="the host ended with exit code 9")
    expect(host).to_have_count(1)
    expect(host.get_by_role("button", name="Start a Host")).to_be_visible()
    expect(toasts.filter(has_text="views")).to_have_count(1)
    expect(toasts.filter(has_text="long ago")).to_have_count(0)
    page.shot("notifications")
    toasts.filter(has_text="clicks failed").get_by_role("button", name="Resume").click()
    _until_asked(page, api, "POST", "topics/clicks/resume")


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
    api.servers, api.missing, api.seen_s_ago = "unreachable", ["kafka"], 130
    api.detail = "the local stack's kafka has ended"
    for path in ("schema", "events"):
        api.answers["GET", f"topics/clicks/{path}"] = (503, {"message": api.detail})
    expect(page.sidebar.get_by_text(api.detail)).to_have_count(1)
    for part in ("unknown", "295 behind", "as of 2 m ago", "url"):
        expect(row).to_contain_text(part)
    expect(row).not_to_contain_text("still catching up")
    expect(page.row("carts")).to_contain_text("the topic is gone")
    expect(page.sidebar.get_by_text("The servers do not respond")).to_be_hidden()
    page.shot("sidebar-stale")
    api.servers, api.missing, api.seen_s_ago = "ready", [], 0
    expect(row).not_to_contain_text("as of")
    expect(row).to_contain_text("behind")


def test_the_dashboard_is_uncovered_before_its_scripts_are_there(page: LabPage, api: FakeApi) -> None:
    """What there is to read is shown, however long the rest of the page takes."""
    api.topics = [running("clicks")]
    html = '<main><h1>clicks at once</h1></main><script src="never.js"></script>'
    page.open()
    page.page.route(
        "**/tabletopic/api/dashboard?*", lambda route: route.fulfill(content_type="text/html", body=html)
    )
    page.page.route("**/never.js", lambda _: None)
    page.menu("clicks", "Open Dashboard")
    frame = page.page.frame_locator(".jp-TableTopic-dashboard iframe")
    expect(frame.get_by_role("heading", name="clicks at once")).to_be_visible()
    expect(page.page.locator(".jp-TableTopic-cover")).to_be_hidden()


def test_the_dark_theme_is_dark(page: LabPage, api: FakeApi, lab: Lab) -> None:
    """In the dark theme no screen has a light ground, and its words stand out."""
    api.topics = [
        running("clicks"),
        running("carts", state="failed", error="the topic is gone; create it anew"),
        other("orders"),
    ]
    api.answers["POST", "topics/orders/plan"] = (200, PLAN)
    lab.set_theme("JupyterLab Dark")
    try:
        page.open()
        page.menu("orders", "Settings and Plan")
        expect(page.page.locator(".jp-TableTopic-plan")).to_contain_text("order_id")
        page.shot("dark")
        for place in (
            "#tabletopic-sidebar",
            ".jp-TableTopic-settings",
            ".jp-TableTopic-plan",
            ".jp-TableTopic-form textarea",
        ):
            ground, words = page.page.locator(place).first.evaluate(
                "element => [getComputedStyle(element).backgroundColor, getComputedStyle(element).color]"
            )
            assert brightness(ground) < DARK, place
            assert brightness(words) > BRIGHT, place
    finally:
        lab.set_theme("JupyterLab Light")
