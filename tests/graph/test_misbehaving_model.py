"""Whatever a model's server does, at whichever node: a complete answer, a failure that names node and cause, no call too many.

All over the compiled graph and the real client. Only a rejected key ends a run.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from outrider.graph.pipeline import build
from outrider.interfaces.cli import run as command
from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.model import RunSettings, Settings
from outrider.settings.sections import CacheSettings
from outrider.state.pipeline import RunContext
from outrider.state.records import Record, Repository
from outrider.state.response import SearchResponse
from support.chat_client import KEY, llm_settings
from support.chat_server import ChatServer, Reply, Request
from support.fakes import NOON, Shelf, doi, no_reranker, paper

LATE_S = 3.0
LIVER = "Aspirin and acute liver injury in adults"
ABSTRACT = "Aspirin harms the liver at high doses. Grade {}."
ANN: dict[str, Any] = {"authors": ["Smith, Ann"], "abstract": ABSTRACT.format(0.9)}
TOPICS = ("migraine", "pregnancy", "stroke", "diabetes", "surgery", "asthma", "dentistry", "cancer", "gout", "fever", "travel")
GRADES = (0.8, 0.7, 0.7, 0.6, 0.6, 0.5, 0.5, 0.4, 0.4, 0.4, 0.1)
"""The last one is below the threshold."""
RECORDS: tuple[Record, ...] = (
    paper("pre", f"{LIVER}: a cohort study (preprint)", abstract=ANN["abstract"]),
    paper("pub", f"{LIVER}: a cohort study", identifiers=doi("10.1000/x"), year=2021, **ANN),
    *(
        paper(f"w{at}", f"Aspirin in {topic}", abstract=ABSTRACT.format(grade), year=2000 + at)
        for at, (topic, grade) in enumerate(zip(TOPICS, GRADES, strict=True))
    ),
    *(Repository(doc_id=f"o/{name}", title=name, description=ABSTRACT.format(0.8), stars=900) for name in ("dose", "pill", "serum")),
    Repository(doc_id="o/toy", title="toy", description=ABSTRACT.format(0.8), stars=3),
)
IDS = sorted(one.doc_id for one in RECORDS)
PLAN = {
    "topic": "aspirin and the liver",
    "concepts": ["aspirin", "liver"],
    "intent_type": "general",
    "queries": [
        {"text": "aspirin liver", "keywords": ["aspirin", "liver"], "synonyms": [], "boolean_query": "aspirin AND liver"},
        {"text": "aspirin liver doses", "keywords": ["aspirin", "doses"], "synonyms": [], "boolean_query": "aspirin AND doses"},
    ],
    "expanded_keywords": ["hepatic", "enzyme"],
}
NODES = {
    "translator": ("translator",),
    "dedup": ("dedup",),
    "papers": ("papers",),
    "repositories": ("repositories",),
    "the whole scorer": ("papers", "repositories"),
}
WELL = {"translator": 1, "dedup": 1, "papers": 2, "repositories": 3}
"""Who asks, in their order, and how often in a run in which nothing goes wrong."""
LATER = {who: ["fine_scorer"] for who in ("papers", "repositories", "the whole scorer")} | {
    "translator": ["translator", "dedup", "fine_scorer"],
    "dedup": ["dedup", "fine_scorer"],
}
"""Which nodes have no model from one on."""
numbers = count()


def asker(request: Request) -> str:
    """Which part of the graph asks."""
    kinds = {"blocks": "dedup", "papers": "papers", "repository": "repositories"}
    return next((kinds[key] for key in kinds if key in request.data), "translator")


def grade(text: str) -> float:
    match = re.search(r"Grade (\d\.\d+)", text)
    assert match, text
    return float(match.group(1))


def well(request: Request) -> Reply:
    """The answer of a good model."""
    data = request.data
    match asker(request):
        case "dedup":
            same = [one["id"] for block in data["blocks"] for one in block if one["title"].startswith(LIVER)]
            return Reply({"groups": [same]})
        case "papers":
            return Reply({"results": [{"paper_id": one["id"], "relevance_score": grade(one["snippet"])} for one in data["papers"]]})
        case "repositories":
            return Reply({"relevance": grade(data["repository"]["description"]), "documentation": 7, "ease_of_use": 7})
        case _:
            return Reply(PLAN)


@dataclass(frozen=True)
class Misbehaviour:
    """What becomes of a good reply. `error` is empty where the client mends it."""

    name: str
    twist: Callable[[Reply], Reply]
    error: str = ""
    message: str = ""
    once: bool = False
    closes: bool = False
    """Whether no later call is to be made, either."""
    unread: bool = False
    """Whether the provider's figures never arrive."""

    def costs(self, node: str) -> tuple[str, ...]:
        """Which parts fail by it. Wrong ids matter only where ids distinguish works; elsewhere nothing follows."""
        if self.name == "wrong ids":
            return tuple(who for who in NODES[node] if who == "papers")
        return NODES[node] if self.error else ()


def busy(seconds: str) -> Callable[[Reply], Reply]:
    return lambda _: Reply("slow down", status=429, headers={"Retry-After": seconds})


def wrong_ids(good: Reply) -> Reply:
    """Foreign names of works, groups and sources."""
    content = dict(good.content)
    if "results" in content:
        content["results"] = [{**one, "paper_id": f"w{at}"} for at, one in enumerate(content["results"])]
    if "groups" in content:
        content["groups"] = [["r98", "r99"], ["pre", "pub"]]
    return replace(good, content={**content, "id": "someone/else", "sources": ["evil"]})


def prose(good: Reply) -> Reply:
    return replace(good, content=f"Sure {{smile}}! Here it is:\n```json\n{json.dumps(good.content)}\n```\nAsk me for [more].")


def unknown_fields(good: Reply) -> Reply:
    """In the answer, in its parts, and around it."""
    content = {**good.content, "confidence": {"of": [1, None]}, "thoughts": "x"}
    if "results" in content:
        content["results"] = [{**one, "rank": 1, "why": None} for one in content["results"]]
    message = {"role": "assistant", "content": json.dumps(content), "reasoning_content": "hm", "mood": 7}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "weather": "fine"}
    used = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "queue_time": 0.5}
    return replace(good, raw=json.dumps({"choices": [choice], "usage": used, "x_provider": {"id": 1}}).encode())


TABLE = (
    Misbehaviour("late", lambda good: replace(good, delay_s=60.0), "ChatUnavailable", "did not answer within 3 s", unread=True),
    Misbehaviour("429, short wait", busy("0.05"), once=True),
    Misbehaviour("429, short wait, for ever", busy("0.05"), "ChatUnavailable", "is busy or failed (429)"),
    Misbehaviour("429, long wait", busy("3600"), "ChatUnavailable", "takes no calls until", closes=True),
    Misbehaviour("500 always", lambda _: Reply("boom", status=500), "ChatUnavailable", "500: boom", unread=True),
    Misbehaviour("500 once", lambda _: Reply("boom", status=500), once=True, unread=True),
    Misbehaviour("cut stream", lambda good: replace(good, cut=True), "ChatUnavailable", "broke the connection", unread=True),
    Misbehaviour("cut stream once", lambda good: replace(good, cut=True), once=True, unread=True),
    Misbehaviour("invalid JSON", lambda good: replace(good, content='{"results": [{"paper_id": p1, '), "BadAnswer", "no JSON object"),
    Misbehaviour("no completion", lambda _: Reply(raw=b'{"choices": ['), "BadAnswer", "llm.base_url", unread=True),
    Misbehaviour("wrong ids", wrong_ids, "BadAnswer", "gave no usable score"),
    Misbehaviour("prose around JSON", prose),
    Misbehaviour("refusal", lambda _: Reply("", refusal="I can't judge that."), "BadAnswer", "I can't judge that."),
    Misbehaviour("empty", lambda good: replace(good, content=""), "BadAnswer", "the answer is empty"),
    Misbehaviour(
        "10 MB", lambda good: replace(good, content={**good.content, "note": "x" * 10_000_000}), "BadAnswer", "1,048,576 bytes", unread=True
    ),
    Misbehaviour("no usage told", lambda good: replace(good, usage=None)),
    Misbehaviour("unknown fields", unknown_fields),
)
NAMED = {one.name: one for one in TABLE}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a call is tried again."""
    monkeypatch.setattr("outrider.models.chat.endpoint_errors.SHORT_PAUSE_S", 0.01)


@dataclass
class Script:
    """Answers well, but misbehaves for some callers; records the usage it reported, None where nothing can have arrived."""

    misbehaviour: Misbehaviour | None = None
    at: tuple[str, ...] = ()
    reported_usage: list[tuple[int, int] | None] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    together: bool = False
    """Whether it misbehaves only when all of those callers have asked, so that none finds the endpoint closed."""
    _all_asked: threading.Event = field(default_factory=threading.Event)

    def __call__(self, request: Request) -> Reply:
        who, good, bad = asker(request), well(request), self.misbehaviour
        if bad is None or who not in self.at or (bad.once and who in self.done):
            self.reported_usage.append(good.usage)
            return good
        self.done.add(who)
        if self.together:
            if self.done == set(self.at):
                self._all_asked.set()
            assert self._all_asked.wait(60)
        reply = bad.twist(good)
        refused = 400 <= reply.status < 500
        self.reported_usage.append((0, 0) if refused else None if bad.unread else reply.usage)
        return reply


@dataclass(frozen=True)
class Ran:
    answer: SearchResponse
    state: dict[str, Any]
    server: ChatServer
    script: Script

    @property
    def calls_by_asker(self) -> Counter[str]:
        return Counter(map(asker, self.server.requests))

    @property
    def messages(self) -> str:
        """All messages of the answer about what was not done."""
        return "\n".join([*(one.message for one in self.answer.failures), *(one.why for one in self.answer.bypassed)])


async def searched(script: Script, context: RunContext | None = None, **llm: Any) -> Ran:
    """One run over a server of its own. The model's name is new each time: what one run learns of it is nothing to the next."""
    model = f"scripted-{next(numbers)}"
    with ChatServer(script) as server:
        llm_fields = {"model": model, "prices": {model: "1/10"}, "score_all": True, "timeout_s": 600.0} | llm
        shelf = Shelf(list(RECORDS))
        services = Services(
            Settings(llm=llm_settings(server, **llm_fields), cache=CacheSettings(translations_s=0.0), run=RunSettings(run_timeout_s=600.0)),
            clock=lambda: NOON,
            shelf=shelf,
            sources=(shelf,),
            reranker=no_reranker,
        )
        await services.warm()
        state: dict[str, Any] = {"query": "aspirin liver", "mode": "discovery"}
        request = {"query": "aspirin liver", "top_k": 50}
        async for part in build(services).astream(request, context=context or RunContext(), stream_mode="updates"):
            for update in part.values():
                state |= update
        answer = SearchResponse.model_validate({name: state[name] for name in SearchResponse.model_fields if name in state})
        return Ran(answer, state, server, script)


def complete(ran: Ran) -> None:
    """All is there, and usage matches the requests and the reported tokens."""
    accounted(ran)
    metered(ran)


def accounted(ran: Ran) -> None:
    """Hits, and every record accounted for once; facets, context and hash."""
    answer, candidates = ran.answer, ran.state["candidates"]
    hits = [hit.doc_id for hit in answer.hits]
    below = [one.record.doc_id for one in candidates if one.record.doc_id not in hits]
    folded = [fold.doc_id for one in candidates for fold in one.duplicates]
    rejected = [one.doc_id for one in ran.state["rejected"]]
    assert sorted([*hits, *below, *folded, *rejected]) == IDS
    assert all(one.scored_by == "model" and one.score < 0.3 for one in candidates if one.record.doc_id in below)
    assert rejected == ["o/toy"]
    assert answer.total_candidates == len(candidates) + len(rejected)
    assert answer.total_found == len(hits) > 10
    assert sum(answer.facets.by_year.values()) == sum(hit.year is not None for hit in answer.hits)
    texts = {hit.doc_id: hit.original_text for hit in answer.hits}
    assert answer.context.units
    assert all(unit.text == texts[unit.doc_id][unit.start : unit.end] for unit in answer.context.units)
    assert len(answer.provenance_hash) == 64
    assert "distiller" in answer.timings_ms


def metered(ran: Ran) -> None:
    usage, reported = ran.answer.usage, [one for one in ran.script.reported_usage if one is not None]
    assert (usage.calls, usage.untold_calls) == (len(ran.server.requests), len(ran.script.reported_usage) - len(reported))
    assert (usage.input_tokens, usage.output_tokens) == (sum(one[0] for one in reported), sum(one[1] for one in reported))
    assert usage.cost_usd == pytest.approx((usage.input_tokens * 1 + usage.output_tokens * 10) / 1e6)
    by_node = {"translator": ran.calls_by_asker["translator"], "dedup": ran.calls_by_asker["dedup"]}
    by_node["fine_scorer"] = ran.calls_by_asker["papers"] + ran.calls_by_asker["repositories"]
    assert {node: one.calls for node, one in usage.by_node.items()} == {node: calls for node, calls in by_node.items() if calls}


async def test_without_misbehaviour_nothing_fails() -> None:
    ran = await searched(Script())
    complete(ran)
    assert (ran.answer.failures, ran.calls_by_asker) == ((), Counter(WELL))
    assert {hit.scored_by for hit in ran.answer.hits} == {"model"}
    assert "w10" not in {hit.doc_id for hit in ran.answer.hits}
    assert [fold.doc_id for hit in ran.answer.hits for fold in hit.duplicates] == ["pre"]


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("bad", TABLE, ids=lambda one: one.name)
async def test_a_misbehaving_model_costs_its_own_part_only(node: str, bad: Misbehaviour) -> None:
    script = Script(bad, NODES[node], together=bad.closes)
    ran = await searched(script, timeout_s=LATE_S if bad.name == "late" else 600.0)
    complete(ran)
    assert script.done == set(NODES[node])
    lost = bad.costs(node)
    for failure in ran.answer.failures:
        assert failure.error == bad.error
        assert bad.message in failure.message
        assert "scripted" in failure.message
    failed = [one.node for one in ran.answer.failures]
    if bad.closes:  # so that no later node can ask
        assert [name.removesuffix(".model") for name in failed] == LATER[node]
        return
    assert failed == ([part(lost)] if lost else [])
    assert {who: ran.calls_by_asker[who] for who in WELL if who not in NODES[node]} == {
        who: calls for who, calls in WELL.items() if who not in NODES[node]
    }
    fallbacks_stand_in(ran, lost)


def part(lost: tuple[str, ...]) -> str:
    """Whose failure it is; the scorer's own where no work is scored, and rules rank instead."""
    if len(lost) > 1:
        return "fine_scorer"
    return "fine_scorer.model" if lost[0] in {"papers", "repositories"} else f"{lost[0]}.model"


def fallbacks_stand_in(ran: Ran, lost: tuple[str, ...]) -> None:
    answer = ran.answer
    without = "rules" if len(lost) > 1 else "unscored"
    for kind, who in (("paper", "papers"), ("repository", "repositories")):
        assert {hit.scored_by for hit in answer.hits if hit.kind == kind} == {without if who in lost else "model"}
    assert answer.strategy is not None
    assert answer.strategy.made_by == ("rules" if "translator" in lost else "model")


@pytest.mark.parametrize("node", NODES)
async def test_a_call_that_would_outlast_the_run_is_given_up(node: str) -> None:
    """The nodes share out the time of the run; such a call is counted all the same, also one that was given up before it was sent."""
    late = Misbehaviour("outlasts the run", lambda good: replace(good, delay_s=60.0))
    ran = await searched(Script(late, NODES[node]), RunContext(run_timeout_s=2.0))
    accounted(ran)
    assert ran.answer.usage.calls >= len(ran.server.requests)
    assert [(one.node, one.error) for one in ran.answer.failures] == [(part(NODES[node]), "TimeoutError")]


@pytest.mark.parametrize("calls", range(7))
@pytest.mark.parametrize("name", ["", "500 always", "invalid JSON", "wrong ids"])
async def test_no_call_beyond_the_budget(name: str, calls: int) -> None:
    """A run without errors takes seven; each misbehaviour occurs at every node."""
    ran = await searched(Script(NAMED.get(name), tuple(WELL)), RunContext(max_calls=calls))
    complete(ran)
    assert len(ran.server.requests) == calls
    assert "llm.max_calls" in ran.messages


@pytest.mark.parametrize("usd", [0.000001, 0.01, 0.03, 0.06])
@pytest.mark.parametrize("name", ["", "no usage told", "500 always"])
async def test_no_call_that_might_cost_more_than_the_run_may(name: str, usd: float) -> None:
    ran = await searched(Script(NAMED.get(name), tuple(WELL)), RunContext(max_cost_usd=usd))
    complete(ran)
    usage = ran.answer.usage
    assert usage.cost_usd is not None
    assert usage.cost_usd + usage.untold_usd <= usd
    assert "llm.max_cost_usd" in ran.messages or ran.calls_by_asker == Counter(WELL)


async def test_a_bound_on_cost_cannot_be_kept_without_a_price() -> None:
    ran = await searched(Script(), RunContext(max_cost_usd=1.0), prices={})
    complete(ran)
    assert ran.server.requests == []
    assert "llm.prices" in ran.messages


@pytest.mark.parametrize("first", WELL)
async def test_a_rejected_key_ends_the_run(first: str) -> None:
    """From that node on the server takes it no more; no call is made after its answer."""
    at = tuple(WELL)[tuple(WELL).index(first) :]
    rejected = Misbehaviour("401", lambda _: Reply(f"Incorrect API key provided: {KEY}", status=401))
    ran = await searched(Script(rejected, at), concurrency=1)
    (failure,) = ran.answer.failures
    assert (failure.node, failure.error) == ("fine_scorer" if first in {"papers", "repositories"} else first, "KeyRejected")
    assert "llm.api_key" in failure.message
    assert KEY not in ran.answer.model_dump_json()
    assert sum(ran.calls_by_asker[who] for who in at) == 1
    assert not {"organizer", "rule_ranker"} & ran.answer.timings_ms.keys()
    assert (ran.answer.hits, len(ran.answer.provenance_hash)) == ((), 64)
    metered(ran)


@pytest.mark.parametrize("first", ["translator", "papers"])
def test_the_command_ends_with_4(first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "library"

    async def fill() -> None:
        library = await Library.open(folder, create=True)
        await library.upsert(RECORDS)
        library.close()

    asyncio.run(fill())
    rejected = Misbehaviour("401", lambda _: Reply("no such key", status=401))
    model = f"scripted-{next(numbers)}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with ChatServer(Script(rejected, tuple(WELL)[tuple(WELL).index(first) :])) as server:
        for name, value in {"MODEL": model, "BASE_URL": server.base_url, "API_KEY": KEY}.items():
            monkeypatch.setenv(f"OUTRIDER_LLM__{name}", value)
        assert command(["search", "aspirin liver", "-l", str(folder)]) == 4
        output = "".join(capsys.readouterr())
    assert "rejects the key" in output
    assert KEY not in output
