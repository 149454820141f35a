"""A fine scorer over a scripted chat server, and works whose titles hold the score that the server returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from outrider.nodes.fine_scorer.fine_scorer import FineScorer, ScoringPrompts, ScoringResult
from outrider.nodes.fine_scorer.judgement import Question
from outrider.nodes.fine_scorer.waves import Stopping, StopWhenSettled
from outrider.nodes.rule_ranker import RuleRanker
from outrider.settings.model import RankingSettings, RepositorySettings, RunSettings
from outrider.state.chat import Budget
from outrider.state.hits import Candidate
from support.chat_client import chat_over, llm_settings
from support.chat_server import ChatServer, Reply, Request
from support.fakes import NOON, candidate, paper

RUNTIME = cast("Any", None)
QUESTION = Question("liver dose", "liver", ("liver", "dose"), "method")


def clock() -> float:
    return NOON


def result(name: str, score: Any = 0.5, reason: Any = "because", tags: Any = ("method",)) -> dict[str, Any]:
    tags = list(tags) if isinstance(tags, tuple) else tags
    return {"paper_id": name, "relevance_score": score, "relevance_reason": reason, "tags": tags}


def by_title(request: Request) -> Reply:
    """The score that a work's title ends with: "work 7 0.25"."""
    return Reply({"results": [result(one["id"], float(one["title"].split()[-1])) for one in request.data["papers"]]})


def works(*scores: float, **fields: Any) -> tuple[Candidate, ...]:
    """In rule order; the model will find these scores in their titles."""
    return tuple(
        candidate(paper(f"w{at}", f"work {at} {score}", **fields), score=1 - at / 1000, scored_by="rules", reason="title has: work")
        for at, score in enumerate(scores)
    )


def scorer(server: ChatServer, stopping: Stopping | None = None, **llm: Any) -> FineScorer:
    return FineScorer(
        chat=chat_over(server, **llm),
        why_no_model="",
        rules=RuleRanker(RankingSettings(), clock),
        prompts=ScoringPrompts.load(),
        weights=RepositorySettings(),
        llm=llm_settings(server, **llm),
        run=RunSettings(),
        clock=clock,
        stopping=stopping or StopWhenSettled(0.05),
    )


async def scored(
    answer: Callable[[Request], Reply],
    ordered: Sequence[Candidate],
    budget: Budget | None = None,
    top_k: int = 10,
    run_s: float = 120.0,
    **llm: Any,
) -> tuple[ScoringResult, ChatServer]:
    with ChatServer(answer) as server:
        scoring = await scorer(server, **llm).score(ordered, QUESTION, top_k, budget or Budget(), run_s)
        return scoring, server


def ids(scoring: ScoringResult) -> list[str]:
    return [one.record.doc_id for one in scoring.candidates]


def of(scoring: ScoringResult, doc_id: str) -> Candidate:
    return next(one for one in scoring.candidates if one.record.doc_id == doc_id)
