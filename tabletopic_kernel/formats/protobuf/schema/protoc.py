"""Protobuf schemas from registries, compiled to descriptors by protoc (of grpcio-tools).

A registry returns a schema as .proto text, or as a FileDescriptorProto in base64: Python's serializer
registers that form, and ``format=serialized`` requests it. Its references are the files that it imports, in
either form. Files that every Confluent client knows without a reference (``google/protobuf``,
``google/type``, ``confluent``) come from the installed packages.
"""

from __future__ import annotations

import base64
import binascii
import errno
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tabletopic_kernel.formats.protobuf.schema.tree import ProtobufSchemaError
from tabletopic_kernel.model.errors import RetryableError

# protoc needs a tenth of a second. If it takes more than a minute, the machine is at fault.
_TIMEOUT_S: Final = 60
_REFUSED: Final = 1  # protoc's exit code for a file that does not compile
_ERROR_LINES: Final = 6
# A file cannot have this name, or not beside the other references.
_NAME_ERRORS: Final = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
_LOG: Final = re.compile(r"[IWE]\d{4} ")
# Folder of the file → package of its generated module.
_KNOWN: Final = {
    "google/protobuf/": "",
    "google/type/": "",
    "confluent/": "confluent_kafka.schema_registry.",
}
_IMPORT: Final = re.compile(r'\bimport\s+(?:public\s+|weak\s+)?"([^"]+)"')
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def compile_schema(text: str, references: Mapping[str, str] | None = None) -> tuple[bytes, str]:
    """A serialized FileDescriptorSet in the order of imports, and the name of the schema's file; cached.

    Raises ProtobufSchemaError with protoc's message, or RetryableError if protoc could not run.
    """
    return _compiled(text, tuple((references or {}).items()))


@lru_cache(maxsize=256)
def _compiled(text: str, references: tuple[tuple[str, str], ...]) -> tuple[bytes, str]:
    sources = dict(references)
    main = "value.proto"
    while main in sources:
        main = f"_{main}"
    sources[main] = text
    files: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for name, source in sources.items():
        file = _file_of_base64(name, source)
        if file is None:
            texts[name] = source
        else:
            files[name] = file
    imports = [name for source in texts.values() for name in _IMPORT.findall(source)]
    imports += [name for file in files.values() for name in file.dependency]
    _add_known(imports, files, texts)
    if texts:
        try:
            compiled = _run_protoc(texts, files)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RetryableError(f"the Protobuf compiler could not be run: {error}") from error
        for file in compiled:
            files.setdefault(file.name, file)
    ordered: dict[str, Any] = {}
    _order(main, files, ordered, ())
    return FileDescriptorSet(file=ordered.values()).SerializeToString(), main


def _file_of_base64(name: str, source: str) -> Any | None:
    """The file in a base64 text, renamed to ``name``; None if the text is something else."""
    if not source.strip() or _BASE64.fullmatch(source) is None:
        return None
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(source))
    except (binascii.Error, DecodeError):
        return None
    file.name = name
    return file


def _add_known(names: Iterable[str], files: dict[str, Any], texts: Mapping[str, str]) -> None:
    """Add the files that need no reference, with their own imports."""
    for name in names:
        package = next((p for folder, p in _KNOWN.items() if name.startswith(folder)), None)
        if package is None or name in files or name in texts:
            continue
        module = name.removesuffix(".proto").replace("/", ".")
        try:
            generated = importlib.import_module(f"{package}{module}_pb2")
        except ImportError:
            continue  # protoc reports what is missing
        files[name] = file = FileDescriptorProto()
        generated.DESCRIPTOR.CopyToProto(file)
        _add_known(file.dependency, files, texts)


def _run_protoc(texts: Mapping[str, str], known: Mapping[str, Any]) -> Iterable[Any]:
    with tempfile.TemporaryDirectory(prefix="tabletopic-protoc-") as folder:
        root = Path(folder)
        for name, text in texts.items():
            _write(root / "proto", name, text)
        (root / "known").write_bytes(FileDescriptorSet(file=known.values()).SerializeToString())
        # -P: a reference could have the name of a Python module.
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{root / 'proto'}"]
        command += [f"--descriptor_set_in={root / 'known'}"] if known else []
        command += ["--include_imports", f"--descriptor_set_out={root / 'out'}", *texts]
        process = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, errors="replace"
        )
        if process.returncode == _REFUSED:
            raise ProtobufSchemaError(
                f"the Protobuf schema does not compile: {_message(process.stderr, f'{root}/proto/')}"
            )
        if process.returncode:
            raise RetryableError(
                f"the Protobuf compiler ended with code {process.returncode}: {process.stderr[:500]}"
            )
        try:
            return FileDescriptorSet.FromString((root / "out").read_bytes()).file  # type: ignore[no-any-return]
        except DecodeError as error:  # an option that a module of this process defines differently
            raise ProtobufSchemaError(
                f"the Protobuf schema has an option whose value does not match its number: {error}"
            ) from error


def _write(folder: Path, name: str, text: str) -> None:
    path = PurePosixPath(name)
    bad_name = ProtobufSchemaError(f"the reference {name!r} is not the name of a file that can be imported")
    if path.is_absolute() or ".." in path.parts or name[:1] in "-@":
        raise bad_name
    target = folder / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        if error.errno not in _NAME_ERRORS:
            raise
        raise bad_name from error


def _message(stderr: str, folder: str) -> str:
    lines = [line.replace(folder, "") for line in stderr.splitlines()]
    return "\n".join([line for line in lines if ".proto" in line and not _LOG.match(line)][:_ERROR_LINES])


def _order(name: str, files: Mapping[str, Any], ordered: dict[str, Any], above: tuple[str, ...]) -> None:
    if name in ordered:
        return
    if name in above:
        raise ProtobufSchemaError(f"the Protobuf files import each other: {' → '.join((*above, name))}")
    if name not in files:
        importer = f"imported by {above[-1]}, " if above else ""
        raise ProtobufSchemaError(
            f"the Protobuf file {name!r}, {importer}is not among the schema's references; register it as one"
        )
    for imported in files[name].dependency:
        _order(imported, files, ordered, (*above, name))
    ordered[name] = files[name]
