"""GitHub's answers as records: every recorded one, the API's own description and examples, and answers with broken fields."""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.fine_scorer.dimensions import PARTS
from outrider.nodes.fine_scorer.repositories import SHOWN_METADATA
from outrider.sources.github.parse import (
    SearchPage,
    count_closed_since,
    find_refusal,
    median_response_days,
    normal_name,
    parse_budget,
    parse_count,
    parse_list,
    parse_readme,
    parse_releases,
    parse_repository,
    parse_search_page,
    parse_tree,
)
from outrider.sources.http.service import Reply
from outrider.state.errors import Malformed
from outrider.state.records import RECORD
from support.shared_data import DATA

RECORDED = DATA / "recorded"
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded answers at {RECORDED}")
READERS = (parse_search_page, parse_readme, parse_tree, parse_releases, parse_list, parse_count, find_refusal)
MOTION: dict[str, Any] = {
    "id": 17,
    "full_name": "Dancers/Motion",
    "name": "Motion",
    "html_url": "https://github.com/Dancers/Motion",
    "description": "Springs\nand tweens",
    "fork": True,
    "stargazers_count": 1200,
    "forks_count": 30,
    "open_issues_count": 4,
    "language": "TypeScript",
    "topics": ["react", "animation"],
    "license": {"key": "mit", "spdx_id": "MIT"},
    "pushed_at": "2026-01-02T03:04:05Z",
    "created_at": "2019-01-01T00:00:00Z",
    "homepage": "https://motion.example/",
    "archived": False,
    "has_wiki": True,
    "parent": {"full_name": "Old/Motion", "stargazers_count": 9},
}


class Exchange(NamedTuple):
    place: str
    path: str
    reply: Reply


def reply(data: Any, status: int = 200, **headers: str) -> Reply:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return Reply("https://api.github.com/x", status, {"content-type": "application/json", **headers}, body)


@cache
def exchanges() -> tuple[Exchange, ...]:
    return (*_pygithub(), *_octokit())


def _pygithub() -> Iterator[Exchange]:
    """Eleven lines each: scheme, method, host, port, path, headers, body; status, headers, body; and an empty one."""
    for file in sorted((RECORDED / "github_pygithub").glob("*.txt")):
        lines = file.read_text(encoding="utf-8").split("\n")
        for at in (at for at, line in enumerate(lines) if line in ("http", "https") and at + 9 < len(lines)):
            headers = {name.lower(): value for name, value in eval(lines[at + 8])}
            yield Exchange(file.name, lines[at + 4], Reply(lines[at + 4], int(lines[at + 7]), headers, lines[at + 9].encode()))


def _octokit() -> Iterator[Exchange]:
    for file in sorted((RECORDED / "github_octokit").glob("*/*/*.json")):
        for one in json.loads(file.read_text(encoding="utf-8")):
            recorded_body = one.get("response", "")
            body = recorded_body if isinstance(recorded_body, str) else json.dumps(recorded_body)
            headers = one.get("headers") or {}
            headers = headers if isinstance(headers, dict) else {}
            lower_headers = {str(name).lower(): str(value) for name, value in headers.items()}
            yield Exchange(file.parent.name, one["path"], Reply(one["path"], one["status"], lower_headers, body.encode()))


def of(place: str, path: str = "") -> list[Reply]:
    replies = [one.reply for one in exchanges() if one.place == place and path in one.path]
    assert replies, f"{place} {path} is not recorded"
    return replies


@recorded
def test_every_recorded_answer_is_read_or_called_malformed() -> None:
    read = 0
    for one in exchanges():
        for reader in READERS:
            with suppress(Malformed):
                reader(one.reply)
                read += 1
        with suppress(Malformed):
            body = one.reply.json()
            for item in body if isinstance(body, list) else [body]:
                if record := parse_repository(item):
                    assert RECORD.validate_json(record.model_dump_json()) == record
    assert len(exchanges()) > 100
    assert read > 100


@recorded
def test_a_recorded_search_by_stars_gives_every_repository_in_its_order() -> None:
    first, second = (parse_search_page(page) for page in of("Search.testSearchRepos.txt"))
    assert first.total == second.total == 2723
    assert (len(first.records), first.nameless, first.incomplete) == (30, 0, False)
    assert [record.stars for record in first.records][:3] == [3036, 1062, 669]
    legit = first.records[0]
    assert (legit.title, legit.identifiers.github, legit.url) == (
        "kennethreitz/legit",
        "kennethreitz/legit",
        "https://github.com/kennethreitz/legit",
    )
    assert (legit.doc_id, legit.source, legit.language, legit.is_fork, legit.year) == (
        "github:kennethreitz/legit",
        "github",
        "Python",
        False,
        None,
    )
    assert legit.archived is None  # no such field in 2014, and not guessed


@recorded
def test_a_recorded_search_without_results_is_empty() -> None:
    (page,) = of("Search.testSearchReposWithNoResults.txt")
    assert parse_search_page(page) == SearchPage((), 0, 0, False)


@recorded
def test_a_search_of_the_api_that_came_before_is_malformed() -> None:
    with pytest.raises(Malformed, match="items"):
        parse_search_page(of("Github.testSearchRepos.txt")[0])


@recorded
def test_recorded_repositories_say_forks_and_licences() -> None:
    fork = parse_repository(of("ConditionalRequestUpdate.setUp.txt")[0].json())
    assert fork
    assert (fork.identifiers.github, fork.is_fork) == ("akfish/pygithub", True)
    assert (fork.stars, fork.parent_stars) == (None, None)  # in 2013 there were watchers only
    now = parse_repository(of("Repository.setUp.txt")[0].json())
    assert now
    assert (now.title, now.licence, now.parent_stars) == ("PyGithub/PyGithub", "LGPL-3.0", None)
    assert now.metadata["created_at"] == "2012-02-25T12:53:47Z"


@recorded
def test_recorded_readme_tree_contributors_and_a_cut_page() -> None:
    readme = parse_readme(of("Repository.testGetContents.txt", "/readme")[0])
    assert readme
    assert "PyGithub" in readme
    assert "ReadMe.md" in parse_tree(of("GitTree.setUp.txt", "/git/trees/")[0])
    assert parse_count(of("Repository.testGetContributors.txt")[0]) == 1
    assert parse_count(of("paginate-issues", "/issues?per_page=3")[0]) == 5


@recorded
def test_a_recorded_renaming_gives_the_new_name() -> None:
    moved, there = (next(one for one in of("rename-repository") if one.status == status) for status in (301, 200))
    assert moved.headers["location"].startswith("https://api.github.com/repositories/")
    assert parse_repository(moved.json()) is None
    record = parse_repository(there.json())
    assert record
    assert record.identifiers.github == "octokit-fixture-org/rename-repository-newname"


REPOSITORY = {
    **dict.fromkeys(("full_name", "name", "html_url", "description", "language", "pushed_at", "created_at", "homepage"), "string"),
    **dict.fromkeys(("id", "stargazers_count", "forks_count", "open_issues_count"), "integer"),
    **dict.fromkeys(("fork", "archived", "has_wiki"), "boolean"),
    "topics": "array",
    "license": None,  # a schema of its own
}
READ = {
    "repo-search-result-item": REPOSITORY,
    "full-repository": {**REPOSITORY, "parent": None},
    "nullable-license-simple": {"spdx_id": "string"},
    "content-file": {"encoding": "string", "content": "string"},
    "git-tree": {"tree": "array"},
    "release": {"published_at": "string"},
    "validation-error": {"message": "string", "errors": "array"},
}


@recorded
@pytest.mark.parametrize("schema", READ)
def test_every_field_that_is_read_is_in_the_openapi_description(schema: str) -> None:
    described = json.loads((RECORDED / "github_openapi/api.github.com.search-repo-subset.json").read_text())["components"]["schemas"][
        schema
    ]
    types = {name: described["properties"][name].get("type") for name in READ[schema]}
    assert types == READ[schema]


@recorded
def test_the_official_examples() -> None:
    examples = json.loads((RECORDED / "github_openapi/official_example_responses.json").read_text())

    def example(path: str) -> Any:
        recorded_example = next(value for name, value in examples.items() if name.startswith(f"{path} 200"))
        return recorded_example.get("value", recorded_example) if isinstance(recorded_example, dict) else recorded_example

    (tetris,) = parse_search_page(reply(example("/search/repositories"))).records
    assert (tetris.identifiers.github, tetris.language, tetris.licence) == ("dtrupenn/tetris", "Assembly", "MIT")
    hello = parse_repository(example("/repos/{owner}/{repo}"))
    assert hello
    assert (hello.doc_id, hello.stars, hello.parent_stars, hello.tags) == (
        "github:octocat/hello-world",
        80,
        80,
        ("octocat", "atom", "electron", "api"),
    )
    assert parse_tree(reply(example("/repos/{owner}/{repo}/git/trees/{tree_sha}")))[0] == "file.rb"
    with pytest.raises(Malformed, match="base64"):
        parse_readme(reply(example("/repos/{owner}/{repo}/readme")))  # it holds words where its content should be
    assert parse_releases(reply([example("/repos/{owner}/{repo}/releases/latest")])).last_at == "2013-02-27T19:35:32Z"
    assert parse_count(reply(example("/repos/{owner}/{repo}/commits"))) == 1


def test_a_repository_keeps_its_fields() -> None:
    record = parse_repository(MOTION)
    assert record
    assert (record.doc_id, record.title, record.description) == ("github:dancers/motion", "Dancers/Motion", "Springs and tweens")
    assert (record.stars, record.forks, record.parent_stars, record.is_fork, record.archived) == (1200, 30, 9, True, False)
    assert (record.tags, record.licence, record.updated_at) == (("react", "animation"), "MIT", "2026-01-02T03:04:05Z")
    metadata = {"created_at": "2019-01-01T00:00:00Z", "open_issues": 4, "has_wiki": True, "homepage": "https://motion.example/"}
    assert record.metadata == metadata


def test_figures_have_the_names_that_are_read_of_a_record() -> None:
    record = parse_repository(MOTION)
    assert record
    read = {name for parts in PARTS.values() for name in parts} | {"open_issues", "tree"} | set(SHOWN_METADATA)
    assert record.metadata.keys() - {"homepage"} <= read


@pytest.mark.parametrize("licence", [None, "MIT", {}, {"spdx_id": None}, {"spdx_id": "NOASSERTION"}, {"spdx_id": 3}])
def test_an_unknown_licence_is_none(licence: Any) -> None:
    record = parse_repository({**MOTION, "license": licence})
    assert record
    assert record.licence is None


@pytest.mark.parametrize("repository", [None, [], "x", {}, {"full_name": 3}, {"name": " "}, {"name": "no id"}])
def test_an_item_without_a_name_is_no_record(repository: Any) -> None:
    assert parse_repository(repository) is None


def test_nameless_items_are_counted() -> None:
    search_page = parse_search_page(reply({"total_count": "many", "items": [MOTION, None, {}, 3]}))
    assert (len(search_page.records), search_page.nameless, search_page.total) == (1, 3, None)


@pytest.mark.parametrize("name", ["", "a", "a/", "/b", "a/b/c", "a/..", "a/.", "../b", "a b/c", "a/b?c", "ä/b", "a/b#c", "a%2f/b"])
def test_what_is_no_name_of_a_repository(name: str) -> None:
    assert normal_name(name) is None


def test_names_are_compared_without_case() -> None:
    assert normal_name(" Vuejs/Core.JS ") == "vuejs/core.js"


def test_a_readme_is_read_raw_or_from_base64() -> None:
    text = "# Größe 大小\n"
    raw = Reply("u", 200, {"content-type": "application/vnd.github.raw+json; charset=utf-8"}, text.encode())
    assert parse_readme(raw) == text
    assert parse_readme(reply({"encoding": "base64", "content": b64encode(text.encode()).decode()})) == text
    assert parse_readme(reply({"encoding": "none", "content": ""})) is None
    with pytest.raises(Malformed):
        parse_readme(reply({"encoding": "base64", "content": "x"}))


def test_a_readme_is_text_without_mark_and_controls() -> None:
    kind = {"content-type": "application/vnd.github.raw+json"}
    assert parse_readme(Reply("u", 200, kind, b"\xef\xbb\xbf# A\x00\r\n\x1b[1mB\xff")) == "# A \r\n [1mB\ufffd"


@pytest.mark.parametrize("kind", [{}, {"content-type": "text/html; charset=utf-8"}, {"content-type": "application/json"}])
def test_an_outage_page_is_no_readme(kind: dict[str, str]) -> None:
    with pytest.raises(Malformed):
        parse_readme(Reply("u", 200, kind, b"<title>Down</title>"))


@pytest.mark.parametrize(
    ("remaining", "reset", "budget"),
    [
        ("59", "1800", (59, 1_800.0)), (" 0 ", "1001", (0, 1_001.0)), ("", "", (None, None)), ("-1", "1e9", (None, None)),
        ("5", "1000", (5, None)), ("5", str(1_000 + 86_401), (5, None)),
        ("9" * 5_000, "9" * 5_000, (None, None)), ("\u00b2", "x", (None, None)),
    ],
)  # fmt: skip
def test_the_remaining_budget_of_the_hour(remaining: str, reset: str, budget: tuple[int | None, float | None]) -> None:
    response = reply([], **{"x-ratelimit-remaining": remaining, "x-ratelimit-reset": reset})
    assert parse_budget(response, 1_000.0) == budget


@pytest.mark.parametrize(
    ("link", "count"),
    [
        ("", 1),
        (
            '<https://api.github.com/repositories/1/commits?per_page=1&page=2>; rel="next", <https://x/y?page=321&per_page=1>; rel="last"',
            321,
        ),
        ('<https://api.github.com/repositories/1/issues?after=Y3Vyc29y&page=2>; rel="next"', None),
        ('<https://x/y>; rel="last"', None),
        ("nonsense", 1),
    ],
)
def test_how_many_there_are_is_read_from_the_last_page(link: str, count: int | None) -> None:
    assert parse_count(reply([{}], link=link)) == count


def test_first_responses_are_those_of_others_who_are_no_bots() -> None:
    def issue(number: int, day: int, login: str = "asks") -> dict[str, Any]:
        return {"number": number, "created_at": f"2026-01-{day:02}T00:00:00Z", "user": {"login": login}}

    def comment(number: int, day: int, login: str, kind: str = "User") -> dict[str, Any]:
        at = f"2026-01-{day:02}T12:00:00Z"
        return {"issue_url": f"https://api.github.com/repos/a/b/issues/{number}", "created_at": at, "user": {"login": login, "type": kind}}

    issues = [issue(1, 2), issue(2, 3), issue(3, 4), issue(4, 5), issue(5, 1)]
    comments = [
        comment(1, 9, "helps"), comment(1, 4, "helps"), comment(1, 2, "Asks"), comment(2, 3, "ci", "Bot"), comment(2, 3, "ci[bot]"),
        comment(2, 7, "helps"), comment(5, 3, "helps"), comment(9, 9, "helps"), {}, {"issue_url": 3, "created_at": "soon", "user": "x"},
    ]  # fmt: skip
    assert median_response_days(issues, comments, all_comments=True) == 2.5  # 2.5, 2.5 and 4.5
    assert median_response_days(issues, comments, all_comments=False) == 4.5  # before the first comment nothing is known
    assert median_response_days(issues, [], all_comments=True) is None
    assert median_response_days([{}, {"number": None, "created_at": 3}], comments, all_comments=True) is None


def test_closed_issues_count_from_a_day_on() -> None:
    issues = [{"closed_at": "2026-01-02T00:00:00Z"}, {"closed_at": "2025-12-31T00:00:00Z"}, {"closed_at": None}, {"closed_at": 5}, {}]
    assert count_closed_since(issues, 1767225600.0) == 1


ODD = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        2**70,
        1.5,
        float("nan"),
        "",
        " ",
        "\ud800",
        "x" * 300,
        "javascript:alert(1)",
        "https://evil.example/",
        "a/b",
        [],
        {},
        [None],
        ["x", 3],
    ]
)


@st.composite
def broken(draw: st.DrawFn) -> Any:
    """A repository with fields removed or of another type, at any depth."""
    repository = copy.deepcopy(MOTION)
    for _ in range(draw(st.integers(0, 6))):
        holder = draw(
            st.sampled_from(
                [one for one in (repository, repository.get("license"), repository.get("parent")) if isinstance(one, dict) and one]
            )
        )
        name = draw(st.sampled_from(sorted(holder)))
        if draw(st.booleans()):
            del holder[name]
        else:
            holder[name] = draw(ODD)
        if not repository:
            break
    return repository


@given(broken())
def test_every_link_and_identifier_occurs_in_the_answer_however_broken_it_is(repository: Any) -> None:
    record = parse_repository(repository)
    if record is None:
        return
    assert RECORD.validate_json(record.model_dump_json()) == record
    text = json.dumps(repository, ensure_ascii=False)
    assert record.url is None or record.url in text
    assert str(record.metadata.get("homepage", "")) in text
    for _, value in record.identifiers.pairs():
        assert value in text.lower()
    assert record.doc_id.removeprefix("github:") in text.lower()
    assert record.title in text


NAMES = st.sampled_from(["items", "tree", "errors", "content", "encoding", "message", "path"])
ANSWERS = st.recursive(ODD, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=8)


@given(ANSWERS)
def test_no_answer_breaks_a_reader(body: Any) -> None:
    for reader in READERS:
        with suppress(Malformed):
            reader(reply(body))
