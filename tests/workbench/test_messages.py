"""Messages about wrong settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabletopic_kernel.model.errors import SettingsError
from tabletopic_kernel.workbench.config import check_kafka_properties
from tests.workbench.complaints import complaint


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("kafak.x = 1", "tabletopic.toml:1: unknown setting kafak; did you mean kafka?"),
        (
            "[zzz]",
            "tabletopic.toml:1: unknown setting zzz; "
            "known here: state_dir, kafka, registry, catalog, catalogs, spark, athena, live, notify, "
            "lineage, local, topics",
        ),
        ("\n[spark]\nmastr = 1", "tabletopic.toml:3: unknown setting spark.mastr; did you mean master?"),
        (
            "[topics.a.b]\nstrat = 1",
            'tabletopic.toml:2: unknown setting topics."a.b".strat; did you mean start?',
        ),
        (
            "\n[catalogs.Prod]\nuri = 'x'",
            "tabletopic.toml:2: [catalogs.Prod]: 'Prod' cannot name a catalog: use lowercase letters, "
            "digits and _, starting with a letter",
        ),
        (
            "[catalogs.temp]\nuri = 'x'",
            "tabletopic.toml:1: [catalogs.temp]: 'temp' cannot name a catalog: DuckDB or Spark uses "
            "that name",
        ),
        (
            "[catalogs.lab]\nname = 'x'\nuri = 'y'",
            "tabletopic.toml:1: [catalogs.lab]: the section's name is the catalog's name: remove the "
            "property name",
        ),
        (
            "[catalogs.lab]",
            "tabletopic.toml:1: [catalogs.lab]: does not define a catalog: set type, uri, warehouse… as in "
            "[catalog]",
        ),
        (
            "[catalogs]\nlab = 'x'",
            "tabletopic.toml:2: catalogs.lab is a section, not a value: write [catalogs.lab]",
        ),
        ("kafka = 1", "tabletopic.toml:1: kafka is a section, not a value: write [kafka]"),
        ("topics.a = 1", "tabletopic.toml:1: topics.a is a section, not a value: write [topics.a]"),
        (
            "[catalog]\nuri = 2026-01-01",
            "tabletopic.toml:2: catalog.uri must be text, a number, true, false or a list of these",
        ),
        ('[kafka]\nclient.id = "a"\n"client.id" = "b"', "tabletopic.toml:3: kafka.client.id is set twice"),
        (
            "[topics.a]\ncommit_interval_ms = 5",
            "tabletopic.toml:2: topics.a.commit_interval_ms = 5: allowed: 100ms to 1h, for example 5s",
        ),
        (
            '[topics.a]\ncommit_interval_ms = "2 weeks"',
            'tabletopic.toml:2: topics.a.commit_interval_ms = "2 weeks": '
            "allowed: 100ms to 1h, for example 5s",
        ),
        (
            '[topics.a]\ntransform = "flat"',
            'tabletopic.toml:2: topics.a.transform = "flat": '
            "allowed: 'flatten', 'none' or 'flatten_debezium'",
        ),
        (
            '[topics.a]\n\nmetadata_columns = [\n  "key",\n  "keys",\n]',
            "tabletopic.toml:3: topics.a.metadata_columns = key, keys: "
            "allowed: 'key', 'header' or 'metadata'",
        ),
        ('state_dir = ""', 'tabletopic.toml:1: state_dir = "": must not be empty'),
        ("spark.master = 4", "tabletopic.toml:1: spark.master = 4: must be a valid string"),
        (
            '[topics.a]\nstart = "tomorrow"',
            "tabletopic.toml:2: topics.a.start = \"tomorrow\": 'tomorrow' is not a start; "
            "use earliest, latest, or a time such as 2026-01-31T12:00:00Z",
        ),
        (
            "[kafka\n",
            "tabletopic.toml:1: not valid TOML: Expected ']' at the end of a table declaration (column 7)",
        ),
        ("a = 1\nb = ", "tabletopic.toml:2: not valid TOML: Invalid value at the end of the file"),
    ],
)
def test_messages_about_the_file(load, toml: str, message: str) -> None:
    """File, line, key, value and what is allowed instead."""
    assert complaint(load, toml) == message


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("TABLETOPIC_STATEDIR", "did you mean TABLETOPIC_STATE_DIR?"),
        ("TABLETOPIC_CACHES", "did you mean TABLETOPIC_CACHE?"),
        ("TABLETOPIC_KAFKA_SASL_USERNAME", "did you mean TABLETOPIC_KAFKA__SASL__USERNAME?"),
        ("TABLETOPIC_CATALOG_URI", "did you mean TABLETOPIC_CATALOG__URI?"),
        ("TABLETOPIC_SPARK__MASTR", "did you mean TABLETOPIC_SPARK__MASTER?"),
        ("TABLETOPIC_SPARK__CONF", "did you mean TABLETOPIC_SPARK__CONF__<PROPERTY>?"),
        ("TABLETOPIC_KAFKA", "did you mean TABLETOPIC_KAFKA__<PROPERTY>?"),
        ("TABLETOPIC_KAFKA____X", "did you mean TABLETOPIC_KAFKA__X?"),
        ("TABLETOPIC_TOPICS__CLICKS__STRAT", "did you mean TABLETOPIC_TOPICS__CLICKS__START?"),
        ("TABLETOPIC_TOPICS__CLICKS", "did you mean TABLETOPIC_TOPICS__CLICKS__<SETTING>?"),
        ("TABLETOPIC_QQQ", "known: TABLETOPIC_STATE_DIR, TABLETOPIC_KAFKA__<PROPERTY>, "),
    ],
)
def test_messages_about_the_environment(load, variable: str, hint: str) -> None:
    """An unknown variable of our prefix is an error that names the nearest ones, never the value."""
    message = complaint(load, environ={variable: "hunter2"})
    assert message.startswith(f"{variable}: unknown setting; {hint}")
    assert "hunter2" not in message


def test_messages_about_options(load) -> None:
    """Wrong options are named as options; what follows an = may be a secret and is left out."""
    assert complaint(load, overrides={"spark.mastr": 1}).startswith(
        "--spark.mastr: unknown setting spark.mastr;"
    )
    assert complaint(load, overrides={"a b": 1}).startswith("--a b: not the name of a setting")
    message = complaint(load, overrides={"kafka.sasl.password=hunter2": "x"})
    assert message.startswith("--kafka.sasl.password: not the name of a setting")
    assert "hunter2" not in message


def test_all_problems_come_at_once(load) -> None:
    """A line each, of all sources; a wrong value that is replaced does no harm."""
    message = complaint(
        load, "[topics.a]\nstrat = 1\ncommit_bytes = 1", {"TABLETOPIC_X": "1"}, {"topics.b.errors": "ignore"}
    )
    assert [line.split(":")[0] for line in message.splitlines()] == [
        "tabletopic.toml", "TABLETOPIC_X", "tabletopic.toml", "--topics.b.errors",
    ]  # fmt: skip
    environ = {"TABLETOPIC_TOPICS__A__COMMIT_INTERVAL_MS": "1s"}
    assert load("[topics.a]\ncommit_interval_ms = 1", environ).settings.topics["a"].commit_interval_ms == 1000


def test_files_of_other_encodings(load, tmp_path: Path) -> None:
    """A byte-order mark is fine; another encoding is named as the fault."""
    file = tmp_path / "tabletopic.toml"
    file.write_bytes(b'\xef\xbb\xbf[spark]\nmaster = "x"')
    assert load().origins["spark.master"] == "tabletopic.toml:2"
    file.write_bytes('[spark]\nmaster = "ü"'.encode("latin-1"))
    assert complaint(load) == "tabletopic.toml is not UTF-8 text (see byte 18); save it as UTF-8"


# --- librdkafka -------------------------------------------------------------------------------------------


def test_kafka_properties_are_checked_on_request(load) -> None:
    """An unknown property is named with its origin."""
    check_kafka_properties(
        load('[kafka]\nbootstrap.servers = "127.0.0.1:1"\nsecurity.protocol = "plaintext"')
    )
    loaded = load('[kafka]\nsasl.usrname = "x"')
    with pytest.raises(
        SettingsError, match=r"^tabletopic.toml:2: .* no property sasl.usrname; .* sasl.username"
    ):
        check_kafka_properties(loaded)
