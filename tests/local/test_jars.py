"""Fetch once, check, keep."""

import dataclasses
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tabletopic_kernel.local.java import jars
from tabletopic_kernel.local.progress import Step, silent
from tabletopic_kernel.model.errors import StackError


def _registry_archive() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as tar:
        member = tarfile.TarInfo("quarkus-run.jar")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"run"))
    return target.getvalue()


FILES = {"kafka/k-1.jar": b"kafka", "spark/s-1.jar": b"spark", "registry/r-1-all.tar.gz": _registry_archive()}


class Repository:
    """Stands in for Ivy: gives ``files``, counts how often it is asked."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked = 0

    def retrieve(self, java: list[str], ivy_cache: Path, into: Path, on_bytes, wanted: jars.JarSet) -> None:
        """Write the files, as Ivy would."""
        self.asked += 1
        ivy_cache.mkdir(exist_ok=True)
        on_bytes(1)
        for name, content in self.files.items():
            (into / name).parent.mkdir(exist_ok=True)
            (into / name).write_bytes(content)


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Repository:
    """A repository whose files fit a list of checksums of its own, and an empty cache."""
    checksums = tmp_path / "jars.sha256"
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in FILES.items())
    checksums.write_text("".join(lines))
    wanted = dataclasses.replace(jars.EVERY_JVM, checksum_file=checksums)
    monkeypatch.setattr(jars.install, "__defaults__", (wanted,))
    monkeypatch.setenv("TABLETOPIC_CACHE", str(tmp_path / "a cache"))
    given = Repository(dict(FILES))
    monkeypatch.setattr(jars, "retrieve", given.retrieve)
    return given


def test_jars_are_fetched_once(repository: Repository, tmp_path: Path) -> None:
    """The first call fetches, unpacks the registry and tidies up; the second only looks."""
    steps: list[Step] = []
    installed = jars.install(["java"], steps.append)
    assert [path.name for path in installed.of("kafka")] == ["k-1.jar"]
    assert (installed.folder / "registry" / "quarkus-run.jar").read_bytes() == b"run"
    assert {path.name for path in (tmp_path / "a cache").iterdir()} == {"lock", installed.folder.name}
    assert [step.state for step in steps] == ["started", "running", "done"]
    assert jars.install(["java"], steps.append) == installed
    assert repository.asked == 1
    assert len(steps) == 3


@pytest.mark.parametrize(
    ("name", "content"), [("kafka/k-1.jar", b"kafkA"), ("spark/s-1.jar", None), ("spark/foreign.jar", b"x")]
)
def test_wrong_files_are_refused(
    repository: Repository, name: str, content: bytes | None, tmp_path: Path
) -> None:
    """Changed, missing or foreign: nothing is installed, nothing is kept, and the file is named."""
    if content is None:
        del repository.files[name]
    else:
        repository.files[name] = content
    with pytest.raises(StackError, match=rf"not the expected files \({name}\).*try again"):
        jars.install(["java"], silent)
    assert [path.name for path in (tmp_path / "a cache").iterdir()] == ["lock"]
    repository.files = dict(FILES)
    jars.install(["java"], silent)


@pytest.mark.parametrize("damage", ["shorter", "gone", "manifest"])
def test_a_damaged_installation_is_noticed_and_made_again(repository: Repository, damage: str) -> None:
    """Names and sizes are compared on every start."""
    folder = jars.install(["java"], silent).folder
    if damage == "shorter":
        (folder / "kafka" / "k-1.jar").write_bytes(b"kaf")
    elif damage == "gone":
        (folder / "registry" / "quarkus-run.jar").unlink()
    else:
        (folder / "installed.json").write_text("{")
    assert jars.install(["java"], silent).folder == folder
    assert repository.asked == 2
    assert (folder / "kafka" / "k-1.jar").read_bytes() == b"kafka"


def test_an_interrupted_download_leaves_nothing_that_counts(repository: Repository, tmp_path: Path) -> None:
    """The folder appears whole or not at all, and the next call clears away the rest."""

    def interrupted(java, ivy_cache, into, on_bytes, wanted) -> None:
        (into / "kafka").mkdir()
        raise KeyboardInterrupt

    complete, jars.retrieve = jars.retrieve, interrupted
    with pytest.raises(KeyboardInterrupt):
        jars.install(["java"], silent)
    jars.retrieve = complete
    (tmp_path / "a cache" / ".new-killed").mkdir()
    folder = jars.install(["java"], silent).folder
    assert {path.name for path in (tmp_path / "a cache").iterdir()} == {"lock", folder.name}


@pytest.mark.parametrize(
    ("wanted", "archives"),
    [(jars.EVERY_JVM, ["registry/apicurio-registry-app-3.3.3-all.tar.gz"])]
    + [(extra, []) for extra in jars.EXTRAS.values()],
    ids=["every JVM", *jars.EXTRAS],
)
def test_the_committed_checksums_cover_every_configuration(wanted: jars.JarSet, archives: list[str]) -> None:
    """The list names jars for each configuration and one archive for the registry, each once."""
    names = [line.split()[1] for line in wanted.checksum_file.read_text().splitlines()]
    assert len(set(names)) == len(names)
    assert set(wanted.configurations) <= {name.split("/")[0] for name in names}
    assert [name for name in names if name.endswith(".tar.gz")] == archives
