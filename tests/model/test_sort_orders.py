"""Entries of ``sort_by``."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from tabletopic_kernel.model.columns.sort_orders import next_order, sort_order, sort_texts
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.sections import TopicSettings
from tests.model.test_partitions import SCHEMA


@pytest.mark.parametrize(
    ("text", "shown", "again"),
    [
        ("url", "3 ASC NULLS FIRST", "url"),
        ("url asc nulls first", "3 ASC NULLS FIRST", "url"),
        ("url nulls last", "3 ASC NULLS LAST", "url nulls last"),
        ("url DESC", "3 DESC NULLS LAST", "url desc"),
        ("url desc  Nulls  First", "3 DESC NULLS FIRST", "url desc nulls first"),
        ("device.kind desc", "6 DESC NULLS LAST", "device.kind desc"),
        ("day(event_time) desc", "day(1) DESC NULLS LAST", "day(event_time) desc"),
        ("bucket(16, user_id)", "bucket[16](2) ASC NULLS FIRST", "bucket(16, user_id)"),
    ],
)
def test_good_entries(text: str, shown: str, again: str) -> None:
    """Direction and place of nulls with Iceberg's defaults; what is shown can be written."""
    order = sort_order([text], SCHEMA)
    assert [str(field) for field in order.fields] == [shown]
    assert sort_texts(order, SCHEMA) == [again]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["nowhere"], "sort_by 'nowhere': there is no column 'nowhere'; the table has device"),
        (["tags"], "tags is a list, which has no order; use a column of single values"),
        (["device desc"], "device is a struct, which has no order"),
        (["tags.element"], "there is no column"),
        (["day(url)"], r"day cannot take url \(string\); write url alone"),
        (["week(url)"], "not a transform"),
        (["url nulls"], "there is no column 'url nulls'"),
        ([""], "cannot be parsed"),
        (["url", "user_id", "url desc"], "'url desc': url occurs twice; name it once"),
    ],
)
def test_bad_entries(entries: list[str], message: str) -> None:
    """The message says what to write."""
    with pytest.raises(UsageError, match=message):
        sort_order(entries, SCHEMA)


def test_text_of_options_is_a_list() -> None:
    """A column is known by its former name, and an order that was there keeps its id."""
    order = sort_order(["link desc"], SCHEMA, {3: ("link",)})
    assert sort_texts(order, SCHEMA) == ["url desc"]
    settings = TopicSettings.model_validate({"sort_by": "bucket(4, id), at desc nulls first"})
    assert settings.sort_by == ("bucket(4, id)", "at desc nulls first")
    first = next_order(sort_order(["url"], SCHEMA), [])
    second = next_order(sort_order(["url desc"], SCHEMA), [first])
    assert (first.order_id, second.order_id) == (1, 2)
    assert next_order(sort_order(["url"], SCHEMA), [first, second]) is first
    assert next_order(sort_order(["none"], Schema()), [first]) == UNSORTED_SORT_ORDER
