"""Packing the executors' Python: the contents, and the errors for environments that cannot be packed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from tabletopic_kernel.clients.spark import pack as module
from tabletopic_kernel.clients.spark.pack import Packed, pack
from tabletopic_kernel.model.errors import UsageError
from tabletopic_kernel.model.settings.cluster import SparkSettings

Installed = Callable[..., None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Packages as if installed: name, requirements, and whether it is a checkout."""

    def find(name: str) -> PathDistribution:
        folder = tmp_path / "packages" / f"{name}.dist-info"
        if not folder.exists():
            raise module.PackageNotFoundError(name)
        return PathDistribution(folder)

    def install(name: str, *needs: str, checkout: str = "") -> None:
        folder = tmp_path / "packages" / f"{name}.dist-info"
        folder.mkdir(parents=True)
        lines = [f"Name: {name}", "Version: 1.5", *(f"Requires-Dist: {need}" for need in needs)]
        (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines]) + "\n")
        if checkout:
            origin = {"url": checkout, "dir_info": {"editable": True}}
            (folder / "direct_url.json").write_text(json.dumps(origin))

    class Known(module.Distribution):
        discover = staticmethod(  # type: ignore[assignment]
            lambda name: [one for one in [tmp_path / "packages" / f"{name}.dist-info"] if one.exists()]
        )

    monkeypatch.setattr(module, "distribution", find)
    monkeypatch.setattr(module, "Distribution", Known)
    return install


def names() -> list[str]:
    """The packages that would be packed."""
    return sorted(package.name for package in module._packages())


def test_packages_are_those_that_executors_need(installed: Installed) -> None:
    """Requirements of requirements, with extras and markers; of ours the installed extras for clients."""
    installed(
        "tabletopic",
        "pyarrow",
        "panel",
        "pyspark",
        "pyiceberg[sql]",
        'boto3; extra == "glue"',
        'thrift; extra == "hive"',
        'jupyterlab; extra == "lab"',
        checkout="file:///here",
    )
    installed("pyarrow", "numpy", 'winonly; sys_platform == "win32"', 'never; extra == "test"')
    installed("numpy")
    installed("panel", "bokeh")
    installed("pyspark", "py4j")
    installed("pyiceberg", 'sqlalchemy; extra == "sql"', "numpy")
    installed("sqlalchemy")
    installed("boto3", "tabletopic")
    installed("jupyterlab")
    assert names() == ["boto3", "numpy", "pyarrow", "pyiceberg", "sqlalchemy"]


def test_a_package_that_is_missing_is_named(installed: Installed) -> None:
    """Executors would fail later, and elsewhere."""
    installed("tabletopic", "pyarrow")
    with pytest.raises(UsageError, match="pyarrow is required but not installed"):
        names()


def test_what_cannot_be_packed_is_named(installed: Installed) -> None:
    """A missing program, another's checkout and a missing package would fail later, and elsewhere."""
    with pytest.raises(UsageError, match="pip install it first"):
        names()
    installed("tabletopic", "mine", checkout="file:///here")
    installed("mine", checkout="file:///home/me/mine")
    with pytest.raises(UsageError, match="pip install file:///home/me/mine, without -e"):
        names()


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    """Unless it may be made anew; a folder is no file."""
    file = tmp_path / "mine.pex"
    file.write_text("mine")
    with pytest.raises(UsageError, match=r"mine\.pex exists; --force"):
        pack(file)
    assert file.read_text() == "mine"
    for wrong in (tmp_path, tmp_path / "none" / "mine.pex"):
        with pytest.raises(UsageError, match="existing folder"):
            pack(wrong, force=True)


def test_the_settings_are_settings(tmp_path: Path) -> None:
    """The printed lines are TOML that [spark] takes; a path that Spark would read as another is refused."""
    file = tmp_path / "executors.pex"
    packed = Packed(file, 5, 1, 2.0, "CPython 3.11 on Linux x86_64")
    conf = SparkSettings.model_validate(tomllib.loads(packed.settings)["spark"]).conf
    assert conf == {"spark.files": str(file), "spark.pyspark.python": "./executors.pex"}
    for name in ("a b.pex", "a,b.pex", "a#b.pex", "ä.pex"):
        with pytest.raises(UsageError, match="list of URLs"):
            pack(tmp_path / name)
