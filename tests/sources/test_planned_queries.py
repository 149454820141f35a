"""The Boolean half of a plan, as each service receives it over loopback."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from outrider.library.fusion import interleave, reciprocal_rank_fusion
from outrider.nodes.scout import Scout
from outrider.services.sources import make_sources
from outrider.settings.model import RunSettings
from outrider.state.intent import Constraints, NumberRange, PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState
from outrider.state.request import RetrieverType
from outrider.state.response import SourceReport
from support import fake_services
from support.fake_services import make_handler, settings
from support.fakes import NOON, Shelf
from support.http_server import Answer, Request, as_json, refusal, serving

PLANNED = PlannedQuery(
    text="drug induced liver injury",
    keywords=("drug", "liver injury"),
    boolean_query='("liver injury" OR hepatotoxicity) AND drug NOT alcohol',
)
SENT = {
    "pubmed": ("term", '("liver injury" OR hepatotoxicity) AND drug NOT alcohol', "drug liver injury"),
    "arxiv": (
        "search_query",
        '((all:"liver injury" OR all:hepatotoxicity) AND all:drug) OR (all:drug AND all:"liver injury")',
        None,
    ),
    "semantic_scholar": ("query", '("liver injury" | "hepatotoxicity") + "drug"', "drug liver injury"),
    "openalex": ("filter", 'title_and_abstract.search.exact:("liver injury" OR hepatotoxicity) AND drug', None),
    "github": ("q", "drug stars:>=10 archived:false", "drug liver injury stars:>=10 archived:false"),
}
"""The parameter, the Boolean request, and the one that follows if there are too few matches."""


async def run_scout(
    base_url: str, folder: Path, name: str, queries: tuple[PlannedQuery, ...] = (PLANNED,), within_s: float = 25.0, **constraints: Any
) -> tuple[list[SourceReport], list[str]]:
    """The rows of one service with its candidates' ids, at most 100 asked."""
    sources = [source for source in make_sources(settings(base_url, folder), Shelf()) if source.name == name]
    limits = Constraints(stars=NumberRange(min=10), **constraints)
    strategy = SearchStrategy(queries=queries, sources=(name,), strategies=tuple(RetrieverType), constraints=limits)
    state = PipelineState.model_validate({"query": "liver", "started_at": NOON}).model_copy(update={"strategy": strategy})
    scout = Scout(tuple(sources), reciprocal_rank_fusion, interleave, RunSettings(run_timeout_s=within_s), lambda: NOON)
    update = await scout(state, None)  # type: ignore[arg-type]
    rows = [row for row in update["sources"] if row.strategy != "updated"]
    return rows, [one.record.doc_id for one in update.get("candidates", ())]


def read_parameter(requests: list[Request], name: str) -> list[str]:
    return [request.query[name] for request in requests if name in request.query and request.query.get("sort") != "updated"]


@pytest.mark.parametrize("name", SENT)
async def test_a_service_gets_the_boolean_query_and_then_its_words(tmp_path: Path, name: str) -> None:
    """Three works match, of a hundred asked: the search by words follows, except at arXiv, which gets both in one request."""
    parameter, expected, then = SENT[name]
    async with serving(make_handler()) as server:
        (row,), _ = await run_scout(server.base_url, tmp_path, name)
    sent = read_parameter(server.requests, parameter)
    assert sent[0] == expected
    assert then is None or sent[1] == then
    assert (row.status, row.returned) == ("ok", 3)
    if name == "openalex":
        assert read_parameter(server.requests, "search") == ["drug liver injury"]
    if name == "semantic_scholar":
        assert [urlsplit(request.target).path.rpartition("/")[2] for request in server.requests] == ["bulk", "search"]


@pytest.mark.parametrize("name", ["pubmed", "semantic_scholar", "openalex"])
async def test_enough_matches_need_no_second_search(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_services, "EACH", range(1, 251))
    async with serving(make_handler()) as server:
        (row,), ids = await run_scout(server.base_url, tmp_path, name)
    searches = [request for request in server.requests if not request.path.endswith("efetch.fcgi")]
    assert (len(searches), row.returned, len(ids)) == (1, 100, 100)


@pytest.mark.parametrize("name", ["pubmed", "semantic_scholar", "openalex"])
async def test_years_limit_both_searches(tmp_path: Path, name: str) -> None:
    async with serving(make_handler()) as server:
        await run_scout(server.base_url, tmp_path, name, years=NumberRange(min=2015, max=2019))
    searches = [request for request in server.requests if not request.path.endswith("efetch.fcgi")]
    assert len(searches) == 2
    assert all("2015" in request.target and "2019" in request.target for request in searches)


@pytest.mark.parametrize("name", ["pubmed", "semantic_scholar", "openalex", "github"])
async def test_a_refused_boolean_query_costs_no_results(tmp_path: Path, name: str) -> None:
    parameter, expected, _ = SENT[name]
    answers = make_handler()

    def refusing(request: Request) -> Answer:
        return refusal(400, "invalid expression") if request.query.get(parameter) == expected else answers(request)

    async with serving(refusing) as server:
        (row,), _ = await run_scout(server.base_url, tmp_path, name)
    assert (row.status, row.returned) == ("ok", 3)
    assert "the Boolean query failed" in row.message


@pytest.mark.parametrize("name", ["pubmed", "semantic_scholar", "openalex", "github"])
async def test_a_boolean_query_that_is_not_answered_leaves_time_for_the_words(tmp_path: Path, name: str) -> None:
    parameter, expected, _ = SENT[name]
    answers = make_handler()

    def hanging(request: Request) -> Answer:
        answer = answers(request)
        return replace(answer, after_s=60.0) if request.query.get(parameter) == expected else answer

    async with serving(hanging) as server:
        (row,), _ = await run_scout(server.base_url, tmp_path, name, within_s=4.0)
    assert (row.status, row.returned) == ("ok", 3)
    assert "the Boolean query failed" in row.message


@pytest.mark.parametrize("name", ["pubmed", "semantic_scholar", "openalex"])
async def test_matches_stand_before_the_results_by_words(tmp_path: Path, name: str) -> None:
    """Each search has a work of its own; when the second one fails, the row is partial."""
    parameter, expected, _ = SENT[name]
    own: dict[bool, Answer] = {}
    for is_boolean, numbers in ((True, range(7, 8)), (False, range(1, 3))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fake_services, "EACH", numbers)
            request = Request("GET", f"/{name}/esearch.fcgi", {}, {}, b"", 0.0, "", 0)
            own[is_boolean] = make_handler()(request)

    def answer(request: Request) -> Answer:
        if request.path.endswith("efetch.fcgi"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(fake_services, "EACH", [int(number) for number in request.query["id"].split(",")])
                return make_handler()(request)
        return own[request.query.get(parameter) == expected]

    async with serving(answer) as server:
        _, ids = await run_scout(server.base_url, tmp_path / "a", name)
    assert [one[-1] for one in ids] == ["7", "1", "2"]
    own[False] = refusal(403)
    async with serving(answer) as server:
        (row,), ids = await run_scout(server.base_url, tmp_path / "b", name)
    assert (row.status, [one[-1] for one in ids]) == ("partial", ["7"])
    assert "the search by words failed" in row.message


def list_repositories(request: Request) -> Answer:
    words = {
        "o/one": "drug hepatotoxicity",
        "o/two": "drug prices",
        "o/three": "drug liver injury",
        "o/four": "drug liver injury by alcohol",
    }
    items = [{"full_name": name, "description": text, "stargazers_count": 100} for name, text in words.items()]
    is_boolean = "liver" not in request.query["q"]
    return as_json({"total_count": 4, "items": items if is_boolean else []})


async def test_matches_of_a_wider_expression_are_checked(tmp_path: Path) -> None:
    """GitHub joins no alternatives with other words, so `drug` is sent alone: a repository about prices is left out."""
    async with serving(make_handler(github=list_repositories)) as server:
        _, ids = await run_scout(server.base_url, tmp_path, "github")
    assert sorted(ids) == ["github:o/one", "github:o/three"]


async def test_what_the_query_excludes_is_left_out(tmp_path: Path) -> None:
    """arXiv, Semantic Scholar and OpenAlex get no NOT, because their matching is wider than ours."""
    one = PLANNED.model_copy(update={"boolean_query": "liver NOT arxiv"})
    async with serving(make_handler()) as server:
        (row,), ids = await run_scout(server.base_url, tmp_path, "arxiv", (one,))
    assert (ids, row.message) == ([], "3 hold what the query excludes")


async def test_a_boolean_query_that_cannot_be_read_leaves_the_words(tmp_path: Path) -> None:
    broken = PLANNED.model_copy(update={"boolean_query": "adj5 AND ((liver"})
    async with serving(make_handler()) as server:
        (row,), ids = await run_scout(server.base_url, tmp_path, "pubmed", (broken,))
    assert (row.status, len(ids)) == ("ok", 3)
    assert read_parameter(server.requests, "term") == ["drug liver injury"]
