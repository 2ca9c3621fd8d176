"""The description of the REST interface, derived from the table of operations."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import TypeAdapter

from tabletopic_kernel.faces.jupyter_server.rest import model_of, path_names
from tabletopic_kernel.faces.operations import OPERATIONS, Operation
from tabletopic_kernel.faces.operations.operation import Route
from tabletopic_kernel.faces.operations.rest_bodies import Message

_ABOUT = """\
JupyterLab's sidebar uses this interface; other programs may, too. Paths are below the Jupyter server's \
base URL. Login and XSRF protection are Jupyter's own: a token in the `Authorization` header, or the \
session's cookie with its `X-XSRFToken`; authorizers see the resource `tabletopic`. Every error is \
`{"message": "what is wrong, and what to do next"}`: 400 invalid request, 403 not logged in, 404 no such \
topic, or it is not enabled, 409 not possible now, 503 the servers do not respond, or none are running. \
Snapshot ids are text, because JavaScript's numbers cannot hold 64 bits; `*_ms` are milliseconds since \
1970."""
_REF = "#/components/schemas/{model}"


class _Dumper(yaml.SafeDumper):
    """Writes no anchors: a schema that occurs twice is written twice."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def openapi() -> dict[str, Any]:
    """The document, in OpenAPI 3.1."""
    schemas: dict[str, Any] = {}
    _schema(Message, schemas)
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        if (route := operation.route) is not None:
            paths.setdefault(f"/tabletopic/api/{route.path}", {})[route.verb] = _verb(
                operation, route, schemas
            )
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
    head = "# Made by `python -m docs.generate` from tabletopic_kernel/faces/operations.\n"
    return head + yaml.dump(openapi(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=116)


def _verb(operation: Operation, route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    model = model_of(operation).model_json_schema(ref_template=_REF)
    fields: dict[str, Any] = model.get("properties", {})
    for field in fields.values():
        field.pop("title", None)
    about: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    if route.notes:
        about["description"] = route.notes
    placed = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in path_names(route.path)
    ]
    asked = [{"name": name, "in": "query", "schema": field} for name, field in fields.items()]
    if parameters := [*placed, *(asked if route.verb == "get" else [])]:
        about["parameters"] = parameters
    if fields and route.verb != "get":
        body = {"type": "object", "additionalProperties": False, "properties": fields}
        about["requestBody"] = {"content": {"application/json": {"schema": body}}}
    about["responses"] = {
        str(route.status): _answer(route, schemas),
        "default": {"$ref": "#/components/responses/Error"},
    }
    return about


def _answer(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    if route.message:
        return _body("Started; the overview shows the progress", {"$ref": _REF.format(model="Message")})
    if route.answer is None:
        return {
            "description": {202: "Requested from the host", 204: "Done", 302: "Redirect to the page"}[
                route.status
            ]
        }
    schema = _schema(route.answer(), schemas)
    if route.key:
        schema = {"type": "object", "required": [route.key], "properties": {route.key: schema}}
    return _body("The result", schema)


def _body(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; named types are added to ``schemas`` and referenced."""
    made = _without_titles(TypeAdapter(kind).json_schema(ref_template=_REF, mode="serialization"))
    schemas.update(made.pop("$defs", {}))
    name = getattr(kind, "__name__", "")
    if made.get("type") == "object" and "properties" in made and isinstance(kind, type):
        schemas[name] = made
        return {"$ref": _REF.format(model=name)}
    return made


def _without_titles(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_titles(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_titles(inner)
        for key, inner in value.items()
        if key != "title" or not isinstance(inner, str)
    }
