from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from outrider.interfaces.http.access import hash_key
from outrider.interfaces.http.openapi import SEARCH_ANSWER, SEARCH_EXAMPLES
from outrider.interfaces.http.rest import SearchBody
from outrider.state.plan import SearchPlan
from outrider.state.response import SearchResponse
from support.fakes import Shelf, paper
from support.http_app import ASPIRIN, STATINS, BlockingLibrary, open_client, services, until

LATER = {"Prefer": "respond-async"}
over_both_stores = pytest.mark.usefixtures("run_store")


def parse_events(text: str) -> list[tuple[int, str, Any]]:
    """(number, name, data) of each event."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "event" in fields:
            events.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return events


async def test_a_search_returns_the_whole_answer() -> None:
    async with open_client(services()) as client:
        answer = await client.post("/api/search", json={"query": "aspirin liver"})
    assert answer.status_code == 200
    assert SearchResponse.model_validate(answer.json()).hits[0].doc_id == "a"


async def test_a_request_may_lower_the_limits_of_the_run_but_not_raise_them() -> None:
    async with open_client(services()) as client:
        lower = await client.post("/api/search", json={"query": "aspirin", "run": {"max_calls": 0, "run_timeout_s": 5}})
        higher = await client.post("/api/search", json={"query": "aspirin", "run": {"max_calls": 10_000}})
    assert lower.status_code == 200
    assert (higher.status_code, higher.json()["errors"][0]["field"]) == (422, "run.max_calls")


WRONG: tuple[tuple[Any, str], ...] = (
    ({}, "query"),
    ({"query": "?"}, "query"),
    ({"query": "x", "top_k": 0}, "top_k"),
    ({"query": "x", "topk": 1}, "topk"),
    ({"query": "x", "filters": {"yeer": 1}}, "filters"),
    ({"query": "x", "sources": ["nobody"]}, "sources.0"),
    ({"query": "x", "run": {"max_calls": -1}}, "run.max_calls"),
    ([], ""),
)


async def test_an_invalid_request_is_422_and_names_the_field() -> None:
    async with open_client(services()) as client:
        for body, field in WRONG:
            answer = await client.post("/api/search", json=body)
            problem = answer.json()
            assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
            assert {"type", "title", "status", "detail", "instance", "errors"} == set(problem)
            assert problem["errors"][0].get("field", "") in (field, field.removesuffix(".0"))


async def test_a_misspelt_field_names_the_one_that_was_meant() -> None:
    async with open_client(services()) as client:
        wrong = (await client.post("/api/search", json={"query": "aspirin", "topk": 1, "run": {"max_call": 1}})).json()
    assert wrong["detail"] == "run.max_call: unknown field; topk: unknown field; did you mean 'top_k'?"


@over_both_stores
async def test_an_asynchronous_search_has_an_id_a_location_and_an_answer() -> None:
    async with open_client(services()) as client:
        accepted = await client.post("/api/search", json={"query": "aspirin liver"}, headers=LATER)
        place = accepted.headers["location"]
        await client.get(f"{place}/events")  # until it has ended
        done = await client.get(place)
    assert (accepted.status_code, accepted.headers["preference-applied"]) == (202, "respond-async")
    assert place == f"/api/search/{accepted.json()['id']}"
    assert done.json()["status"] == "done"
    assert SearchResponse.model_validate(done.json()["response"]).hits[0].doc_id == "a"


@over_both_stores
async def test_a_client_that_prefers_to_wait_gets_a_quick_answer_directly() -> None:
    shelf = BlockingLibrary([ASPIRIN])
    async with open_client(services(shelf=shelf)) as client:
        late = await client.post("/api/search", json={"query": "aspirin"}, headers={"Prefer": "respond-async, wait=1"})
        shelf.let.set()
        quick = await client.post("/api/search", json={"query": "aspirin"}, headers={"Prefer": "respond-async; wait=60"})
    assert (late.status_code, quick.status_code) == (202, 200)


@over_both_stores
async def test_events_report_nodes_counts_and_first_hits_and_end_with_the_answer() -> None:
    async with open_client(services()) as client:
        place = (await client.post("/api/search", json={"query": "aspirin liver"}, headers=LATER)).headers["location"]
        answer = await client.get(f"{place}/events")
    events = parse_events(answer.text)
    names = [name for _, name, _ in events]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [number for number, _, _ in events] == list(range(1, len(events) + 1))
    assert (names[0], names[-1]) == ("started", "response")
    assert [data["node"] for _, name, data in events if name == "finished"][:2] == ["translator", "scout"]
    first = next(data for _, name, data in events if name == "hits")
    assert (first["node"], first["total"], first["hits"][0]["doc_id"]) == ("scout", 1, "a")
    assert names.index("hits") < names.index("response")
    assert next(data for _, name, data in events if name == "sources")["sources"][0]["status"] == "ok"
    assert SearchResponse.model_validate(events[-1][2]).hits[0].doc_id == "a"


@over_both_stores
async def test_events_describe_each_work_once_and_no_more_works_than_requested() -> None:
    works = [paper(f"p{number}", f"Aspirin and the liver, part {number}", abstract="Aspirin. " * 500) for number in range(40)]
    async with open_client(services(*works)) as client:
        place = (await client.post("/api/search", json={"query": "aspirin liver", "top_k": 3}, headers=LATER)).headers["location"]
        text = (await client.get(f"{place}/events")).text
    events = parse_events(text)
    lists = [data["hits"] for _, name, data in events if name == "hits"]
    full = [hit["doc_id"] for hits in lists for hit in hits if "title" in hit]
    assert len(lists) > 3
    assert all(len(hits) == 3 and set(hits[0]) >= {"doc_id", "rank", "score", "scored_by", "reason"} for hits in lists)
    assert len(full) == len(set(full)) == len({hit["doc_id"] for hits in lists for hit in hits})
    assert len(text) < len(json.dumps(events[-1][2])) + 10_000


@over_both_stores
async def test_the_first_hits_are_reported_before_the_search_ends() -> None:
    """While a node after the scout is blocked, the hits of the scout are already sent."""
    reranked_services = services()
    shelf = asyncio.Event()

    async def waits(*, asked: bool = False) -> tuple[None, str]:
        await shelf.wait()
        return None, "none"

    reranked_services.reranker = waits
    async with open_client(reranked_services) as client:
        run_id = (await client.post("/api/search", json={"query": "aspirin"}, headers=LATER)).json()["id"]
        run = await client.application.runs.find(run_id, "")  # type: ignore[attr-defined]
        names = []
        async for _, one in run.follow():
            names.append(one.name)
            if one.name == "hits":
                shelf.set()
    assert names[-1] == "response"


@over_both_stores
async def test_a_reconnecting_client_gets_the_events_after_its_last_one() -> None:
    async with open_client(services()) as client:
        place = (await client.post("/api/search", json={"query": "aspirin"}, headers=LATER)).headers["location"]
        whole = parse_events((await client.get(f"{place}/events")).text)
        rests = [
            parse_events((await client.get(f"{place}/events", headers={"Last-Event-ID": last_id})).text) for last_id in ("0", "1", "5", "x")
        ]
        over = await client.get(f"{place}/events", headers={"Last-Event-ID": str(len(whole))})
    assert rests == [whole, whole[1:], whole[5:], whole]
    assert over.status_code == 204


@over_both_stores
async def test_a_search_can_be_stopped() -> None:
    shelf = BlockingLibrary([ASPIRIN])
    async with open_client(services(shelf=shelf)) as client:
        place = (await client.post("/api/search", json={"query": "aspirin"}, headers=LATER)).headers["location"]
        await until(lambda: shelf.begun > 0)
        stopped = await client.delete(place)
        events = parse_events((await client.get(f"{place}/events")).text)
        state = (await client.get(place)).json()
    assert (stopped.status_code, events[-1][1], state["status"], shelf.stopped) == (204, "cancelled", "cancelled", 1)


@over_both_stores
async def test_a_bug_in_a_search_is_an_internal_error_and_the_log_has_the_details(caplog: pytest.LogCaptureFixture) -> None:
    async with open_client(services(shelf=Shelf([ASPIRIN], error=KeyError("secret inside")))) as client:
        sync = await client.post("/api/search", json={"query": "aspirin"})
        place = (await client.post("/api/search", json={"query": "aspirin"}, headers=LATER)).headers["location"]
        events = parse_events((await client.get(f"{place}/events")).text)
        remote = await client.post("/search/invoke", json={"input": {"query": "aspirin"}})
    for problem in (sync.json(), events[-1][2], remote.json()):
        assert (problem["status"], problem["type"]) == (500, "urn:outrider:problem:internal")
        assert "secret inside" not in json.dumps(problem)
        assert problem["instance"].removeprefix("urn:uuid:") in caplog.text
    assert "secret inside" in caplog.text


async def test_answers_expire_and_their_number_is_limited() -> None:
    now = [0.0]
    async with open_client(services(keep_runs=2, keep_s=10.0)) as client:
        runs = client.application.runs  # type: ignore[attr-defined]
        runs.clock = lambda: now[0]
        places = []
        for second in range(3):
            now[0] = float(second)
            place = (await client.post("/api/search", json={"query": "aspirin"}, headers=LATER)).headers["location"]
            await client.get(f"{place}/events")
            places.append(place)
        many = [(await client.get(place)).status_code for place in places]
        now[0] = 11.5
        old = [(await client.get(place)).status_code for place in places]
    assert (many, old) == ([404, 200, 200], [404, 404, 200])


@over_both_stores
async def test_a_search_belongs_to_the_key_that_started_it() -> None:
    keys = {"ann": hash_key("key of ann"), "bob": hash_key("key of bob")}
    async with open_client(services(api_keys=keys), needs_key=True) as client:
        ann, bob = ({"Authorization": f"Bearer key of {name}"} for name in keys)
        place = (await client.post("/api/search", json={"query": "aspirin"}, headers=ann | LATER)).headers["location"]
        statuses = [(await client.get(place, headers=headers)).status_code for headers in (ann, bob)]
        stopped = (await client.delete(place, headers=bob)).status_code
    assert (statuses, stopped) == ([200, 404], 404)


@over_both_stores
async def test_parallel_searches_do_not_mix() -> None:
    async with open_client(services(ASPIRIN, STATINS, at_once=4)) as client:
        words = ["aspirin", "statins"] * 10
        answers = await asyncio.gather(*(client.post("/api/search", json={"query": word}) for word in words))
    results = [(answer.json()["query"], answer.json()["hits"][0]["doc_id"]) for answer in answers]
    assert results == [("aspirin", "a"), ("statins", "b")] * 10


async def test_an_invalid_boolean_query_is_422_with_the_position() -> None:
    async with open_client(services()) as client:
        for path, body in (
            ("/api/search", {"query": "aspirin AND (liver", "mode": "systematic"}),
            ("/api/systematic", {"query": "aspirin AND (liver"}),
            ("/search/stream", {"input": {"query": "aspirin AND (liver", "mode": "systematic"}}),
        ):
            answer = await client.post(path, json=body)
            assert (answer.status_code, "column" in answer.json()["detail"]) == (422, True), answer.text


def test_the_library_is_described(address: str) -> None:
    about = httpx.get(f"{address}/api/library", timeout=60).json()
    assert (about["records"], about["by_kind"]["paper"]) == (4, 3)


def test_the_examples_of_the_description_are_valid() -> None:
    SearchResponse.model_validate(SEARCH_ANSWER)
    for example in SEARCH_EXAMPLES.values():
        SearchBody.model_validate(example["value"])


async def test_a_plan_has_intervals_and_refuses_what_a_search_refuses() -> None:
    async with open_client(services()) as client:
        planned = await client.post("/api/plan", json={"query": "aspirin liver", "top_k": 5})
        for body, field in WRONG:
            answer = await client.post("/api/plan", json=body)
            assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
            assert answer.json()["errors"][0].get("field", "") in (field, field.removesuffix(".0"))
    plan = SearchPlan.model_validate(planned.json())
    seconds = plan.find("seconds")
    assert planned.status_code == 200
    assert seconds is not None
    assert seconds.low < seconds.expected < seconds.high
