"""Links of one work, the job that reads GitHub for more, files of links: over a real library and a local GitHub."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import JsonValue

from outrider.citations.build_graph import DirectSteps
from outrider.library.library import Library
from outrider.services import Services
from outrider.services.code_links import check_code_links_request, read_code_links
from outrider.services.recorded import record_ports
from outrider.state.errors import BadRequest, UnreadableFile
from outrider.state.records import Identifiers, Paper
from outrider.usecases import code_links
from outrider.usecases.code_links import get_code_links, import_links, scan_links
from outrider.usecases.search import asearch
from support.http_server import Answer, Request, as_json, as_text, serving

PAPER = Paper(
    doc_id="p",
    title="Snowfall: weather at scale",
    abstract="We model snow. Our code is available at https://github.com/lab/snowfall.",
    identifiers=Identifiers(doi="10.1000/snow"),
)
CFF = """cff-version: 1.2.0
title: Snowfall
preferred-citation:
  type: article
  title: "Snowfall: weather at scale"
  doi: 10.1000/snow
"""
DEAD = Paper(doc_id="d", title="Snow in drifts", abstract="We model snow. Code: https://github.com/lab/drift.")
NONE = Paper(doc_id="n", title="Snow on roofs", abstract="We model snow.")


class Github:
    """Answers like GitHub for three repositories: one alive, one archived, one renamed."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, request: Request) -> Answer:
        path = request.path.partition("?")[0]
        self.paths.append(path)
        name = "/".join(path.split("/")[2:4])
        fields = {
            "id": 1,
            "full_name": name,
            "html_url": f"https://github.com/{name}",
            "pushed_at": "2026-11-20T00:00:00Z",
            "archived": False,
        }
        if name == "lab/drift":
            fields["archived"] = True
        if name == "lab/gone":
            return as_json({}, 404)
        if path == f"/repos/{name}":
            return as_json({**fields, "full_name": "lab/snowfall2"} if name == "lab/old" else fields)
        if path.endswith("/contents/CITATION.cff") and name == "lab/snowfall":
            return as_text(CFF, "application/vnd.github.raw+json")
        return as_json({}, 404)


@pytest.fixture
def github() -> Iterator[tuple[serving, Github]]:
    handler = Github()
    with serving(handler) as server:
        yield server, handler


@pytest.fixture
def services(tmp_path: Path, github: tuple[serving, Github]) -> Iterator[Services]:
    flags: dict[str, Any] = {
        "library.uri": f"{tmp_path}/library",
        "jobs.uri": f"{tmp_path}/jobs.sqlite",
        "cache.folder": f"{tmp_path}/cache",
    }
    others = ("arxiv", "crossref", "openalex", "pubmed", "semantic_scholar", "serpapi_google", "serpapi_scholar", "web")
    flags |= {f"sources.{name}.enabled": False for name in others}
    flags |= {
        "sources.offline": False,
        "sources.github.base_url": github[0].base_url,
        "sources.github.requests": 1_000,
        "sources.github.per_s": 1,
    }
    made = Services.from_file(flags)
    made.clock = lambda: 1_795_651_200.0  # 2026-11-26
    yield made
    made.close()


async def fill(services: Services, *records: Paper) -> Library:
    library = await services.new_library()
    await library.upsert(list(records))
    return library


async def read(services: Services, *targets: str, **options: Any) -> Any:
    return await read_code_links(services, check_code_links_request({"targets": list(targets), **options}), DirectSteps())


async def test_a_job_reads_the_files_of_a_papers_code_and_the_two_agree(services: Services, github: tuple[serving, Github]) -> None:
    await fill(services, PAPER)
    before = await get_code_links(services, "p")
    assert [(one.liveness, one.agree) for one in before.code] == [("unknown", False)]
    result = await read(services, "p")
    assert (result.repositories, result.requests, result.missing) == (1, 4, ())
    (code,) = (await get_code_links(services, "p")).code
    assert (code.name, code.liveness, code.agree) == ("github:lab/snowfall", "alive", True)
    assert {one.place for one in code.evidence} == {"abstract", "CITATION.cff"}
    assert next(one.line for one in code.evidence if one.place == "CITATION.cff") == 6
    back = await get_code_links(services, "lab/snowfall")
    assert [(one.name, one.doc_id, one.agree) for one in back.papers] == [("doi:10.1000/snow", "p", True)]
    assert await (await services.library()).count() == 1, "a repository that was only read is no record"


async def test_a_job_again_changes_nothing_and_a_budget_ends_it(services: Services) -> None:
    library = await fill(services, PAPER, DEAD)
    await read(services, "p", "d")
    count = await library.code_links.count()
    await read(services, "p", "d")
    assert await library.code_links.count() == count
    result = await read(services, "p", "d", requests=4)
    assert result.repositories == 1
    assert "1 repositories are left" in result.remarks[0]


async def test_a_job_reads_github_where_runs_are_recorded(services: Services) -> None:
    record_ports(services)
    await fill(services, PAPER)
    assert (await read(services, "p")).repositories == 1


async def test_a_job_continues_after_a_crash_without_asking_twice(services: Services, github: tuple[serving, Github]) -> None:
    await fill(services, PAPER, DEAD)

    class Steps(DirectSteps):
        answers: ClassVar[dict[str, JsonValue]] = {}
        left = 2

        async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
            if name not in self.answers:
                if not self.left:
                    raise RuntimeError("killed")
                self.answers[name] = await work()
                Steps.left -= 1
            return self.answers[name]

    request = check_code_links_request({"targets": ["p", "d"]})
    with pytest.raises(RuntimeError):
        await read_code_links(services, request, Steps())
    Steps.left = 9
    result = await read_code_links(services, request, Steps())
    assert (result.repositories, result.requests) == (2, 8)
    assert len(github[1].paths) == 8


async def test_a_renamed_and_a_missing_repository_are_said(services: Services) -> None:
    await fill(services, PAPER)
    result = await read(services, "lab/old", "lab/gone", "nothing known")
    assert result.remarks == ("lab/old is now lab/snowfall2", "lab/gone is gone from GitHub, or private")
    assert result.missing == ("nothing known",)


async def test_offline_a_job_reads_the_kept_records_again(services: Services, github: tuple[serving, Github]) -> None:
    library = await fill(services, PAPER)
    await library.code_links.store(["p"], [])
    offline = Services(services.settings.model_copy(update={"sources": services.settings.sources.model_copy(update={"offline": True})}))
    result = await read(offline, "p")
    assert (result.evidence, result.requests, github[1].paths) == (1, 0, [])
    assert "GitHub was not asked" in result.remarks[0]
    offline.close()


async def test_a_search_with_maintained_code_leaves_out_dead_code_and_works_without(services: Services) -> None:
    await fill(services, PAPER, DEAD, NONE)
    await read(services, "p", "d")
    response = await asearch("snow with maintained code", services=services, sources=["library"])
    assert [hit.doc_id for hit in response.hits] == ["p"]
    assert response.hits[0].code[0].liveness == "alive"
    assert response.facets.by_code == {"has code": 1, "alive": 1}
    assert any("1 of which no code is known and 1 whose code is dead" in one.why for one in response.bypassed)
    everything = await asearch("snow", services=services, sources=["library"])
    assert {hit.doc_id for hit in everything.hits} == {"p", "d", "n"}
    ordered = await asearch("snow drifts", services=services, sources=["library"], filters={"has_code": True})
    assert [hit.doc_id for hit in ordered.hits] == ["p", "d"], "alive before dead, although the other one fits better"


async def test_a_file_of_links_is_stored_and_replaced(services: Services, tmp_path: Path) -> None:
    await fill(services, NONE.model_copy(update={"identifiers": Identifiers(arxiv="2101.00001")}))
    path = tmp_path / "links.json"
    rows = [
        {"paper_arxiv_id": "2101.00001", "repo_url": "https://github.com/lab/roof", "is_official": True, "mentioned_in_paper": True},
        {"x": 1},
    ]
    path.write_text(json.dumps(rows))
    shown: list[tuple[int, int]] = []
    report = await import_links(services, path, lambda *counts: shown.append(counts))
    assert shown == [(1, 1)]
    assert (report.rows, report.evidence, report.problems) == (2, 1, ("row 2 names no repository (repo_url)",))
    (code,) = (await get_code_links(services, "n")).code
    assert (code.name, code.kind, code.evidence[0].place, code.evidence[0].line) == ("github:lab/roof", "paper's own code", "link file", 1)
    path.write_text("[]")
    await import_links(services, path)
    assert (await get_code_links(services, "n")).code == ()
    for content in ("{", '{"a": 1}'):
        path.write_text(content)
        with pytest.raises(UnreadableFile):
            await import_links(services, path)


async def test_records_of_an_outrider_without_links_are_scanned(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_links, "RECORDS_AT_ONCE", 1)
    library = await fill(services, PAPER, NONE)
    await library.code_links.store(["p"], [])
    shown: list[tuple[int, int]] = []
    report = await scan_links(services, lambda *counts: shown.append(counts))
    assert shown == [(1, 2), (2, 2)]
    assert (report.rows, report.evidence) == (2, 1)
    assert await library.code_links.count() == 1


async def test_an_unknown_target_is_an_error(services: Services) -> None:
    await fill(services, NONE)
    for target in ("nobody", "lab/unknown"):
        with pytest.raises(BadRequest):
            await get_code_links(services, target)
