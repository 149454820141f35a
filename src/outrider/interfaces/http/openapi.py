"""What the OpenAPI description shows: requests and answers. Small, and true to the types, which a test checks.

The OpenAPI description, with the problems that every address may answer with and the key that it may want.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from outrider.interfaces.http.auth import OPEN
from outrider.interfaces.http.problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from fastapi import FastAPI


ASKED: dict[str, Any] = {
    "words": {"summary": "A question", "value": {"query": "liver injury by aspirin"}},
    "repositories": {
        "summary": "Software, with a filter",
        "value": {
            "query": "React animation library that is still maintained",
            "search_mode": "exploratory",
            "filters": {"stars": {"$gte": 500}},
        },
    },
    "library": {
        "summary": "The own library only, cheaply",
        "value": {"query": "statins", "sources": ["library"], "top_k": 5, "run": {"run_timeout_s": 10, "max_calls": 0}},
    },
}
ANSWERED: dict[str, Any] = {
    "query": "liver injury by aspirin",
    "mode": "discovery",
    "hits": [
        {
            "rank": 1,
            "doc_id": "doi:10.1000/x",
            "kind": "paper",
            "title": "Aspirin and the liver",
            "abstract": "Aspirin harms the liver at high doses. The weather was fine.",
            "identifiers": {"doi": "10.1000/x"},
            "authors": ["Doe, Jane"],
            "year": 2020,
            "venue": "Hepatology",
            "score": 1.0,
            "scored_by": "rules",
            "reason": "rank 1 by lance_fts",
            "found_by": [{"source": "library", "strategy": "lance_fts", "query": "liver injury aspirin", "rank": 1}],
            "distilled_text": "Aspirin harms the liver at high doses.",
            "spans": [[0, 38]],
        }
    ],
    "sources": [{"source": "library", "strategy": "lance_fts", "asked": 100, "returned": 1, "status": "ok", "took_ms": 9.1}],
    "total_candidates": 1,
    "total_found": 1,
    "execution_time_ms": 41.5,
}
ANALYSED: dict[str, Any] = {
    "repository": {"summary": "A repository", "value": {"target": "encode/httpx", "question": "an HTTP client with HTTP/2"}},
    "paper": {"summary": "A paper", "value": {"target": "10.1000/x", "run": {"max_calls": 0}}},
}
EVENTS = """id: 1
event: started
data: {"node":"translator"}

id: 6
event: hits
data: {"node":"scout","total":1,"hits":[{"rank":1,"doc_id":"doi:10.1000/x","kind":"paper","title":"Aspirin and the liver"}]}
"""
LIBRARY: dict[str, Any] = {"library_id": "3f2a", "version": 7, "records": 1_250, "by_kind": {"paper": 1_200, "repository": 50}}

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
