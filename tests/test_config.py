"""Loading settings: precedence, origins, messages, secrets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.config import (
    DEFAULT,
    EMBEDDED,
    PROGRAM_VARIABLES,
    LoadedSettings,
    check_kafka_properties,
    describe,
    load_settings,
)
from tabletopic_kernel.core.errors import SettingsError
from tabletopic_kernel.core.settings import Settings


@pytest.fixture
def load(tmp_path: Path):  # type: ignore[no-untyped-def] - a closure with defaults
    """Load in an empty folder, with nothing from this process's environment."""

    def load(
        toml: str | None = None,
        environ: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        cwd: Path = tmp_path,
    ) -> LoadedSettings:
        if toml is not None:
            (tmp_path / "tabletopic.toml").write_text(toml, encoding="utf-8")
        return load_settings(overrides, environ=environ or {}, cwd=cwd)

    return load


def complaint(load, *args: Any, **kwargs: Any) -> str:  # type: ignore[no-untyped-def]
    """The message of the error that loading raises."""
    with pytest.raises(SettingsError) as caught:
        load(*args, **kwargs)
    return str(caught.value)


# --- precedence -------------------------------------------------------------------------------------------

# One setting of each kind: key, TOML, variable, option's key.
KINDS = {
    "value": ("spark.master", '[spark]\nmaster = "{}"', "TABLETOPIC_SPARK__MASTER", "spark.master"),
    "property": (
        "kafka.client.id",
        '[kafka]\nclient.id = "{}"',
        "TABLETOPIC_KAFKA__CLIENT__ID",
        "kafka.client.id",
    ),
    "topic": (
        "topics.clicks.namespace",
        '[topics.clicks]\nnamespace = "{}"',
        "TABLETOPIC_TOPICS__CLICKS__NAMESPACE",
        "topics.clicks.namespace",
    ),
}
SOURCES = ("file", "environment", "option")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "present",
    [(low, high) for i, low in enumerate(SOURCES) for high in SOURCES[i + 1 :]] + [SOURCES],
    ids="-".join,
)
def test_the_later_source_wins(load, kind: str, present: tuple[str, ...]) -> None:
    """Of each pair of sources, and of all three, the higher one gives value and origin."""
    key, toml, variable, option = KINDS[kind]
    loaded = load(
        toml.format("file") if "file" in present else None,
        {variable: "environment"} if "environment" in present else {},
        {option: "option"} if "option" in present else {},
    )
    origins = {"file": "tabletopic.toml:2", "environment": variable, "option": f"--{option}"}
    row = next(row for row in describe(loaded) if row.key == key)
    assert (row.value, row.origin) == (present[-1], origins[present[-1]])
    assert loaded.origins[key] == row.origin


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_beats_the_default(load, source: str) -> None:
    """Without a source the default holds and says so; one source is enough to replace it."""
    assert load().origins["spark.master"] == DEFAULT
    toml, variable, option = KINDS["value"][1:]
    loaded = {
        "file": lambda: load(toml.format("x")),
        "environment": lambda: load(environ={variable: "x"}),
        "option": lambda: load(overrides={option: "x"}),
    }[source]()
    assert loaded.settings.spark.master == "x"
    assert loaded.origins["spark.master"] != DEFAULT


def test_sources_merge_key_by_key(load) -> None:
    """A section is not replaced as a whole: each property comes from its own highest source."""
    loaded = load(
        '[kafka]\nbootstrap.servers = "file:1"\nclient.id = "file"',
        {"TABLETOPIC_KAFKA__CLIENT__ID": "environment", "TABLETOPIC_KAFKA__ACKS": "all"},
        {"kafka.acks": 1},
    )
    assert loaded.settings.kafka == {"bootstrap.servers": "file:1", "client.id": "environment", "acks": "1"}


def test_an_option_that_was_not_given_is_none(load) -> None:
    """None in the overrides, at any depth, leaves the lower source alone."""
    loaded = load(
        '[spark]\nmaster = "file"', overrides={"spark.master": None, "topics": {"a": {"start": None}}}
    )
    assert loaded.settings.spark.master == "file"
    assert loaded.settings.topics["a"].start == "earliest"


# --- the file ---------------------------------------------------------------------------------------------


def test_the_file_is_found_upwards(load, tmp_path: Path) -> None:
    """The nearest tabletopic.toml of the current folder and its parents is read; origins lead to it."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    loaded = load('[spark]\nmaster = "up"', cwd=inner)
    assert loaded.settings.spark.master == "up"
    assert loaded.origins["spark.master"] == "../../tabletopic.toml:2"
    assert loaded.file == tmp_path / "tabletopic.toml"
    (tmp_path / "a" / "tabletopic.toml").write_text('[spark]\nmaster = "nearer"')
    assert load(cwd=inner).settings.spark.master == "nearer"


def test_a_named_file_replaces_the_search(load, tmp_path: Path) -> None:
    """$TABLETOPIC_CONFIG is read instead of the file that would be found; empty means unset."""
    other = tmp_path / "other" / "settings.toml"
    other.parent.mkdir()
    other.write_text('state_dir = "s"\n[spark]\nmaster = "named"')
    found = '[spark]\nmaster = "found"'
    loaded = load(found, {"TABLETOPIC_CONFIG": str(other)})
    assert loaded.settings.spark.master == "named"
    assert loaded.origins["spark.master"] == f"{other}:3"
    assert loaded.settings.state_dir == str(other.parent / "s")
    assert load(found, {"TABLETOPIC_CONFIG": "other/settings.toml"}).settings.spark.master == "named"
    assert load(found, {"TABLETOPIC_CONFIG": ""}).settings.spark.master == "found"


def test_a_missing_named_file_is_an_error(load, tmp_path: Path) -> None:
    """A wrong $TABLETOPIC_CONFIG never falls back to another file in silence."""
    message = complaint(load, '[spark]\nmaster = "x"', {"TABLETOPIC_CONFIG": "nowhere.toml"})
    assert "nowhere.toml: No such file" in message
    assert "TABLETOPIC_CONFIG" in message
    assert "Is a directory" in complaint(load, None, {"TABLETOPIC_CONFIG": str(tmp_path)})


@pytest.mark.parametrize(
    "toml",
    [
        '[kafka]\n"bootstrap.servers" = "a:1,b:2"\n"enable.idempotence" = true\n"linger.ms" = 5',
        '[kafka]\nbootstrap.servers = "a:1,b:2"\nenable.idempotence = true\nlinger.ms = 5',
        '[kafka]\nbootstrap.servers = ["a:1", "b:2"]\nenable = { idempotence = true }\nlinger.ms = 5',
        'kafka.bootstrap.servers = "a:1,b:2"\nkafka.enable.idempotence = true\nkafka.linger.ms = 5',
        '[kafka.bootstrap]\nservers = "a:1,b:2"\n[kafka]\nenable.idempotence = true\nlinger.ms = "5"',
    ],
    ids=["quoted", "dotted", "list-and-inline", "top", "sub-table"],
)
def test_every_toml_form_of_a_property(load, toml: str) -> None:
    """Quoted, dotted and nested keys are the same property, and values arrive as text."""
    assert load(toml).settings.kafka == {
        "bootstrap.servers": "a:1,b:2",
        "enable.idempotence": "true",
        "linger.ms": "5",
    }


@pytest.mark.parametrize("header", ['[topics."web.clicks"]', "[topics.web.clicks]"])
def test_topics_with_dots(load, header: str) -> None:
    """A topic's dots need no quotes; its key in messages and rows has them, as TOML wants."""
    loaded = load(f'{header}\nstart = "latest"\ntable_properties.write.format.default = "parquet"')
    assert list(loaded.settings.topics) == ["web.clicks"]
    assert loaded.settings.topics["web.clicks"].table_properties == {"write.format.default": "parquet"}
    assert loaded.origins['topics."web.clicks".start'] == "tabletopic.toml:2"


def test_an_empty_topic_section_counts(load) -> None:
    """``[topics.clicks]`` alone is a topic with every default."""
    assert list(load("[topics.clicks]\n[topics.a.b]").settings.topics) == ["clicks", "a.b"]


def test_values_with_units_lists_and_times(load) -> None:
    """Durations, sizes, lists and TOML's own times are understood."""
    topic = load(
        '[topics.t]\ncommit_interval_ms = "1.5 min"\ncommit_bytes = "64 MiB"\nstart = 2026-01-31T12:00:00Z\n'
        'partition_by = ["hour(ts)", "bucket(16, id)"]\nmetadata_columns = []'
    ).settings.topics["t"]
    assert (topic.commit_interval_ms, topic.commit_bytes) == (90_000, 64 * 1024**2)
    assert topic.start == 1_769_860_800_000
    assert (topic.partition_by, topic.metadata_columns) == (("hour(ts)", "bucket(16, id)"), ())


def test_a_bare_number_has_the_unit_of_its_key(load) -> None:
    """``commit_interval_ms`` 500 is milliseconds as a number, as text and in the environment."""
    for loaded in (
        load("[topics.t]\ncommit_interval_ms = 500"),
        load('[topics.t]\ncommit_interval_ms = "500"'),
        load("", {"TABLETOPIC_TOPICS__T__COMMIT_INTERVAL_MS": "500"}),
        load("", None, {"topics.t.commit_interval_ms": "500"}),
    ):
        assert loaded.settings.topics["t"].commit_interval_ms == 500


# --- the state folder -------------------------------------------------------------------------------------


def test_the_state_folder_is_found_upwards(load, tmp_path: Path) -> None:
    """A notebook below the project's folder finds the servers of the project; a setting is taken as it is."""
    inner = tmp_path / "notebooks" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / ".tabletopic").mkdir()
    assert load(cwd=inner).settings.state_dir == str(tmp_path / ".tabletopic")
    assert load(environ={"TABLETOPIC_STATE_DIR": "x"}, cwd=inner).settings.state_dir == str(inner / "x")
    (inner / ".tabletopic").mkdir()
    assert load(cwd=inner).settings.state_dir == str(inner / ".tabletopic")


def test_state_dir_is_absolute(load, tmp_path: Path) -> None:
    """Relative to the file's folder if the file says it, else to the current one; ``~`` is the home."""
    inner = tmp_path / "inner"
    inner.mkdir()
    toml = 'state_dir = "../state"'
    assert load(cwd=inner).settings.state_dir == str(inner / ".tabletopic")
    assert load(toml, cwd=inner).settings.state_dir == str(tmp_path.parent / "state")
    assert load(toml, {"TABLETOPIC_STATE_DIR": "env"}, cwd=inner).settings.state_dir == str(inner / "env")
    assert load(toml, {}, {"state_dir": "/opt/state"}, cwd=inner).settings.state_dir == "/opt/state"
    assert load(environ={}, overrides={"state_dir": "~/x"}).settings.state_dir == str(Path.home() / "x")
    assert load(overrides={"state_dir": "x"}).origins["state_dir"] == "--state-dir"


# --- environment names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "section", "expected"),
    [
        ("TABLETOPIC_KAFKA__BOOTSTRAP__SERVERS", "kafka", {"bootstrap.servers": "x"}),
        ("TABLETOPIC_KAFKA__bootstrap__servers", "kafka", {"bootstrap.servers": "x"}),
        ("TABLETOPIC_REGISTRY__BASIC__AUTH__USER__INFO", "registry", {"basic.auth.user.info": "x"}),
        ("TABLETOPIC_CATALOG__URI", "catalog", {"uri": "x"}),
        ("TABLETOPIC_CATALOG__S3__ACCESS_KEY_ID", "catalog", {"s3.access-key-id": "x"}),
    ],
)
def test_environment_names_of_properties(load, variable: str, section: str, expected: dict[str, str]) -> None:
    """Two underscores are a dot; in the catalog's names one is a hyphen."""
    assert getattr(load(environ={variable: "x"}).settings, section) == expected


def test_environment_names_of_spark_and_topics(load) -> None:
    """Letters keep their case unless a part is all capitals; dots of a topic are two underscores."""
    settings = load(
        environ={
            "TABLETOPIC_SPARK__CONF__spark__executor__memoryOverhead": "1g",
            "TABLETOPIC_TOPICS__WEB__CLICKS__METADATA_COLUMNS": "key, header",
            "TABLETOPIC_TOPICS__Orders__PARTITION_BY": "day(ts), bucket(16, id)",
            "TABLETOPIC_TOPICS__Orders__TABLE_PROPERTIES__WRITE__OBJECT_STORAGE__ENABLED": "true",
        }
    ).settings
    assert settings.spark.conf == {"spark.executor.memoryOverhead": "1g"}
    assert settings.topics["web.clicks"].metadata_columns == ("key", "header")
    assert settings.topics["Orders"].partition_by == ("day(ts)", "bucket(16, id)")
    assert settings.topics["Orders"].table_properties == {"write.object-storage.enabled": "true"}


def test_other_variables_are_left_alone(load) -> None:
    """The program's own variables and those of other programs are no settings."""
    environ = dict.fromkeys(PROGRAM_VARIABLES - {"TABLETOPIC_CONFIG"}, "x") | {
        "PATH": "x",
        "TABLETOPICS": "x",
    }
    assert load(environ=environ).settings.kafka == {}


# --- messages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("kafak.x = 1", "tabletopic.toml:1: unknown setting kafak; did you mean kafka?"),
        (
            "[zzz]",
            "tabletopic.toml:1: unknown setting zzz; "
            "known here: state_dir, kafka, registry, catalog, spark, topics",
        ),
        ("\n[spark]\nmastr = 1", "tabletopic.toml:3: unknown setting spark.mastr; did you mean master?"),
        (
            "[topics.a.b]\nstrat = 1",
            'tabletopic.toml:2: unknown setting topics."a.b".strat; did you mean start?',
        ),
        ("kafka = 1", "tabletopic.toml:1: kafka is a section, not a value: write [kafka]"),
        ("topics.a = 1", "tabletopic.toml:1: topics.a is a section, not a value: write [topics.a]"),
        (
            "[catalog]\nuri = 2026-01-01",
            "tabletopic.toml:2: catalog.uri must be text, a number, true, false or a list of these",
        ),
        (
            '[kafka]\nclient.id = "a"\n"client.id" = "b"',
            "tabletopic.toml:3: kafka.client.id is given twice",
        ),
        (
            "[topics.a]\ncommit_interval_ms = 5",
            "tabletopic.toml:2: topics.a.commit_interval_ms = 5: allowed: 100 to 3600000",
        ),
        (
            '[topics.a]\ncommit_interval_ms = "2 weeks"',
            "tabletopic.toml:2: topics.a.commit_interval_ms = \"2 weeks\": '2 weeks' is no duration; "
            "write for example 500ms, 5s, 2m or 1h",
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
            "tabletopic.toml:2: topics.a.start = \"tomorrow\": 'tomorrow' is no start; "
            "write earliest, latest, or a time such as 2026-01-31T12:00:00Z",
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
    assert complaint(load, overrides={"a b": 1}).startswith("--a b: no name of a setting")
    message = complaint(load, overrides={"kafka.sasl.password=hunter2": "x"})
    assert message.startswith("--kafka.sasl.password: no name of a setting")
    assert "hunter2" not in message


def test_all_problems_come_at_once(load) -> None:
    """One run tells everything that is wrong, a line each, of all sources."""
    message = complaint(
        load, "[topics.a]\nstrat = 1\ncommit_bytes = 1", {"TABLETOPIC_X": "1"}, {"topics.b.errors": "ignore"}
    )
    assert [line.split(":")[0] for line in message.splitlines()] == [
        "tabletopic.toml",
        "TABLETOPIC_X",
        "tabletopic.toml",
        "--topics.b.errors",
    ]


def test_a_wrong_value_that_is_replaced_does_no_harm(load) -> None:
    """Only values in force are checked; the environment can mend a file."""
    environ = {"TABLETOPIC_TOPICS__A__COMMIT_INTERVAL_MS": "1s"}
    assert load("[topics.a]\ncommit_interval_ms = 1", environ).settings.topics["a"].commit_interval_ms == 1000


def test_files_of_other_encodings(load, tmp_path: Path) -> None:
    """A byte-order mark is fine; another encoding is named as the fault."""
    file = tmp_path / "tabletopic.toml"
    file.write_bytes(b'\xef\xbb\xbf[spark]\nmaster = "x"')
    assert load().origins["spark.master"] == "tabletopic.toml:2"
    file.write_bytes('[spark]\nmaster = "ü"'.encode("latin-1"))
    assert complaint(load) == "tabletopic.toml is not UTF-8 text (see byte 18); save it as UTF-8"


# --- what is shown ----------------------------------------------------------------------------------------


def test_describe_lists_every_setting_in_order(load) -> None:
    """Section by section, defaults too."""
    rows = describe(load('[catalog]\nuri = "sqlite:///x.db"\n[topics.a]'))
    assert [row.key for row in rows[:6]] == [
        "state_dir",
        "kafka.bootstrap.servers",
        "registry.url",
        "catalog.name",
        "catalog.uri",
        "spark.master",
    ]
    assert ("catalog.name", "lake", DEFAULT) in rows
    assert ("topics.a.metadata_columns", "key, header, metadata", DEFAULT) in rows


def test_absent_servers_read_as_embedded(load) -> None:
    """A server counts as absent without its address, whatever else is set about it."""
    absent = ["kafka.bootstrap.servers", "registry.url", "catalog.uri"]
    rows = describe(load(overrides={"kafka.client.id": "x", "registry.timeout": 5, "catalog.name": "prod"}))
    assert [row.key for row in rows if row.value == EMBEDDED] == absent
    rows = describe(
        load(overrides={"kafka.metadata.broker.list": "x:1", "registry.url": "x", "catalog.type": "glue"})
    )
    assert EMBEDDED not in [row.value for row in rows]


def test_describe_of_a_named_catalog(load) -> None:
    """A catalog's own name takes the place of the default."""
    rows = describe(load(overrides={"catalog.name": "prod"}))
    assert [row for row in rows if row.key == "catalog.name"] == [("catalog.name", "prod", "--catalog.name")]


SECRET_KEYS = [
    "kafka.sasl.password",
    "kafka.sasl.jaas.config",
    "kafka.ssl.key.password",
    "kafka.ssl.key.pem",
    "kafka.ssl.keystore.password",
    "kafka.sasl.oauthbearer.client.secret",
    "kafka.sasl.oauthbearer.config",
    "registry.basic.auth.user.info",
    "registry.bearer.auth.token",
    "registry.ssl.key.password",
    "catalog.credential",
    "catalog.token",
    "catalog.s3.access-key-id",
    "catalog.s3.secret-access-key",
    "catalog.s3.session-token",
    "catalog.adls.account-key",
    "catalog.adls.connection-string",
    "catalog.adls.sas-token",
    "catalog.gcs.oauth2.token",
    "catalog.header.authorization",
    "spark.conf.spark.hadoop.fs.s3a.access.key",
    "spark.conf.spark.hadoop.fs.s3a.secret.key",
    "spark.conf.spark.ssl.keyPassword",
    "topics.a.table_properties.some.password",
]
EMBEDDED_SECRETS = [
    ("registry.url", "https://me:{}@host:8081/path"),
    ("kafka.bootstrap.servers", "me:{}@host:9092"),
    ("catalog.uri", "postgresql+psycopg://me:{}@db/lake?sslmode=on"),
    ("catalog.header.x-thing", "Bearer {}"),
]
# No spaces in these: the value says nothing about where such a secret ends.
PAIRED_SECRETS = [
    ("catalog.uri", "jdbc:postgresql://db/lake?user=me&password={}"),
    ("spark.conf.spark.driver.extraJavaOptions", "-Xmx1g -Djavax.net.ssl.trustStorePassword={} -Da=b"),
]

MARK = "hunter2"
words = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="\"'"), max_size=12
)
alphanumeric = st.text(st.sampled_from("abcXYZ0189-_.~+/%!$*()"), max_size=12)


def outputs(overrides: dict[str, Any]) -> list[str]:
    """Everything that is ever shown of loaded settings."""
    loaded = load_settings(overrides, environ={}, cwd=Path("/"))
    shown = [repr(loaded), str(loaded), repr(loaded.settings), str(loaded.settings), str(describe(loaded))]
    for topic in loaded.settings.topics.values():
        shown += [repr(topic), str(topic)]
    return shown


@given(st.sampled_from(SECRET_KEYS), words)
def test_secrets_are_never_shown(key: str, ending: str) -> None:
    """Whatever a secret is, no row and no repr holds it."""
    assert not any(MARK in text for text in outputs({key: MARK + ending}))


@given(st.sampled_from(EMBEDDED_SECRETS), words)
def test_credentials_inside_values_are_never_shown(place: tuple[str, str], ending: str) -> None:
    """URLs, host lists and headers lose their credentials, whatever characters these hold."""
    key, form = place
    assert not any(MARK in text for text in outputs({key: form.format(MARK + ending)}))


@given(st.sampled_from(PAIRED_SECRETS), alphanumeric)
def test_credentials_in_pairs_are_never_shown(place: tuple[str, str], ending: str) -> None:
    """``password=…`` inside a longer value is hidden."""
    key, form = place
    assert not any(MARK in text for text in outputs({key: form.format(MARK + ending)}))


@given(st.sampled_from(["start", "namespace", "transform", "commit_bytes", "no_such"]), words)
def test_credentials_in_wrong_places_are_never_shown(field: str, ending: str) -> None:
    """A URL with a password in a setting of another kind is refused, or taken, without showing it."""
    secret = MARK + ending
    try:
        shown = outputs({f"topics.a.{field}": f"http://me:{secret}@host"})
    except SettingsError as error:
        shown = [str(error)]
    assert field == "namespace" or not any(MARK in text for text in shown)


def test_ordinary_values_are_shown_whole(load) -> None:
    """Hiding stops at secrets: hosts, paths and names stay readable."""
    plain = {
        "kafka.bootstrap.servers": "a:9092,b:9092",
        "kafka.sasl.username": "me",
        "kafka.ssl.ca.location": "/etc/ssl/ca.pem",
        "registry.url": "http://127.0.0.1:8081/apis/ccompat/v7",
        "catalog.uri": "sqlite:////data/catalog.db?timeout=30",
        "catalog.warehouse": "s3://bucket/lake",
        "catalog.s3.endpoint": "http://127.0.0.1:7070",
    }
    rows = {row.key: row.value for row in describe(load(overrides=plain))}
    assert rows.items() >= plain.items()


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


def test_importing_is_light() -> None:
    """Reading settings loads none of the heavy clients."""
    heavy = ["confluent_kafka", "pyspark", "pyiceberg", "pyarrow", "duckdb", "datafusion"]
    program = f"import sys, tabletopic_kernel.config; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_process_is_the_default_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without arguments the process's own environment and folder are read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABLETOPIC_SPARK__MASTER", "here")
    loaded = load_settings()
    assert loaded.settings.spark.master == "here"
    assert loaded.settings.state_dir == str(tmp_path / ".tabletopic")
    assert isinstance(loaded.settings, Settings)
