from __future__ import annotations

import json
from typing import Any

import httpx
import pytest


@pytest.fixture
def endpoint(address: str) -> str:
    return f"{address}/api/systematic"


def read_lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_every_match_is_a_line_with_cursors_and_the_last_line_has_the_total(endpoint: str) -> None:
    lines = read_lines(httpx.post(endpoint, json={"query": "aspirin[Title] OR statins[Title]"}, timeout=60))
    assert [hit["hit"]["doc_id"] for hit in lines if "hit" in hit] == ["a", "b"]
    assert lines[0]["run"]
    assert lines[-1]["end"]["total"] == 2
    assert sum("cursor" in one for one in lines) >= 2


def test_the_first_line_has_the_remarks_on_the_query_and_the_last_line_and_the_report_have_all(endpoint: str) -> None:
    lines = read_lines(httpx.post(endpoint, json={"query": "1990:2030[dp] AND (x-client[ti] OR aspirin[ti])"}, timeout=60))
    hyphen, missing = lines[-1]["end"]["remarks"]
    assert hyphen.startswith("hyphen: line 1, column 20: ")
    assert missing.endswith("1 of 4 records has no year and was not matched; 1 of them fits the rest of the query")
    assert lines[0]["remarks"] == [hyphen]
    assert httpx.get(f"{endpoint}/{lines[0]['run']}", timeout=60).json()["remarks"] == [hyphen, missing]


def test_a_run_is_resumed_after_a_cursor(endpoint: str) -> None:
    lines = read_lines(httpx.post(endpoint, json={"query": "aspirin[Title] OR statins[Title]"}, timeout=60))
    first = next(one["cursor"] for one in lines if "cursor" in one)
    rest = read_lines(httpx.post(endpoint, json={"resume": lines[0]["run"], "after": first}, timeout=60))
    assert [one["hit"]["doc_id"] for one in rest if "hit" in one] == ["b"]
    assert rest[-1]["end"] == lines[-1]["end"]


@pytest.mark.parametrize("body", [{}, {"query": "x", "resume": "y"}, {"resume": "../../etc"}, {"resume": "/etc/passwd"}, {"query": ""}])
def test_a_body_without_a_valid_query_or_run_is_422(endpoint: str, body: dict[str, str]) -> None:
    answer = httpx.post(endpoint, json=body, timeout=60)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


def test_a_missing_run_is_404(endpoint: str) -> None:
    """The message does not contain the folder of the runs."""
    answers = [
        httpx.post(endpoint, json={"resume": "nothing"}, timeout=60),
        httpx.get(f"{endpoint}/nothing", timeout=60),
        httpx.get(f"{endpoint}/nothing/prisma.svg", timeout=60),
    ]
    assert [(answer.status_code, answer.json()["detail"]) for answer in answers] == [
        (404, "there is no such systematic run, or it has not ended")
    ] * 3
