"""The adapter against a server of GitHub's shape: what it asks, and what it makes of answers and failures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from serving import FAULTS, Answer, Asked, as_json, as_text, refusal, serving

from outrider.settings.sources import GithubSettings
from outrider.sources.calls.cache import DiskAnswers
from outrider.sources.calls.caller import Caller
from outrider.sources.github import Github
from outrider.state.errors import (
    Forbidden,
    Malformed,
    RateLimited,
    SourceError,
    SourceTimeout,
    SourceUnavailable,
    Unauthorized,
)
from outrider.state.intent import Constraints, NumberRange, RepositoryWishes
from outrider.state.ports import EXPANDED, Source, SourceQuery

TOKEN = "ghp_secret0123456789"
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def github(server: serving, token: str = "", caller: Caller | None = None, **more: Any) -> Github:
    settings = GithubSettings(base_url=server.base_url, api_key=SecretStr(token), requests=1_000, per_s=1.0, **more)
    return Github.of(settings, caller or Caller(clock=lambda: NOW))


def query(strategy: str = "stars", **more: Any) -> SourceQuery:
    given: dict[str, Any] = {"keywords": ("react", "animation"), "within_s": 5.0, **more}
    return SourceQuery("react animation", strategy, None, given.pop("limit", 50), **given)


def item(name: str, **more: Any) -> dict[str, Any]:
    return {"id": 1, "full_name": name, "html_url": f"https://github.com/{name}", "stargazers_count": 5, "score": 1.0, **more}


def page(*items: Any, **more: Any) -> Answer:
    return as_json({"total_count": len(items), "incomplete_results": False, "items": list(items), **more})


def always(answer: Answer) -> Callable[[Asked], Answer]:
    return lambda _: answer


def test_it_is_a_source() -> None:
    source: Source = Github.of(GithubSettings(), Caller())
    assert (source.name, source.strategies, source.timeout_s) == ("github", ("stars", "updated", EXPANDED), 10.0)
    assert source.capabilities.kinds == {"repository"}
    assert (source.capabilities.identifiers, source.capabilities.most, source.capabilities.queries) == ({"github"}, 100, 1)


@pytest.mark.parametrize(
    ("settings", "searches", "core"),
    [
        (GithubSettings(), 10, 60),
        (GithubSettings(api_key=SecretStr(TOKEN)), 30, 5_000),
        (GithubSettings(api_key=SecretStr(TOKEN), requests=15), 15, 2_500),
        (GithubSettings(requests=100), 100, 600),
        (GithubSettings(requests=1, per_s=86_400), 1, 1),
    ],
)
def test_searches_and_other_requests_have_limits_of_their_own(settings: GithubSettings, searches: float, core: float) -> None:
    source = Github.of(settings, Caller())
    assert (source.service.requests, source.service.per_s) == (searches, settings.per_s)
    assert (source.repositories.service.requests, source.repositories.service.per_s) == (pytest.approx(core), 3_600)
    assert source.service.name != source.repositories.service.name


@pytest.mark.parametrize(
    ("strategy", "sort"), [("stars", {"sort": "stars", "order": "desc"}), ("updated", {"sort": "updated", "order": "desc"}), (EXPANDED, {})]
)
async def test_what_is_asked(strategy: str, sort: dict[str, str]) -> None:
    wishes, stars = RepositoryWishes(language="C++", topics=("ui",)), Constraints(stars=NumberRange(min=50))
    async with serving(always(page(item("a/b")))) as server:
        await github(server).search(query(strategy, repositories=wishes, constraints=stars, widened=("motion",)))
    (asked,) = server.requests
    words = "react animation OR motion language:C++" if strategy == EXPANDED else "react animation language:C++ topic:ui"
    assert (asked.path, asked.query) == ("/search/repositories", {"q": f"{words} stars:>=50 archived:false", "per_page": "50", **sort})
    assert asked.headers["accept"] == "application/vnd.github+json"
    assert asked.headers["x-github-api-version"] == "2022-11-28"
    assert "authorization" not in asked.headers


async def test_the_token_goes_into_the_header_and_nowhere_else() -> None:
    async with serving(always(refusal(401, f"Bad credentials: {TOKEN}"))) as server:
        source = github(server, TOKEN)
        with pytest.raises(Unauthorized) as caught:
            await source.search(query())
    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in server.requests[0].target
    assert TOKEN not in str(caught.value)
    assert TOKEN not in repr(source)


async def test_an_answer_keeps_githubs_order_and_total() -> None:
    async with serving(always(page(item("z/z"), item("A/B", id=2), total_count=2_723))) as server:
        answer = await github(server).search(query())
    assert [(scored.record.doc_id, scored.score) for scored in answer.results] == [("github:z/z", 1.0), ("github:a/b", 0.5)]
    assert (answer.total, answer.status, answer.message) == (2_723, "", "")
    assert answer.results[1].record.url == "https://github.com/A/B"


async def test_at_most_a_hundred_are_asked_for() -> None:
    async with serving(always(page(item("a/b")))) as server:
        await github(server).search(query(limit=400))
    assert server.requests[0].query["per_page"] == "100"


@pytest.mark.parametrize("nothing", [query(keywords=("::",)), query(limit=0)])
async def test_nothing_to_look_for_asks_nobody(nothing: SourceQuery) -> None:
    async with serving(always(page(item("a/b")))) as server:
        assert (await github(server).search(nothing)).results == ()
    assert server.requests == []


async def test_an_answer_cut_short_and_without_names_says_so() -> None:
    async with serving(always(page(item("a/b"), {}, None, incomplete_results=True))) as server:
        answer = await github(server).search(query())
    assert (len(answer.results), answer.status) == (1, "partial")
    assert "ran out of time" in answer.message
    assert "2 without a title" in answer.message


WISHED = RepositoryWishes(language="TypeScript", topics=("ui",))


async def test_stars_ask_again_for_less_where_nothing_was_found() -> None:
    async with serving(lambda asked: page() if "language:" in asked.query["q"] else page(item("a/b"))) as server:
        answer = await github(server).search(query(repositories=WISHED))
    assert [asked.query["q"].split(" archived")[0] for asked in server.requests] == [
        "react animation language:TypeScript topic:ui",
        "react animation",
    ]
    assert [scored.record.doc_id for scored in answer.results] == ["github:a/b"]
    assert "language:TypeScript" in answer.message


@pytest.mark.parametrize("asked", [query("updated", repositories=WISHED), query(EXPANDED, repositories=WISHED, widened=("x",)), query()])
async def test_others_and_what_cannot_ask_for_less_do_not_ask_again(asked: SourceQuery) -> None:
    async with serving(always(page())) as server:
        answer = await github(server).search(asked)
    assert (len(server.requests), answer.results, answer.total, answer.status) == (1, (), 0, "")


async def test_a_failed_second_try_leaves_the_first_answer() -> None:
    async with serving(lambda asked: page() if "language:" in asked.query["q"] else refusal(403)) as server:
        answer = await github(server).search(query(repositories=WISHED))
    assert (answer.results, answer.status) == ((), "partial")
    assert "403" in answer.message


INVALID = as_json({"message": "Validation Failed", "errors": [{"resource": "Search", "message": "no such language"}]}, 422)


async def test_a_refused_query_asks_for_less_whatever_its_strategy() -> None:
    async with serving(lambda asked: INVALID if "language:" in asked.query["q"] else page(item("a/b"))) as server:
        assert len((await github(server).search(query("updated", repositories=WISHED))).results) == 1


async def test_a_query_that_is_refused_twice_is_an_error_with_githubs_reason() -> None:
    async with serving(always(INVALID)) as server:
        with pytest.raises(SourceUnavailable, match="no such language"):
            await github(server).search(query(repositories=WISHED))


EXPECTED = {
    "timeout": SourceTimeout,
    "slow drip": SourceTimeout,
    "connection reset": SourceUnavailable,
    "500": SourceUnavailable,
    "truncated": SourceUnavailable,
    "429": RateLimited,
    "429, Retry-After": RateLimited,
    "403 limit": RateLimited,
    "403": Forbidden,
    "401": Unauthorized,
}
"""All others are `Malformed`."""


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_of_the_service_is_a_source_error(fault: str) -> None:
    async with serving(always(FAULTS[fault])) as server:
        with pytest.raises(SourceError) as caught:
            await github(server).search(query(within_s=0.4))
    assert type(caught.value) is EXPECTED.get(fault, Malformed)
    assert (caught.value.retry_at is not None) == (fault in ("429, Retry-After", "403 limit"))


async def test_a_kept_answer_says_so_and_stands_in_when_github_fails(tmp_path: Path) -> None:
    now = [NOW]
    caller = Caller(answers=DiskAnswers(tmp_path, clock=lambda: now[0]), clock=lambda: now[0])
    answers = [page(item("a/b")), refusal(429, headers={"Retry-After": "60"})]
    async with serving(lambda _: answers.pop(0)) as server:
        source = github(server, caller=caller)
        told = []
        for later_s in (0, 600, 7_200):
            now[0] = NOW + later_s
            told.append(await source.search(query(within_s=1.0)))
    assert [answer.status for answer in told] == ["", "cached", "stale"]
    assert [len(answer.results) for answer in told] == [1, 1, 1]
    assert "10 min" in told[1].message
    assert "2 h" in told[2].message


async def test_a_repository_is_found_by_its_name() -> None:
    async with serving(always(as_json(item("A/B", parent={"stargazers_count": 7})))) as server:
        record = await github(server).get("github", "a/b", 2.0)
    assert server.requests[0].path == "/repos/a/b"
    assert record
    assert (record.doc_id, record.parent_stars) == ("github:a/b", 7)


@pytest.mark.parametrize("said", [[], {}, "x", {"message": "hello"}])
async def test_what_is_no_repository_is_malformed(said: Any) -> None:
    async with serving(always(as_json(said))) as server:
        with pytest.raises(Malformed, match="repository"):
            await github(server).get("github", "a/b", 2.0)


@pytest.mark.parametrize("status", [404, 451])
async def test_no_repository_is_none(status: int) -> None:
    async with serving(always(refusal(status))) as server:
        assert await github(server).get("github", "a/b", 2.0) is None


@pytest.mark.parametrize(
    ("scheme", "value"), [("doi", "a/b"), ("github", "a"), ("github", "../x"), ("github", "a/.."), ("github", "a/b/c")]
)
async def test_what_is_no_repository_asks_nobody(scheme: str, value: str) -> None:
    async with serving(always(as_json(item("a/b")))) as server:
        assert await github(server).get(scheme, value, 2.0) is None
    assert server.requests == []


async def test_a_renamed_repository_is_followed() -> None:
    def moved(asked: Asked) -> Answer:
        if asked.path == "/repos/old/name":
            return as_json({"message": "Moved Permanently"}, 301, {"Location": f"http://{asked.headers['host']}/repositories/17"})
        return as_json(item("new/name")) if asked.path == "/repositories/17" else refusal(404)

    async with serving(moved) as server:
        record = await github(server).get("github", "old/name", 2.0)
    assert record
    assert record.identifiers.github == "new/name"


@pytest.mark.parametrize(
    "location", ["https://evil.example/repositories/17", "http://127.0.0.1:1/repositories/17", "/user", "", "{host}/user"]
)
async def test_no_other_host_is_followed(location: str) -> None:
    def moved(asked: Asked) -> Answer:
        return as_json({}, 301, {"Location": location.replace("{host}", f"http://{asked.headers['host']}")})

    async with serving(moved) as server:
        with pytest.raises(Malformed, match="301"):
            await github(server, TOKEN).get("github", "old/name", 2.0)
    assert len(server.requests) == 1


def busy(asked: Asked) -> Answer:
    """A repository in which much has happened."""
    last = {"Link": f'<{asked.path}?per_page=1&page=2>; rel="next", <{asked.path}?per_page=1&page=41>; rel="last"'}
    issue = {"number": 3, "created_at": "2025-12-01T00:00:00Z", "closed_at": "2025-12-30T00:00:00Z", "user": {"login": "asks"}}
    comment = {"issue_url": "https://api.github.com/repos/a/b/issues/3", "created_at": "2025-12-03T00:00:00Z", "user": {"login": "helps"}}
    answers = {
        "/repos/a/b/readme": as_text("# B", "application/vnd.github.raw+json"),
        "/repos/a/b/git/trees/HEAD": as_json({"tree": [{"path": "README.md", "type": "blob"}, {"path": "src", "type": "tree"}]}),
        "/repos/a/b/releases": as_json([{"published_at": "2025-11-11T00:00:00Z"}], headers=last),
        "/repos/a/b/commits": as_json([{}], headers=last),
        "/repos/a/b/contributors": as_json([{}], headers=last),
        "/repos/a/b/issues": as_json([{}], headers=last) if asked.query.get("per_page") == "1" else as_json([issue]),
        "/repos/a/b/issues/comments": as_json([comment]),
    }
    return answers.get(asked.path, refusal(404))


SHALLOW = {"tree": ["README.md", "src"], "releases": 41, "last_release_at": "2025-11-11T00:00:00Z"}
DEEP = {**SHALLOW, "commits_90d": 41, "contributors": 41, "closed_issues": 41, "closed_90d": 1, "issue_response_days": 2.0}


@pytest.mark.parametrize(("deep", "details", "requests"), [(False, SHALLOW, 2), (True, DEEP, 7)])
async def test_details(deep: bool, details: dict[str, Any], requests: int) -> None:
    async with serving(busy) as server:
        assert await github(server).repositories.details("a/b", 2.0, deep=deep) == details
    assert len(server.requests) == requests
    since = {asked.query.get("since") for asked in server.requests} - {None}
    assert since == ({"2025-10-03T00:00:00Z"} if deep else set())


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("/git/trees/HEAD", {"tree"}), ("/releases", {"releases", "last_release_at"}), ("/commits", {"commits_90d"}),
        ("/contributors", {"contributors"}), ("/issues", {"closed_issues", "closed_90d", "issue_response_days"}),
        ("/issues/comments", {"issue_response_days"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("fault", ["403", "HTML", "JSON of another shape", "empty"])
async def test_a_part_that_fails_is_missing(path: str, missing: set[str], fault: str) -> None:
    async with serving(lambda asked: FAULTS[fault] if asked.path == f"/repos/a/b{path}" else busy(asked)) as server:
        details = await github(server).repositories.details("a/b", 2.0, deep=True)
    assert DEEP.keys() - details.keys() == missing
    assert json.dumps(details)


async def test_details_of_nothing_are_empty() -> None:
    async with serving(always(refusal(404))) as server:
        assert await github(server).repositories.details("a/b", 2.0, deep=True) == {}
        assert await github(server).repositories.details("no name", 2.0, deep=True) == {}


async def test_readme_tree_and_releases_of_their_own() -> None:
    async with serving(busy) as server:
        repositories = github(server).repositories
        assert await repositories.readme("a/b", 2.0) == "# B"
        assert await repositories.tree("a/b", 2.0) == ("README.md", "src")
        assert (await repositories.releases("a/b", 2.0)).count == 41
        assert await repositories.readme("x/y", 2.0) is None
        assert await repositories.tree("x/y", 2.0) is None
    assert server.requests[0].headers["accept"] == "application/vnd.github.raw+json"


async def test_a_readme_is_kept_and_a_search_cut_short_is_not(tmp_path: Path) -> None:
    async with serving(
        lambda asked: page(item("a/b"), incomplete_results=True) if asked.path.startswith("/search") else busy(asked)
    ) as server:
        source = github(server, caller=Caller(answers=DiskAnswers(tmp_path)))
        for _ in range(2):
            assert await source.repositories.readme("a/b", 2.0) == "# B"
            assert (await source.search(query())).status == "partial"
    assert [asked.path for asked in server.requests] == ["/repos/a/b/readme", "/search/repositories", "/search/repositories"]


async def test_an_empty_repository_has_an_empty_tree() -> None:
    async with serving(always(refusal(409, "Git Repository is empty."))) as server:
        assert await github(server).repositories.tree("a/b", 2.0) == ()


async def test_a_spent_budget_of_one_kind_leaves_the_other() -> None:
    def spent(asked: Asked) -> Answer:
        headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time() + 600))}
        return as_json(item("a/b"), headers=headers) if asked.path.startswith("/repos") else page(item("a/b"))

    async with serving(spent) as server:
        source = github(server, caller=Caller())
        assert await source.get("github", "a/b", 2.0)
        with pytest.raises(RateLimited):
            await source.repositories.tree("a/b", 0.2)
        assert (await source.search(query())).results
