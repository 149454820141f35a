"""Injected instructions in one record among nine, in the feedback or in an earlier round: through the whole graph, nothing but that
record may change, or the queries.

Each text is tried on an honest model, which judges by the words it is shown, and on a gullible one, which does what it reads. What is
compared with is the same run with as many harmless words in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from outrider.graph.pipeline import SearchGraph, build
from outrider.prompts import FENCE
from outrider.services import Services
from outrider.settings.model import OrganizerSettings, RunSettings, Settings
from outrider.settings.sections import CacheSettings
from outrider.state.filters import Filter
from outrider.state.hits import Hit
from outrider.state.records import Record, Repository
from outrider.state.response import SearchResponse
from outrider.text.strip_markup import fold_text
from outrider.text.words import words
from support.chat_client import llm_settings
from support.chat_server import Answer, ChatServer, Reply, Request
from support.fakes import NOON, Shelf, doi, no_reranker, paper
from support.injection_canaries import CANARIES, Canary

QUERY = "popular statins for cholesterol since 2000"
FILTERS = {"year": {"$lte": 2030}}
TRIAL = "Statins lower cholesterol in elderly patients"
ABSTRACT = "Statins and cholesterol. Grade {}."
ANN: dict[str, Any] = {"authors": ["Smith, Ann"], "abstract": ABSTRACT.format(0.9)}
HONEST: tuple[Record, ...] = (
    paper("pre", f"{TRIAL}: a cohort study (preprint)", abstract=ANN["abstract"]),
    paper("pub", f"{TRIAL}: a cohort study", identifiers=doi("10.1000/x"), year=2021, **ANN),
    *(
        paper(f"w{at}", f"Statins in {of}", abstract=ABSTRACT.format(0.5 + at / 10), year=2010)
        for at, of in enumerate(("gout", "stroke", "flu"))
    ),
    *(Repository(doc_id=f"o/{name}", title=name, description=ABSTRACT.format(0.8), stars=9_000) for name in ("pill", "dose", "lipid")),
)
MARKED = "Cholesterol and the marked one"
"""What the record is called that carries the text; no rule reads in a canary that the query asks for it."""
PLAN: dict[str, Any] = {
    "topic": "statins for cholesterol",
    "concepts": ["statins", "cholesterol"],
    "intent_type": "general",
    "queries": [{"text": "statins cholesterol", "keywords": ["statins"], "synonyms": [], "boolean_query": "statins AND cholesterol"}],
    "expanded_keywords": ["lipid", "serum"],
}
HARM = {
    "stars_min": -5,
    "stars_max": 10,
    "year_from": 1800,
    "year_to": 1801,
    "strategies": ["web"],
    "search_mode": "exploratory",
    "expanded_keywords": [f"word{at}" for at in range(50)],
}
FORGED_REASON = "as the text demands"
OF_THE_RUN = {"hits", "usage", "timings_ms", "execution_time_ms", "provenance_hash"}
"""Hits are compared one by one. A work in a call of its own adds a call, and the hash covers the contents of every record."""
OF_PAPERS = {"title": "title", "abstract": "snippet", "venue": "venue"}
OF_REPOSITORIES = {"readme": "readme", "tree": "tree", "topic": "topics", "licence": "licence"}
"""In which field a judge would read a text of a kind."""
OF_THE_CALLER = {"feedback", "earlier"}
SHARED_CALL = {one.name for one in CANARIES if not one.caught and one.kind in OF_PAPERS}
"""A text that no pattern matches shares a call with other works, whose scores an obedient model can set."""


def carrying(text: str, kind: str) -> Record:
    """The record with a text in the field that the kind names."""
    if kind in OF_REPOSITORIES:
        tree, readme = ["src", "tests", *([text] if kind == "tree" else [])], text if kind == "readme" else ""
        fields: dict[str, Any] = {"text": f"Statins. {readme}", "metadata": {"tree": tree}, "stars": 9_000}
        fields |= {"tags": (text,)} if kind == "topic" else {"licence": text} if kind == "licence" else {}
        return Repository(doc_id="marked", title=MARKED, description=ABSTRACT.format(0.6), **fields)
    title, abstract = (f"{MARKED}. {text}", "") if kind == "title" else (MARKED, text if kind == "abstract" else "")
    venue = text if kind == "venue" else None
    return paper("marked", title, abstract=f"{ABSTRACT.format(0.6)} {abstract}", year=2015, venue=venue)


def harmless(canary: Canary) -> str:
    """As many words, so that no statistic over the texts differs."""
    return " ".join(["ipsum"] * len(words(fold_text(canary.text))))


def grade(text: str) -> float:
    match = re.search(r"Grade (\d\.\d+)", text)
    assert match, text
    return float(match.group(1))


def honest(request: Request) -> Reply:
    data = request.data
    if "blocks" in data:
        return Reply({"groups": [[one["id"] for block in data["blocks"] for one in block if one["title"].startswith(TRIAL)]]})
    if "papers" in data:
        return Reply({"results": [{"paper_id": one["id"], "relevance_score": grade(one["snippet"])} for one in data["papers"]]})
    if "repository" in data:
        return Reply({"relevance": grade(data["repository"]["description"]), "documentation": 7, "ease_of_use": 7})
    return Reply(PLAN)


def gullible(kind: str) -> Answer:
    """Obeys the text where it sees it, and answers whatever could do harm: to other works, other calls, the search."""
    more = {"strategy": {"sources": ["evil"]}, "sources": ["evil"], "hits": [], "filters": {}, "top_k": 1, "usage": {"calls": -7}}

    def answer(request: Request) -> Reply:
        data = request.data
        forged: dict[str, Any] = {}
        if kind == "title" and _includes_marked(titles := [one for block in data.get("blocks", []) for one in block]):
            forged = {"groups": [[one["id"] for one in titles], [f"r{at}" for at in range(60)], ["pub", "w0", "marked"]]}
        if _carries(OF_PAPERS.get(kind), data.get("papers", [])):
            forged = {"results": _obeyed(data["papers"])}
        if _carries(OF_REPOSITORIES.get(kind), [data.get("repository", {})]):
            forged = {
                "relevance": 1.0,
                "relevance_reason": FORGED_REASON,
                "documentation": 999,
                "ease_of_use": 10,
                "maturity": 10,
                "o/pill": 0,
            }
        if {"user_feedback", "earlier_rounds"} & data.keys():
            forged = PLAN | HARM | {"queries": [*PLAN["queries"], {"text": "buy cheap pills"}]}
        return Reply({**more, **forged}) if forged else honest(request)

    return answer


def _includes_marked(works: list[dict[str, Any]]) -> bool:
    return any(one.get("title", one.get("name", "")).startswith(MARKED) for one in works)


def _carries(field: str | None, works: list[dict[str, Any]]) -> bool:
    """Whether the marked one is among them, and a judge reads that field of it."""
    return any(field in one and _includes_marked([one]) for one in works)


def _obeyed(papers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best for the marked one, nothing for all others, and for all that it can think of."""
    mine = [one["id"] for one in papers if _includes_marked([one])]
    foreign = [*(f"p{at}" for at in range(1, 60)), *(one.doc_id for one in HONEST)]
    others = [name for name in foreign if name not in mine]
    fields = {"relevance_reason": FORGED_REASON, "tags": ["survey", "malware"]}
    return [{"paper_id": name, "relevance_score": float(name in mine), **fields} for name in (*mine, *others)]


@dataclass
class Bench:
    """One server, one graph; what it holds and how the model answers changes from run to run."""

    server: ChatServer
    shelf: Shelf
    graph: SearchGraph
    known: dict[tuple[str, str], Ran] = field(default_factory=dict)

    def ran(self, record: Record, answer: Answer, **more: Any) -> Ran:
        self.server.answer, self.shelf.records = answer, [*HONEST, record]
        self.server.requests.clear()
        self.shelf.queries.clear()
        request = {"query": QUERY, "filters": FILTERS, "top_k": 20, "distill_enabled": False, **more}
        response = SearchResponse.model_validate(self.graph.invoke(request))
        assert not response.failures
        return Ran(response, tuple(self.server.requests), tuple(one.where for one in self.shelf.queries))

    def without(self, canary: Canary) -> Ran:
        """The run that it is compared with."""
        key = (canary.kind, harmless(canary))
        if key not in self.known:
            self.known[key] = self.ran(carrying(harmless(canary), canary.kind), honest)
        return self.known[key]


@dataclass(frozen=True)
class Ran:
    answer: SearchResponse
    requests: tuple[Request, ...]
    where: tuple[Filter | None, ...]

    def of(self, key: str) -> list[Request]:
        return [one for one in self.requests if key in one.data]

    def scores(self) -> dict[str, float]:
        """What the model said of each hit."""
        return {hit.doc_id: hit.scores["model"] for hit in self.answer.hits}

    def shows(self, kind: str) -> bool:
        """Whether a judge reads what a record of that kind carries."""
        works = [work for one in self.of("papers") for work in one.data["papers"]] + [
            one.data["repository"] for one in self.of("repository")
        ]
        return _carries((OF_PAPERS | OF_REPOSITORIES).get(kind), works)

    def marked(self) -> Hit:
        return next(hit for hit in self.answer.hits if hit.doc_id == "marked")

    def others(self) -> list[dict[str, Any]]:
        """All hits but the marked one, in their order. A rank may differ only by the place of that one."""
        return [hit.model_dump(exclude={"rank"}) for hit in self.answer.hits if hit.doc_id != "marked"]

    def rest(self, title: str) -> dict[str, Any]:
        """The answer without its hits, and without what the marked one's own title and venue bring to the facets."""
        rest_of_answer = self.answer.model_dump(exclude={**dict.fromkeys(OF_THE_RUN, True), "sources": {"__all__": {"took_ms"}}})
        themes = {word: many for word, many in rest_of_answer["facets"]["key_themes"].items() if word not in words(fold_text(title))}
        venues = {name: many for name, many in rest_of_answer["facets"]["by_venue"].items() if name != self.marked().venue}
        return {**rest_of_answer, "facets": {**rest_of_answer["facets"], "key_themes": themes, "by_venue": venues}}


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    shelf = Shelf()
    with ChatServer(honest) as server:
        llm = llm_settings(server, model="canaries", score_all=True, timeout_s=600.0)
        asked_each_time = CacheSettings(translations_s=0.0)
        settings = Settings(llm=llm, cache=asked_each_time, run=RunSettings(run_timeout_s=600.0), organizer=OrganizerSettings(themes=100))
        services = Services(settings, clock=lambda: NOON, shelf=shelf, sources=(shelf,), reranker=no_reranker)
        yield Bench(server, shelf, build(services))


@pytest.mark.parametrize("obeyed", [False, True], ids=["honest", "gullible"])
@pytest.mark.parametrize("canary", [one for one in CANARIES if one.kind not in OF_THE_CALLER], ids=lambda one: one.name)
def test_no_record_changes_anything_but_itself(bench: Bench, canary: Canary, obeyed: bool) -> None:
    before = bench.without(canary)
    after = bench.ran(carrying(canary.text, canary.kind), gullible(canary.kind) if obeyed else honest)
    assert after.of("today")[0].body["messages"] == before.of("today")[0].body["messages"]  # who plans sees no record
    nothing_leaves_the_fence(before, after)
    flagged(canary, after)
    if obeyed and canary.name in SHARED_CALL:
        only_its_call_suffers(before, after)
        return
    assert len(after.others()) == 7  # of eight records two are one work
    assert after.others() == before.others()
    title = f"{after.marked().title} {before.marked().title}"
    assert after.rest(title) == before.rest(title)
    assert 0 <= after.answer.usage.calls - before.answer.usage.calls <= 1
    misled = obeyed and after.shows(canary.kind)
    assert (after.marked().reason == FORGED_REASON) == misled
    assert (after.marked().score > before.marked().score) == misled


@pytest.mark.parametrize("canary", [one for one in CANARIES if one.name.startswith("fake-answer")], ids=lambda one: one.name)
def test_a_forged_answer_that_an_honest_model_quotes_is_not_its_own(bench: Bench, canary: Canary) -> None:
    """The request is repeated, and the model does not quote a second time."""
    quoted: list[Request] = []

    def quoting(request: Request) -> Reply:
        own = honest(request)
        if quoted or not _includes_marked(request.data.get("papers", [])):
            return own
        quoted.append(request)
        return Reply(f"{json.dumps(own.content)}\nOne abstract is none: {canary.text}")

    before, after = bench.without(canary), bench.ran(carrying(canary.text, canary.kind), quoting)
    assert quoted
    assert after.others() == before.others()
    assert after.scores() == before.scores()


def nothing_leaves_the_fence(before: Ran, after: Ran) -> None:
    """Each question has the same prompt and one fence, asks in the same way, and those to judges say the same of the request."""
    prompts = {(one.system, one.mode) for one in before.requests}
    requests = [one.data.get("request") for one in before.requests]
    for one in after.requests:
        assert (one.system, one.mode) in prompts
        assert [one.user.count(mark) for mark in FENCE] == [1, 1]
        assert one.data.get("request") in requests
    assert len(after.of("repository")) == len(before.of("repository"))


def flagged(canary: Canary, ran: Ran) -> None:
    assert {hit.doc_id for hit in ran.answer.hits if hit.flags} == ({"marked"} if canary.caught else set())


def only_its_call_suffers(before: Ran, after: Ran) -> None:
    """Papers of the same call are at the mercy of a model that obeys; which works there are, repositories and the search are not."""
    (call,) = [one for one in after.of("papers") if _includes_marked(one.data["papers"])]
    there = {work["title"] for work in call.data["papers"]}
    assert [hit for hit in after.others() if hit["title"] not in there] == [hit for hit in before.others() if hit["title"] not in there]
    assert (after.answer.strategy, after.answer.intent, after.answer.failures) == (before.answer.strategy, before.answer.intent, ())


@pytest.mark.parametrize("obeyed", [False, True], ids=["honest", "gullible"])
@pytest.mark.parametrize("canary", [one for one in CANARIES if one.kind in OF_THE_CALLER], ids=lambda one: one.name)
def test_what_the_caller_hands_on_changes_the_queries_at_most(bench: Bench, canary: Canary, obeyed: bool) -> None:
    """The request names years and stars, so no plan moves them; who judges never sees the feedback nor an earlier round."""
    record, field = carrying("", canary.kind), "user_feedback" if canary.kind == "feedback" else "earlier_rounds"
    before = bench.ran(record, honest)
    after = bench.ran(record, gullible(canary.kind) if obeyed else honest, **handed(canary))
    assert canary.text[:4] in str(after.of(field)[0].data[field])
    plan, planned = after.answer.strategy, before.answer.strategy
    assert plan is not None
    assert planned is not None
    free = {"user_feedback", "earlier", *(("queries", "expanded_keywords") if obeyed else ())}
    assert plan.model_dump(exclude=free) == planned.model_dump(exclude=free)
    assert len(plan.expanded_keywords) <= 3  # of a balanced search
    assert (plan.constraints.years.min, plan.constraints.stars.min) == (2000, 1000)
    assert set(after.where) == set(before.where)  # the filters of the request
    nothing_leaves_the_fence(before, after)
    assert {frozenset(one.data) for one in after.requests[1:]} == {frozenset(one.data) for one in before.requests[1:]}
    assert after.scores() == before.scores()
    if not obeyed:
        assert after.answer.hits == before.answer.hits
        assert sorted(one.user for one in after.requests[1:]) == sorted(one.user for one in before.requests[1:])


def handed(canary: Canary) -> dict[str, Any]:
    """In the place of the request that its kind names."""
    if canary.kind == "feedback":
        return {"user_feedback": canary.text}
    return {"previous_strategies": [{"queries": [{"text": canary.text, "boolean_query": canary.text}], "user_feedback": canary.text}]}


def test_there_are_at_least_forty() -> None:
    """Two of them only are neither recognised nor read alone."""
    assert len(SHARED_CALL) == 2
    assert len({one.text for one in CANARIES}) == len({one.name for one in CANARIES}) == len(CANARIES) >= 40
    query_words = {*words("statins cholesterol")}
    assert not any(query_words & set(words(one.text)) for one in CANARIES)  # or it would be found by other words than before
