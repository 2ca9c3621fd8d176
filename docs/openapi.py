"""The description of the REST interface, derived from the signatures of its endpoints."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import yaml
from pydantic import TypeAdapter

from tabletopic_kernel.faces.jupyter_server.answers import Message
from tabletopic_kernel.faces.jupyter_server.rest import ENDPOINTS, Endpoint

_ABOUT = """\
JupyterLab's sidebar uses this interface; other programs may, too. Paths are below the Jupyter server's \
base URL. Login and XSRF protection are Jupyter's own: a token in the `Authorization` header, or the \
session's cookie with its `X-XSRFToken`; authorizers see the resource `tabletopic`. Every error is \
`{"message": "what is wrong, and what to do next"}`: 400 invalid request, 403 not logged in, 404 no such \
topic, or it is not enabled, 409 not possible now, 503 the servers do not respond, or none are running. \
Snapshot ids are text, because JavaScript's numbers cannot hold 64 bits; `*_ms` are milliseconds since \
1970."""
_REF = "#/components/schemas/{model}"
# Names of bodies, for clients that are generated from the description.
_NAMES = {
    "ExpiryPlan": "ExpiryOfTable",
    "HostStatus": "Host",
    "Plan": "PlanAnswer",
    "ReplayPlan": "ReplayPlanAnswer",
    "SchemaColumn": "Column",
    "TableHealth": "Health",
    "TopicSchema": "Schema",
}
# Nothing will be added to these.
_CLOSED = {"Host", "HostState", "Overview", "Row", "Sample", "Servers"}
_LONG = {"snapshot_id", "parent_id"}  # numbers that are sent as text


class _Dumper(yaml.SafeDumper):
    """Writes no anchors: a schema that occurs twice is written twice."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def openapi() -> dict[str, Any]:
    """The document, in OpenAPI 3.1."""
    schemas: dict[str, Any] = {}
    _schema(Message, schemas)
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        verbs = paths.setdefault(f"/tabletopic/api/{endpoint.route.path}", {})
        verbs[endpoint.route.verb] = _verb(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Table topics", "version": "1", "description": _ABOUT},
        "servers": [{"url": "{base_url}", "variables": {"base_url": {"default": "/"}}}],
        "paths": paths,
        "components": {
            "responses": {
                "Error": _body("What is wrong, and what to do next", {"$ref": _REF.format(model="Message")})
            },
            "schemas": dict(sorted(schemas.items())),
        },
    }


def text() -> str:
    """The document as YAML."""
    head = "# Made by `python -m docs.generate` from tabletopic_kernel/faces.\n"
    return head + yaml.dump(openapi(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=116)


def _verb(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    route, model = endpoint.route, endpoint.model.model_json_schema(ref_template=_REF)
    fields: dict[str, Any] = model.get("properties", {})
    for field in fields.values():
        field.pop("title", None)
    about: dict[str, Any] = {"operationId": endpoint.name, "summary": endpoint.summary}
    if endpoint.notes:
        about["description"] = endpoint.notes
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in endpoint.names_in_path
    ]
    in_query = [{"name": name, "in": "query", "schema": field} for name, field in fields.items()]
    if parameters := [*in_path, *(in_query if route.verb == "get" else [])]:
        about["parameters"] = parameters
    if fields and route.verb != "get":
        body = {"type": "object", "additionalProperties": False, "properties": fields}
        about["requestBody"] = {"content": {"application/json": {"schema": body}}}
    about["responses"] = {
        str(route.status): _answer(endpoint, schemas),
        "default": {"$ref": "#/components/responses/Error"},
    }
    return about


def returned(function: Callable[..., Any]) -> Any:
    """The type that a function returns, which its module may import for type checkers only."""
    module = sys.modules[function.__module__]
    names = dict(vars(module))
    for block in re.findall(
        r"^if TYPE_CHECKING:.*\n((?:    .*\n|\n)+)", inspect.getsource(module), re.MULTILINE
    ):
        exec(textwrap.dedent(block), names)
    return get_type_hints(function, names, names)["return"]


def keys(kind: Any) -> str:
    """The keys of a body in words: those of the objects in it are in brackets."""
    schemas: dict[str, Any] = {}
    return _keys(_schema(kind, schemas), schemas)


def _keys(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    schema = schemas[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    if schema.get("type") == "array":
        inner = _keys(schema["items"], schemas)
        return f"list: {inner}" if inner else "list of texts"
    parts = []
    for name, field in schema.get("properties", {}).items():
        inner = _keys(field, schemas).removeprefix("list: ") if field.get("type") == "array" else ""
        nested = f" ({inner})" if inner.startswith("`") else ""
        parts.append(f"`{name}`{nested}")
    return ", ".join(parts)


def _answer(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    status, kind = endpoint.route.status, returned(endpoint.returns)
    if kind is Message:
        return _body("Started; the overview shows the progress", {"$ref": _REF.format(model="Message")})
    if endpoint.answers_nothing:
        return {
            "description": {202: "Requested from the host", 204: "Done", 302: "Redirect to the page"}[status]
        }
    schema = _schema(kind, schemas)
    if key := endpoint.route.key:
        schema = {"type": "object", "required": [key], "properties": {key: schema}}
    return _body("The result", schema)


def _body(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; named types are added to ``schemas`` and referenced."""
    if get_origin(kind) is UnionType:  # the other forms are those of other faces' arguments
        kind = get_args(kind)[0]
    whole = TypeAdapter(kind).json_schema(ref_template=_REF, mode="serialization")
    named = whole.pop("$defs", {})
    whole = _tidied(whole)
    if "properties" in whole:
        named[kind.__name__] = whole
        whole = {"$ref": _REF.format(model=_published(kind.__name__))}
    for name, schema in named.items():
        published = _published(name)
        schemas[published] = _tidied(schema)
        if published in _CLOSED:
            schemas[published]["additionalProperties"] = False
    if is_dataclass(kind):
        _add_properties(kind, schemas[_published(kind.__name__)])
    return whole


def _published(name: str) -> str:
    return _NAMES.get(name, name)


def _add_properties(kind: Any, schema: dict[str, Any]) -> None:
    """What ``to_json`` adds to a dataclass's fields are its properties."""
    for name, member in vars(kind).items():
        if isinstance(member, property):
            about = TypeAdapter(get_type_hints(member.fget)["return"]).json_schema()
            schema["properties"][name] = about
            schema["required"].append(name)


def _tidied(value: Any) -> Any:
    """Without titles and defaults: a body has all of its fields."""
    if isinstance(value, list):
        return [_tidied(item) for item in value]
    if not isinstance(value, dict):
        return value
    tidy: dict[str, Any] = {}
    for key, inner in value.items():
        if key == "properties":
            tidy[key] = {name: _tidied(_as_text(name, field)) for name, field in inner.items()}
            tidy["required"] = list(inner)
        elif key == "$ref":
            tidy[key] = _REF.format(model=_published(inner.rsplit("/", 1)[1]))
        elif key == "description":
            tidy[key] = " ".join(re.sub(r"\bNone\b", "null", inner.replace("``", "`")).split())
        elif key not in ("title", "default", "required"):
            tidy[key] = _tidied(inner)
    return tidy


def _as_text(name: str, field: dict[str, Any]) -> dict[str, Any]:
    if name not in _LONG:
        return field
    kinds = [{"type": "string"} if kind == {"type": "integer"} else kind for kind in field.get("anyOf", [])]
    return {**field, "anyOf": kinds} if kinds else {**field, "type": "string"}
