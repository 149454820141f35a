"""Comparison over REST: refusals before anything runs; what it returns stands in `tests/usecases/test_compare.py`."""

from __future__ import annotations

from typing import Any

import pytest

from support.http_app import open_client, services


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ({"targets": ["a/b"]}, 422, "targets"),
        ({"targets": ["a/b", "A/B"]}, 422, "are the same work"),
        ({"targets": ["a/b", "10.1000/x"]}, 422, "different kinds"),
        ({"targets": ["a/b", "c/d"], "run": {"max_calls": 10**5}}, 422, "allows at most"),
        ({"targets": ["a/b", "c/d"]}, 503, "cannot be looked up"),
    ],
)
async def test_what_cannot_be_compared_is_refused(body: dict[str, Any], status: int, problem: str) -> None:
    async with open_client(services()) as client:
        refused = await client.post("/api/compare", json=body)
    assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")
    assert problem in refused.json()["detail"]
