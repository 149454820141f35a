from __future__ import annotations

import json
from typing import Any

import httpx
import pytest


@pytest.fixture
def exact(address: str) -> str:
    return f"{address}/api/systematic"


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_every_match_is_a_line_with_cursors_and_the_end_says_how_many(exact: str) -> None:
    said = lines(httpx.post(exact, json={"query": "aspirin[Title] OR statins[Title]"}))
    assert [hit["hit"]["doc_id"] for hit in said if "hit" in hit] == ["a", "b"]
    assert said[0]["run"]
    assert said[-1]["end"]["total"] == 2
    assert sum("cursor" in one for one in said) >= 2


def test_a_run_is_gone_on_with_behind_a_cursor(exact: str) -> None:
    said = lines(httpx.post(exact, json={"query": "aspirin[Title] OR statins[Title]"}))
    first = next(one["cursor"] for one in said if "cursor" in one)
    rest = lines(httpx.post(exact, json={"resume": said[0]["run"], "after": first}))
    assert [one["hit"]["doc_id"] for one in rest if "hit" in one] == ["b"]
    assert rest[-1]["end"] == said[-1]["end"]


@pytest.mark.parametrize("body", [{}, {"query": "x", "resume": "y"}, {"resume": "../../etc"}, {"resume": "/etc/passwd"}, {"query": ""}])
def test_what_names_neither_a_query_nor_a_run_is_422(exact: str, body: dict[str, str]) -> None:
    answer = httpx.post(exact, json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


def test_a_run_that_is_not_there_is_said(exact: str) -> None:
    """Not where runs lie."""
    asked = [httpx.post(exact, json={"resume": "nothing"}), httpx.get(f"{exact}/nothing"), httpx.get(f"{exact}/nothing/prisma.svg")]
    assert [(answer.status_code, answer.json()["detail"]) for answer in asked] == [
        (404, "there is no such systematic run, or it has not ended")
    ] * 3
