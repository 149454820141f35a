"""Details of GitHub repositories: against a local server, with limits, a cache and faults."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from outrider.nodes.fine_scorer.dimensions import PARTS as READ
from outrider.settings.sections import GithubSettings
from outrider.sources.github import details as github_details
from outrider.sources.github.repository import MOST_README
from outrider.sources.github.search import Github
from outrider.sources.http.cache import DiskCache, flush_cache
from outrider.sources.http.client import Caller
from outrider.state.ports import Detailed, Detailer
from outrider.state.records import Identifiers, Repository
from support.http_server import FAULTS, MEBIBYTE, NEVER, Answer, Request, as_bytes, as_json, as_text, refusal, serving
from support.patience import BUSY_S

TOKEN = "ghp_secret0123456789"
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
README, TREE, RELEASES = "/readme", "/git/trees/HEAD", "/releases"
PATHS = (README, TREE, RELEASES, "", "/commits", "/contributors", "/issues", "/issues/comments", "/issues?closed")
LAST = {"Link": '<https://api.github.com/x?per_page=1&page=2>; rel="next", <https://api.github.com/x?per_page=1&page=41>; rel="last"'}
ISSUE = {"number": 3, "created_at": "2025-12-01T00:00:00Z", "closed_at": "2025-12-30T00:00:00Z", "user": {"login": "asks"}}
COMMENT = {"issue_url": "https://api.github.com/repos/a/b/issues/3", "created_at": "2025-12-03T00:00:00Z", "user": {"login": "helps"}}
FIGURES = {
    "readme": True,
    "tree": ["README.md", "src"],
    "releases": 41,
    "last_release_at": "2025-11-11T00:00:00Z",
    "commits_90d": 41,
    "contributors": 41,
    "closed_90d": 1,
    "issue_response_days": 2.0,
    "closed_issues": 41,
}


def markdown(text: str) -> Answer:
    return as_text(text, "application/vnd.github.raw+json")


def part_of(request: Request) -> str:
    """Which of `PATHS` is requested."""
    path = re.sub(r"^/(repos/[^/]+/[^/]+|repositories/\d+)", "", request.path)
    return "/issues?closed" if path == "/issues" and request.query["per_page"] == "1" else path


def name_of(request: Request) -> str:
    return "/".join(request.path.split("/")[2:4])


def answer_part(request: Request) -> Answer:
    """The parts of an active repository, for any name."""
    answers = {
        README: markdown("# Read me"),
        TREE: as_json({"tree": [{"path": "README.md", "type": "blob"}, {"path": "src", "type": "tree"}]}),
        RELEASES: as_json([{"published_at": "2025-11-11T00:00:00Z"}], headers=LAST),
        "": as_json({"full_name": name_of(request), "parent": {"full_name": "the/parent", "stargazers_count": 900}}),
        "/commits": as_json([{}], headers=LAST),
        "/contributors": as_json([{}], headers=LAST),
        "/issues": as_json([ISSUE]),
        "/issues/comments": as_json([COMMENT]),
        "/issues?closed": as_json([{}], headers=LAST),
    }
    return answers.get(part_of(request), refusal(404))


@dataclass
class Hub:
    """GitHub's server: reports the remaining budget of the hour, and refuses once it is used up."""

    remaining: int
    refused: int = 0

    def __call__(self, request: Request) -> Answer:
        self.remaining -= 1
        reset = {"X-RateLimit-Reset": str(int(time.time()) + 1_800)}
        if self.remaining < 0:
            self.refused += 1
            return refusal(403, "API rate limit exceeded", {"X-RateLimit-Remaining": "0", **reset})
        answer = answer_part(request)
        return replace(answer, headers={**answer.headers, "X-RateLimit-Remaining": str(self.remaining), **reset})


def github(server: serving, token: str = TOKEN, caller: Caller | None = None, **more: Any) -> Github:
    return Github.of(GithubSettings(base_url=server.base_url, api_key=SecretStr(token), **more), caller or Caller(clock=lambda: NOW))


def repositories(count: int = 25, **more: Any) -> list[Repository]:
    return [Repository(doc_id=f"github:o/r{n}", identifiers=Identifiers(github=f"o/r{n}"), title=f"O/R{n}", **more) for n in range(count)]


def count_parts(server: serving) -> Counter[str]:
    return Counter(map(part_of, server.requests))


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[tuple[Caller, list[float]]]:
    """A caller with a cache, and its clock: an hour after midnight, since activity is requested by the day."""
    now = [NOW + 3_600]
    answers = DiskCache(tmp_path, clock=lambda: now[0])
    yield Caller(answers, clock=lambda: now[0]), now
    flush_cache()
    answers.close()


async def test_every_figure_that_is_read_of_a_repository_comes() -> None:
    async with serving(answer_part) as server:
        source: Detailer = github(server)
        record = repositories(1, stars=3, metadata={"has_wiki": False, "created_at": "2020-01-01", "open_issues": 2})[0]
        result = await source.details([record], 30.0)
    assert (result.asked, result.returned, result.status, result.message, result.retry_at) == (1, 1, "ok", "", None)
    assert result.records[0].text == "# Read me"
    assert result.records[0].metadata == {**record.metadata, **FIGURES}
    assert {name for parts in READ.values() for name in parts} <= {*FIGURES, *record.metadata, "updated_at", "stars", "forks"}
    assert len(server.requests) == 8
    assert {request.query["since"] for request in server.requests if "since" in request.query} == {"2025-10-03T00:00:00Z"}
    readme = next(request for request in server.requests if request.path.endswith(README))
    assert readme.headers["accept"] == "application/vnd.github.raw+json"
    assert readme.headers["authorization"] == f"Bearer {TOKEN}"


async def test_forks_get_their_parents_stars_with_nine_requests() -> None:
    async with serving(answer_part) as server:
        result = await github(server).details(repositories(25, is_fork=True), 10.0)
    assert {record.parent_stars for record in result.records} == {900}
    assert len(server.requests) == 25 * 9
    assert result.status == "ok"


async def test_no_more_go_at_once_than_the_settings_allow() -> None:
    async with serving(lambda request: replace(answer_part(request), after_s=0.01)) as server:
        await github(server, at_once=3).details(repositories(6), 10.0)
    assert (server.most, len(server.requests)) == (3, 48)


async def test_as_many_go_at_once_as_twenty_five_repositories_need() -> None:
    """The first goes alone."""

    async def full(request: Request) -> Answer:
        """Answers the first, and the others once 25 are there."""
        until = time.monotonic() + 30
        while len(server.requests) > 1 and server.most < 25 and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return answer_part(request)

    async with serving(full) as server:
        result = await github(server).details(repositories(10), 60.0)
    assert (result.status, result.returned, server.most) == ("ok", 10, 25)


async def test_the_most_informative_part_is_requested_first_for_all() -> None:
    async with serving(answer_part) as server:
        await github(server, at_once=1).details(repositories(3, is_fork=True), 10.0)
    assert list(map(part_of, server.requests)) == [part for part in PATHS for _ in range(3)]
    assert [name_of(request) for request in server.requests[:3]] == ["o/r0", "o/r1", "o/r2"]


# What it may cost


async def test_without_a_token_one_search_uses_half_of_the_budget_and_reports_the_remedy() -> None:
    hub = Hub(60)
    async with serving(hub) as server:
        source = github(server, "", Caller())
        first = await source.details(repositories(), 10.0)
        spent = [len(server.requests)]
        assert count_parts(server) == {README: 25, TREE: 5}
        for n in range(1, 6):
            again = await source.details([one.model_copy(update={"identifiers": _named(n)}) for one in repositories(1)] * 3, 10.0)
            spent.append(len(server.requests) - sum(spent))
    assert spent == [30, 8, 8, 7, 3, 2]
    assert all(record.text for record in first.records)
    assert (first.asked, first.returned, first.status) == (25, 25, "partial")
    assert first.message.startswith("left out: top folder of 20, releases of 25, commits of 25")
    assert "set GITHUB_TOKEN" in first.message
    assert first.retry_at == pytest.approx(time.time() + 1_800, abs=5)
    assert again.message.count("GITHUB_TOKEN") == 1
    assert hub.refused == 0


def _named(n: int) -> Identifiers:
    return Identifiers(github=f"other/r{n}")


@pytest.mark.parametrize("remaining", [0, 1, 2, 9, 10, 37])
async def test_the_first_answer_gives_the_remaining_budget_of_the_hour(remaining: int) -> None:
    hub = Hub(remaining)
    async with serving(hub) as server:
        result = await github(server, "", Caller()).details(repositories(), 30.0)
    assert len(server.requests) == max(1, remaining // 2)
    assert hub.refused == (not remaining)
    assert result.status == ("partial" if remaining else "rate_limited")
    assert result.retry_at == pytest.approx(time.time() + 1_800, abs=5)
    assert "set GITHUB_TOKEN" in result.message


@pytest.mark.parametrize("remaining", [1, 20, 60])
async def test_with_a_token_the_whole_remaining_budget_may_be_used(remaining: int) -> None:
    hub = Hub(remaining)
    async with serving(hub) as server:
        result = await github(server, at_once=5).details(repositories(10), 30.0)
    assert remaining - 5 < len(server.requests) <= remaining  # requests under way may or may not be counted yet
    assert hub.refused == 0
    assert result.status == "partial"
    assert "GITHUB_TOKEN" not in result.message


async def test_requests_of_others_reduce_the_budget() -> None:
    hub = Hub(500)

    def shared(request: Request) -> Answer:
        if hub.remaining == 490:
            hub.remaining = 12
        return hub(request)

    async with serving(shared) as server:
        await github(server, at_once=5).details(repositories(10), 30.0)
    assert 10 + 12 - 5 < len(server.requests) <= 10 + 12
    assert hub.refused == 0


async def test_our_own_limit_holds_where_the_service_reports_none() -> None:
    async with serving(answer_part) as server:
        source = github(server, "", Caller(), requests=5)  # half of GitHub's, hence 30 an hour
        spent = []
        for _ in range(7):
            began = time.monotonic()
            result = await source.details(repositories(), 60.0)
            spent.append(len(server.requests) - sum(spent))
            assert time.monotonic() - began < BUSY_S
    assert spent == [15, 7, 4, 2, 1, 0, 0]
    assert (result.asked, result.returned, result.status) == (0, 0, "rate_limited")
    assert result.retry_at == pytest.approx(time.time() + 3_600, abs=5)
    assert list(result.records) == repositories()


async def test_concurrent_searches_share_the_remaining_budget() -> None:
    hub = Hub(60)
    async with serving(hub) as server:
        source = github(server, "", Caller())
        await asyncio.gather(*(source.details(repositories(), 10.0) for _ in range(4)))
    assert len(server.requests) <= 60
    assert hub.refused == 0


async def test_shares_hold_for_concurrent_and_for_sequential_searches() -> None:
    """30 of 60, 15 of the other 30, and so on: the next one finds something left, and what came is counted."""
    hub = Hub(60)
    async with serving(hub) as server:
        source = github(server, "", Caller())
        batches = [[one.model_copy(update={"identifiers": _named(100 * n + m)}) for m, one in enumerate(repositories())] for n in range(5)]
        results = await asyncio.gather(*(source.details(records, 10.0) for records in batches))
        at_once = len(server.requests)
        assert [sum(bool(record.text) for record in one.records) for one in results] == [one.returned for one in results]
        after = await source.details([repositories(1)[0].model_copy(update={"identifiers": _named(900)})], 10.0)
    assert 30 < at_once <= 30 + 15 + 7 + 4 + 2
    assert after.returned == 1
    assert hub.refused == 0


async def test_received_parts_are_returned_though_the_rest_hangs() -> None:
    """The answer is there in time, with what came until then."""

    def hanging(request: Request) -> Answer:
        return answer_part(request) if part_of(request) == README else replace(answer_part(request), after_s=600.0)

    async with serving(hanging) as server:
        started = time.monotonic()
        result = await github(server).details(repositories(3), 2.0)
    assert time.monotonic() - started < 2.0 + BUSY_S
    assert (result.returned, result.status) == (3, "partial")
    assert all(record.text for record in result.records)


async def test_a_second_search_of_the_same_repositories_sends_no_request(cached: tuple[Caller, list[float]]) -> None:
    caller, now = cached
    async with serving(answer_part) as server:
        first = await github(server, caller=caller).details(repositories(6, is_fork=True), 20.0)
        flush_cache()
        now[0] += 300
        again = await github(server, caller=caller).details(repositories(6, is_fork=True), 20.0)
    assert len(server.requests) == 6 * 9
    assert again.records == first.records
    assert (first.status, again.status, again.message) == ("ok", "cached", "from the cache, up to 5 min old")


async def test_cached_parts_are_returned_without_any_budget(cached: tuple[Caller, list[float]]) -> None:
    caller, now = cached
    async with serving(answer_part) as server:
        source = github(server, "", caller, requests=1)  # six an hour
        for _ in range(4):
            result = await source.details(repositories(6), 10.0)
            flush_cache()
            now[0] += 1
    assert len(server.requests) == 3 + 1 + 1
    assert [bool(record.text) for record in result.records] == [True] * 5 + [False]
    assert (result.status, result.returned) == ("partial", 5)


async def test_older_answers_stand_in_where_github_fails(cached: tuple[Caller, list[float]]) -> None:
    caller, now = cached
    failing: list[Answer] = []
    async with serving(lambda request: failing[0] if failing else answer_part(request)) as server:
        source = github(server, caller=caller)
        first = await source.details(repositories(3), 10.0)
        flush_cache()
        now[0] += 7_200
        failing.append(refusal(403, "You have exceeded a secondary rate limit", {"Retry-After": "60"}))
        again = await source.details(repositories(3), 10.0)
    assert again.records == first.records
    assert (again.status, again.returned) == ("stale", 3)
    assert "24 older cached responses" in again.message
    assert again.retry_at == pytest.approx(now[0] + 60, abs=5)


async def test_a_removed_readme_is_not_returned(cached: tuple[Caller, list[float]]) -> None:
    caller, now = cached
    gone: list[Answer] = []
    async with serving(lambda request: gone[0] if gone and part_of(request) == README else answer_part(request)) as server:
        source = github(server, caller=caller)
        assert (await source.details(repositories(1), 30.0)).records[0].text
        flush_cache()
        now[0] += 7_200
        gone.append(refusal(404))
        again = await source.details(repositories(1), 30.0)
    assert (again.records[0].text, again.records[0].metadata["readme"], again.status) == ("", False, "ok")


async def test_an_older_answer_does_not_say_that_a_repository_is_still_there(cached: tuple[Caller, list[float]]) -> None:
    caller, now = cached
    failing: list[Answer] = []
    async with serving(
        lambda request: (refusal(404) if part_of(request) == README else failing[0]) if failing else answer_part(request)
    ) as server:
        source = github(server, caller=caller)
        await source.details(repositories(1), 30.0)
        flush_cache()
        now[0] += 7_200
        failing.append(refusal(500))
        again = await source.details(repositories(1), 30.0)
    assert (again.records[0].metadata["readme"], again.status) == (True, "stale")


# What a record has already, and what is none of GitHub's


async def test_present_fields_are_not_requested() -> None:
    async with serving(answer_part) as server:
        record = repositories(1, text="Mine.", metadata={"tree": ["a"]}, is_fork=True, parent_stars=4)[0]
        result = await github(server).details([record], 30.0)
    assert not {README, TREE, ""} & set(count_parts(server))
    assert (result.records[0].text, result.records[0].metadata["tree"], result.records[0].parent_stars) == ("Mine.", ["a"], 4)


async def test_what_is_not_githubs_stays_as_it_is() -> None:
    async with serving(answer_part) as server:
        source, other = github(server), Repository(doc_id="pypi:x", title="a/b")
        assert await source.details([], 30.0) == Detailed((), 0, 0, "empty")
        assert await source.details([other], 30.0) == Detailed((other,), 0, 0, "empty")
        assert server.requests == []
        one = repositories(1)[0]
        result = await source.details([other, one, one], 30.0)
    assert (result.records[0], result.asked, result.returned) == (other, 2, 2)
    assert result.records[1] == result.records[2] != one
    assert len(server.requests) == 8


# What a repository may be


def moved(request: Request) -> Answer:
    if request.path.startswith("/repos/"):
        where = request.target.replace(f"/repos/{name_of(request)}", "/repositories/17")
        return as_json({"message": "Moved Permanently"}, 301, {"Location": f"http://{request.headers['host']}{where}"})
    return as_json({"full_name": "New/Name", "html_url": "https://github.com/New/Name"}) if part_of(request) == "" else answer_part(request)


async def test_a_renamed_repository_is_followed_and_has_its_new_name() -> None:
    async with serving(moved) as server:
        result = await github(server).details(repositories(1), 30.0)
    record = result.records[0]
    assert (record.title, record.url, record.identifiers.github) == ("New/Name", "https://github.com/New/Name", "new/name")
    assert record.doc_id == "github:o/r0"
    assert record.metadata == FIGURES
    assert len(server.requests) == 9 + 1
    assert (
        next(request for request in server.requests if request.path == "/repositories/17/commits").query["since"] == "2025-10-03T00:00:00Z"
    )


async def test_another_host_is_not_followed() -> None:
    away = as_json({}, 301, {"Location": "https://evil.example/repositories/17/readme"})
    async with serving(lambda request: away if part_of(request) == README else answer_part(request)) as server:
        result = await github(server).details(repositories(1), 30.0)
    assert result.records[0].text == ""
    assert (result.status, result.returned) == ("partial", 1)
    assert "evil" not in result.message


async def test_one_that_moves_for_ever_is_left() -> None:
    def round_and_round(request: Request) -> Answer:
        return as_json({}, 301, {"Location": f"http://{request.headers['host']}/repositories/17"})

    async with serving(round_and_round) as server:
        result = await github(server).details(repositories(1), 30.0)
    assert (list(result.records), result.status) == (repositories(1), "unavailable")
    assert len(server.requests) <= 18


@pytest.mark.parametrize("status", [404, 451])
async def test_one_that_is_gone_stays_as_it_was(status: int) -> None:
    async with serving(lambda request: refusal(status) if name_of(request) == "o/r1" else answer_part(request)) as server:
        result = await github(server, at_once=1).details(repositories(3), 30.0)
    assert result.records[1] == repositories(3)[1]
    assert result.records[0].text
    assert result.records[2].text
    assert (result.asked, result.returned, result.status) == (3, 2, "ok")
    assert "1 no longer available" in result.message
    assert Counter(map(name_of, server.requests))["o/r1"] <= 2


async def test_a_missing_readme_is_reported() -> None:
    async with serving(lambda request: refusal(404) if part_of(request) == README else answer_part(request)) as server:
        result = await github(server).details(repositories(2), 30.0)
    assert [record.metadata["readme"] for record in result.records] == [False, False]
    assert len(server.requests) == 16


async def test_a_repository_that_may_be_gone_is_not_marked_as_without_readme() -> None:
    answers = {README: refusal(404), TREE: refusal(500)}
    async with serving(lambda request: answers.get(part_of(request), refusal(500))) as server:
        result = await github(server).details(repositories(1), 30.0)
    assert list(result.records) == repositories(1)
    assert result.returned == 0


async def test_an_empty_repository_and_one_without_issues() -> None:
    empty = {TREE: 409, "/commits": 409, "/contributors": 204, "/issues": 410, "/issues/comments": 410, "/issues?closed": 410}

    def answer(request: Request) -> Answer:
        status = empty.get(part_of(request))
        return Answer(status=204) if status == 204 else refusal(status) if status else answer_part(request)

    async with serving(answer) as server:
        result = await github(server).details(repositories(1), 30.0)
    known = {name: FIGURES[name] for name in ("readme", "releases", "last_release_at")}
    assert result.records[0].metadata == {**known, "tree": []}
    assert (result.status, result.message) == ("ok", "")


# Bounds


async def test_a_long_readme_is_cut_and_has_its_length() -> None:
    text = "ä" * (MOST_README + 7)
    async with serving(lambda request: markdown(text) if part_of(request) == README else answer_part(request)) as server:
        result = await github(server).details(repositories(1), 30.0)
    assert result.records[0].text == text[:MOST_README]
    assert result.records[0].metadata == {**FIGURES, "readme_chars": MOST_README + 7}


async def test_a_huge_readme_costs_only_itself() -> None:
    huge = as_bytes(b"x" * (50 * MEBIBYTE), "application/vnd.github.raw+json")
    async with serving(
        lambda request: huge if part_of(request) == README and name_of(request) == "o/r0" else answer_part(request)
    ) as server:
        result = await github(server).details(repositories(3), 10.0)
    assert [bool(record.text) for record in result.records] == [False, True, True]
    assert result.records[0].metadata == {name: value for name, value in FIGURES.items() if name != "readme"}
    assert (result.status, result.returned) == ("partial", 3)
    assert "bytes" in result.message
    assert server.sent < 20 * MEBIBYTE


async def test_received_parts_are_returned_when_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github_details, "ALONE_S", 0.1)
    async with serving(
        lambda request: NEVER if part_of(request) not in (README, TREE) or name_of(request) == "o/r0" else answer_part(request)
    ) as server:
        began = time.monotonic()
        result = await github(server).details(repositories(4), 2.0)
        took_s = time.monotonic() - began
    assert took_s < 2.0 + BUSY_S
    assert [set(record.metadata) for record in result.records] == [set()] + [{"readme", "tree"}] * 3
    assert result.records[0] == repositories(1)[0]
    assert (result.returned, result.status) == (3, "partial")
    assert "left out: README of 1, top folder of 1, releases of 4" in result.message
    assert "time limit of" in result.message


async def test_no_time_at_all() -> None:
    async with serving(answer_part) as server:
        result = await github(server).details(repositories(2), 0.0)
    assert (list(result.records), result.asked, result.status) == (repositories(2), 0, "timeout")
    assert server.requests == []


# Faults


@pytest.mark.parametrize("at_once", [1, 5])
async def test_a_secondary_limit_stops_requests_and_received_parts_are_returned(at_once: int) -> None:
    count = [0]

    def limited(request: Request) -> Answer:
        count[0] += 1
        return answer_part(request) if count[0] <= 16 else refusal(403, "You have exceeded a secondary rate limit", {"Retry-After": "60"})

    async with serving(limited) as server:
        result = await github(server, caller=Caller(), at_once=at_once).details(repositories(10), 10.0)
    assert 17 <= len(server.requests) <= 16 + at_once
    assert sum(bool(record.text) for record in result.records) > 10 - at_once  # they overtake one another
    assert result.returned > 10 - at_once
    assert result.status == "partial"
    assert result.retry_at == pytest.approx(time.time() + 60, abs=5)
    assert "secondary" in result.message


async def test_a_rejected_token_is_reported_after_one_request() -> None:
    async with serving(lambda _: refusal(401, f"Bad credentials: {TOKEN}")) as server:
        result = await github(server).details(repositories(), 30.0)
    assert len(server.requests) == 1
    assert (list(result.records), result.asked, result.returned, result.status) == (repositories(), 1, 0, "unauthorized")
    assert "check the key" in result.message
    assert TOKEN not in repr(result)


WITHOUT: Mapping[str, set[str]] = {
    README: {"readme"},
    TREE: {"tree"},
    RELEASES: {"releases", "last_release_at"},
    "/commits": {"commits_90d"},
    "/contributors": {"contributors"},
    "/issues": {"closed_90d", "issue_response_days"},
    "/issues/comments": {"issue_response_days"},
    "/issues?closed": {"closed_issues"},
}


@pytest.mark.parametrize("part", WITHOUT)
@pytest.mark.parametrize("fault", ["403", "HTML", "500", "connection reset", "truncated", "wrong JSON", "JSON of another shape", "empty"])
async def test_a_part_that_fails_is_missing(part: str, fault: str) -> None:
    async with serving(lambda request: FAULTS[fault] if part_of(request) == part else answer_part(request)) as server:
        result = await github(server).details(repositories(1), 30.0)
    assert FIGURES.keys() - result.records[0].metadata.keys() == WITHOUT[part]
    assert (result.returned, result.status) == (1, "partial")
    assert "1 request failed: " in result.message
    assert len(server.requests) == 8


@pytest.mark.parametrize("fault", FAULTS)
async def test_where_everything_fails_the_records_are_as_they_were(fault: str) -> None:
    async with serving(lambda _: FAULTS[fault]) as server:
        result = await github(server, timeout_s=0.4).details(repositories(2), 0.8)
    assert (list(result.records), result.returned) == (repositories(2), 0)
    expected = {"401": "unauthorized", "403": "forbidden", "429": "rate_limited", "429, Retry-After": "rate_limited"}
    expected |= {"403 limit": "rate_limited", "timeout": "timeout", "slow drip": "timeout"}
    assert result.status == expected.get(fault, "unavailable")
    assert result.message


@dataclass
class Chance:
    """Some requests fail, each in its own way."""

    faults: Mapping[int, Answer]
    count: int = 0
    bodies: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Answer:
        self.count += 1
        answer = self.faults.get(self.count % 11) or answer_part(request)
        self.bodies.append(answer.body.decode(errors="replace") + json.dumps(dict(answer.headers)))
        return answer


QUICK = sorted(set(FAULTS) - {"timeout", "slow drip"})
KINDS = st.sampled_from([*(FAULTS[name] for name in QUICK), refusal(404), refusal(451), refusal(409), Answer(status=204), markdown("")])
HAD: Sequence[Callable[[Repository], Any]] = (
    lambda record: record.text,
    lambda record: record.parent_stars,
    lambda record: record.url,
    lambda record: record.stars,
    lambda record: record.licence,
    lambda record: record.identifiers.github,
)
RECORDS = st.lists(
    st.builds(
        lambda n, text, fork, url, metadata: Repository(
            doc_id=f"github:o/r{n}",
            title=f"O/R{n}",
            identifiers=Identifiers(github=f"o/r{n}" if n else None, doi="10.1000/x"),
            text=text,
            is_fork=fork,
            url=url,
            stars=n,
            metadata=metadata,
        ),
        st.integers(0, 3),
        st.sampled_from(["", "Mine."]),
        st.booleans() | st.none(),
        st.sampled_from([None, "https://github.com/o/r"]),
        st.dictionaries(st.sampled_from(["tree", "releases", "has_wiki", "own"]), st.integers(0, 9) | st.none(), max_size=3),
    ),
    max_size=4,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.integers(0, 10), KINDS, max_size=8), RECORDS, st.sampled_from(["", TOKEN]))
def test_however_requests_fail_nothing_is_raised_lost_or_made_up(
    faults: Mapping[int, Answer], records: list[Repository], token: str
) -> None:
    chance = Chance(faults)
    with serving(chance) as server:
        result = asyncio.run(github(server, token).details(records, 3.0))
        requests = len(server.requests)
    assert requests <= (9 * len({record.doc_id for record in records}) if token else 30)
    assert [record.doc_id for record in result.records] == [record.doc_id for record in records]
    assert result.returned <= result.asked <= len(records)
    text = "".join(chance.bodies)
    for before, after in zip(records, result.records, strict=True):
        assert before.metadata.keys() <= after.metadata.keys()
        for value in (read(before) for read in HAD):
            assert value is None or value == "" or value in [read(after) for read in HAD]
        assert after.identifiers.doi == before.identifiers.doi
        assert after.text in (before.text, "# Read me") or after.text in text
        for name, value in after.metadata.items():
            if name in before.metadata and value == before.metadata[name]:
                continue
            assert name in FIGURES
            assert value in (FIGURES[name], False, 0, [], 1) or str(value) in text
