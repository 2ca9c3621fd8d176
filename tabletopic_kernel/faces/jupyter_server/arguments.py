"""The arguments of requests, read and checked as their operations declare them, before anything is done."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from tabletopic_kernel.faces.operations import Operation
from tabletopic_kernel.faces.operations.operation import REST, Argument, Kind
from tabletopic_kernel.model.errors import UsageError

_TYPES: Mapping[Kind, type] = {
    Kind.TEXT: str,
    Kind.NUMBER: int,
    Kind.DECIMAL: float,
    Kind.FLAG: bool,
}


def path_names(path: str) -> list[str]:
    """Names of the arguments that a route's path holds."""
    return re.findall(r"{(\w+)}", path)


@cache
def model_of(operation: Operation) -> type[BaseModel]:
    """What a request carries beside its path: in the query if it reads, in the body if it changes."""
    assert operation.route is not None, operation.name
    in_path = path_names(operation.route.path)
    fields: dict[str, Any] = {
        one.name: _field(one) for one in operation.arguments_of(REST) if one.name not in in_path
    }
    if operation.settings:
        about = "Those that differ from the section of the topic in tabletopic.toml"
        fields["settings"] = (dict[str, Any], Field(default_factory=dict, description=about))
    config = ConfigDict(extra="forbid", frozen=True)
    return create_model(operation.name, __config__=config, **fields)


def _field(argument: Argument) -> tuple[Any, Any]:
    kind: Any = Literal[argument.choices] if argument.choices else _TYPES[argument.kind]
    if argument.default is None:
        kind = kind | None
    limits = {"ge": argument.least, "le": argument.most, "pattern": argument.pattern or None}
    given: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
    return kind, Field(argument.default, description=argument.help or None, **given)


def read_arguments(
    operation: Operation, in_path: Mapping[str, str], query: Mapping[str, str], body: bytes
) -> dict[str, Any]:
    """The arguments of a request by name; no body counts as an empty object.

    Raises:
        UsageError: it is no JSON, or not what the operation takes; the message names the key.
    """
    assert operation.route is not None, operation.name
    model = model_of(operation)
    if not model.model_fields:
        return dict(in_path)
    if operation.route.verb == "get":
        given: Any = {name: query[name] for name in model.model_fields if query.get(name)}
    else:
        try:
            given = json.loads(body or b"{}")
        except ValueError as error:
            raise UsageError(f"the request's body is no JSON: {error}") from None
    try:
        read = model.model_validate(given)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in error.errors()]
        raise UsageError("; ".join(wrong)) from None
    return {**in_path, **{name: getattr(read, name) for name in model.model_fields}}
