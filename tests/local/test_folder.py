"""State folders that were copied, moved, or are another user's."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.local import folder, machine
from tabletopic_kernel.local.stack import LocalStack
from tabletopic_kernel.model.errors import StackError
from tabletopic_kernel.model.settings.sections import Settings
from tabletopic_kernel.query.duckdb import DuckLake
from tabletopic_kernel.workbench.config import load_settings
from tabletopic_kernel.workbench.config.servers import find_servers
from tests.table.foreign_deletes import delete_rows

STRANGER = 65534


def _settle(place: Path, *, fork: bool = False) -> list[str]:
    told: list[str] = []
    folder.settle(place, fork=fork, on_change=told.append)
    return told


def _open(place: Path) -> Catalog:
    return open_catalog(
        {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/warehouse"}
    )


def _made(place: Path, *, compressed: bool = False) -> None:
    """A state folder with a table: five snapshots, one of which deletes by position."""
    place.mkdir(parents=True)
    _settle(place)
    catalog = _open(place)
    catalog.create_namespace("default")
    codec = {"write.metadata.compression-codec": "gzip"} if compressed else {}
    rows = pa.table({"a": pa.array(range(10), pa.int64()), "b": ["x", None] * 5})
    table = catalog.create_table("default.clicks", rows.schema, properties=codec)
    for _ in range(3):
        table.append(rows)
    (first, *_) = (task.file.file_path for task in table.scan().plan_files())
    delete_rows(table, {first: [1, 3]})
    catalog.load_table("default.clicks").append(rows)
    claim = place / "warehouse/default/clicks/metadata/_tabletopic-x.json"
    claim.write_text(json.dumps({"catalog": f"sqlite:///{place}/catalog.db", "epoch": 1, "newer": None}))


def _rows(place: Path) -> tuple[int, int]:
    """As PyIceberg and DuckDB read them."""
    catalog = _open(place)
    table = catalog.load_table("default.clicks")
    assert table.location().startswith(f"file://{place}/")
    lake = DuckLake(catalog)
    counted = lake.query("SELECT count(*) FROM clicks").rows.column(0)[0].as_py()
    lake.close()
    return len(table.scan().to_arrow()), counted


def _texts(place: Path) -> str:
    """All that the metadata says, in the form of its readers."""
    table = _open(place).load_table("default.clicks")
    said = [repr(table.metadata)]
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            said += [repr(manifest), repr(manifest.fetch_manifest_entry(table.io, discard_deleted=False))]
    for path in (place / "warehouse").rglob("*.json"):
        packed = path.read_bytes()
        said.append((gzip.decompress(packed) if packed[:1] == b"\x1f" else packed).decode())
    return "\n".join(said)


def _files(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (place / "warehouse").rglob("*") if path.is_file()}


@pytest.mark.integration
@pytest.mark.parametrize("compressed", [False, True])
def test_a_moved_folder_has_its_tables(tmp_path: Path, compressed: bool) -> None:
    """All snapshots, deletes by position too; nothing names the former place, and it can move again."""
    before, after = tmp_path / "before", tmp_path / "after it"
    _made(before, compressed=compressed)
    assert _rows(before) == (38, 38)
    before.rename(after)
    with pytest.raises(StackError, match=r"was moved from .*before: `tabletopic up` adapts"):
        folder.check_place(after)
    (told,) = _settle(after)
    assert str(before) in told
    folder.check_place(after)
    assert _rows(after) == (38, 38)
    assert f"{before}/" not in _texts(after)
    table = _open(after).load_table("default.clicks")
    first = table.metadata.snapshots[0]
    assert len(table.scan(snapshot_id=first.snapshot_id).to_arrow()) == 10
    table.append(pa.table({"a": pa.array([1], pa.int64()), "b": ["y"]}))
    assert _settle(after) == []
    after.rename(before)
    _settle(before)
    assert _rows(before) == (39, 39)


@pytest.mark.integration
def test_an_interrupted_move_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place is recorded last."""
    _made(tmp_path / "before")
    (tmp_path / "before").rename(tmp_path / "after")
    real, left = folder._replace, [7]

    def replace(path: Path, content: bytes) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError("power cut")
        real(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(folder, "_replace", replace)
        with pytest.raises(OSError, match="power cut"):
            _settle(tmp_path / "after")
    _settle(tmp_path / "after")
    assert _rows(tmp_path / "after") == (38, 38)
    assert f"{tmp_path}/before/" not in _texts(tmp_path / "after")


@pytest.mark.integration
@pytest.mark.parametrize("is_old", [False, True], ids=["recorded", "of an earlier version"])
def test_a_copy_is_refused_until_it_is_independent(tmp_path: Path, is_old: bool) -> None:
    """By every use; then each of the two has tables of its own. The original is never touched."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    _made(original)
    if is_old:
        (original / "folder.json").unlink()
    shutil.copytree(original, copy)
    before = _files(original)
    settings = Settings(state_dir=str(copy), kafka={"bootstrap.servers": "a:1"}, registry={"url": "http://a"})
    for use in (LocalStack(copy).info, LocalStack(copy).known, LocalStack(copy).up):
        with pytest.raises(StackError, match=r"is a copy of .*original: .*`tabletopic up --fork`"):
            use()
    with pytest.raises(StackError, match="is a copy"):
        find_servers(settings)
    LocalStack(copy, servers=(), fork=True).up()
    assert (_rows(original), _rows(copy)) == ((38, 38), (38, 38))
    assert f"{original}/" not in _texts(copy)
    _open(copy).load_table("default.clicks").append(pa.table({"a": pa.array([1], pa.int64()), "b": ["y"]}))
    LocalStack(original, servers=()).up()
    LocalStack(copy, servers=()).up()
    assert (_rows(original), _rows(copy)) == ((38, 38), (39, 39))
    assert _files(original) == before


@pytest.mark.integration
def test_a_copy_removes_no_files_that_lie_elsewhere(tmp_path: Path) -> None:
    """The original has the same data folder; a table with data of its own is maintained as before."""
    _made(tmp_path / "original")
    rows = pa.table({"a": [1]})
    elsewhere = {"write.data.path": f"file://{tmp_path}/elsewhere"}
    _open(tmp_path / "original").create_table("default.far", rows.schema, properties=elsewhere).append(rows)
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    _settle(tmp_path / "copy", fork=True)
    tables = [_open(tmp_path / "copy").load_table(f"default.{name}") for name in ("far", "clicks")]
    assert [table.properties.get("gc.enabled") for table in tables] == ["false", None]


@pytest.mark.integration
def test_a_folder_of_an_earlier_version_may_lie_in_a_warehouse(tmp_path: Path) -> None:
    """Only the last part of its tables' paths is the state folder's own."""
    before, after = tmp_path / "warehouse/default/before", tmp_path / "after"
    _made(before)
    (before / "folder.json").unlink()
    assert _settle(before) == []
    (before / "folder.json").unlink()
    before.rename(after)
    assert len(_settle(after)) == 1
    assert _rows(after) == (38, 38)


@pytest.mark.integration
def test_one_folder_with_two_names_is_no_copy(tmp_path: Path) -> None:
    """As with a mount; and a new folder at the place of a moved one is another."""
    _made(tmp_path / "link")
    (tmp_path / "link").rename(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    folder.check_place(tmp_path / "a")
    (tmp_path / "link").unlink()
    _made(tmp_path / "link")
    assert len(_settle(tmp_path / "a")) == 1
    assert _rows(tmp_path / "a") == (38, 38)


def test_a_worktree_has_a_folder_of_its_own(tmp_path: Path) -> None:
    """Git ignores the state folder of the first one."""
    project = tmp_path / "project"
    project.mkdir()
    LocalStack(project / ".tabletopic", servers=()).up()
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(project)]
    for words in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", "../w"],
    ):
        subprocess.run([*git, *words], check=True, capture_output=True)
    status = subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True, text=True)
    assert status.stdout == ""
    own = load_settings(environ={}, cwd=tmp_path / "w").settings.state_dir
    assert own == str(tmp_path / "w" / ".tabletopic")
    assert find_own(project / "notebooks") == str(project / ".tabletopic")


def find_own(cwd: Path) -> str:
    """The state folder of a notebook there."""
    cwd.mkdir()
    return load_settings(environ={}, cwd=cwd).settings.state_dir


# --- other users ------------------------------------------------------------------------------------------

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to another user")


@only_root
@pytest.mark.usefixtures("no_jars")
@pytest.mark.parametrize("name", [".gitignore", "logs/registry.out", "password", "stack.json"])
def test_nothing_is_written_in_a_foreign_folder(name: str, tmp_path: Path) -> None:
    """Its owner may have placed links to this user's files there; nor does it say which processes to end."""
    mine, state = tmp_path / "mine", tmp_path / ".tabletopic"
    mine.write_text("private")
    (state / "logs").mkdir(parents=True)
    (state / name).symlink_to(mine)
    for path in (state, state / "logs"):
        os.chown(path, STRANGER, STRANGER)
    for use in (LocalStack.up, LocalStack.down, LocalStack.info):
        with pytest.raises(StackError, match=r"is not yours alone: it belongs to nobody"):
            use(LocalStack(state))
    with pytest.raises(StackError, match="not yours alone"):
        machine.logs_folder(state)
    assert mine.read_text() == "private"
    assert sorted(path.name for path in state.iterdir()) == sorted({"logs", name.partition("/")[0]})


@only_root
def test_a_foreign_folder_is_not_adopted_upwards(tmp_path: Path) -> None:
    """As in /tmp, also through a foreign link to a folder of this user's."""
    (tmp_path / ".tabletopic").mkdir()
    os.chown(tmp_path / ".tabletopic", STRANGER, STRANGER)
    assert find_own(tmp_path / "one") == str(tmp_path / "one" / ".tabletopic")
    (tmp_path / ".tabletopic").rmdir()
    (tmp_path / ".tabletopic").symlink_to(tmp_path / "one")
    os.chown(tmp_path / ".tabletopic", STRANGER, STRANGER, follow_symlinks=False)
    assert find_own(tmp_path / "two") == str(tmp_path / "two" / ".tabletopic")
    os.chown(tmp_path / ".tabletopic", 0, 0, follow_symlinks=False)
    assert find_own(tmp_path / "three") == str(tmp_path / ".tabletopic")


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    """They may have placed links in it already."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    with pytest.raises(StackError, match=r"others may write to it; .*`chmod go-w "):
        LocalStack(tmp_path / "state")
