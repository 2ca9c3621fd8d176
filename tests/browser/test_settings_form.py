"""The form of the settings and its plan, with fake responses."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tabletopic_kernel.model.settings.sections import TopicSettings
from tests.browser.fake_api import FakeApi, other, running
from tests.browser.lab_server import Lab
from tests.browser.pages import BRIGHT, DARK, LabPage, brightness

pytestmark = pytest.mark.integration

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
        "the table starts with up to 4,000 records already in the topic",
        "columns of version 1 of orders-value (id 3)",
    ],
    "refused": [],
}
WRONG = "'banana' is not a duration; use a value such as 500ms, 5s, 2m or 1h"


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
    page.until_asked(api.asked, "PUT", "topics/orders", {"settings": settings})


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
    page.until_asked(api.asked, "PUT", "topics/orders", {"settings": {**now, "commit_interval_ms": "500ms"}})


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
