"""GitHub on loopback: search that matches every word, and details of repositories."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from bench.answers import Project, as_json, github, repository
from bench.served import HttpRequest, HttpResponse

QUALIFIER = re.compile(r'(\w+):("[^"]*"|\S+)')
TERM = re.compile(r'"([^"]*)"|(\S+)')
ORDER = {"stars": lambda one: -one.stars, "updated": lambda one: [-ord(letter) for letter in one.pushed_at]}
TREE = ("src", "docs", "examples", "tests", "README.md", "LICENSE", "CHANGELOG.md")
GONE = HttpResponse(b'{"message":"Not Found"}', status=404)


def respond(request: HttpRequest, projects: Sequence[Project]) -> HttpResponse:
    """The response to `/search/repositories` or `/repos/{owner}/{name}/...`."""
    first, *rest = request.parts[2:]
    if first == "search":
        projects_found = search(request.query["q"], request.query.get("sort", ""), projects)
        return github(projects_found[: int(request.query.get("per_page", 30))], len(projects_found))
    named = "/".join(rest[:2])
    one = next((project for project in projects if project.full_name == named), None)
    return GONE if one is None else single(one, "/".join(rest[2:]), request)


def search(query: str, sort: str, projects: Iterable[Project]) -> list[Project]:
    """`a b OR c` is read as `(a b) OR c`; without a sort order, projects with more of the words come first."""
    wishes = dict(QUALIFIER.findall(query))
    alternatives = [
        [(quoted or word).lower() for quoted, word in TERM.findall(part)] for part in QUALIFIER.sub("", query).split(" OR ") if part.strip()
    ]
    matches = [one for one in projects if _wished(one, wishes) and any(_has(one, words) for words in alternatives)]
    order = ORDER.get(sort) or (lambda one: -sum(_has(one, words) for words in alternatives))
    return sorted(matches, key=lambda one: (order(one), one.full_name))


def _has(one: Project, words: Iterable[str]) -> bool:
    text = f"{one.full_name} {one.description} {' '.join(one.topics)}".lower()
    return all(word in text for word in words)


def _wished(one: Project, wishes: dict[str, str]) -> bool:
    low, high = _bounds(wishes.get("stars", ""))
    return (
        wishes.get("language", one.language).strip('"').lower() == one.language.lower()
        and wishes.get("topic", "") in ("", *one.topics)
        and low <= one.stars <= high
        and wishes.get("created", "")[2:] <= one.created_at
        and not (wishes.get("archived") == "false" and one.archived)
    )


def _bounds(text: str) -> tuple[float, float]:
    low, _, high = text.partition("..")
    if high:
        return float(low), float(high)
    number = float(text.lstrip("<>=") or 0)
    return (0, number) if text.startswith("<") else (number, float("inf"))


def single(one: Project, what: str, request: HttpRequest) -> HttpResponse:
    """One repository, or a part of it; `what` is the rest of the address."""
    if what == "readme":
        return HttpResponse(one.readme.encode(), "application/vnd.github.raw+json; charset=utf-8") if one.readme else GONE
    if what == "git/trees/HEAD":
        return as_json({"tree": [{"path": name, "type": "blob"} for name in TREE]})
    counts = {"releases": 24, "commits": 90, "contributors": 35, "issues": 140}
    if what in counts and request.query.get("per_page") == "1":
        return _page([_event(one, 1)], counts[what], request)
    if what in ("issues", "issues/comments"):
        return as_json([_event(one, number) for number in range(1, 41)])
    return as_json(repository(one)) if not what else GONE


def _page(rows: list[dict[str, Any]], count: int, request: HttpRequest) -> HttpResponse:
    """One of `count` pages."""
    return as_json(rows, {"link": f'<http://127.0.0.1{request.path}?per_page=1&page={count}>; rel="last"'})


def _event(one: Project, number: int) -> dict[str, Any]:
    """Usable as an issue, a comment and a release."""
    at = one.pushed_at
    return {
        "number": number,
        "issue_url": f"https://api.github.com/repos/{one.full_name}/issues/{number}",
        "created_at": at,
        "closed_at": at if number % 2 else None,
        "published_at": at,
        "user": {"login": f"user{number}", "type": "User"},
    }
