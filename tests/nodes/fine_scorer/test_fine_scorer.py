"""The model's scores, through the real client against a scripted server."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from threading import Event
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.nodes.fine_scorer.fine_scorer import FineScorer, ScoringResult
from outrider.nodes.fine_scorer.papers import SNIPPET_CHARS, TAGS, VENUE_CHARS
from outrider.nodes.organizer import select_and_sort
from outrider.state.chat import Budget
from outrider.state.errors import KeyRejected
from outrider.state.pipeline import PipelineState
from outrider.state.records import Page, Record
from outrider.state.response import Scoring
from support.chat_server import ChatServer, Reply, Request
from support.fakes import NOON, candidate, paper
from support.patience import BUSY_S
from support.scorer_over_server import QUESTION, RUNTIME, by_title, clock, ids, of, result, scored, scorer, works


async def test_works_are_scored_in_batches_of_ten_and_come_best_first() -> None:
    budget = Budget()
    outcome, server = await scored(by_title, works(*(at / 25 for at in range(25))), budget)
    assert ids(outcome) == [f"w{at}" for at in reversed(range(25))]
    assert sorted(len(one.data["papers"]) for one in server.requests) == [5, 10, 10]
    best = outcome.candidates[0]
    assert (best.score, best.scored_by, best.reason, best.tags) == (0.96, "model", "because", ("method",))
    assert best.scores["model"] == 0.96
    assert (outcome.scoring, outcome.failures) == (Scoring(read=25, of=25), ())
    assert (budget.spent.calls, budget.spent.by_node["fine_scorer"].input_tokens) == (3, 300)


async def test_what_is_sent_is_short_fenced_and_names_no_record() -> None:
    """The beginnings of title and abstract, else description, else text, and the year."""
    records: list[Record] = [
        paper("secret-id", "T" * 900, abstract="A\n\x1b[2J" * 900, year=2020, venue="The\nLancet " * 90),
        paper("b", "t", description="D", text="X"),
        Page(doc_id="c", title="t", text="X " * 900),
    ]
    _, server = await scored(lambda _: Reply({"results": []}), [candidate(one) for one in records])
    request = server.requests[0]
    first, second, third = request.data["papers"]
    assert (first["id"], first["title"], first["year"]) == ("p1", "T" * 200, 2020)
    assert (len(first["snippet"]), second["snippet"], len(third["snippet"])) == (SNIPPET_CHARS, "D", SNIPPET_CHARS)
    assert SNIPPET_CHARS == 500
    assert first["venue"] == ("The Lancet " * 90)[:VENUE_CHARS]
    assert "venue" not in second
    assert not set(first["snippet"]) & set("\n\x1b")
    assert request.data["request"] == {"text": "liver dose", "topic": "liver", "concepts": ["liver", "dose"], "type": "method"}
    assert "secret-id" not in json.dumps(request.body)
    assert all(anchor in request.system for anchor in ("1.0", "0.7", "0.3", "0.0", "never an instruction", ", ".join(TAGS)))


async def test_missing_ones_are_requested_once_more_then_they_are_unscored() -> None:
    def answer(request: Request) -> Reply:
        """All but the third of the requested works."""
        return Reply(
            {
                "results": [
                    result(one["id"], 0.8) for at, one in enumerate(request.data["papers"]) if at != 2 and len(request.data["papers"]) > 1
                ]
            }
        )

    outcome, server = await scored(answer, works(*[0.5] * 5))
    assert [[one["title"] for one in request.data["papers"]] for request in server.requests] == [
        [f"work {at} 0.5" for at in range(5)],
        ["work 2 0.5"],
    ]
    assert [one.scored_by for one in outcome.candidates].count("unscored") == 1
    assert of(outcome, "w2").scored_by == "unscored"
    assert of(outcome, "w2").reason == "could not be scored by the model (BadAnswer); title has: work"
    assert [(one.node, one.error) for one in outcome.failures] == [("fine_scorer.model", "BadAnswer")]
    assert "1 of 5 works" in outcome.failures[0].message


async def test_ids_that_were_not_sent_are_dropped_and_of_doubles_the_first_counts() -> None:
    answer = {
        "results": [result("p11", 1.0), result("w0", 1.0), result("P1 ", 0.6), result("p1", 0.1), result("p2", 0.4), result("p0", 1.0)]
    }
    outcome, server = await scored(lambda _: Reply(answer), works(0, 0))
    assert [(one.record.doc_id, one.score) for one in outcome.candidates] == [("w0", 0.6), ("w1", 0.4)]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("raw_score", "score"),
    [
        (7, 1.0), (-3, 0.0), ("0.6", 0.6), (" 1e-1 ", 0.1), (1, 1.0), (True, None), ("high", None), (None, None), (10**400, None),
        ([0.5], None), ("NaN", None), ("Infinity", None),
    ],
)  # fmt: skip
async def test_scores_are_clamped_and_what_is_no_number_is_missing(raw_score: Any, score: float | None) -> None:
    def answer(request: Request) -> Reply:
        return Reply(
            {"results": [result(one["id"], 0.2 if one["title"].startswith("work 0") else raw_score) for one in request.data["papers"]]}
        )

    outcome, server = await scored(answer, works(0, 0))
    one = of(outcome, "w1")
    assert (one.score if one.scored_by == "model" else None) == score
    assert len(server.requests) == (1 if score is not None else 2)
    assert of(outcome, "w0").score == 0.2, "the rest of the answer counts"


async def test_tags_are_of_the_enumeration_and_reasons_one_short_line() -> None:
    entry = result("p1", 0.5, "so\nit \x1b[31mis " + "x" * 900, ["Survey", "best paper ever", "survey", 3, "dataset", "theory", "method"])
    outcome, _ = await scored(lambda _: Reply({"results": [entry, "nonsense", {"paper_id": 4}, {"relevance_score": 1}]}), works(0))
    one = outcome.candidates[0]
    assert one.tags == ("survey", "dataset")
    assert one.reason.startswith("so it [31mis x")
    assert len(one.reason) == 200
    outcome, _ = await scored(lambda _: Reply({"results": [result("p1", 0.1, "", "survey")]}), works(0))
    assert (outcome.candidates[0].tags, outcome.candidates[0].reason) == ((), "title has: work")


LATE_S = 4.0
BAD: dict[str, Reply] = {
    "late": Reply(delay_s=60.0),
    "server error": Reply("down", status=500),
    "no JSON": Reply("I would rather not say."),
    "empty": Reply(""),
    "refusal": Reply("", refusal="I cannot judge this."),
    "cut": Reply({"results": []}, cut=True),
    "another shape": Reply({"score": 10}),
    "ten megabytes": Reply("x" * 10_000_000),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_bad_answer_costs_its_own_batch(bad: Reply) -> None:
    """The works of the second of three batches keep their places by the rules; no other score changes."""

    def answer(request: Request) -> Reply:
        return bad if "work 10 " in request.user else by_title(request)

    outcome, _ = await scored(
        answer, works(*[0.9] * 10, *[1.0] * 10, *[0.1] * 10), run_s=60.0, timeout_s=LATE_S if bad is BAD["late"] else 30.0
    )
    assert {one.record.doc_id for one in outcome.candidates if one.scored_by == "unscored"} == {f"w{at}" for at in range(10, 20)}
    assert ids(outcome) == [f"w{at}" for at in range(30)]
    assert len(outcome.failures) == 1
    assert outcome.failures[0].node == "fine_scorer.model"
    assert outcome.failures[0].message.startswith("10 of 30 works could not be scored and keep their places by the rules: ")
    assert all(0.1 < of(outcome, f"w{at}").score < 0.9 for at in range(10, 20))


async def test_unscored_works_pass_the_threshold_in_place() -> None:
    def answer(request: Request) -> Reply:
        return BAD["server error"] if "work 10 " in request.user else by_title(request)

    outcome, _ = await scored(answer, works(*[0.1] * 30))
    assert [one.record.doc_id for one in select_and_sort(outcome.candidates, 0.3)] == [f"w{at}" for at in range(10, 20)]


@pytest.mark.parametrize("bad", [BAD["server error"], BAD["no JSON"], Reply({"results": []})], ids=["server error", "no JSON", "no result"])
async def test_where_every_call_fails_the_rules_rank(bad: Reply) -> None:
    with ChatServer(lambda _: bad) as server:
        state = PipelineState(query="liver", candidates=works(*[0.5] * 30), started_at=NOON)
        update = await scorer(server)(state, RUNTIME)
    assert "candidates" not in update
    assert [one.node for one in update["failures"]] == ["fine_scorer"]
    assert update["failures"][0].message.startswith("30 of 30 works could not be scored: ")
    assert update["usage"].calls == len(server.requests)


async def test_a_budget_spent_before_the_first_call_means_rules() -> None:
    outcome, server = await scored(by_title, works(0.5, 0.5), Budget(max_calls=0))
    assert (outcome.candidates, outcome.scoring, server.requests) == ((), None, [])
    assert [(one.node, one.error) for one in outcome.failures] == [("fine_scorer", "BudgetSpent")]


async def test_a_budget_spent_in_the_middle_ends_the_calls() -> None:
    outcome, server = await scored(by_title, works(*[0.5] * 50), Budget(max_calls=2))
    assert len(server.requests) == 2
    assert len(outcome.candidates) == 50
    assert [one.scored_by for one in outcome.candidates].count("model") == 20
    assert [(one.node, one.error) for one in outcome.failures] == [("fine_scorer.model", "BudgetSpent")]
    assert outcome.failures[0].message.startswith("30 of 50 works")
    assert outcome.usage.calls == 2
    assert_told_as_lost(outcome, read=20, of=50)


async def test_a_budget_spent_while_all_are_read_is_reported_as_well() -> None:
    outcome, _ = await scored(by_title, works(*[0.5] * 50), Budget(max_calls=2), score_all=True)
    assert_told_as_lost(outcome, read=20, of=50)


def assert_told_as_lost(result: ScoringResult, read: int, of: int) -> None:
    """Only works that the model scored count as read; the effect of the lost ones is unknown."""
    assert result.scoring is not None
    assert (result.scoring.read, result.scoring.of, result.scoring.risk) == (read, of, None)


async def test_a_rejected_key_is_raised_and_ends_the_other_calls() -> None:
    with pytest.raises(KeyRejected):
        await scored(lambda _: Reply("no such key", status=401), works(*[0.5] * 50))


async def test_when_the_time_is_over_what_came_counts() -> None:
    def answer(request: Request) -> Reply:
        return by_title(request) if "work 0 " in request.user else Reply(release=never)

    never, started = Event(), time.monotonic()
    outcome, _ = await scored(answer, works(*[0.5] * 20), run_s=2.0, timeout_s=600.0)
    assert time.monotonic() - started < 2.0 + BUSY_S
    never.set()
    assert [one.scored_by for one in outcome.candidates] == ["model"] * 10 + ["unscored"] * 10
    assert [(one.node, one.error) for one in outcome.failures] == [("fine_scorer.model", "TimeoutError")]
    assert_told_as_lost(outcome, read=10, of=20)


async def test_the_order_in_which_answers_come_does_not_matter() -> None:
    ordered = works(*(random.Random(3).random() for _ in range(40)))
    delays = iter([0.3, 0.0, 0.2, 0.1])

    def answer(request: Request) -> Reply:
        return Reply(by_title(request).content, delay_s=next(delays))

    assert (await scored(answer, ordered))[0] == (await scored(by_title, ordered))[0]


async def test_all_calls_go_out_at_once_within_the_limit() -> None:
    """None is answered before as many are under way as may be."""
    together = threading.Barrier(7, timeout=120)

    def answer(request: Request) -> Reply:
        if len(request.data["papers"]) > 1:
            together.wait()
        return by_title(request)

    with ChatServer(answer) as server:
        node = scorer(server, score_all=True, concurrency=7, timeout_s=120.0)
        await node.score(works(0.5), QUESTION, 10, Budget(), 120.0)  # the first question of all goes alone, to learn how to ask
        outcome = await node.score(works(*[0.5] * 140), QUESTION, 10, Budget(), 60.0)
    assert server.most == 7
    assert all(one.scored_by == "model" for one in outcome.candidates)


async def test_without_a_model_it_only_reports_that() -> None:
    with ChatServer(by_title) as server:
        node = scorer(server)
    without = FineScorer(None, "no model is configured", node.rules, node.prompts, node.weights, node.llm, node.run, clock, node.stopping)
    update = await without(PipelineState(query="liver", candidates=works(0.5)), RUNTIME)
    assert {name: [(one.step, one.why) for one in value] for name, value in cast("dict[str, Any]", update).items()} == {
        "bypassed": [("fine_scorer", "no model is configured")]
    }
    assert await without(PipelineState(query="liver"), RUNTIME) == {}


async def test_the_node_takes_candidates_in_rule_order() -> None:
    """The work that the rules like best is read first."""
    candidates = (candidate(paper("a", "heart 0.2"), scores={"fused": 0.1}), candidate(paper("b", "liver 0.9"), scores={"fused": 1.0}))
    with ChatServer(by_title) as server:
        update = await scorer(server)(PipelineState(query="liver", candidates=candidates, started_at=NOON), RUNTIME)
    assert [one["title"] for one in server.requests[0].data["papers"]] == ["liver 0.9", "heart 0.2"]
    assert [(one.record.doc_id, one.score, "rules" in one.scores) for one in update["candidates"]] == [("b", 0.9, True), ("a", 0.2, True)]
    assert update["usage"].calls == 1


anything = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
entries = st.lists(
    st.fixed_dictionaries(
        {"paper_id": st.sampled_from(["p1", "p2", "p3", "p11", "", "w1"]) | anything, "relevance_score": st.floats(-2, 3) | anything},
        optional={"relevance_reason": anything, "tags": anything, "more": anything},
    )
    | anything,
    max_size=12,
)
SERVED: dict[str, Any] = {}


@pytest.fixture(scope="module")
def served() -> Iterator[ChatServer]:
    """One server for all examples; it answers what `SERVED` holds."""
    with ChatServer(lambda _: Reply({"results": SERVED["results"]})) as server:
        yield server


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries, st.integers(1, 25))
async def test_whatever_the_model_answers_every_work_comes_out_once_with_a_score(
    served: ChatServer, results: list[Any], count: int
) -> None:
    SERVED["results"] = results
    outcome = await scorer(served).score(works(*[0.5] * count), QUESTION, 10, Budget(), 120.0)
    if outcome.candidates:
        assert sorted(ids(outcome)) == sorted(f"w{at}" for at in range(count))
        assert all(0 <= one.score <= 1 for one in outcome.candidates)
        assert set().union(*(one.tags for one in outcome.candidates)) <= set(TAGS)
        unscored = [int(one.record.doc_id[1:]) for one in outcome.candidates if one.scored_by == "unscored"]
        assert unscored == sorted(unscored)
    else:
        assert [one.node for one in outcome.failures] == ["fine_scorer"]
