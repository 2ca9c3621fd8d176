"""Protobuf schemas as registries have them."""

from __future__ import annotations

import base64
import subprocess
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tabletopic_kernel.formats.protobuf.schema import protoc
from tabletopic_kernel.formats.protobuf.schema.protoc import compile_schema
from tabletopic_kernel.formats.protobuf.schema.tree import ProtobufSchemaError, load
from tabletopic_kernel.model.errors import RetryableError

TEXT = """
syntax = "proto3"; package a;
import "b/part.proto"; import "google/type/date.proto"; import "confluent/meta.proto";
import "google/protobuf/struct.proto";
message Row { b.Part part = 1; google.type.Date day = 2; google.protobuf.Value value = 3; }
"""
PART = 'syntax = "proto2"; package b; import public "c.proto"; message Part { optional c.Deep deep = 1; }'
DEEP = 'syntax = "proto3"; package c; message Deep { int32 n = 1; }'
REFERENCES = {"b/part.proto": PART, "c.proto": DEEP}


def _files(text: str, references: dict[str, str]) -> dict[str, Any]:
    files, _ = compile_schema(text, references)
    load(files)  # each after its imports
    return {file.name: file for file in FileDescriptorSet.FromString(files).file}


def _base64(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_imports_come_from_references_and_from_what_every_client_knows() -> None:
    """Referenced files may import each other; google's and Confluent's need no reference."""
    files = _files(TEXT, REFERENCES)
    assert {
        "value.proto",
        "b/part.proto",
        "c.proto",
        "google/type/date.proto",
        "confluent/meta.proto",
    } <= set(files)


@pytest.mark.parametrize(
    "kept", [(), ("value.proto",), ("b/part.proto",), ("c.proto",), ("b/part.proto", "c.proto")]
)
def test_text_and_base64_may_be_mixed(kept: tuple[str, ...]) -> None:
    """A schema and its references in either form give the same files."""
    files = _files(TEXT, REFERENCES)
    forms = {name: _base64(files[name]) for name in ("value.proto", *REFERENCES)}
    for name in kept:
        forms[name] = (REFERENCES | {"value.proto": TEXT})[name]
    if "value.proto" in kept:
        forms |= {name: _base64(files[name]) for name in REFERENCES}
    found = _files(forms.pop("value.proto"), forms)
    assert {name: found[name].message_type for name in files} == {
        name: files[name].message_type for name in files
    }


def test_a_reference_with_the_name_of_the_schema() -> None:
    """Its own name in our folder gives way."""
    _, name = compile_schema(
        'syntax = "proto3"; import "value.proto"; message Row { c.Deep d = 1; }', {"value.proto": DEEP}
    )
    assert name == "_value.proto"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'syntax = "proto3"; message A { int32 a }',
            r"^the .* does not compile: value.proto:1:40: Missing field",
        ),
        ("hello world", "value.proto:1:1: Expected top-level statement"),
        ('syntax = "proto3"; import "zz.proto"; message A {}', "zz.proto: File not found"),
        ('syntax = "proto3"; import "google/protobuf/zz.proto"; message A {}', "zz.proto: File not found"),
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
    ],
)
def test_a_schema_that_does_not_compile(text: str, told: str) -> None:
    """The compiler's words, with line and column, and without our folder."""
    with pytest.raises(ProtobufSchemaError, match=told) as raised:
        compile_schema(text)
    assert "/tmp" not in str(raised.value)


def test_base64_without_its_references() -> None:
    """The missing file is named."""
    files = _files(TEXT, REFERENCES)
    with pytest.raises(ProtobufSchemaError, match=r"'b/part\.proto', imported by value\.proto, is not among"):
        compile_schema(_base64(files["value.proto"]))


@pytest.mark.parametrize(
    "name", ["../x.proto", "/x.proto", "-Ix.proto", "@x.proto", "", ".", "x" * 300, "value.proto/x"]
)
def test_names_that_are_no_names(name: str) -> None:
    """Nothing is written outside of our folder, and no name is an option."""
    with pytest.raises(ProtobufSchemaError, match="not the name of a file"):
        compile_schema('syntax = "proto3"; message A {}', {name: DEEP})


@pytest.mark.parametrize("failure", [OSError("no memory"), subprocess.TimeoutExpired("protoc", 1), -9])
def test_a_compiler_that_cannot_run_is_waited_for(monkeypatch: pytest.MonkeyPatch, failure: Any) -> None:
    """Trouble of the machine is not the schema's (I9), and the next try asks again."""
    text = f'syntax = "proto3"; message A{abs(hash(str(failure)))} {{}}'

    def run(*args: Any, **options: Any) -> Any:
        if isinstance(failure, int):
            return subprocess.CompletedProcess(args, failure, "", "killed")
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(protoc.subprocess, "run", run)
        with pytest.raises(RetryableError, match="compiler"):
            compile_schema(text)
    compile_schema(text)
