"""A notebook's own PyIceberg, and the rest of its process, are as before, whatever this package did."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tabletopic_kernel

_SCRIPT = """
import importlib, logging, pkgutil, sys, threading, zipimport
from pathlib import Path
import pyarrow as pa
import pyiceberg, pyiceberg.cli

OPTIONAL = {}
for found in pkgutil.walk_packages(pyiceberg.__path__, "pyiceberg."):
    try:
        OPTIONAL[found.name] = importlib.import_module(found.name)
    except ImportError:  # of an extra that is not installed
        pass

def state():
    found = {"excepthook": (sys.excepthook, threading.excepthook)}
    for logger in map(logging.getLogger, LOGGERS):
        found[f"log {logger.name}"] = (logger.level, tuple(logger.handlers))
    spaces = {name: vars(module) for name, module in OPTIONAL.items()} | {"zipimport": vars(zipimport)}
    for module, space in spaces.items():
        for name, value in list(space.items()):
            if name.startswith("__") or module != "zipimport" and not module.startswith("pyiceberg"):
                continue
            if isinstance(value, type):
                for base in value.__mro__:
                    if base.__module__.startswith(("pyiceberg", "zipimport")):
                        own = f"{base.__module__}.{base.__qualname__}"
                        parts = vars(base).items()
                        found |= {f"{own}.{key}": id(part) for key, part in parts if key not in CACHES}
            elif callable(value):
                found[f"{module}.{name}"] = id(value)
    return found

CACHES = {"_abc_impl", "__annotations__", "__slotnames__"}  # that Python fills in
CACHES |= {"_instance", "_instance_pid", "_instances"}  # singletons, made when they are needed
LOGGERS = {"root", *logging.root.manager.loggerDict}
before = state()
assert len(before) > 3_000, len(before)

def changed(when):
    now = state()
    differs = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    assert not differs, (when, differs)

import tabletopic_kernel
from tabletopic_kernel import Workbench
changed("import")

from tabletopic_kernel.clients.catalog.catalog import open_catalog
from tabletopic_kernel.model.ledger import Ledger
from tabletopic_kernel.model.settings.sections import TopicSettings
from tabletopic_kernel.table.topic_table import TopicTable
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

folder = sys.argv[1]
place = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
catalog = open_catalog(place)
schema = Schema(NestedField(1, "a", LongType(), required=False))
table = TopicTable.create(catalog, ("default", "t"), schema, PartitionSpec(), "t", TopicSettings())
table.claim(Ledger("t", "cluster", "topic", {0: 0}, 1, "first"), None)
catalog.load_table(("default", "t")).append(pa.table({"a": [1]}))
changed("a commit")

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
stock = load_catalog("lake", **place)
hostile = {"write.py-location-provider.impl": "providers.Counted"}
Path(folder, "providers.py").write_text(
    "from pyiceberg.table.locations import SimpleLocationProvider\\n"
    "class Counted(SimpleLocationProvider):\\n    made = []\\n"
    "    def __init__(self, *given):\\n        super().__init__(*given)\\n        self.made.append(given)\\n"
)
sys.path.insert(0, folder)
mine = stock.create_table(("default", "mine"), schema, properties=hostile)
mine.append(pa.table({"a": [1, 2]}))
import providers
assert providers.Counted.made and type(mine) is Table, "a notebook's own catalog has its own provider"
assert stock.load_table(("default", "t")).scan().count() == 1
"""


def test_pyiceberg_and_the_process_stay_as_they_were(tmp_path: Path) -> None:
    """Every function and class attribute is the same object after an import, and after a commit."""
    command = [sys.executable, "-c", _SCRIPT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]


def test_private_names_of_pyiceberg_are_in_one_folder() -> None:
    """Elsewhere, no module imports one, so a release of PyIceberg is tried in one place."""
    root = Path(tabletopic_kernel.__file__).parent
    private = [
        f"{path.relative_to(root)}: {name.name}"
        for path in root.rglob("*.py")
        if "pyiceberg_seams" not in path.parts and "from pyiceberg" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyiceberg")
        for name in node.names
        if name.name.startswith("_")
    ]
    assert private == []
