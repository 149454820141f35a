"""OpenAPI description: examples (which a test validates), problem documents and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from outrider.interfaces.http.access import OPEN
from outrider.interfaces.http.problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from fastapi import FastAPI


COMPARE_EXAMPLES: dict[str, Any] = {
    "repositories": {"summary": "Two repositories", "value": {"targets": ["encode/httpx", "aio-libs/aiohttp"]}},
    "papers": {"summary": "Two papers", "value": {"targets": ["arxiv:1706.03762", "arxiv:1810.04805"], "question": "attention"}},
}
RESUME_EXAMPLES: dict[str, Any] = {
    "plan": {"summary": "Another plan", "value": {"queries": [{"text": "aspirin liver injury"}], "years": {"min": 2015}}},
    "results": {"summary": "Results judged", "value": {"keep": ["doi:10.1000/a"], "drop": ["doi:10.1000/b"], "feedback": "only trials"}},
    "unchanged": {"summary": "Go on as planned", "value": {}},
}
SEARCH_EXAMPLES: dict[str, Any] = {
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
        "summary": "The own library only, without a model",
        "value": {"query": "statins", "sources": ["library"], "top_k": 5, "run": {"run_timeout_s": 10, "max_calls": 0}},
    },
}
SEARCH_ANSWER: dict[str, Any] = {
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
ANALYZE_EXAMPLES: dict[str, Any] = {
    "repository": {"summary": "A repository", "value": {"target": "encode/httpx", "question": "an HTTP client with HTTP/2"}},
    "paper": {"summary": "A paper", "value": {"target": "10.1000/x", "run": {"max_calls": 0}}},
}
LANGSERVE_INPUTS: dict[str, Any] = {
    "search": {"query": "liver injury by aspirin", "top_k": 2},
    "analyze": {"target": "encode/httpx", "question": "an HTTP client with HTTP/2"},
    "citations": {"targets": ["10.1000/x"], "budget": {"calls": 20}},
}
EVENTS_EXAMPLE = """id: 1
event: started
data: {"node":"translator"}

id: 6
event: hits
data: {"node":"scout","total":1,"hits":[{"rank":1,"doc_id":"doi:10.1000/x","kind":"paper","title":"Aspirin and the liver"}]}
"""
LIBRARY_EXAMPLE: dict[str, Any] = {"library_id": "3f2a", "version": 7, "records": 1_250, "by_kind": {"paper": 1_200, "repository": 50}}

PROBLEMS = {
    "400": "The server does not accept the request's host or path.",
    "401": "A key is missing or unknown.",
    "403": "Pages of other servers may not send requests, or the server is read-only.",
    "404": "Nothing exists at this address.",
    "409": "A search of the thread is under way.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The file was not sent as it is, as `application/octet-stream`.",
    "422": "The request cannot be understood; `errors` names the fields.",
    "429": "Too many requests at a time; `Retry-After` says when to try again.",
    "500": "An error of the server.",
    "503": "The server cannot do this now, or a search had nothing to search: `sources` has the reasons.",
    "504": "The request took too long.",
    "507": "The server's disk is full.",
}
EVENTS: dict[str, Any] = {"text/event-stream": {}}
METHODS = ("get", "post", "put", "patch", "delete")
RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}


def describe(app: FastAPI) -> None:
    """Add problems and keys to the description of the application, which is made at first use."""

    def describe_routes() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        description = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = description.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(problem.pop("$defs", {}))
        schemas["Problem"] = problem
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        for path, item in description["paths"].items():
            for operation in (item[method] for method in METHODS if method in item):
                if path not in OPEN:
                    operation["security"] = [{}, {"bearer": []}, {"header": []}]
                graph, _, route = path.strip("/").partition("/")
                if graph in LANGSERVE_INPUTS and "requestBody" in operation:  # else Swagger UI fills in every field
                    example: dict[str, Any] = {"input": LANGSERVE_INPUTS[graph]}
                    example = {"inputs": list(example.values())} if route == "batch" else example
                    operation["requestBody"]["content"]["application/json"]["example"] = example
                if path.endswith(("/stream", "/stream_log", "/stream_events")):  # LangServe declares JSON only and sends events
                    operation["responses"]["200"]["content"] |= EVENTS
                for status, why in PROBLEMS.items():
                    headers = {"headers": RETRY} if status == "429" else {}
                    operation["responses"][status] = {"description": why, "content": content, **headers}
        app.openapi_schema = description
        return description

    app.openapi = describe_routes  # type: ignore[method-assign]
