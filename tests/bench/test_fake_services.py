"""The simulated services of benchmarks: real adapters read every answer, GitHub searches like the real one, the model fits our shapes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import chat, fake_services, github, scout, ten_requests
from bench.answers import Project, Work
from bench.served import HttpRequest, served
from outrider.nodes.fine_scorer.papers import PaperScores
from outrider.nodes.fine_scorer.repositories import RepositoryScore
from outrider.nodes.translator.model_plan import Draft
from outrider.prompts import fence
from outrider.services import Services
from outrider.state.intent import Constraints, NumberRange
from outrider.state.ports import SourceQuery

NOW = 1_795_000_000.0
KITES = [
    Project("sky/kite-kit", "Kites for React", stars=900, language="TypeScript", topics=("kite",), pushed_at="2026-01-01T00:00:00Z"),
    Project("sky/glider", "Gliders for React", stars=20, language="TypeScript", pushed_at="2026-05-01T00:00:00Z"),
    Project("sea/kite", "Kites for Vue", stars=5_000, language="JavaScript", pushed_at="2026-03-01T00:00:00Z", archived=True),
]


async def test_every_adapter_reads_the_answers_of_its_service(tmp_path: Path) -> None:
    """All works, and one by DOI where the service supports it."""
    with served(scout.fake_services(seconds=0.0, count=12)) as server:
        settings = fake_services.settings(server, "one", tmp_path)
        sources = settings.sources.model_copy(update={"web": settings.sources.web.model_copy(update={"enabled": False})})
        services = Services(settings.model_copy(update={"sources": sources}))
        remote_sources = [source for source in services.sources if source.name != "library"]
        assert {source.name for source in remote_sources} == set(fake_services.SERVICES)
        for source in remote_sources:
            constraints = Constraints(stars=NumberRange(min=50))
            query = SourceQuery("liver injury", source.strategies[0], None, 100, keywords=("liver", "injury"), constraints=constraints)
            answer = await source.search(query)
            assert len(answer.results) == 12, source.name
            assert all(one.record.title for one in answer.results)
            if "doi" in source.capabilities.identifiers:
                record = await source.get("doi", "10.1000/w3", 10.0)
                assert record is not None, source.name
                assert record.title.startswith("Report 3 ")
                assert await source.get("doi", "10.1000/none", 10.0) is None
        assert {call.parts[1] for call in server.log("one")} == {*fake_services.SERVICES[:6], "serpapi"}


@pytest.mark.parametrize(
    ("query", "sort", "expected"),
    [
        ("react kites", "", ["sky/kite-kit"]),
        ("kite", "stars", ["sea/kite", "sky/kite-kit"]),
        ("kite archived:false", "stars", ["sky/kite-kit"]),
        ("react", "updated", ["sky/glider", "sky/kite-kit"]),
        ("react kites OR gliders stars:>=50", "", ["sky/kite-kit"]),
        ('react kites OR "gliders for"', "", ["sky/glider", "sky/kite-kit"]),
        ("kite language:javascript stars:10..6000", "", ["sea/kite"]),
        ("react topic:kite", "", ["sky/kite-kit"]),
        ("react stars:<=100", "", ["sky/glider"]),
        ("nothing", "", []),
    ],
)
def test_github_matches_every_word_and_every_qualifier(query: str, sort: str, expected: list[str]) -> None:
    assert [one.full_name for one in github.search(query, sort, KITES)] == expected


@given(st.lists(st.floats(0, 100)), st.integers(1, 6))
def test_the_shortest_window_with_a_number_of_times(times: list[float], count: int) -> None:
    """Compared with trying all: the shortest window from any time that contains `count` of them."""
    stretches = [
        sorted(at for at in times if at >= first)[count - 1] - first for first in times if sum(at >= first for at in times) >= count
    ]
    assert fake_services.quickest(times, count) == min(stretches, default=float("inf"))


def test_each_room_has_its_own_addresses(tmp_path: Path) -> None:
    with served(fake_services.FakeServices((), (), {})) as server:
        one, other = (fake_services.settings(server, room, tmp_path).sources.github.base_url for room in ("one", "other"))
    assert one != other


def test_services_share_works_but_not_all() -> None:
    """A quarter is for the web alone; every other work is in at least one service."""
    works = [Work(number, "x") for number in range(24)]
    shared = fake_services.FakeServices(works, (), {}, shares=True)
    numbers_by_service = {
        name: {work.number for work in works if shared._holds(name, work)} for name in (*fake_services.SERVICES[1:], fake_services.WEB)
    }
    assert numbers_by_service["serpapi_google"] == numbers_by_service[fake_services.WEB] == set(range(0, 24, 4))
    assert set().union(*numbers_by_service.values()) == set(range(24))
    assert numbers_by_service["openalex"] != numbers_by_service["arxiv"]


def ask_model(data: object) -> dict[str, object]:
    body = {"model": "m", "messages": [{"role": "system", "content": "s" * 410}, {"role": "user", "content": fence(data)}]}  # type: ignore[arg-type]
    answer = chat.respond(json.dumps(body).encode())
    whole = json.loads(answer.body)
    assert whole["usage"]["prompt_tokens"] > 100
    return {"stage": answer.log_fields["stage"], "content": json.loads(whole["choices"][0]["message"]["content"])}


@pytest.mark.parametrize("request_", ten_requests.REQUESTS, ids=lambda one: one.text)
def test_the_model_answers_every_stage_in_its_shape(request_: ten_requests.Request) -> None:
    candidates, relevant_names = ten_requests.projects(request_, NOW)
    planned = ask_model({"request": request_.text, "search_mode": "balanced", "sources": []})
    draft = Draft.model_validate(planned["content"])
    assert (planned["stage"], len(draft.queries), len(draft.expanded_keywords)) == ("translator", 3, 3)
    papers = ask_model({"request": {"text": request_.text}, "papers": [{"id": "p1", "title": "Sorting"}]})
    assert [one.relevance_score for one in PaperScores.model_validate(papers["content"]).results] == [0.0]
    one = next(project for project in candidates if project.full_name in relevant_names)
    scored = ask_model({"request": {"text": request_.text}, "repository": {"name": one.full_name, "description": one.description}})
    assert RepositoryScore.model_validate(scored["content"]).relevance is not None


@pytest.mark.parametrize("request_", ten_requests.REQUESTS, ids=lambda one: one.text)
def test_relevant_projects_have_both_parts_and_others_do_not(request_: ten_requests.Request) -> None:
    """Deterministic, without a repeated name."""
    candidates, relevant_names = ten_requests.projects(request_, NOW)
    assert ten_requests.projects(request_, NOW) == (candidates, relevant_names)
    assert len({one.full_name for one in candidates}) == len(candidates) == ten_requests.PROJECTS
    assert len(relevant_names) == ten_requests.ANSWERING
    for project in candidates:
        text = project.description.lower()
        both = all(any(word in text for word in words) for words in (request_.first, request_.second))
        other_use = any(word in text for word in chat.OF_OTHER_USE)
        assert (project.full_name in relevant_names) <= (both and not other_use), project.description


def test_unknown_paths_are_404() -> None:
    assert github.respond(HttpRequest("/r/github/repos/no/such", {}), KITES).status == 404
    assert github.respond(HttpRequest("/r/github/repos/sky/glider/readme", {}), KITES).status == 404
    assert json.loads(github.respond(HttpRequest("/r/github/repos/sky/glider", {}), KITES).body)["stargazers_count"] == 20
