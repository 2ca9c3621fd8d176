"""Where a state folder belongs: whether it was moved, or is a copy.

Its identity and place are in ``folder.json``. A folder at another place with the same identity is a copy if
the original is still there, else it was moved. Iceberg's metadata has absolute locations: a copy's names the
original's files, and a moved folder's names nothing, until they are replaced.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabletopic_kernel.local.machine import write_whole
from tabletopic_kernel.model.errors import StackError

_FILE = "folder.json"
_FORMAT = 1
_CATALOG, _WAREHOUSE = "catalog.db", "warehouse"
_GZIP = b"\x1f\x8b"
_POSITION_DELETES = 1


def origin(folder: Path) -> Path | None:
    """Where a state folder was when its servers last started, if that is not here; else None."""
    recorded = _recorded(folder)
    before = Path(recorded["path"]) if recorded else folder
    if before == folder:
        return None
    with contextlib.suppress(OSError):
        if before.samefile(folder):  # mounted twice
            return None
    return before


def places(folder: Path) -> list[Path]:
    """The paths under which a state folder's processes may have been started: its own, and its former one."""
    before = origin(folder)
    return [folder] if before is None or before.exists() else [folder, before]


def check_place(folder: Path) -> None:
    """Raise StackError, with the remedy, if a state folder is a copy or was moved."""
    if (before := origin(folder)) is None:
        return
    if _is_copy(folder, before):
        raise StackError(
            f"The state folder {folder} is a copy of {before}: its tables are those of {before}, and using "
            f"both would destroy them. Use {before}, or make the copy independent with "
            "`tabletopic up --fork` in a terminal."
        )
    raise StackError(
        f"The state folder {folder} was moved from {before}: `tabletopic up` adapts its tables to the new "
        "place. If its servers still run, stop them first with `tabletopic down`."
    )


def settle(folder: Path, *, fork: bool, on_change: Callable[[str], None]) -> None:
    """Record that a state folder belongs where it is, and adapt its tables if it was elsewhere.

    ``fork``: a copy becomes independent. ``on_change`` gets a line for people. Repeatable if interrupted.
    Raises StackError for a copy; OSError.
    """
    recorded, before = _recorded(folder), origin(folder)
    is_copy = before is not None and _is_copy(folder, before)
    if is_copy and not fork:
        check_place(folder)
    if before is not None:
        on_change(f"adapting the tables, which were in {before}")
        if is_copy:
            for name in ("stack.json", "password"):
                (folder / name).unlink(missing_ok=True)
        _relocate(folder, before, shares=is_copy)
    if recorded is None or recorded["id"] is None or before is not None:
        identity = None if is_copy or recorded is None else recorded["id"]
        record = {"format": _FORMAT, "id": identity or uuid.uuid4().hex, "path": str(folder)}
        write_whole(folder / _FILE, json.dumps(record))


def _recorded(folder: Path) -> dict[str, Any] | None:
    """Id and path; for a folder of an earlier version only the path, from its catalog."""
    try:
        record = json.loads((folder / _FILE).read_bytes())
        return {"id": str(record["id"]), "path": str(record["path"])}
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (ValueError, KeyError, TypeError) as error:
        raise StackError(f"{folder / _FILE} is damaged ({error}): remove it.") from error
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_open(folder)) as catalog:
        tables = "SELECT metadata_location, table_namespace FROM iceberg_tables"
        for location, namespace in catalog.execute(tables):  # the folder may itself be in a "warehouse"
            before, inside, _ = location.removeprefix("file://").rpartition(f"/{_WAREHOUSE}/{namespace}/")
            if inside and before.startswith("/"):
                return {"id": None, "path": before}
    return None


def _open(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{(folder / _CATALOG).as_uri()}?mode=rw", uri=True, timeout=30)


def _is_copy(folder: Path, before: Path) -> bool:
    own, other = _recorded(folder), None
    with contextlib.suppress(OSError, StackError):
        other = _recorded(before)
    assert own is not None
    return other is not None and (own["id"] is None or other["id"] == own["id"])


# --- tables at another place ------------------------------------------------------------------------------


def _relocate(folder: Path, before: Path, *, shares: bool) -> None:
    """Replace locations below ``before`` in the tables' metadata and the catalog. Repeatable.

    ``shares``: the original goes on, so no file of a table with data elsewhere may be removed here.
    From the inside out: manifest lists have the lengths of manifests, and manifests those of delete files.
    """
    # "file:/x", "file:///x", "sqlite:////x" and "/x" all name a path.
    pattern = re.compile(rf"^((?:\w+:/{{0,3}})?){re.escape(str(before))}(?=/)")

    def moved(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda match: match[1] + str(folder), value)
        if isinstance(value, dict):
            return {key: moved(inner) for key, inner in value.items()}
        return [moved(inner) for inner in value] if isinstance(value, list) else value

    files = list((folder / _WAREHOUSE).rglob("metadata/*"))
    for path in sorted(files, key=lambda path: path.name.startswith("snap-")):
        with contextlib.suppress(EOFError, ValueError):  # cut off by a writer that ended: in no table
            if path.suffix == ".avro":
                _relocate_avro(path, moved)
            elif path.suffix == ".json":
                packed = path.read_bytes()
                is_gzip = packed.startswith(_GZIP)
                unpack, pack = (gzip.decompress, gzip.compress) if is_gzip else (bytes, bytes)
                metadata = moved(json.loads(unpack(packed)))
                properties = metadata.get("properties", {})
                data = properties.get("write.data.path", str(folder))
                if shares and not _local(data).is_relative_to(folder):
                    properties["gc.enabled"] = "false"
                _replace(path, pack(json.dumps(metadata).encode()))
    with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(_open(folder)) as catalog, catalog:
        for column in ("metadata_location", "previous_metadata_location"):
            rows = catalog.execute(f"SELECT DISTINCT {column} FROM iceberg_tables").fetchall()
            change = f"UPDATE iceberg_tables SET {column} = ? WHERE {column} = ?"
            catalog.executemany(change, [(moved(location), location) for (location,) in rows])


def _relocate_avro(path: Path, moved: Callable[[Any], Any]) -> None:
    """A manifest list, or a manifest with its position delete files."""
    from pyiceberg.avro.file import AvroFile, AvroOutputFile  # noqa: PLC0415 - rarely needed
    from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415
    from pyiceberg.typedef import Record  # noqa: PLC0415
    from pyiceberg.types import StructType  # noqa: PLC0415

    def changed(record: Record, schema: StructType) -> Record:
        kinds = {field.name: field.field_type for field in schema.fields}
        values: dict[str, Any] = {}
        for (name, kind), value in zip(kinds.items(), (record[i] for i in range(len(record))), strict=True):
            values[name] = changed(value, kind) if isinstance(kind, StructType) and value else moved(value)
        with contextlib.suppress(FileNotFoundError):  # expired
            if "manifest_length" in values:
                values["manifest_length"] = _local(values["manifest_path"]).stat().st_size
            elif values.get("content") == _POSITION_DELETES and "file_path" in values:
                values["file_size_in_bytes"] = _relocate_deletes(_local(values["file_path"]), moved)
                values |= dict.fromkeys(values.keys() & {"lower_bounds", "upper_bounds"})
        return Record(*values.values())

    io, fresh = PyArrowFileIO(), path.with_name(f".{path.name}.{os.getpid()}")
    with AvroFile[Record](io.new_input(str(path))) as source:
        schema, header = source.schema, source.header.meta
        records = [changed(record, schema.as_struct()) for record in source]
    with AvroOutputFile[Record](io.new_output(str(fresh)), schema, "entry", metadata=header) as sink:
        sink.write_block(records)
    _replace(path, fresh.read_bytes())
    fresh.unlink()


def _relocate_deletes(path: Path, moved: Callable[[Any], Any]) -> int:
    """The size of a position delete file whose paths have been replaced."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = pq.read_table(path)
    column = table.schema.get_field_index("file_path")
    paths = pa.array(moved(table.column(column).to_pylist()), table.schema.field(column).type)
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(column, table.schema.field(column), paths), sink, compression="zstd")
    _replace(path, sink.getvalue().to_pybytes())
    return path.stat().st_size


def _local(location: str) -> Path:
    return Path(re.sub(r"^file:/*", "/", location))


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    fresh.write_bytes(content)
    fresh.replace(path)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the former content
