"""A chat model that follows simple rules, for benchmarks of everything around a model.

It knows the ten requests and counts words. Its judgement is no evidence of a real model's. Its tokens are estimated from characters at the
rates of o200k_base on such texts (tests/nodes/fine_scorer/test_fine_scorer_cost.py), including the schema, as a provider counts them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.answers import as_json
from bench.served import HttpResponse
from bench.ten_requests import REQUESTS, Request
from outrider.prompts import parse_fence

CHARS_A_TOKEN = (4.1, 3.66)
"""Of questions and of answers."""
OF_OTHER_USE = ("course", "awesome", "demo", "template", "slides", "interview")
GRADES = {2: 1.0, 1: 0.3, 0: 0.0}
"""Relevance by the number of a request's two parts that match."""


def respond(body: bytes) -> HttpResponse:
    """The response to `POST /chat/completions`."""
    request = json.loads(body)
    data: Any = parse_fence(str(request["messages"][-1]["content"]))
    stage, content = _reply(data)
    text = json.dumps(content, separators=(",", ":"))
    schema = json.dumps(request.get("response_format") or request.get("tools") or "", separators=(",", ":"))
    sent_chars = sum(len(str(message["content"])) for message in request["messages"]) + len(schema)
    usage = {"prompt_tokens": round(sent_chars / CHARS_A_TOKEN[0]), "completion_tokens": round(len(text) / CHARS_A_TOKEN[1])}
    message = {"role": "assistant", "content": text, "refusal": None}
    if request.get("tools"):
        called = {"name": request["tools"][0]["function"]["name"], "arguments": text}
        message |= {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": called}]}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    answer = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"], "choices": [choice]}
    return replace(as_json({**answer, "usage": {**usage, "total_tokens": sum(usage.values())}}), log_fields={"stage": stage, **usage})


def _reply(data: Mapping[str, Any]) -> tuple[str, Any]:
    """The stage that sent the request, and the answer."""
    if isinstance(data.get("request"), str):
        return "translator", plan(request_of(data["request"]), data["search_mode"])
    if "blocks" in data:
        return "dedup", {"groups": []}
    request = request_of(data["request"]["text"])
    if "papers" in data:
        return "papers", {"results": [_paper(request, one) for one in data["papers"]]}
    return "repository", _repository(request, data["repository"])


def request_of(text: str) -> Request:
    return next((one for one in REQUESTS if one.text == text), replace(REQUESTS[0], text=text))


def plan(request: Request, mode: str) -> dict[str, Any]:
    """Three queries: the usual words, other words, and a comparison."""
    one, other = request.first[0], request.second
    texts = (f"{one} {other[0]}", f"{one} {other[1]}", f"comparison of {other[0]} for {one}")
    return {
        "topic": request.text,
        "concepts": [one, other[0]],
        "intent_type": "library",
        "queries": [
            {
                "text": text,
                "keywords": [one, other[min(at, 1)]],
                "synonyms": list(other[1:3]),
                "boolean_query": f'"{one}" AND ("{other[0]}" OR "{other[1]}")',
            }
            for at, text in enumerate(texts)
        ],
        "expanded_keywords": list(other[1:])[: {"focused": 0, "balanced": 3}.get(mode, 8)],
        "language": request.language,
        "topics": [],
        **dict.fromkeys(("year_from", "year_to", "stars_min", "stars_max")),
        "created_after": "",
    }


def relevance(request: Request, text: str) -> float:
    """Uses two of the phrasings of each part."""
    text = text.lower()
    if any(word in text for word in OF_OTHER_USE):
        return 0.1
    return GRADES[sum(any(word.lower() in text for word in words[:2]) for words in (request.first, request.second))]


def _paper(request: Request, paper: Mapping[str, Any]) -> dict[str, Any]:
    score = relevance(request, f"{paper.get('title', '')} {paper.get('snippet', '')}")
    return {"paper_id": paper["id"], "relevance_score": score, "relevance_reason": "names both" if score > 0.5 else "", "tags": []}


def _repository(request: Request, project: Mapping[str, Any]) -> dict[str, Any]:
    score = relevance(
        request, f"{project['name']} {project.get('description', '')} {' '.join(project.get('topics', ()))} {project.get('readme', '')}"
    )
    has_docs = "docs" in project.get("tree", "")
    documentation = 3 + 3 * ("readme" in project) + 3 * has_docs
    use = 8 if "install" in project.get("readme", "").lower() else 4
    reasons = {
        "relevance_reason": "what it says it is for",
        "documentation_reason": "README and its folders",
        "ease_of_use_reason": "one command",
    }
    return {"relevance": score, "documentation": documentation, "ease_of_use": use, **reasons}
