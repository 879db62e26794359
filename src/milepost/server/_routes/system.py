"""Health, version, and the API as an OpenAPI document, made of the routes' own records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

from milepost import inspect
from milepost._internal.version import __version__
from milepost.server._routing import Call, Empty, Operation, Routes

routes = Routes("System")

_REF: Final = "#/components/schemas/{name}"
_ERROR: Final = {"$ref": "#/components/schemas/Error"}
_SECURITY: Final[list[dict[str, list[str]]]] = [{"token": []}, {"key": []}]


class OkQuery(msgspec.Struct, frozen=True):
    """`check_db` asks the database too."""

    check_db: bool = False


class Ok(msgspec.Struct):
    """All is well."""

    ok: bool


@routes.get("/ok")
def ok(call: Call[Empty, OkQuery]) -> Ok:
    """Whether the server answers."""
    if call.query.check_db:
        inspect.threads(call.server.database, limit=1)  # raises if it does not answer
    return Ok(True)


class Info(msgspec.Struct, kw_only=True):
    """What clients ask for before they start."""

    version: str
    langgraph_py_version: str
    flags: dict[str, bool]
    metadata: dict[str, Any]


@routes.get("/info")
def info(call: Call[Empty, Empty]) -> Info:
    """The server's version and what it can do."""
    return Info(
        version=__version__,
        langgraph_py_version="1.2",
        flags={
            "assistants": True,
            "crons": False,
            "langsmith": False,
            "runs": False,
            "write": call.server.write,
        },
        metadata={"server": "milepost"},
    )


@routes.get("/openapi.json")
def openapi(call: Call[Empty, Empty]) -> dict[str, Any]:
    """This API as an OpenAPI 3.1 document."""
    return document(call.server.operations)


class Error(msgspec.Struct):
    """What went wrong, and what to do about it."""

    detail: str


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """All routes, with what they take and answer."""
    types: list[Any] = [Error]
    for operation in operations:
        types += [operation.body, operation.query]
        if _has_schema(operation.answer):
            types.append(operation.answer)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        found = _operation(operation, by_type, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = found
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "milepost",
            "version": __version__,
            "description": "The Agent Server's API for threads, assistants and the store, and "
            "under /milepost/ what the page needs besides.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": _SECURITY,
    }


def _has_schema(answer: Any) -> bool:
    is_response = isinstance(answer, type) and issubclass(answer, Response)
    return answer is not type(None) and not is_response


def _operation(
    operation: Operation, by_type: dict[int, Any], components: dict[str, Any]
) -> dict[str, Any]:
    lines = (operation.handler.__doc__ or "").strip().splitlines() or [""]
    found: dict[str, Any] = {
        "operationId": f"{operation.method.lower()}_{re.sub(r'[^a-z0-9]+', '_', operation.path)}",
        "summary": lines[0],
        "tags": [operation.tag],
        "parameters": [
            _parameter(name, "path", True, {"type": "string", "minLength": 1})
            for name in re.findall(r"\{(\w+)\}", operation.path)
        ],
        "responses": _responses(operation, by_type, components),
    }
    query = components[by_type[id(operation.query)]["$ref"].rpartition("/")[2]]
    found["parameters"] += [
        _parameter(name, "query", name in query.get("required", ()), schema)
        for name, schema in query.get("properties", {}).items()
    ]
    if msgspec.structs.fields(operation.body):
        required = any(one.required for one in msgspec.structs.fields(operation.body))
        found["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": by_type[id(operation.body)]}},
        }
    return found


def _parameter(name: str, place: str, required: bool, schema: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _in_part(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """A record, or a list of records, with any of its fields."""
    if schema.get("type") == "array":
        return {**schema, "items": _in_part(schema["items"], components)}
    whole = components[schema["$ref"].rpartition("/")[2]]
    return {key: value for key, value in whole.items() if key != "required"}


def _responses(
    operation: Operation, by_type: dict[int, Any], components: dict[str, Any]
) -> dict[str, Any]:
    status = operation.status
    found: dict[str, Any] = {str(status): {"description": HTTPStatus(status).phrase}}
    if operation.streams:
        found["200"]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    elif status != 204:
        schema = by_type.get(id(operation.answer), {})
        if operation.is_partial:
            schema = _in_part(schema, components)
        found[str(status)]["content"] = {"application/json": {"schema": schema}}
    for code in (400, 401, 403, 404, 409, 413, 422):
        found[str(code)] = {
            "description": HTTPStatus(code).phrase,
            "content": {"application/json": {"schema": _ERROR}},
        }
    return found
