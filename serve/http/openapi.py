"""The OpenAPI description, with the problems that every address may answer with and the key that it may want."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from outrider.serve.http.auth import OPEN
from outrider.serve.http.problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from fastapi import FastAPI

PROBLEMS = {
    "400": "The request is not one that this server takes: its host, its path.",
    "401": "A key is missing, or is not known.",
    "403": "Pages of other servers may not ask.",
    "404": "There is nothing there.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "422": "The request cannot be understood; `errors` names the fields.",
    "429": "Too much is asked at a time; `Retry-After` says when to come again.",
    "500": "An error of the server.",
    "503": "What was asked cannot be done now.",
    "504": "It took too long.",
}
METHODS = ("get", "post", "put", "patch", "delete")
RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}


def describe(app: FastAPI) -> None:
    """Let the application give its description with problems and keys added, made at first use."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            app.openapi_schema = _completed(made)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _completed(made: dict[str, Any]) -> dict[str, Any]:
    parts = made.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    own = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(own.pop("$defs", {}))
    schemas["Problem"] = own
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    parts["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    for path, item in made["paths"].items():
        for method in METHODS:
            if method in item:
                _complete(path, item[method])
    return made


def _complete(path: str, operation: dict[str, Any]) -> None:
    if path not in OPEN:
        operation["security"] = [{}, {"bearer": []}, {"header": []}]
    for status, why in PROBLEMS.items():
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        operation["responses"][status] = {"description": why, "content": content, **({"headers": RETRY} if status == "429" else {})}
