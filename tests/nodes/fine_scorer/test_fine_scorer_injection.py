"""Whatever a text says to the model, only its own item can change."""

from __future__ import annotations

import pytest

from support.chat_server import Reply, Request
from support.fakes import candidate, paper
from support.injection_canaries import CANARIES, Canary
from support.scorer_over_server import by_title, of, result, scored, works


@pytest.mark.parametrize("canary", [one for one in CANARIES if one.caught], ids=lambda one: one.name)
async def test_a_text_that_speaks_to_the_model_is_judged_alone(canary: Canary) -> None:
    """Even a model that obeys it has no other work before it, and what it says of ids that were not asked for is dropped."""

    def gullible(asked: Request) -> Reply:
        if any(one["title"] == "work 5 0.25" for one in asked.data["papers"]) and len(asked.data["papers"]) == 1:
            return Reply({"results": [result("p1", 1.0), *(result(f"p{at}", 0.0) for at in range(2, 60)), result("w3", 0.0)]})
        return by_title(asked)

    clean = works(*(at / 20 for at in range(12)))
    injected = list(clean)
    injected[5] = candidate(paper("w5", "work 5 0.25", abstract=canary.text), score=clean[5].score, reason=clean[5].reason)
    before, _ = await scored(gullible, clean, timeout_s=20.0)
    after, server = await scored(gullible, injected, timeout_s=20.0)
    assert sorted(len(one.data["papers"]) for one in server.requests) == [1, 1, 10]
    assert [of(before, f"w{at}").score == of(after, f"w{at}").score for at in range(12)] == [at != 5 for at in range(12)]


@pytest.mark.parametrize("canary", CANARIES, ids=lambda one: one.name)
async def test_no_text_leaves_the_fence(canary: Canary) -> None:
    """What is sent is the same prompt and one JSON object, whatever a title, an abstract or a venue says."""
    record = paper("a", canary.text, abstract=canary.text, venue=canary.text)
    _, plain = await scored(lambda _: Reply({"results": [result("p1")]}), works(0.5), timeout_s=20.0)
    made, server = await scored(lambda _: Reply({"results": [result("p1")]}), [candidate(record)], timeout_s=20.0)
    sent = server.requests[0]
    assert sent.system == plain.requests[0].system
    assert (sent.user.count("<data>"), sent.user.count("</data>")) == (1, 1)
    assert sorted(sent.data) == ["papers", "request"]
    assert (sent.data["request"], len(sent.data["papers"])) == (plain.requests[0].data["request"], 1)
    assert made.candidates[0].score == 0.5
