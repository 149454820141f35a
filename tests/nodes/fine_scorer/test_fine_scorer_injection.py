"""Instructions in a text can change only that text's own item."""

from __future__ import annotations

import pytest

from support.chat_server import Reply, Request
from support.fakes import candidate, paper
from support.injection_canaries import CANARIES, Canary
from support.scorer_over_server import by_title, of, result, scored, works


@pytest.mark.parametrize("canary", [one for one in CANARIES if one.caught], ids=lambda one: one.name)
async def test_a_text_that_addresses_the_model_is_scored_alone(canary: Canary) -> None:
    """Even a model that obeys it sees no other work, and its scores for ids that were not sent are dropped."""

    def gullible(request: Request) -> Reply:
        if any(one["title"] == "work 5 0.25" for one in request.data["papers"]) and len(request.data["papers"]) == 1:
            return Reply({"results": [result("p1", 1.0), *(result(f"p{at}", 0.0) for at in range(2, 60)), result("w3", 0.0)]})
        return by_title(request)

    clean = works(*(at / 20 for at in range(12)))
    injected = list(clean)
    injected[5] = candidate(paper("w5", "work 5 0.25", abstract=canary.text), score=clean[5].score, reason=clean[5].reason)
    before, _ = await scored(gullible, clean, timeout_s=120.0)
    after, server = await scored(gullible, injected, timeout_s=120.0)
    assert sorted(len(one.data["papers"]) for one in server.requests) == [1, 1, 10]
    assert [of(before, f"w{at}").score == of(after, f"w{at}").score for at in range(12)] == [at != 5 for at in range(12)]


@pytest.mark.parametrize("canary", CANARIES, ids=lambda one: one.name)
async def test_no_text_leaves_the_fence(canary: Canary) -> None:
    """The request is the same prompt and one JSON object, whatever a title, an abstract or a venue contains."""
    record = paper("a", canary.text, abstract=canary.text, venue=canary.text)
    _, plain = await scored(lambda _: Reply({"results": [result("p1")]}), works(0.5), timeout_s=120.0)
    scoring, server = await scored(lambda _: Reply({"results": [result("p1")]}), [candidate(record)], timeout_s=120.0)
    request = server.requests[0]
    assert request.system == plain.requests[0].system
    assert (request.user.count("<data>"), request.user.count("</data>")) == (1, 1)
    assert sorted(request.data) == ["papers", "request"]
    assert (request.data["request"], len(request.data["papers"])) == (plain.requests[0].data["request"], 1)
    assert scoring.candidates[0].score == 0.5
