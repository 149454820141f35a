"""In-depth analysis of one repository or paper over the whole graph, against fake services on loopback."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import run
from outrider.services import Services
from outrider.services.make_nodes import parse_analysis_target
from outrider.settings.model import Settings
from outrider.settings.sections import CacheSettings
from outrider.sources.http.cache import flush_cache
from outrider.state.analysis import Analysis
from outrider.state.pipeline import RunContext
from outrider.usecases.analyze import aanalyze
from support.chat_client import llm_settings
from support.chat_server import ChatServer, Reply
from support.chat_server import Request as Question
from support.fake_services import settings as world_settings
from support.http_server import Answer, Request, as_json, as_text, refusal, serving
from support.svg import describe, read_svg

NOW = 1_790_000_000.0
LAST = {"Link": '<https://api.github.com/x?per_page=1&page=41>; rel="last"'}
REPOSITORY = {
    "full_name": "liver/dose",
    "html_url": "https://github.com/liver/dose",
    "description": "Doses that livers bear",
    "stargazers_count": 900,
    "forks_count": 20,
    "topics": ["hepatology", "dosing"],
    "license": {"spdx_id": "MIT"},
    "pushed_at": "2026-09-01T00:00:00Z",
    "created_at": "2020-01-01T00:00:00Z",
}
README = "# dose\n\nA calculator of doses that livers bear. The weather was fine. It refuses doses above the limit of each drug."
SBOM = {
    "sbom": {
        "packages": [
            {"name": "httpx", "externalRefs": [{"referenceType": "purl", "referenceLocator": "pkg:pypi/httpx@0.28.1"}]},
            {"name": "it", "externalRefs": [{"referenceType": "purl", "referenceLocator": "pkg:github/liver/dose@main"}]},
        ]
    }
}
WORK = {
    "id": "https://openalex.org/W1",
    "doi": "https://doi.org/10.1000/livers",
    "title": "Liver injury by drugs",
    "is_retracted": True,
    "open_access": {"oa_status": "gold", "oa_url": "http://127.0.0.1/none"},
    "cited_by_count": 3,
    "abstract_inverted_index": {word: [at] for at, word in enumerate("Drugs harm livers, code at github.com/liver/dose says so.".split())},
}
LINKED = [{"paperId": f"{at:040x}", "title": f"Linked {at}", "year": 2019 + at} for at in (1, 2)]


def github(request: Request) -> Answer:
    part = request.path.removeprefix("/github").removeprefix("/repos/liver/dose")
    answers: dict[str, Answer] = {
        "": as_json(REPOSITORY),
        "/readme": as_text(README, "application/vnd.github.raw+json"),
        "/git/trees/HEAD": as_json({"tree": [{"path": "README.md", "type": "blob"}, {"path": "docs", "type": "tree"}]}),
        "/releases": as_json([{"published_at": "2026-08-01T00:00:00Z"}], headers=LAST),
        "/commits": as_json([{}], headers=LAST),
        "/contributors": as_json([{}], headers=LAST),
        "/issues": as_json([{}], headers=LAST),
        "/issues/comments": as_json([]),
        "/dependency-graph/sbom": as_json(SBOM),
        "/search/repositories": as_json({"total_count": 2, "incomplete_results": False, "items": [REPOSITORY, OTHER]}),
    }
    return answers.get(part, refusal(404))


OTHER = {**REPOSITORY, "full_name": "liver/other", "html_url": "https://github.com/liver/other"}


def handler(request: Request) -> Answer:
    service, _, rest = request.path.removeprefix("/").partition("/")
    if service == "github":
        return github(request)
    if service == "openalex":
        return as_json(WORK) if rest.startswith("works/doi:10.1000/livers") or "10.1000" in rest else refusal(404)
    if service == "semantic_scholar" and rest.endswith(("references", "citations")):
        key = "citedPaper" if rest.endswith("references") else "citingPaper"
        return as_json({"offset": 0, "data": [{key: one} for one in LINKED]})
    return refusal(404)


def make_services(base_url: str, folder: Path, fresh_s: float = 0.0, **more: Any) -> Services:
    sources = world_settings(base_url, folder, timeout_s=60.0).sources
    settings = Settings(sources=sources, cache=CacheSettings(folder=str(folder / "cache"), fresh_s=fresh_s), **more)
    return Services(settings, clock=lambda: NOW)


async def run_analysis(target: str, folder: Path, answers: Any = handler, **options: Any) -> Analysis:
    with serving(answers) as server:
        return await aanalyze(target, services=make_services(server.base_url, folder), context=RunContext(run_timeout_s=300), **options)


async def test_a_repository_in_depth(tmp_path: Path) -> None:
    analysis = await run_analysis("liver/dose", tmp_path)
    assert (analysis.kind, analysis.title, analysis.failures) == ("repository", "liver/dose", ())
    assert {"stars": 900, "licence": "MIT", "releases": 41, "commits_90d": 41}.items() <= analysis.facts.items()
    assert analysis.facts["tree"] == ["README.md", "docs"]
    assert analysis.dependencies == ("pypi:httpx",)
    assert [one.title for one in analysis.alternatives] == ["liver/other"]
    ratings = {one.dimension: one for one in analysis.ratings}
    assert list(ratings) == ["activity", "community", "documentation", "ease_of_use", "maintenance", "maturity"]
    assert "stars 900: 0.74" in ratings["maturity"].because
    assert ratings["documentation"].score is None
    assert any("no model judged" in note for note in analysis.notes)
    assert [unit.text for unit in analysis.context.units]
    assert all(unit.text in f"{REPOSITORY['description']}\n\n{README}" for unit in analysis.context.units)


async def test_a_paper_in_depth(tmp_path: Path) -> None:
    analysis = await run_analysis("10.1000/livers", tmp_path, question="which drugs harm livers")
    assert (analysis.kind, analysis.title, analysis.failures) == ("paper", "Liver injury by drugs", ())
    assert analysis.retraction == "Retracted (reported by OpenAlex)"
    assert [one.title for one in analysis.references] == [one.title for one in analysis.citations] == ["Linked 1", "Linked 2"]
    assert analysis.related_code[0].title == "liver/dose"
    assert analysis.related_code[0].why == "named in its text"
    assert analysis.full_text.startswith("none")  # a private address is not fetched
    assert analysis.ratings == ()
    assert analysis.context.units[0].text.startswith("Drugs harm livers")


async def test_a_failing_source_loses_only_its_own_part(tmp_path: Path) -> None:
    def broken(request: Request) -> Answer:
        lost = ("sbom", "/references", "/search/repositories")
        return refusal(404) if request.path.endswith(lost[0]) else refusal(500) if request.path.endswith(lost[1:]) else handler(request)

    analysis = await run_analysis("liver/dose", tmp_path, broken)
    assert (analysis.kind, analysis.dependencies, analysis.alternatives) == ("repository", (), ())
    assert any("dependencies" in note for note in analysis.notes)
    assert any("alternatives" in note for note in analysis.notes)
    paper = await run_analysis("doi:10.1000/livers", tmp_path, broken)
    assert (len(paper.citations), paper.references) == (2, ())
    assert any(note.startswith("references: ") for note in paper.notes)


async def test_a_model_rates_what_metadata_lacks_within_its_budget(tmp_path: Path) -> None:
    def answer(question: Question) -> Reply:
        assert "repository" in question.data
        return Reply({"relevance": 0.9, "documentation": 7, "documentation_reason": "explains use", "ease_of_use": 12})

    with serving(handler) as server, ChatServer(answer) as chat:
        services = make_services(server.base_url, tmp_path, llm=llm_settings(chat, timeout_s=60.0))
        analysis = await aanalyze("liver/dose", question="doses", services=services)
        none = await aanalyze("liver/dose", services=services, context=RunContext(max_calls=0))
        assert len(chat.requests) == 1
    ratings = {one.dimension: one for one in analysis.ratings}
    assert (ratings["documentation"].score, ratings["documentation"].because) == (7.0, ("explains use",))
    assert ratings["ease_of_use"].score == 10.0
    assert (analysis.relevance, analysis.usage.calls) == (0.9, 1)
    assert [failure.error for failure in none.failures] == ["BudgetSpent"]


async def test_a_recent_analysis_is_reused_unless_fresh(tmp_path: Path) -> None:
    with serving(handler) as server:
        services = make_services(server.base_url, tmp_path, fresh_s=3_600.0)
        first = await aanalyze("liver/dose", services=services)
        await asyncio.to_thread(flush_cache)
        requests_before = len(server.requests)
        again = await aanalyze("liver/dose", services=services)
        assert len(server.requests) == requests_before
        other = await aanalyze("liver/dose", question="doses", services=services)
        fresh = await aanalyze("liver/dose", fresh=True, services=services)
    assert (first.age_s, other.age_s, fresh.age_s) == (None, None, None)
    assert again.age_s is not None
    assert again.model_copy(update={"age_s": None, "timings_ms": {}, "execution_time_ms": 0.0}) == first.model_copy(
        update={"timings_ms": {}, "execution_time_ms": 0.0}
    )


async def test_without_a_network_a_work_is_not_called_unknown(tmp_path: Path) -> None:
    with serving(handler) as server:
        address = server.base_url
    analysis = await aanalyze("liver/dose", services=make_services(address, tmp_path), context=RunContext(run_timeout_s=60))
    assert analysis.failures[0].message == "github:liver/dose cannot be looked up: github is unreachable (no network?)"


async def test_an_unknown_target_names_the_services_that_were_queried(tmp_path: Path) -> None:
    analysis = await run_analysis("no/such", tmp_path)
    assert (analysis.kind, analysis.failures[0].error) == (None, "NothingSearchable")
    assert "github:no/such is not known to github" in analysis.failures[0].message


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("a/b", ("github", "a/b")),
        ("https://github.com/a/b", ("github", "a/b")),
        ("10.1000/X", ("doi", "10.1000/x")),
        ("https://doi.org/10.1000/x", ("doi", "10.1000/x")),
        ("arxiv:2101.00001v2", ("arxiv", "2101.00001")),
        ("pmid:1", ("pmid", "1")),
    ],
)
def test_targets(target: str, expected: tuple[str, str]) -> None:
    assert parse_analysis_target(target) == expected


@pytest.mark.parametrize("target", ["", " ", "x", "a b", "file:///etc/passwd", "https://example.org/", "a/b/c", "\x1b[31m", "doi:x"])
def test_an_invalid_target_is_one_clear_error(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", target]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), "Traceback" in err, "\x1b" in err) == ("", 1, False, False)


def test_the_command_shows_it_and_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = {**REPOSITORY, "description": "\x1b]0;owned\x07 [bold]doses[/bold]"}

    def evil(request: Request) -> Answer:
        return as_json(hostile) if request.path == "/github/repos/liver/dose" else handler(request)

    with serving(evil) as server:
        monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "false")
        monkeypatch.setenv("OUTRIDER_SOURCES__WEB__ENABLED", "false")
        monkeypatch.setenv("OUTRIDER_SOURCES__GITHUB__BASE_URL", f"{server.base_url}/github")
        for name in ("OPENALEX", "SEMANTIC_SCHOLAR", "ARXIV", "PUBMED", "CROSSREF"):
            monkeypatch.setenv(f"OUTRIDER_SOURCES__{name}__ENABLED", "false")
        assert run(["analyze", "liver/dose", "--fresh"]) == 0
        output = capsys.readouterr().out
        assert run(["analyze", "liver/dose", "--fresh", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["title"] == "liver/dose"
        assert run(["analyze", "liver/dose", "--plot", str(tmp_path / "radar.svg")]) == 0
        assert run(["analyze", "no/such", "--plot", str(tmp_path / "none.svg")]) == 3
    assert "none.svg is not written: there are no dimensions to draw" in capsys.readouterr().err
    assert not (tmp_path / "none.svg").exists()
    root, text = read_svg((tmp_path / "radar.svg").read_text(encoding="utf-8"))
    assert {"liver/dose", "maturity", "unknown"} <= set(text.splitlines())
    assert "documentation unknown" in describe(root)
    assert "\x1b]" not in output
    assert "maturity" in output
    assert "pypi:httpx" in output


def test_an_offline_run_reports_the_setting(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
    assert run(["analyze", "a/b"]) == 3
    assert "sources.offline" in capsys.readouterr().err
