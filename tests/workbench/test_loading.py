"""Loading settings: precedence, the file, the environment, origins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tabletopic_kernel.workbench.config import describe
from tabletopic_kernel.workbench.config.sources import PROGRAM_VARIABLES
from tests.workbench.complaints import complaint

# --- precedence -------------------------------------------------------------------------------------------

# One setting of each kind: key, TOML, variable, option's key.
KINDS = {
    "value": ("spark.master", '[spark]\nmaster = "{}"', "TABLETOPIC_SPARK__MASTER", "spark.master"),
    "property": (
        "kafka.client.id", '[kafka]\nclient.id = "{}"', "TABLETOPIC_KAFKA__CLIENT__ID", "kafka.client.id",
    ),
    "topic": (
        "topics.clicks.namespace", '[topics.clicks]\nnamespace = "{}"',
        "TABLETOPIC_TOPICS__CLICKS__NAMESPACE", "topics.clicks.namespace",
    ),
}  # fmt: skip
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


def test_sources_merge_key_by_key(load) -> None:
    """Each property comes from its highest source; an option not given, or None, leaves the lower alone."""
    loaded = load(
        '[kafka]\nbootstrap.servers = "file:1"\nclient.id = "file"',
        {"TABLETOPIC_KAFKA__CLIENT__ID": "environment", "TABLETOPIC_KAFKA__ACKS": "all"},
        {"kafka.acks": 1},
    )
    assert loaded.settings.kafka == {"bootstrap.servers": "file:1", "client.id": "environment", "acks": "1"}
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


def test_values_with_units_lists_and_times(load) -> None:
    """Durations, sizes, lists and TOML's own times; a bare number has the unit of its key."""
    topic = load(
        '[topics.t]\ncommit_interval_ms = "1.5 min"\ncommit_bytes = "64 MiB"\nstart = 2026-01-31T12:00:00Z\n'
        'partition_by = ["hour(ts)", "bucket(16, id)"]\nmetadata_columns = []'
    ).settings.topics["t"]
    assert (topic.commit_interval_ms, topic.commit_bytes) == (90_000, 64 * 1024**2)
    assert topic.start == 1_769_860_800_000
    assert (topic.partition_by, topic.metadata_columns) == (("hour(ts)", "bucket(16, id)"), ())
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


def test_other_variables_are_left_alone(load) -> None:
    """The program's own variables and those of other programs are no settings."""
    environ = dict.fromkeys(PROGRAM_VARIABLES - {"TABLETOPIC_CONFIG", "TABLETOPIC_PROFILE"}, "x") | {
        "PATH": "x",
        "TABLETOPICS": "x",
    }
    assert load(environ=environ).settings.kafka == {}


# --- the process


def test_importing_is_light() -> None:
    """Reading settings loads none of the heavy clients."""
    heavy = ["confluent_kafka", "pyspark", "pyiceberg", "pyarrow", "duckdb", "datafusion"]
    program = (
        f"import sys, tabletopic_kernel.workbench.config; print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
