"""Tables and REST catalogs that name classes, other places for keys, and other people's files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.io import ARROW_FILE_IO, FSSPEC_FILE_IO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import SetPropertiesUpdate
from pyiceberg.types import LongType, NestedField
from pyiceberg.utils.config import Config

from tabletopic_kernel.clients.catalog.catalog import lends_keys, open_catalog
from tabletopic_kernel.clients.catalog.guard import own_choices, with_lent
from tabletopic_kernel.clients.catalog.pyiceberg_seams.files import TableFileIO
from tabletopic_kernel.model.errors import ActionNeededError, SettingsError
from tabletopic_kernel.pipeline.write import DataFileWriter
from tabletopic_kernel.table.topic_table import TopicTable
from tests.clients.pyiceberg_seams.test_rest import answering

IDENTIFIER = ("default", "clicks")
SCHEMA = Schema(NestedField(1, "a", LongType(), required=False))
OWN = {
    "uri": "http://catalog",
    "s3.access-key-id": "own",
    "s3.secret-access-key": "own",
    "gcs.oauth2.token": "own",
}


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that a class makes when it is called, by whatever arguments; ``hostile.Ran`` names the class."""
    mark = tmp_path / "ran"
    code = f"class Ran:\n    def __init__(self, *_, **__):\n        open({str(mark)!r}, 'w').close()\n"
    (tmp_path / "hostile.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield mark
    sys.modules.pop("hostile", None)


def lake(folder: Path, properties: dict[str, str], **more: str) -> Catalog:
    """A catalog in a file, and a table with these properties."""
    place = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
    catalog = open_catalog({"type": "sql", **place, **more})
    catalog.create_namespace("default")
    catalog.create_table(IDENTIFIER, SCHEMA, properties=properties)
    return catalog


def test_a_table_chooses_no_client_for_its_files(tmp_path: Path, ran: Path) -> None:
    """Nor its endpoint; a commit does not either, and executors open files as this process does."""
    hostile = {
        "py-io-impl": "hostile.Ran",
        "s3.retry-strategy-impl": "hostile.Ran",
        "s3.endpoint": "http://evil.example",
        "gcs.service.host": "http://evil.example",
        "adls.dfs-storage-authority": "evil.example",
    }
    catalog = lake(tmp_path, hostile, **{"s3.region": "here"})
    table = catalog.load_table(IDENTIFIER)
    table.append(pa.table({"a": [1]}))
    table.transaction().set_properties({"py-io-impl": "hostile.Ran", "x": "y"}).commit_transaction()
    for io in (table.io, catalog.load_table(IDENTIFIER).io):
        assert type(io) is TableFileIO
        assert io.properties == catalog.properties
    io.fs_by_scheme("s3", "lake")  # type: ignore[attr-defined]
    plan = TopicTable(catalog.load_table(IDENTIFIER)).plan()
    writer = DataFileWriter(plan.metadata, plan.io_properties, 1)
    writer.write(pa.table({"a": pa.array([1], pa.int64())}))
    assert type(writer.io) is TableFileIO
    assert not ran.exists()


def test_a_file_of_pyiceberg_here_chooses_nothing(
    tmp_path: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg reads one wherever a program starts, such as in a cloned folder."""
    file = (
        "catalog:\n  lake:\n    s3.retry-strategy-impl: hostile.Ran\n    s3.endpoint: http://evil.example\n"
    )
    (tmp_path / ".pyiceberg.yaml").write_text(file)
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    own = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": "s3://lake", "s3.region": "here"}
    catalog = open_catalog(own)
    catalog._load_file_io().fs_by_scheme("s3", "lake")  # type: ignore[attr-defined]
    assert set(catalog.properties) == {*own, "py-io-impl"}
    assert not ran.exists()


def test_a_class_for_locations_is_refused(tmp_path: Path, ran: Path) -> None:
    """By the host before it writes, and by every writer of PyIceberg and ours; reading goes on."""
    catalog = lake(tmp_path, {})
    table = catalog.load_table(IDENTIFIER)
    table.append(pa.table({"a": [1]}))
    hostile = {"write.py-location-provider.impl": "hostile.Ran"}
    metadata = table.metadata.model_copy(update={"properties": hostile})
    table.metadata = metadata
    plan = TopicTable(table).plan()
    for write in (
        lambda: TopicTable(table).check_writable([]),
        lambda: table.append(pa.table({"a": [2]})),
        lambda: DataFileWriter(plan.metadata, plan.io_properties, 1).write(pa.table({"a": [2]})),
        lambda: catalog.create_table(("default", "other"), SCHEMA, properties=hostile),
        lambda: catalog.commit_table(table, (), (SetPropertiesUpdate(updates=hostile),)),
    ):
        with pytest.raises(ActionNeededError, match=r"hostile.Ran, which is not loaded; remove"):
            write()
    assert table.scan().to_arrow()["a"].to_pylist() == [1]
    assert not ran.exists()


def test_old_metadata_is_deleted_beside_the_new_alone(tmp_path: Path) -> None:
    """The log in a crafted file may name any file of this person's."""
    kept = tmp_path / "thesis.tex"
    kept.write_text("years of work")
    catalog = lake(
        tmp_path,
        {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"},
    )
    table = catalog.load_table(IDENTIFIER)
    table.transaction().set_properties({"x": "1"}).commit_transaction()
    crafted = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(crafted.read_text())
    first = metadata["metadata-log"][0]["metadata-file"]
    metadata["metadata-log"].insert(0, {"timestamp-ms": 1, "metadata-file": f"file://{kept}"})
    place = crafted.with_name("00005-crafted.metadata.json")
    place.write_text(json.dumps(metadata))
    catalog.drop_table(IDENTIFIER)
    table = catalog.register_table(IDENTIFIER, f"file://{place}")
    for number in range(2):
        table.transaction().set_properties({"x": f"2{number}"}).commit_transaction()
    assert kept.exists()
    assert not Path(first.removeprefix("file://")).exists()


HOSTILE_CONFIG = {
    "auth": {"type": "custom", "impl": "hostile.Ran", "custom": {"args": "x"}},
    "ssl": {"cabundle": "/home/mallory/ca.pem"}, "py-io-impl": "hostile.Ran",
    "s3.retry-strategy-impl": "hostile.Ran", "s3.signer": "S3V4RestSigner",
    "s3.signer.uri": "http://evil.example", "io-impl": "hostile.Ran", "client.factory": "hostile.Ran",
    "rest.sigv4-enabled": "true", "oauth2-server-uri": "http://evil.example/token",
}  # fmt: skip


@pytest.mark.parametrize("where", ["defaults", "overrides"])
def test_a_rest_catalog_chooses_no_class_and_no_login(where: str, ran: Path) -> None:
    """Its configuration still says how to use it, and may choose among PyIceberg's own clients for files."""
    config: dict[str, Any] = {"defaults": {}, "overrides": {}}
    config[where] = HOSTILE_CONFIG | {"prefix": "here", "s3.region": "there"}
    answers = {"/v1/config": (200, json.dumps(config)), "/v1/here/namespaces": (200, '{"namespaces": []}')}
    with answering(answers) as uri:
        own = {"type": "rest", "uri": uri, "token": "own", "rest.signing-region": "own"}
        catalog = open_catalog(own)
        assert catalog.list_namespaces() == []
        files = catalog._load_file_io(location="s3://lake/x")
        assert type(files) is TableFileIO
        assert files.properties["s3.region"] == "there"
        left = set(catalog.properties) - set(own)
        assert left == {"py-io-impl", "prefix"}
        assert catalog.properties["rest.signing-region"] == "own"
        config["overrides"] = {"py-io-impl": ARROW_FILE_IO}
        answers["/v1/config"] = (200, json.dumps(config))
        assert open_catalog(own).properties["py-io-impl"] == ARROW_FILE_IO
    assert not ran.exists()


@pytest.mark.parametrize("where", ["defaults", "overrides"])
def test_this_persons_keys_do_not_go_to_the_store_of_a_rest_catalogs_configuration(where: str) -> None:
    """Only keys that the catalog lends do, in the configuration or with a table."""
    place, token = {"gcs.service.host": "http://evil.example"}, {"gcs.oauth2.token": "lent"}
    config: dict[str, Any] = {"defaults": {}, "overrides": {}, where: place}
    answers = {"/v1/config": (200, json.dumps(config))}
    with answering(answers) as uri:
        own = {"type": "rest", "uri": uri, "gcs.oauth2.token": "own"}
        with pytest.raises(SettingsError, match=r"set gcs.service.host in .catalog."):
            open_catalog(own)._load_file_io(location="gs://lake/x")
        lent = open_catalog(own)._load_file_io(token, "gs://lake/x").properties
        ours = open_catalog(own | {"gcs.service.host": "http://ours"})._load_file_io(location="gs://lake/x")
    assert (lent["gcs.oauth2.token"], lent["gcs.service.host"]) == ("lent", "http://evil.example")
    assert ours.properties["gcs.service.host"] == "http://ours"


def test_a_rest_catalogs_warehouse_gets_no_key_of_azure() -> None:
    """The warehouse that the settings name does, and tables lie where the catalog's is."""
    place = "abfss://lake@evil.dfs.evil.example/w"
    config = {"defaults": {}, "overrides": {"warehouse": place}}
    with answering({"/v1/config": (200, json.dumps(config))}) as uri:
        catalog = open_catalog({"type": "rest", "uri": uri, "warehouse": "lake", "adls.sas-token": "own"})
        with pytest.raises(SettingsError, match=r"no key for the account evil in evil.example"):
            catalog._load_file_io(location=place).new_input(f"{place}/x")
        assert catalog.properties["warehouse"] == place


def test_keys_that_a_catalog_lends_go_where_it_says() -> None:
    """With nothing of this person's beside them; other stores' keys and a login of one's own stay."""
    lent = {"s3.access-key-id": "lent", "s3.endpoint": "http://store", "s3.path-style-access": "true"}
    files = with_lent(OWN | {"s3.session-token": "own"}, lent)
    assert files == {"uri": "http://catalog", "gcs.oauth2.token": "own", **lent}
    google = {"gcs.oauth2.token": "lent", "gcs.service.host": "http://store", "py-io-impl": FSSPEC_FILE_IO}
    assert with_lent(OWN, google) == OWN | google
    signed = {"py-io-impl": FSSPEC_FILE_IO, "s3.signer": "S3V4RestSigner", "s3.endpoint": "http://store"}
    assert with_lent(OWN, signed) == {"uri": "http://catalog", "gcs.oauth2.token": "own", **signed}
    own = {"credential": "id:secret", "oauth2-server-uri": "http://login", "auth": {"type": "google"}}
    assert own_choices(own, own | HOSTILE_CONFIG | {"credential": "x:y"}) == own


@pytest.mark.parametrize(
    "place", ["s3.endpoint", "s3.proxy-uri", "gcs.service.host", "adls.dfs-storage-authority"]
)
def test_this_persons_keys_go_where_the_settings_say(place: str) -> None:
    """If these name no place, the person decides whether the one of the catalog is right."""
    assert with_lent(OWN, {"s3.region": "there"}) == OWN | {"s3.region": "there"}
    placed = OWN | {place: "http://ours"}
    assert with_lent(placed, {place: "http://evil.example"}) == placed
    assert with_lent(placed, {place: "http://ours"}) == placed
    # Without a key that replaces one's own, clients look for those of the environment.
    for more in ({}, {"gcs.oauth2.token": ""}, {"gcs.x-token": "x", "s3.x-secret": "x", "adls.x-token": "x"}):
        with pytest.raises(SettingsError, match=f"set {place} in .catalog."):
            with_lent(OWN, {place: "http://evil.example", **more})


def test_what_a_rest_catalog_lends_with_a_table(ran: Path) -> None:
    """Its answer counts, the table's own properties do not, whoever wrote them; the metadata stays whole."""
    hostile = {"py-io-impl": "hostile.Ran", "s3.endpoint": "http://evil.example", "s3.session-token": "evil"}
    spec, order = UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER
    metadata = new_table_metadata(SCHEMA, spec, order, "s3://lake/clicks", properties=hostile)
    answer = {
        "metadata-location": "s3://lake/clicks/metadata/1.metadata.json",
        "metadata": json.loads(metadata.model_dump_json()),
        "config": {
            "s3.endpoint": "http://store",
            "s3.secret-access-key": "lent",
            "py-io-impl": "hostile.Ran",
        },
        "storage-credentials": [{"prefix": "s3://lake", "config": {"s3.access-key-id": "lent"}}],
    }
    answers = {
        "/v1/config": (200, '{"defaults": {}, "overrides": {}}'),
        "/v1/namespaces/default/tables/clicks": (200, json.dumps(answer)),
    }
    with answering(answers) as uri:
        catalog = open_catalog(
            {"type": "rest", "uri": uri, "s3.access-key-id": "own", "s3.session-token": "own"}
        )
        table = catalog.load_table(IDENTIFIER)
        assert lends_keys(table)
        of_store = {name: one for name, one in table.io.properties.items() if name.startswith("s3.")}
        lent = {"s3.access-key-id": "lent", "s3.secret-access-key": "lent"}
        assert of_store == lent | {"s3.endpoint": "http://store"}
        assert type(table.io) is TableFileIO
        assert dict(table.properties) == hostile
        answer["config"], answer["storage-credentials"] = {}, []
        answers["/v1/namespaces/default/tables/clicks"] = (200, json.dumps(answer))
        table = catalog.load_table(IDENTIFIER)
        assert not lends_keys(table)
        assert "s3.endpoint" not in table.io.properties
    assert not ran.exists()
