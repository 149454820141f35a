"""The GitHub adapter against a local server: requests, answers, failures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from outrider.settings.sections import GithubSettings
from outrider.sources.github.search import Github, build_query
from outrider.sources.http.cache import DiskCache
from outrider.sources.http.client import Caller
from outrider.state.errors import Forbidden, Malformed, RateLimited, SourceError, SourceTimeout, SourceUnavailable, Unauthorized
from outrider.state.intent import Constraints, NumberRange, RepositoryWishes
from outrider.state.ports import EXPANDED, Source, SourceQuery
from support.http_server import FAULTS, Answer, Request, as_json, refusal, serving

TOKEN = "ghp_secret0123456789"
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def github(server: serving, token: str = "", caller: Caller | None = None, **more: Any) -> Github:
    settings = GithubSettings(base_url=server.base_url, api_key=SecretStr(token), requests=1_000, per_s=1.0, **more)
    return Github.of(settings, caller or Caller(clock=lambda: NOW))


def query(strategy: str = "stars", **more: Any) -> SourceQuery:
    defaults: dict[str, Any] = {"keywords": ("react", "animation"), "within_s": 30.0, **more}
    return SourceQuery("react animation", strategy, None, defaults.pop("limit", 50), **defaults)


def item(name: str, **more: Any) -> dict[str, Any]:
    return {"id": 1, "full_name": name, "html_url": f"https://github.com/{name}", "stargazers_count": 5, "score": 1.0, **more}


def page(*items: Any, **more: Any) -> Answer:
    return as_json({"total_count": len(items), "incomplete_results": False, "items": list(items), **more})


def always(answer: Answer) -> Callable[[Request], Answer]:
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
async def test_the_request_of_a_search(strategy: str, sort: dict[str, str]) -> None:
    wishes, stars = RepositoryWishes(language="C++", topics=("ui",)), Constraints(stars=NumberRange(min=50))
    async with serving(always(page(item("a/b")))) as server:
        await github(server).search(query(strategy, repositories=wishes, constraints=stars, widened=("motion",)))
    (request,) = server.requests
    words = "react animation OR motion language:C++" if strategy == EXPANDED else "react animation language:C++ topic:ui"
    assert (request.path, request.query) == ("/search/repositories", {"q": f"{words} stars:>=50 archived:false", "per_page": "50", **sort})
    assert request.headers["accept"] == "application/vnd.github+json"
    assert request.headers["x-github-api-version"] == "2022-11-28"
    assert "authorization" not in request.headers


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


async def test_at_most_a_hundred_are_requested() -> None:
    async with serving(always(page(item("a/b")))) as server:
        await github(server).search(query(limit=400))
    assert server.requests[0].query["per_page"] == "100"


@pytest.mark.parametrize("nothing", [query(keywords=("::",)), query(limit=0)])
async def test_an_empty_query_sends_no_request(nothing: SourceQuery) -> None:
    async with serving(always(page(item("a/b")))) as server:
        assert (await github(server).search(nothing)).results == ()
    assert server.requests == []


async def test_a_truncated_answer_and_missing_names_are_reported() -> None:
    async with serving(always(page(item("a/b"), {}, None, incomplete_results=True))) as server:
        answer = await github(server).search(query())
    assert (len(answer.results), answer.status) == (1, "partial")
    assert "ran out of time" in answer.message
    assert "2 without a title" in answer.message


WISHED = RepositoryWishes(language="TypeScript", topics=("ui",))


async def test_stars_retry_with_a_plain_query_where_nothing_matched() -> None:
    async with serving(lambda request: page() if "language:" in request.query["q"] else page(item("a/b"))) as server:
        answer = await github(server).search(query(repositories=WISHED))
    assert [request.query["q"].split(" archived")[0] for request in server.requests] == [
        "react animation language:TypeScript topic:ui",
        "react animation",
    ]
    assert [scored.record.doc_id for scored in answer.results] == ["github:a/b"]
    assert "language:TypeScript" in answer.message


@pytest.mark.parametrize(
    "search_query", [query("updated", repositories=WISHED), query(EXPANDED, repositories=WISHED, widened=("x",)), query()]
)
async def test_other_strategies_and_plain_queries_are_not_retried(search_query: SourceQuery) -> None:
    async with serving(always(page())) as server:
        answer = await github(server).search(search_query)
    assert (len(server.requests), answer.results, answer.total, answer.status) == (1, (), 0, "")


async def test_a_failed_second_try_leaves_the_first_answer() -> None:
    async with serving(lambda request: page() if "language:" in request.query["q"] else refusal(403)) as server:
        answer = await github(server).search(query(repositories=WISHED))
    assert (answer.results, answer.status) == ((), "partial")
    assert "403" in answer.message


def failing_once(fault: Answer) -> Callable[[Request], Answer]:
    """Fails for queries with more than the bare words."""
    return lambda request: fault if "language:" in request.query["q"] else page(item("a/b"))


@pytest.mark.parametrize(("fault", "requests"), [("timeout", 2), ("slow drip", 2), ("500", 2), ("connection reset", 2), ("truncated", 2)])
async def test_stars_retry_with_a_plain_query_in_the_remaining_time_after_a_failure(fault: str, requests: int) -> None:
    within_s = 4.0 if fault in ("timeout", "slow drip") else 30.0  # half of it must end before the service's own limit does
    async with serving(failing_once(FAULTS[fault])) as server:
        answer = await github(server, caller=Caller(jitter=lambda: 0.0)).search(query(repositories=WISHED, within_s=within_s))
    assert [scored.record.doc_id for scored in answer.results] == ["github:a/b"]
    assert answer.status == "partial"
    assert "'react animation archived:false'" in answer.message
    assert len(server.requests) == requests
    assert server.requests[-1].query["q"] == "react animation archived:false"
    assert server.requests[-1].query["sort"] == "stars"


@pytest.mark.parametrize("fault", ["401", "403", "403 limit", "429, Retry-After"])
async def test_a_query_that_github_refuses_is_not_repeated(fault: str) -> None:
    async with serving(failing_once(FAULTS[fault])) as server:
        with pytest.raises(SourceError) as caught:
            await github(server).search(query(repositories=WISHED, within_s=30.0))
    assert type(caught.value) is EXPECTED[fault]
    assert len(server.requests) == 1


@pytest.mark.parametrize("strategy", ["updated", EXPANDED])
async def test_only_stars_retry_with_a_plain_query_after_a_failure(strategy: str) -> None:
    async with serving(failing_once(FAULTS["500"])) as server:
        with pytest.raises(SourceUnavailable, match="500"):
            await github(server, caller=Caller(jitter=lambda: 0.0)).search(query(strategy, repositories=WISHED, widened=("x",)))
    assert all("language:" in request.query["q"] for request in server.requests)


async def test_a_search_that_fails_twice_reports_its_first_failure() -> None:
    answers = [refusal(502, "first"), refusal(503, "second"), refusal(503, "third")]
    async with serving(lambda _: answers.pop(0)) as server:
        with pytest.raises(SourceUnavailable, match="first"):
            await github(server, caller=Caller(jitter=lambda: 0.0)).search(query(repositories=WISHED))
    assert answers == []


async def test_searches_that_fail_stay_within_ten_a_minute() -> None:
    async with serving(always(refusal(500))) as server:
        source = Github.of(GithubSettings(base_url=server.base_url), Caller(jitter=lambda: 0.0))
        for _ in range(5):
            with pytest.raises(SourceError):
                await source.search(query(repositories=WISHED, within_s=1.0))
    assert len(server.requests) <= 10


async def test_a_permit_after_half_of_the_time_is_awaited() -> None:
    async with serving(always(page(item("a/b")))) as server:
        source = Github.of(GithubSettings(base_url=server.base_url, requests=1, per_s=3.6), Caller())
        assert (await source.search(query())).results
        assert (await source.search(query(within_s=6.0))).results


INVALID = as_json({"message": "Validation Failed", "errors": [{"resource": "Search", "message": "no such language"}]}, 422)


async def test_a_refused_query_is_retried_as_a_plain_one_for_every_strategy() -> None:
    async with serving(lambda request: INVALID if "language:" in request.query["q"] else page(item("a/b"))) as server:
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
            await github(server).search(query(within_s=1.5))
    assert type(caught.value) is EXPECTED.get(fault, Malformed)
    assert (caught.value.retry_at is not None) == (fault in ("429, Retry-After", "403 limit"))


async def test_a_cached_answer_is_marked_and_used_when_github_fails(tmp_path: Path) -> None:
    now = [NOW]
    caller = Caller(answers=DiskCache(tmp_path, clock=lambda: now[0]), clock=lambda: now[0])
    answers = [page(item("a/b")), refusal(429, headers={"Retry-After": "60"})]
    async with serving(lambda _: answers.pop(0)) as server:
        source = github(server, caller=caller)
        replies = []
        for later_s in (0, 600, 7_200):
            now[0] = NOW + later_s
            replies.append(await source.search(query(within_s=1.0)))
    assert [answer.status for answer in replies] == ["", "cached", "stale"]
    assert [len(answer.results) for answer in replies] == [1, 1, 1]
    assert "10 min" in replies[1].message
    assert "2 h" in replies[2].message


async def test_a_repository_is_fetched_by_its_name() -> None:
    async with serving(always(as_json(item("A/B", parent={"stargazers_count": 7})))) as server:
        record = await github(server).get("github", "a/b", 2.0)
    assert server.requests[0].path == "/repos/a/b"
    assert record
    assert (record.doc_id, record.parent_stars) == ("github:a/b", 7)


@pytest.mark.parametrize("body", [[], {}, "x", {"message": "hello"}])
async def test_what_is_no_repository_is_malformed(body: Any) -> None:
    async with serving(always(as_json(body))) as server:
        with pytest.raises(Malformed, match="repository"):
            await github(server).get("github", "a/b", 2.0)


@pytest.mark.parametrize("status", [404, 451])
async def test_no_repository_is_none(status: int) -> None:
    async with serving(always(refusal(status))) as server:
        assert await github(server).get("github", "a/b", 2.0) is None


@pytest.mark.parametrize(
    ("scheme", "value"), [("doi", "a/b"), ("github", "a"), ("github", "../x"), ("github", "a/.."), ("github", "a/b/c")]
)
async def test_an_invalid_name_sends_no_request(scheme: str, value: str) -> None:
    async with serving(always(as_json(item("a/b")))) as server:
        assert await github(server).get(scheme, value, 2.0) is None
    assert server.requests == []


async def test_a_renamed_repository_is_followed() -> None:
    def moved(request: Request) -> Answer:
        if request.path == "/repos/old/name":
            return as_json({"message": "Moved Permanently"}, 301, {"Location": f"http://{request.headers['host']}/repositories/17"})
        return as_json(item("new/name")) if request.path == "/repositories/17" else refusal(404)

    async with serving(moved) as server:
        record = await github(server).get("github", "old/name", 2.0)
    assert record
    assert record.identifiers.github == "new/name"


@pytest.mark.parametrize(
    "location", ["https://evil.example/repositories/17", "http://127.0.0.1:1/repositories/17", "/user", "", "{host}/user"]
)
async def test_no_other_host_is_followed(location: str) -> None:
    def moved(request: Request) -> Answer:
        return as_json({}, 301, {"Location": location.replace("{host}", f"http://{request.headers['host']}")})

    async with serving(moved) as server:
        with pytest.raises(Malformed, match="301"):
            await github(server, TOKEN).get("github", "old/name", 2.0)
    assert len(server.requests) == 1


async def test_a_spent_budget_of_one_kind_leaves_the_other() -> None:
    def spent(request: Request) -> Answer:
        headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time() + 600))}
        return as_json(item("a/b"), headers=headers) if request.path.startswith("/repos") else page(item("a/b"))

    async with serving(spent) as server:
        source = github(server, caller=Caller())
        assert await source.get("github", "a/b", 2.0)
        with pytest.raises(RateLimited):
            await source.get("github", "a/b", 0.2)
        assert (await source.search(query())).results


# The query that it builds

WORDS = ("React", "animation", "library")
WISHES = RepositoryWishes(language="C++", topics=("react", "ui"), created_after=date(2024, 1, 31))


def keyword_query(*keywords: str, strategy: str = "stars", **more: Any) -> SourceQuery:
    return SourceQuery(more.pop("text", ""), strategy, None, 50, keywords=keywords, **more)


def star_range(low: int | None = None, high: int | None = None) -> Constraints:
    return Constraints(stars=NumberRange(min=low, max=high))


def test_words_and_wishes() -> None:
    text = build_query(keyword_query(*WORDS, repositories=WISHES, constraints=star_range(50)))
    assert text == "React animation library language:C++ topic:react stars:>=50 created:>=2024-01-31 archived:false"


def test_asking_for_less_drops_wishes_and_words_but_no_rule() -> None:
    text = build_query(keyword_query(*WORDS, "springs", repositories=WISHES, constraints=star_range(50)), plain=True)
    assert text == "React animation library stars:>=50 created:>=2024-01-31 archived:false"


@pytest.mark.parametrize(
    ("constraints", "qualifier"),
    [(star_range(), ""), (star_range(10), "stars:>=10 "), (star_range(None, 500), "stars:<=500 "), (star_range(10, 500), "stars:10..500 ")],
)
def test_stars(constraints: Constraints, qualifier: str) -> None:
    assert build_query(keyword_query("crm", constraints=constraints)) == f"crm {qualifier}archived:false"


def test_widening_terms_stand_beside_the_words_as_alternatives() -> None:
    text = build_query(
        keyword_query(*WORDS, strategy=EXPANDED, widened=("motion", "state transition", "React", "tween"), repositories=WISHES)
    )
    assert text == 'React animation library OR motion OR "state transition" OR tween language:C++ created:>=2024-01-31 archived:false'


def test_a_language_of_two_words_is_quoted() -> None:
    wishes = RepositoryWishes(language='Jupyter "Notebook" user:x')
    assert build_query(keyword_query("plots", repositories=wishes)) == 'plots language:"Jupyter Notebook user x" archived:false'


def test_stop_words_are_omitted_unless_there_are_no_others() -> None:
    assert build_query(keyword_query("a", "CLI", "tool", "for", "developers")) == "CLI tool developers archived:false"
    assert build_query(keyword_query("to", "be", "or", "not")) == "to be or not archived:false"


def test_of_many_words_the_first_are_sent() -> None:
    assert build_query(keyword_query("one two", "three", "Three", "four", "five", "six")) == "two three four five archived:false"


def test_the_text_replaces_missing_keywords() -> None:
    assert build_query(keyword_query(text="C++ web framework")) == "C++ web framework archived:false"


@pytest.mark.parametrize("keywords", [(), ("",), ('"', "::", "(-)")])
def test_without_words_the_query_is_empty(keywords: tuple[str, ...]) -> None:
    assert build_query(keyword_query(*keywords, repositories=WISHES, constraints=star_range(50))) == ""


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("user:torvalds", "user torvalds"),
        ("-graphics", "graphics"),
        ("x AND (y)", "x y"),
        ('a"b', "b"),
        ("stars:>1\u0000", "stars 1"),
        ("node.js", "node.js"),
        ("C#", "C#"),
        ("机器学习", "机器学习"),
    ],
)
def test_a_word_is_no_syntax(word: str, words: str) -> None:
    assert build_query(keyword_query(word)) == f"{words} archived:false"


TERMS = st.lists(st.text(max_size=80) | st.sampled_from(["AND", "x OR y", "-user:me", "org:x", '"', "is:private"]), max_size=12).map(tuple)


@given(TERMS, TERMS, st.sampled_from(["stars", "updated", EXPANDED]), st.booleans())
def test_no_words_break_githubs_rules(keywords: tuple[str, ...], widened: tuple[str, ...], strategy: str, plain: bool) -> None:
    """256 characters of words, five operators, no qualifier but ours, quotation marks in pairs."""
    text = build_query(keyword_query(*keywords, strategy=strategy, widened=widened), plain=plain)
    assert not text or text.endswith(" archived:false")
    words = text.removesuffix("archived:false")
    assert ":" not in words
    assert words.count('"') % 2 == 0
    operators = re.findall(r"(?:^| )(AND|OR|NOT)(?= |$)", re.sub(r'"[^"]*"', "x", words))
    assert set(operators) <= {"OR"}
    assert len(operators) <= 5
    assert len(words.replace(" OR ", " ").strip()) <= 256
    assert not re.search(r"(?:^| )-", words)
