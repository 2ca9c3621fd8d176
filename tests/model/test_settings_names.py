"""Paths of settings in nested tables and in names of variables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.model.settings.names import (
    FORMS,
    PROPERTY,
    TOPIC,
    Leaf,
    dotted,
    leaves,
    variable_forms,
    variable_path,
)
from tabletopic_kernel.model.settings.sections import Settings, TopicSettings


def test_every_field_has_a_place() -> None:
    """The tree is made from the models; only the name of a topic needs quotes."""
    assert {form.split("__")[0].lower() for form in variable_forms()} == set(Settings.model_fields)
    fields = {form[2] for form in FORMS if form[:2] == ("topics", TOPIC)}
    assert fields == set(TopicSettings.model_fields)
    assert ("kafka", PROPERTY) in FORMS
    assert dotted(("topics", "web.clicks", "start")) == 'topics."web.clicks".start'
    assert dotted(("kafka", "bootstrap.servers")) == "kafka.bootstrap.servers"
    assert dotted(("topics", "a", "table_properties", "write.x")) == "topics.a.table_properties.write.x"


names = st.text("abcxyz0123456789", min_size=1, max_size=5)
dotted_names = st.lists(names, min_size=1, max_size=3).map(".".join)


@given(dotted_names, st.sampled_from([f for f in TopicSettings.model_fields if f != "table_properties"]))
def test_every_topic_setting_has_a_variable(topic: str, field: str) -> None:
    """The name that the rule makes leads back to the path, unless the topic's first part names a setting."""
    path = ("topics", topic, field)
    assert variable_path("__".join(path).replace(".", "__").upper()) == path


@given(st.sampled_from(["kafka", "registry"]), dotted_names)
def test_every_dotted_property_has_a_variable(section: str, name: str) -> None:
    """Dots are two underscores."""
    assert variable_path(f"{section}__{name.replace('.', '__')}".upper()) == (section, name)


@given(st.lists(st.lists(names, min_size=1, max_size=3).map("-".join), min_size=1, max_size=3).map(".".join))
def test_every_catalog_property_has_a_variable(name: str) -> None:
    """Hyphens are one underscore."""
    words = name.upper().replace("-", "_").replace(".", "__")
    assert variable_path(f"CATALOG__{words}") == ("catalog", name)
    assert variable_path(f"CATALOGS__PROD__{words}") == ("catalogs", "prod", name)


@pytest.mark.parametrize(
    "name",
    [
        "", "STATE_DIR__X", "KAFKA", "KAFKA__", "KAFKA____X", "SPARK", "SPARK__CONF", "TOPICS__A",
        "TOPICS__START", "TOPICS____A__START",
    ],
)  # fmt: skip
def test_names_that_lead_nowhere(name: str) -> None:
    """Too short, too long or empty."""
    assert variable_path(name) is None


@given(st.dictionaries(dotted_names, st.dictionaries(st.just("namespace"), names), max_size=3))
def test_topics_come_back_from_quoted_tables(topics: dict[str, dict[str, str]]) -> None:
    """Every topic is a leaf of its own, beside its settings."""
    found = list(leaves({"topics": topics}))
    assert [item.path[1] for item in found if isinstance(item, Leaf) and item.value is None] == list(topics)
    settings = {
        (item.path[1], item.value) for item in found if isinstance(item, Leaf) and item.value is not None
    }
    assert settings == {(topic, table["namespace"]) for topic, table in topics.items() if table}
