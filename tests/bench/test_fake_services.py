"""The world of benchmarks: real adapters read every answer, its GitHub searches as the real one does, its model fits our shapes."""

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
    """All works, and those of a DOI where a service is asked by one."""
    with served(scout.fake_services(seconds=0.0, count=12)) as server:
        settings = fake_services.settings(server, "one", tmp_path)
        asked = settings.sources.model_copy(update={"web": settings.sources.web.model_copy(update={"enabled": False})})
        services = Services(settings.model_copy(update={"sources": asked}))
        world_of = [source for source in services.sources if source.name != "library"]
        assert {source.name for source in world_of} == set(fake_services.SERVICES)
        for source in world_of:
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
    ("asked", "sort", "found"),
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
def test_github_matches_every_word_and_every_wish(asked: str, sort: str, found: list[str]) -> None:
    assert [one.full_name for one in github.search(asked, sort, KITES)] == found


@given(st.lists(st.floats(0, 100)), st.integers(1, 6))
def test_the_quickest_stretch_holds_so_many(times: list[float], count: int) -> None:
    """By trying all: the shortest window from any time that holds `count` of them."""
    stretches = [
        sorted(at for at in times if at >= first)[count - 1] - first for first in times if sum(at >= first for at in times) >= count
    ]
    assert fake_services.quickest(times, count) == min(stretches, default=float("inf"))


def test_a_room_is_a_service_that_nobody_has_asked(tmp_path: Path) -> None:
    with served(fake_services.FakeServices((), (), {})) as server:
        one, other = (fake_services.settings(server, room, tmp_path).sources.github.base_url for room in ("one", "other"))
    assert one != other


def test_services_share_works_but_not_all() -> None:
    """A quarter is for the web alone; every other work is held by somebody."""
    works = [Work(number, "x") for number in range(24)]
    shared = fake_services.FakeServices(works, (), {}, shares=True)
    held = {name: {work.number for work in works if shared._holds(name, work)} for name in (*fake_services.SERVICES[1:], fake_services.WEB)}
    assert held["serpapi_google"] == held[fake_services.WEB] == set(range(0, 24, 4))
    assert set().union(*held.values()) == set(range(24))
    assert held["openalex"] != held["arxiv"]


def asked_of_model(data: object) -> dict[str, object]:
    body = {"model": "m", "messages": [{"role": "system", "content": "s" * 410}, {"role": "user", "content": fence(data)}]}  # type: ignore[arg-type]
    said = chat.respond(json.dumps(body).encode())
    whole = json.loads(said.body)
    assert whole["usage"]["prompt_tokens"] > 100
    return {"stage": said.log_fields["stage"], "said": json.loads(whole["choices"][0]["message"]["content"])}


@pytest.mark.parametrize("request_", ten_requests.REQUESTS, ids=lambda one: one.text)
def test_the_model_answers_every_stage_in_its_shape(request_: ten_requests.Request) -> None:
    made, answering = ten_requests.projects(request_, NOW)
    planned = asked_of_model({"request": request_.text, "search_mode": "balanced", "sources": []})
    draft = Draft.model_validate(planned["said"])
    assert (planned["stage"], len(draft.queries), len(draft.expanded_keywords)) == ("translator", 3, 3)
    papers = asked_of_model({"request": {"text": request_.text}, "papers": [{"id": "p1", "title": "Sorting"}]})
    assert [one.relevance_score for one in PaperScores.model_validate(papers["said"]).results] == [0.0]
    one = next(project for project in made if project.full_name in answering)
    scored = asked_of_model({"request": {"text": request_.text}, "repository": {"name": one.full_name, "description": one.description}})
    assert RepositoryScore.model_validate(scored["said"]).relevance is not None


@pytest.mark.parametrize("request_", ten_requests.REQUESTS, ids=lambda one: one.text)
def test_projects_that_answer_have_both_parts_and_others_do_not(request_: ten_requests.Request) -> None:
    """The same each time; no name twice."""
    made, answering = ten_requests.projects(request_, NOW)
    assert ten_requests.projects(request_, NOW) == (made, answering)
    assert len({one.full_name for one in made}) == len(made) == ten_requests.PROJECTS
    assert len(answering) == ten_requests.ANSWERING
    for project in made:
        text = project.description.lower()
        both = all(any(word in text for word in words) for words in (request_.first, request_.second))
        other_use = any(word in text for word in chat.OF_OTHER_USE)
        assert (project.full_name in answering) <= (both and not other_use), project.description


def test_what_is_not_there_is_said() -> None:
    assert github.respond(HttpRequest("/r/github/repos/no/such", {}), KITES).status == 404
    assert github.respond(HttpRequest("/r/github/repos/sky/glider/readme", {}), KITES).status == 404
    assert json.loads(github.respond(HttpRequest("/r/github/repos/sky/glider", {}), KITES).body)["stargazers_count"] == 20
