"""The OpenAPI 3.1 document of the endpoints, made from the routes and the models, and published as a file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from schemas.base import SCHEMA_VERSION
from schemas.contract.messages import open_schema
from schemas.envelope import Problem
from worker.gateway.problems import MEDIA_TYPE

PLACE = "#/components/schemas/"
FASTAPIS_OWN = ("HTTPValidationError", "ValidationError")
FILE = "openapi.json"
WITH_KEY = (401, 403, 429, 503)
WITH_BODY = (400, 408, 413, 415, 422)
ALWAYS = (421, 500)
MEANINGS = {
    400: "The body is no JSON.",
    401: "No key, or a wrong one.",
    403: "The key has not the right to this.",
    404: "There is no such thing, or it is another tenant's.",
    408: "The body did not come in time.",
    409: "It contradicts stored data.",
    413: "The body is too large.",
    415: "The body has the wrong media type.",
    421: "This host is not served here.",
    422: "The request has not the shape that it should have; `errors` has all that is wrong.",
    429: "Too many requests: `Retry-After` has the seconds to wait.",
    500: "The gateway failed.",
    503: "Redis is unreachable or full: `Retry-After` has the seconds to wait.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return a route's responses for these error statuses; statuses that every route has need not be named."""
    return {status: _problem(status) for status in statuses}


def response(description: str, schema: dict[str, Any], media: str = "application/json") -> dict[str, Any]:
    """Return the OpenAPI description of a response whose content has this schema."""
    return {"description": description, "content": {media: {"schema": schema}}}


def body(schema: dict[str, Any], *media: str) -> dict[str, Any]:
    """Return the body of a route that reads it itself, for `openapi_extra`."""
    content = {each: {"schema": schema} for each in media or ("application/json",)}
    return {"requestBody": {"required": True, "content": content}}


def reference(model: type[BaseModel]) -> dict[str, Any]:
    """Return a reference to the schema of an input model, with the schema itself in `$defs`."""
    name = model.__name__
    return {"$ref": PLACE + name, "$defs": {name: schema_of(model)}}


def schema_of(model: type[BaseModel], optional: Collection[str] | None = None) -> dict[str, Any]:
    """Return the schema of a model.

    Without `optional` it describes an input. With `optional` it describes an output that requires all other fields.
    """
    if optional is None:
        return model.model_json_schema(ref_template=PLACE + "{model}")
    schema = model.model_json_schema(ref_template=PLACE + "{model}", mode="serialization")
    schema["required"] = [name for name in schema["properties"] if name not in optional]
    return schema


def install(app: FastAPI) -> None:
    """Serve the document of `app` at `/openapi.json`."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    made = get_openapi(
        title=app.title,
        version=f"{SCHEMA_VERSION}.0.0",
        routes=app.routes,
        summary="Goals in, plans and events out; steps to controllers, and their outcomes.",
    )
    known = made.setdefault("components", {}).setdefault("schemas", {})
    for name in FASTAPIS_OWN:
        known.pop(name, None)
    known["Problem"] = schema_of(Problem, optional=("instance", "errors"))
    for operation in _operations(made):
        _add_problems(operation)
    _hoist(made, known)
    open_schema(made)
    return made


def _operations(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for item in made["paths"].values():
        yield from item.values()


def _add_problems(operation: dict[str, Any]) -> None:
    has_input = "requestBody" in operation or "parameters" in operation
    usual: Sequence[int] = (
        *(WITH_BODY if "requestBody" in operation else ()),
        *((422,) if has_input else ()),
        *(WITH_KEY if "security" in operation else ()),
        *ALWAYS,
    )
    responses = operation["responses"]
    responses.pop("422", None)  # FastAPI's, which no door answers
    for status in usual:
        responses.setdefault(str(status), _problem(status))
    operation["responses"] = dict(sorted(responses.items()))


def _problem(status: int) -> dict[str, Any]:
    description = MEANINGS.get(status, HTTPStatus(status).phrase)
    return response(description, {"$ref": f"{PLACE}Problem"}, MEDIA_TYPE)


def _hoist(part: Any, known: dict[str, Any]) -> None:
    """Move each definition in a `$defs` below `part` to `known`, the definitions of the whole document."""
    if isinstance(part, dict):
        for name, definition in part.pop("$defs", {}).items():
            if name not in known:
                known[name] = definition
                _hoist(definition, known)
    for each in list(part.values()) if isinstance(part, dict) else part if isinstance(part, list) else ():
        _hoist(each, known)
