"""The tools through the official client: in memory, over standard input and output, and over streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import httpx2
import uvicorn
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

import outrider
from outrider.interfaces.http.access import hash_key
from outrider.interfaces.mcp import make_server, run_http, tool_calls
from outrider.interfaces.mcp.http import build_application
from outrider.interfaces.mcp.short_answers import format_result, shorten_answer, shorten_comparison, shorten_hit
from outrider.interfaces.mcp.stdio import make_error
from outrider.jobs.job_table import JobTable
from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.model import JobSettings
from outrider.settings.sections import ServeSettings
from outrider.state.comparison import Comparison
from outrider.state.errors import BadRequest
from outrider.state.hits import Hit
from outrider.state.response import ContextUnit, DistilledContext, SearchResponse
from support import chase_library
from support.chat_server import ChatServer, Reply
from support.fakes import paper
from support.systematic_runs import LibraryVersions, MemorySource, make_exact_services, make_papers

TOOLS = {
    "search",
    "plan",
    "resume_search",
    "systematic",
    "analyze",
    "compare",
    "library_ingest",
    "library_full_text",
    "library_search",
    "export",
    "code_links",
    "jobs",
    "jobs_change",
    "reference_candidates",
    "queue_reference_candidates",
}
MOST_CHARS = 8_000


@pytest.fixture
def services(shelved: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    configured = Services.from_file({"library.uri": str(shelved)})
    yield configured
    configured.close()


def read_text(result: Any) -> str:
    return "\n".join(one.text for one in result.content if one.type == "text")


def read_links(result: Any) -> list[str]:
    return [str(one.uri) for one in result.content if one.type == "resource_link"]


async def test_each_tool_has_schemas_and_answers_briefly_with_links_to_the_rest(services: Services, tmp_path: Path) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, of: float | None, message: str | None) -> None:
        steps.append((done, of, message))

    async with Client(make_server(services)) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        for one in tools.values():
            assert one.description
            assert one.output_schema
            assert "context" not in one.input_schema["properties"]
            assert one.input_schema["additionalProperties"] is False
            assert all("description" in message for message in one.input_schema["properties"].values())
        result = await client.call_tool("search", {"query": "aspirin liver", "top_k": 2}, progress_callback=progress)
        assert not result.is_error
        assert result.structured_content["hits"][0]["sentences"][0].startswith("Aspirin harms the liver at high doses.")
        assert len(read_text(result)) < MOST_CHARS
        assert [message for *_, message in steps][:3] == ["warming up", "translator", "scout"]
        assert [done for done, *_ in steps] == sorted({done for done, *_ in steps})
        whole = await client.read_resource(read_links(result)[0])
        assert json.loads(whole.contents[0].text)["provenance_hash"]
        again = await client.call_tool("search", {"query": "aspirin liver", "after": result.structured_content["answer"]})
        strategy = json.loads((await client.read_resource(read_links(again)[0])).contents[0].text)["strategy"]
        assert strategy["earlier"][0]["queries"][0]["text"] == "aspirin liver"
        exported = await client.call_tool("export", {"format": "ris", "answer": result.structured_content["answer"]})
        ris = (await client.read_resource(exported.structured_content["resource"])).contents[0].text
        assert "TI  - Aspirin and the liver" in ris
        own = await client.call_tool("library_search", {"query": "statins", "strategy": "SPARSE"})
        assert own.structured_content["hits"][0]["doc_id"] == "b"
        exact = await client.call_tool("library_search", {"query": "statins[ti] NOT x-client[ti]", "strategy": "SPARSE"})
        assert [note.partition(":")[0] for note in exact.structured_content["notes"]] == ["hyphen"]
        assert "Statins lower cholesterol" in (await client.read_resource(read_links(own)[0])).contents[0].text


async def test_jobs_are_listed_shown_paused_and_stopped(services: Services, tmp_path: Path) -> None:
    table = JobTable(str(tmp_path / "jobs.sqlite"))
    fetch = await asyncio.to_thread(table.queue, "fetch", "liver", "", {"n": 1})
    citations = await asyncio.to_thread(table.queue, "citations", "liver", "", {"n": 2})
    services.settings = services.settings.model_copy(update={"jobs": JobSettings(uri=table.uri)})
    async with Client(make_server(services)) as client:

        async def call(tool: str, **arguments: str) -> Any:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, read_text(result)
            return result.structured_content

        listed = await call("jobs", target="liver")
        assert ({job["id"] for job in listed["jobs"]}, listed["total"]) == ({fetch, citations}, 2)
        assert "outrider jobs run" in listed["notes"][0]
        assert (await call("jobs", job=fetch))["jobs"][0]["kind"] == "fetch"
        assert [job["id"] for job in (await call("jobs_change", action="pause", target="liver"))["jobs"]] == [fetch]
        assert (await call("jobs", status="paused"))["paused"] == ["liver"]
        assert [job["status"] for job in (await call("jobs_change", action="resume", target="liver"))["jobs"]] == ["queued"]
        stopped = await call("jobs_change", action="stop", target="liver", scope="target_queue_only")
        assert ([job["id"] for job in stopped["jobs"]], len(stopped["notes"])) == ([fetch], 1)
        unknown = await client.call_tool("jobs_change", {"action": "stop", "target": "lver"})
        assert (unknown.is_error, "no target or job 'lver'" in read_text(unknown)) == (True, True)


async def test_candidates_are_listed_briefly_and_queued(tmp_path: Path) -> None:
    own = await asyncio.to_thread(chase_library.make_services, tmp_path)
    (tmp_path / "names.txt").write_text("doi:10.5555/w.1\n", encoding="utf-8")
    async with Client(make_server(own)) as client:

        async def call(tool: str, **arguments: Any) -> Any:
            return await client.call_tool(tool, {"target": chase_library.TARGET, **arguments})

        listed = await call("reference_candidates", request="otters", limit=2)
        assert len(read_text(listed)) < MOST_CHARS
        found = listed.structured_content
        assert (len(found["candidates"]), found["total"], found["works"], found["round"]) == (2, 5, 2, 1)
        assert "is not complete" in " ".join(found["notes"])
        every = (await call("reference_candidates")).structured_content["candidates"]
        assert [one["id"] for one in every if one["retracted"]] == [chase_library.RETRACTED]
        preview = await call("queue_reference_candidates", exclude_ids=["w7"], dry_run=True)
        assert [preview.structured_content[name] for name in ("queued", "excluded", "jobs")] == [4, 1, []]
        queued = (await call("queue_reference_candidates", include_ids=[every[0]["id"]])).structured_content
        assert (queued["queued"], queued["ids"], len(queued["jobs"])) == (1, [every[0]["id"]], 1)
        assert (await client.call_tool("jobs", {"job": queued["jobs"][0]})).structured_content["jobs"][0]["kind"] == "fetch"
        for wrong in ({}, {"include_ids": ["w3"], "all_candidates": True}, {"include_ids": ["w99"]}):
            assert (await call("queue_reference_candidates", **wrong)).is_error
        for target in ("nothing", str(tmp_path / "names.txt")):
            answer = await client.call_tool("reference_candidates", {"target": target})
            assert (answer.is_error, "there is no thread" in read_text(answer)) == (True, True)
        own.settings = own.settings.model_copy(update={"serve": ServeSettings(read_only=True)})
        refused = await call("queue_reference_candidates", all_candidates=True)
        assert (refused.is_error, "serve.read_only" in read_text(refused)) == (True, True)


async def test_a_search_waits_for_the_user_and_goes_on(shelved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    own = {"library.uri": str(shelved), "threads.uri": str(tmp_path / "threads.sqlite")}
    services = await asyncio.to_thread(Services.from_file, own)
    try:
        async with Client(make_server(services)) as client:
            first = await client.call_tool("search", {"query": "aspirin liver", "checkpoints": ["plan"]})
            waiting = first.structured_content["waiting"]
            wrong = await client.call_tool("resume_search", {"thread": waiting["thread"], "answer": {"sources": ["pubmed"]}})
            foreign = await client.call_tool("resume_search", {"thread": "liver", "answer": {}})
            queries = {"queries": [{"text": "statins cholesterol"}]}
            done = await client.call_tool("resume_search", {"thread": waiting["thread"], "answer": queries})
    finally:
        services.close()
    assert (first.structured_content["hits"], waiting["queries"][0]["text"]) == ([], "aspirin liver")
    assert (wrong.is_error, "'pubmed' is none of library" in read_text(wrong)) == (True, True)
    assert (foreign.is_error, "no search waits" in read_text(foreign)) == (True, True)
    assert (done.structured_content["hits"][0]["doc_id"], done.structured_content["waiting"]) == ("b", None)


def test_a_short_comparison_names_retractions_and_what_failed() -> None:
    work = {"target": "doi:10.1000/x", "doc_id": "x", "title": "Livers"}
    comparison = Comparison.model_validate({
        "kind": "paper",
        "works": [{**work, "key": "[1]"}, {**work, "key": "[2]", "notices": [{"kind": "retracted", "doi": "10.1000/y"}]}],
        "facts": [{"name": "authors", "values": [["Doe, Jane", "Roe"], None]}],
        "failures": [{"node": "evidence", "error": "TimeoutError", "message": "out of time"}],
    })  # fmt: skip
    short = shorten_comparison(comparison)
    assert short.notices == ["[2] Retracted (doi:10.1000/y)"]
    assert short.facts == {"authors": ["Doe, Jane | Roe", None]}
    assert short.notes == ["evidence: out of time"]


def test_a_short_answer_says_whether_sentences_answer_and_keeps_code() -> None:
    code = "def call():\n    retry()"
    text = f"Weak. {code}"
    units = [
        ContextUnit(doc_id="a", key="[1]", start=0, end=5, text="Weak.", score=0.1, why="best"),
        ContextUnit(doc_id="a", key="[1]", start=6, end=len(text), text=code, score=0.2, kind="code", why="best"),
    ]
    spans = tuple((unit.start, unit.end) for unit in units)
    fields: dict[str, Any] = {"kind": "repository", "title": "T", "score": 0.5}
    perhaps = Hit(rank=1, doc_id="a", answers="perhaps", original_text=text, spans=spans, **fields)
    no = Hit(rank=2, doc_id="b", answers="no", summary="About B.", **fields)
    answer = SearchResponse(query="q", mode="discovery", hits=(perhaps, no), context=DistilledContext(units=tuple(units)))
    short = shorten_answer(answer, "x")
    assert [(hit.answers, hit.sentences, hit.about) for hit in short.hits] == [("perhaps", ["Weak.", code], ""), ("no", [], "About B.")]
    assert short.notes == ["No sentence in these 2 works clearly answers the question; they are the nearest."]
    assert "answers perhaps" in format_result(short)
    certain = answer.model_copy(update={"hits": (perhaps.model_copy(update={"answers": "yes"}), no)})
    assert shorten_answer(certain, "x").notes == []
    none = shorten_answer(answer.model_copy(update={"hits": (no,)}), "x")
    assert none.notes == ["No sentence in this work answers the question; it is the nearest."]


def test_a_short_answer_has_the_best_sentences_in_the_order_of_the_text() -> None:
    text = "".join(f"{number}." for number in range(9))
    units = [
        ContextUnit(doc_id="a", key="[1]", start=2 * number, end=2 * number + 2, text=f"{number}.", score=number / 10)
        for number in range(9)
    ]
    spans = tuple((unit.start, unit.end) for unit in units)
    hit = Hit(rank=1, doc_id="a", kind="paper", title="T", score=0.5, original_text=text, spans=spans)
    assert shorten_hit(hit, units).sentences == ["4.", "5.", "6.", "7.", "8."]


async def test_an_exact_run_is_reported_briefly(services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool("systematic", {"query": "aspirin[tiab] OR statins[tiab]"})
    assert not result.is_error, read_text(result)
    page = result.structured_content
    assert (page["total"], page["unique"], page["counts"], page["complete"], page["cursor"]) == (2, 2, {"library": 2}, True, "")
    assert [hit["doc_id"] for hit in page["hits"]] == ["a", "b"]
    assert page["first"] == page["hits"]
    assert read_text(result).count("Aspirin and the liver") == 1
    assert "score" not in read_text(result), "an exact run ranks nothing"
    assert os.path.isdir(result.structured_content["folder"])  # noqa: ASYNC240, PTH112
    assert result.structured_content["remarks"] == []


async def test_the_remarks_of_an_exact_run_reach_the_model(services: Services) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool("systematic", {"query": '1990:2030[dp] AND "x-client"[ti]'})
    hyphen, missing = result.structured_content["remarks"]
    assert hyphen.startswith("hyphen: line 1, column 19: ")
    assert "1 of 4 records has no year and was not matched; 1 of them fits the rest of the query" in missing
    assert missing in read_text(result)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {"query": "😀"}, "no letter or digit"),
        ("search", {"query": "x", "filters": {"year": {"$gtt": 1}}}, "$gtt"),
        ("search", {"query": "x", "top_k": 1000}, "top_k: Input should be less than or equal to 20"),
        ("search", {"query": "x", "topk": 3}, "unknown field 'topk'; did you mean 'top_k'?"),
        ("search", {"query": "x", "sources": "library"}, "sources: Input should be a valid list"),
        ("library_search", {"query": "x", "filter": {"year": 2020}}, "unknown field 'filter'; did you mean 'filters'?"),
        ("export", {"format": "riss"}, "format: Input should be 'bibtex'"),
        ("systematic", {}, "query: Field required"),
        ("serach", {"query": "x"}, "there is no tool 'serach'; did you mean 'search'?"),
        ("search", {"query": "x", "after": "none"}, "search again"),
        ("analyze", {"target": "nonsense"}, "names no repository"),
        ("library_ingest", {"targets": ["/etc/passwd"]}, "outrider ingest"),
        ("library_ingest", {"targets": ["file:///etc/passwd"]}, ""),
        ("library_search", {"query": "x", "strategy": "GUESS"}, "strategy"),
        ("export", {"answer": "none"}, "search again"),
        ("systematic", {"query": "aspirin[tiabs]"}, "did you mean 'tiab'"),
        ("systematic", {"query": "aspirin", "cursor": "7"}, "call without one"),
        ("systematic", {"query": "aspirin", "cursor": "../../etc:7:00000000"}, "call without one"),
        ("systematic", {"query": "aspirin", "cursor": "20260101-000000-00:7:00000000"}, "no systematic run"),
        ("systematic", {"query": "aspirin", "sources": ["pubmde"]}, "pubmde"),
    ],
)
async def test_errors_that_a_model_can_correct_are_reported_to_it(
    services: Services, tool: str, arguments: dict[str, Any], message: str
) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert message in read_text(result)
    assert not re.search("Traceback|pydantic", read_text(result))


async def read_pages(client: Client, query: str, size: int, **options: Any) -> list[dict[str, Any]]:
    """All pages, by cursor."""
    pages: list[dict[str, Any]] = []
    cursor = ""
    while not pages or cursor:
        result = await client.call_tool("systematic", {"query": query, "page_size": size, "cursor": cursor, **options})
        assert not result.is_error, read_text(result)
        pages.append(result.structured_content)
        cursor = pages[-1]["cursor"]
        assert len(pages) < 40
    return pages


def made_services(folder: Path, count: int, page: int) -> Services:
    """A library with so many numbered records; a run writes `page` of them at a time."""

    async def fill() -> None:
        library = await Library.open(folder / "library", create=True)
        await library.upsert([paper(f"n{at:03}", f"Aspirin trial {at}", year=2000 + at) for at in range(count)])
        library.close()

    asyncio.run(fill())
    return Services.from_file({"library.uri": str(folder / "library"), "systematic.page": page, "sources.offline": True})


@pytest.mark.parametrize(
    ("count", "page", "size", "limit"), [(23, 100, 5, 100), (23, 4, 7, 100), (23, 4, 7, 9), (12, 4, 4, 4), (1, 1, 1, 1)]
)
def test_pages_hold_every_hit_once_in_the_order_of_the_run(tmp_path: Path, count: int, page: int, size: int, limit: int) -> None:
    """Also where the run stops at its limit, and the cursor of its last hit resumes it."""
    services = made_services(tmp_path, count, page)

    async def read() -> list[dict[str, Any]]:
        async with Client(make_server(services)) as client:
            return await read_pages(client, "aspirin[ti]", size, limit=limit)

    pages = asyncio.run(read())
    assert [hit["doc_id"] for each in pages for hit in each["hits"]] == [f"n{at:03}" for at in range(count)]
    assert [hit["rank"] for each in pages for hit in each["hits"]] == [*range(1, count + 1)]
    assert all(len(each["hits"]) <= size for each in pages)
    assert (pages[-1]["complete"], pages[-1]["total"], pages[-1]["missing"]) == (True, count, [])
    assert len({each["folder"] for each in pages}) == 1
    assert outrider.verify(pages[0]["folder"]).sound
    services.close()


async def test_a_run_that_stops_at_its_limit_says_so(tmp_path: Path) -> None:
    services = await asyncio.to_thread(made_services, tmp_path, 9, 4)
    async with Client(make_server(services)) as client:
        result = await client.call_tool("systematic", {"query": "aspirin[ti]", "limit": 3})
        page = result.structured_content
        assert (page["total"], page["complete"], len(page["hits"])) == (4, False, 4)
        assert page["cursor"].split(":")[1] == "4"
        assert page["missing"]
        other = await client.call_tool("systematic", {"query": "aspirin", "cursor": page["cursor"]})
        assert "belongs to the query 'aspirin[ti]'" in read_text(other)
        elsewhere = await client.call_tool("systematic", {"query": "aspirin[ti]", "cursor": page["cursor"], "sources": ["pubmed"]})
        assert "belongs to a run of library" in read_text(elsewhere)
    services.close()


@pytest.mark.parametrize("sources", [["library"], ["pubmed"], ["library", "pubmed"], ["pubmed", "library"]])
async def test_a_run_whose_last_page_reaches_its_limit_is_complete(tmp_path: Path, sources: list[str]) -> None:
    """Nothing is left to read. Where another source follows, the run stops before it."""
    remote = {"pubmed": MemorySource("pubmed", list(make_papers(8, first=50)))}
    services = make_exact_services(tmp_path, LibraryVersions(list(make_papers(9))), remote)
    async with Client(make_server(services)) as client:

        async def call(**limit: int) -> Any:
            return (await client.call_tool("systematic", {"query": "aspirin[ti]", "sources": sources, **limit})).structured_content

        every = await call()
        assert every["complete"]
        assert await call(limit=every["total"]) | {"cursor": "", "folder": ""} == every | {"cursor": "", "folder": ""}
        stopped = await call(limit=1)
        assert (stopped["complete"], stopped["total"] < every["total"]) == (False, True)
    services.close()


FAILING = "aspirin[ti]"


async def test_a_failing_service_is_named_and_its_hits_come_after_a_resume(tmp_path: Path) -> None:
    """Reading until the cursor is empty ends, the field `resume` goes on, and no hit is missing in the end."""
    remote = {
        "pubmed": MemorySource("pubmed", list(make_papers(30)), fails_after=3),
        "openalex": MemorySource("openalex", list(make_papers(9, first=100))),
    }
    services = make_exact_services(tmp_path, LibraryVersions([]), remote)
    names = ["pubmed", "openalex"]
    async with Client(make_server(services)) as client:
        first = await read_pages(client, FAILING, 5, sources=names)
        assert first[-1]["complete"] is False
        assert "pubmed: 12 of 30 fetched: pubmed answered 503" in first[-1]["missing"][0]
        seen = [hit["doc_id"] for page in first for hit in page["hits"]]
        remote["pubmed"].fails_after = 0
        still = await client.call_tool("systematic", {"query": FAILING, "cursor": first[-1]["resume"]})
        assert (still.structured_content["complete"], still.structured_content["cursor"]) == (False, "")
        remote["pubmed"].fails_after = None
        again = await client.call_tool("systematic", {"query": FAILING, "cursor": first[-1]["resume"], "page_size": 5})
        assert not again.is_error, read_text(again)
        pages = [again.structured_content]
        assert "the run was resumed behind hit 8: hits 9 to 14 come again" in pages[0]["remarks"][0]
        moved = await client.call_tool("systematic", {"query": FAILING, "cursor": first[-1]["resume"]})
        assert "fits no hit of the run" in read_text(moved)
        while pages[-1]["cursor"]:
            arguments = {"query": FAILING, "cursor": pages[-1]["cursor"], "page_size": 5}
            pages.append((await client.call_tool("systematic", arguments)).structured_content)
    assert (pages[-1]["complete"], pages[-1]["resume"], pages[-1]["missing"]) == (True, "", [])
    seen += [hit["doc_id"] for page in pages for hit in page["hits"]]
    whole = make_exact_services(tmp_path / "whole", LibraryVersions([]), remote)
    assert {*seen} == {hit.doc_id async for hit in outrider.asystematic(FAILING, sources=names, services=whole)}


async def test_a_library_that_breaks_during_a_run_leaves_its_hits(tmp_path: Path) -> None:
    versions = LibraryVersions(make_papers(40), breaks_after=2)
    services = make_exact_services(tmp_path, versions)
    async with Client(make_server(services)) as client:
        arguments: dict[str, Any] = {"query": FAILING, "page_size": 4}
        pages = [(await client.call_tool("systematic", arguments)).structured_content]
        assert (pages[0]["total"], pages[0]["complete"]) == (10, False)
        assert "the run broke off: the library cannot be read any more" in pages[0]["missing"]
        versions.breaks_after = 0
        while pages[-1]["cursor"]:  # a client that reads on and on ends
            pages.append((await client.call_tool("systematic", {**arguments, "cursor": pages[-1]["cursor"]})).structured_content)
        assert [len(page["hits"]) for page in pages] == [4, 4, 2, 0]
        versions.breaks_after = None
        rest = await client.call_tool("systematic", {"query": FAILING, "cursor": pages[-1]["resume"], "page_size": 100})
    seen = [hit["doc_id"] for page in pages for hit in page["hits"]] + [hit["doc_id"] for hit in rest.structured_content["hits"]]
    assert (len(seen), len({*seen}), rest.structured_content["complete"]) == (26, 26, True)


async def test_a_changed_ledger_is_refused(tmp_path: Path) -> None:
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(40)))
    async with Client(make_server(services)) as client:
        page = (await client.call_tool("systematic", {"query": FAILING, "page_size": 5})).structured_content
        path = Path(page["folder"]) / "ledger.jsonl"
        path.write_text(path.read_text(encoding="utf-8").replace("part 7", "part 8"), encoding="utf-8")
        result = await client.call_tool("systematic", {"query": FAILING, "cursor": page["cursor"]})
    assert result.is_error
    assert "is not the line that was written there" in read_text(result)


async def test_a_run_links_to_its_ledger_and_exports(services: Services, tmp_path: Path) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool("systematic", {"query": "aspirin[tiab] OR statins[tiab]"})
        folder = Path(result.structured_content["folder"])
        texts = {one.rpartition("/")[2]: (await client.read_resource(one)).contents[0].text for one in read_links(result)}
        sizes = {one.name: one.size for one in result.content if one.type == "resource_link"}
    assert set(texts) == {"ledger", "manifest", "ris", "bibtex", "csv", "jsonl"}
    assert texts["ledger"] == (folder / "ledger.jsonl").read_text(encoding="utf-8")
    assert sizes["ledger"] == len(texts["ledger"].encode())
    assert json.loads(texts["manifest"])["total"] == 2
    assert texts["ris"].count("TY  - ") == texts["bibtex"].count("@") == len(texts["jsonl"].splitlines()) == 2
    (tmp_path / "hits.ris").write_text(texts["ris"], encoding="utf-8", newline="\n")
    assert (await asyncio.to_thread(outrider.verify, folder, tmp_path / "hits.ris")).sound


IDS = ["doi:10.1000/x", "github:a/b", "x:y", "a#b?c=d&e", "../../etc/passwd", "50% of ü/ß", "/abs", "{doc_id}", "a+b c", "%2F"]


async def test_any_record_of_the_library_is_read_by_its_link(tmp_path: Path) -> None:
    library = await Library.open(tmp_path / "library", create=True)
    await library.upsert([paper(doc_id, f"Aspirin {at}") for at, doc_id in enumerate(IDS)])
    library.close()
    services = await asyncio.to_thread(Services.from_file, {"library.uri": str(tmp_path / "library"), "sources.offline": True})
    async with Client(make_server(services)) as client:
        links = read_links(await client.call_tool("library_search", {"query": "aspirin", "strategy": "SPARSE", "top_k": 20}))
        read = [json.loads((await client.read_resource(one)).contents[0].text)["doc_id"] for one in links]
        assert sorted(read) == sorted(IDS)
        listed = {one.name: str(one.uri) for one in (await client.list_resources()).resources}
        assert set(listed) == {*IDS, "library"}
        assert set(links) == {*listed.values()} - {"outrider://library"}
        about = json.loads((await client.read_resource("outrider://library")).contents[0].text)
        assert (about["records"], about["by_kind"]) == (len(IDS), {"paper": len(IDS)})
    services.close()


async def test_without_a_library_no_record_is_listed(tmp_path: Path) -> None:
    services = await asyncio.to_thread(Services.from_file, {"library.uri": str(tmp_path / "none"), "sources.offline": True})
    async with Client(make_server(services)) as client:
        assert [one.name for one in (await client.list_resources()).resources] == ["library"]
        with pytest.raises(MCPError, match="outrider ingest"):
            await client.read_resource("outrider://library")
        nothing = await client.call_tool("search", {"query": "aspirin"})
        assert nothing.is_error
        assert "outrider ingest" in read_text(nothing)
        assert (await client.call_tool("systematic", {"query": "aspirin[ti]"})).is_error


@pytest.fixture
def damaged(shelved: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(shelved, tmp_path / "damaged"))
    for path in folder.rglob("*.manifest"):
        path.write_bytes(b"?")
    return folder


async def test_a_damaged_library_is_an_error_of_the_list(damaged: Path) -> None:
    services = await asyncio.to_thread(Services.from_file, {"library.uri": str(damaged), "sources.offline": True})
    async with Client(make_server(services)) as client:
        with pytest.raises(MCPError, match="library at"):
            await client.list_resources()
    services.close()


async def test_prompts_name_the_tools_of_the_server(services: Services) -> None:
    async with Client(make_server(services)) as client:
        prompts = {one.name: one for one in (await client.list_prompts()).prompts}
        assert set(prompts) == {"answer_question", "choose_software", "systematic_review"}
        for name, prompt in prompts.items():
            assert prompt.description
            assert all(argument.description for argument in prompt.arguments)
            values = {argument.name: f"the {argument.name}" for argument in prompt.arguments if argument.required}
            (message,) = (await client.get_prompt(name, values)).messages
            assert all(value in message.content.text for value in values.values())
            assert "{{" not in message.content.text
            assert set(re.findall(r"`(search|analyze|systematic)`", message.content.text)) <= TOOLS
            with pytest.raises(MCPError, match=next(iter(values))):
                await client.get_prompt(name, {})
        with pytest.raises(MCPError, match="did you mean 'answer_question'"):
            await client.get_prompt("answer_questions", {"question": "x"})
        with pytest.raises(MCPError, match="did you mean 'sources'"):
            await client.get_prompt("systematic_review", {"question": "x", "source": "pubmed"})


@pytest.mark.parametrize("waits", ["before the first node", "in a node"])
async def test_a_client_hears_of_a_slow_call_again_and_again(services: Services, monkeypatch: pytest.MonkeyPatch, waits: str) -> None:
    """Each notification has a higher number than the one before, as the protocol demands."""
    monkeypatch.setattr(tool_calls, "HEARTBEAT_S", 0.02)
    warm, rank = services.warm, services.reranker

    async def slow_warm(*use: Any, searches: bool = True) -> None:
        await asyncio.sleep(0.5 if waits.startswith("before") else 0)
        await warm(*use, searches=searches)

    async def slow_reranker(*, asked: bool = False) -> Any:
        await asyncio.sleep(0.5 if waits.startswith("in") else 0)
        return await rank(asked=asked)

    monkeypatch.setattr(services, "warm", slow_warm)
    monkeypatch.setattr(services, "reranker", slow_reranker)
    steps: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, of: float | None, message: str | None) -> None:
        steps.append((done, of, message))

    async with Client(make_server(services)) as client:
        await client.call_tool("search", {"query": "aspirin statins client"}, progress_callback=progress)
        count = len(steps)
        await asyncio.sleep(0.1)
        assert len(steps) == count, "a call that has ended is silent"
    numbers = [done for done, *_ in steps]
    assert numbers == sorted(set(numbers))
    assert all(of is not None and done < of for done, of, _ in steps)
    name = "warming up" if waits.startswith("before") else "reranker"
    assert sum((message or "").startswith(f"{name} (") for *_, message in steps) > 5


async def test_models_load_before_the_first_call(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def warm(*, searches: bool = True) -> None:
        begun.set()

    monkeypatch.setattr(services, "warm", warm)
    async with Client(make_server(services)):
        await asyncio.wait_for(begun.wait(), 5)


async def test_a_call_that_is_cancelled_leaves_the_models_loading(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    done = asyncio.Event()

    async def warm(*, searches: bool = True) -> None:
        await asyncio.sleep(0.3)
        done.set()

    monkeypatch.setattr(services, "warm", warm)
    async with Client(make_server(services)) as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.call_tool("search", {"query": "aspirin liver"}), 0.1)
        await asyncio.wait_for(done.wait(), 5)


@pytest.mark.skipif(
    shutil.which("mcp-inspector") is None, reason="mcp-inspector is not on PATH: npm install -g @modelcontextprotocol/inspector"
)
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tools/list"], "library_search"),
        (["resources/list"], "outrider://record/a"),
        (["resources/templates/list"], "outrider://run/{run}/ledger"),
        (["resources/read", "--uri", "outrider://record/pypi%3Ax"], "An HTTP client for Rust"),
        (["prompts/list"], "systematic_review"),
        (["prompts/get", "--prompt-name", "answer_question", "--prompt-args", "question=does it harm"], "does it harm"),
        (["tools/call", "--tool-name", "search", "--tool-arg", "query=aspirin liver"], "Aspirin harms the liver at high doses."),
        (["tools/call", "--tool-name", "systematic", "--tool-arg", "query=aspirin[tiab]"], "outrider://run/"),
    ],
)
def test_the_inspector_of_the_protocol_reads_everything(shelved: Path, tmp_path: Path, arguments: list[str], expected: str) -> None:
    command = ["mcp-inspector", "--cli", sys.executable, "-m", "outrider", "mcp", "--library", str(shelved), "--method", *arguments]
    done = subprocess.run(command, env=environ(shelved, tmp_path), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


async def test_an_offline_analysis_reports_the_reason(services: Services) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool("analyze", {"target": "a/b"})
    assert result.is_error
    assert "sources.offline" in read_text(result)


@pytest.mark.parametrize(
    "uri",
    [
        "outrider://result/none", "outrider://record/none", "outrider://record/..%2F..%2Fetc", "outrider://run/none/ledger",
        "outrider://run/..%2F..%2Fetc/manifest", "outrider://run/none/export/pdf",
    ],
)  # fmt: skip
async def test_a_missing_resource_is_an_error(services: Services, uri: str) -> None:
    async with Client(make_server(services)) as client:
        with pytest.raises(MCPError):
            await client.read_resource(uri)


def environ(shelved: Path, folder: Path) -> dict[str, str]:
    own = {
        "OUTRIDER_SOURCES__OFFLINE": "true",
        "OUTRIDER_LIBRARY": str(shelved),
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
    }
    return {**os.environ, **own}


PERIOD_S, DELAY_S = 0.1, 0.3
MCP_PROCESS = f"""
import os, sys
from outrider.interfaces.cli import run
from outrider.interfaces.mcp import tool_calls
assert tool_calls.HEARTBEAT_S == 5, "most clients give up after ten to sixty"
tool_calls.HEARTBEAT_S = {PERIOD_S}
print("pid", os.getpid(), file=sys.stderr, flush=True)
sys.exit(run(["mcp", "--offline"]))
"""


async def test_a_slow_model_over_standard_input_and_output(shelved: Path, tmp_path: Path) -> None:
    """A client outside is told in each period, also while models load; Ctrl-C ends the server though the client still listens."""
    with ChatServer(lambda _: Reply("late", delay_s=DELAY_S)) as server, (tmp_path / "stderr").open("w+") as errors:
        own = {"OUTRIDER_LLM__BASE_URL": server.base_url, "OUTRIDER_LLM__API_KEY": "k", "OUTRIDER_LLM__MODEL": "m"}
        env = {**environ(shelved, tmp_path), **own, "OUTRIDER_SOURCES__OFFLINE": "false"}
        command = StdioServerParameters(command=sys.executable, args=["-c", MCP_PROCESS], env=env)
        heard: list[float] = []
        messages: list[str | None] = []

        async def progress(done: float, of: float | None, message: str | None) -> None:
            heard.append(time.monotonic())
            messages.append(message)

        async with Client(stdio_client(command, errors)) as client:
            assert {one.name for one in (await client.list_tools()).tools} == TOOLS
            heard.append(time.monotonic())
            result = await client.call_tool("search", {"query": "aspirin liver"}, progress_callback=progress)
            heard.append(time.monotonic())
            errors.seek(0)
            pid = int(errors.read().split()[1])
            os.kill(pid, signal.SIGINT)
            await asyncio.to_thread(wait_for_end, pid)
    assert [hit["doc_id"] for hit in result.structured_content["hits"]] == ["a"]
    assert "pubmed" not in read_text(result), "--offline"
    assert sum((message or "").startswith("translator (") for message in messages) >= DELAY_S / PERIOD_S
    assert max(after - before for before, after in pairwise(heard)) < 6.5


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (
            r'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "\ud800"}}}',
            (2, -32700),
        ),
        (r'{"jsonrpc": "2.0", "id": "a", "method": "\udc00"}', ("a", -32700)),
        ("{bad", (None, -32700)),
        ("[]", (None, -32600)),
        (r'{"jsonrpc": "2.0", "method": "notifications/\ud800"}', None),
        (r'{"jsonrpc": "2.0", "id": 7, "result": "\ud800"}', None),
        ("\n", None),
    ],
)
def test_a_line_that_is_no_message_is_answered(line: str, answer: tuple[object, int] | None) -> None:
    with pytest.raises(ValidationError) as raised:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    error = make_error(raised.value)
    assert (error and (error.id, error.error.code)) == answer


async def test_a_call_with_half_a_character_gets_an_error_and_the_next_one_its_answer(shelved: Path, tmp_path: Path) -> None:
    """Over standard input and output, where the SDK drops what it cannot read."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider", "mcp", "--offline", stdin=PIPE, stdout=PIPE, env=environ(shelved, tmp_path)
    )
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    calls = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "liver \ud800"}}},
        {"id": 3, "method": "tools/list"},
    ]
    assert process.stdin
    assert process.stdout
    process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **call}) + "\n" for call in calls).encode())
    answers = {}
    async with asyncio.timeout(60):
        while len(answers) < 3:
            answers |= {(one := json.loads(await process.stdout.readline()))["id"]: one}
        process.stdin.close()
        await process.wait()
    assert "half a character" in answers[2]["error"]["message"]
    assert answers[3]["result"]["tools"]
    assert process.returncode == 0


def wait_for_end(pid: int) -> None:
    """Of a process that another thread waits for; at most 5 s."""
    ends_at = time.monotonic() + 5
    with suppress(ProcessLookupError):
        while time.monotonic() < ends_at:
            os.kill(pid, 0)
            time.sleep(0.02)
        pytest.fail("the process goes on")


@contextmanager
def serve_tools(services: Services) -> Iterator[str]:
    """Yields the address of the tools, served on a free port in a thread."""
    config = uvicorn.Config(build_application(make_server(services), services, "127.0.0.1"), port=0, log_level="critical", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(timeout=30)


async def test_over_http_only_with_the_right_key(shelved: Path) -> None:
    key = "outrider_test"
    values = {
        "library.uri": str(shelved),
        "sources.offline": True,
        "serve.authentication": "always",
        "serve.api_keys": {"me": hash_key(key)},
    }
    with serve_tools(await asyncio.to_thread(Services.from_file, values)) as address:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            assert {one.name for one in (await client.list_tools()).tools} == TOOLS
            result = await client.call_tool("search", {"query": "aspirin liver"})
            assert result.structured_content["hits"][0]["doc_id"] == "a"
        async with httpx2.AsyncClient(timeout=60) as http:
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            assert (await http.post(address, json=request)).status_code == 401
            assert (await http.post(address, json=request, headers={"Authorization": "Bearer wrong"})).status_code == 401
            assert (await http.post(address, json=request, headers={**headers, "Host": "evil.example"})).status_code == 400
            assert (await http.post(address, json=request, headers={**headers, "Origin": "https://evil.example"})).status_code == 403


@pytest.mark.parametrize(("host", "authentication"), [("0.0.0.0", "auto"), ("192.168.1.5", "auto"), ("127.0.0.1", "always")])
def test_another_address_than_loopback_needs_a_key(services: Services, host: str, authentication: str) -> None:
    own = services.settings.model_copy(update={"serve": ServeSettings.model_validate({"authentication": authentication})})
    with pytest.raises(BadRequest, match="outrider serve key"):
        run_http(Services(own), host, 0)


async def test_a_plan_predicts_and_searches_nothing(services: Services) -> None:
    async with Client(make_server(services)) as client:
        result = await client.call_tool("plan", {"query": "aspirin liver"})
        refused = await client.call_tool("plan", {"query": "?!"})
    assert "0 calls, no cost" in result.structured_content["summary"]
    assert {one["quantity"] for one in result.structured_content["estimates"]} == {"seconds", "calls", "cost_usd", "hits"}
    assert refused.is_error
