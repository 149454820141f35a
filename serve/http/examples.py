"""What the OpenAPI description shows: requests and answers. Small, and true to the types, which a test checks."""

from __future__ import annotations

from typing import Any

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
