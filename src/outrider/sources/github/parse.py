"""Parsers of GitHub's REST API: repositories, lists, README, activity figures

Shapes: the OpenAPI description of the API (github.com/github/rest-api-description), schemas `repo-search-result-item`, `full-repository`,
`content-file`, `git-tree`, `release`, `issue`, `issue-comment`. A field that is missing or of another type counts as missing.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

from pydantic import JsonValue

from outrider.runtime.threads_and_loops import unless_abandoned
from outrider.sources.http.service import Reply, is_complete
from outrider.sources.json_fields import UNSTORABLE, items, link, mapping, text, whole
from outrider.state.errors import Malformed
from outrider.state.records import Identifiers, Repository

NAME = "github"
FULL_NAME = re.compile(r"[\w-][\w.-]*/(?!\.{1,2}$)[\w.-]+", re.ASCII)
NO_LICENCE = frozenset({"NOASSERTION", "NONE"})
"""SPDX values for an unrecognised licence and for no licence."""
LINK = re.compile(r'<([^<>]*)>\s*;\s*rel="?(\w+)')
PAGE = re.compile(r"[?&]page=(\d+)")
ISSUE = re.compile(r"/issues/(\d+)$")
RAW = "application/vnd.github.raw+json"
DAY_S = 86_400.0
MOST_NAMES = 500


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One page of a search."""

    records: tuple[Repository, ...]
    total: int | None
    nameless: int
    incomplete: bool
    """Whether GitHub timed out before it had searched everything."""


@dataclass(frozen=True, slots=True)
class Releases:
    """`count` is None if GitHub does not report the number."""

    count: int | None
    last_at: str | None
    """ISO 8601."""


def normal_name(name: str) -> str | None:
    """`owner/name` in lower case, as GitHub compares it."""
    return name.strip().lower() if FULL_NAME.fullmatch(name.strip()) else None


def parse_search_page(reply: Reply, most: int | None = None) -> SearchPage:
    """The first `most` repositories, or all. Raises `Malformed` for a response that is not a search result."""
    payload = mapping(reply.json())
    if not isinstance(payload.get("items"), list):
        raise Malformed(f"{reply.url} answered without a list of items")
    first = payload["items"][:most]
    records = tuple(record for item in unless_abandoned(first) if (record := parse_repository(item)))
    return SearchPage(records, whole(payload.get("total_count")), len(first) - len(records), payload.get("incomplete_results") is True)


def is_cacheable(reply: Reply) -> bool:
    """True for a README (its media type ends in `+json`, though the body is not JSON) and for complete JSON, except incomplete searches."""
    if reply.headers.get("content-type", "").startswith(RAW):
        return True
    return is_complete(reply) and mapping(reply.json()).get("incomplete_results") is not True


def parse_repository(payload: Any) -> Repository | None:
    """A repository from a search or a single response; None without a name. It has no year: creation or last change?"""
    payload = mapping(payload)
    title = text(payload.get("full_name")) or text(payload.get("name"))
    own_id = normal_name(title) or whole(payload.get("id"))
    if not title or own_id is None:
        return None
    spdx = text(mapping(payload.get("license")).get("spdx_id"))
    metadata: dict[str, JsonValue] = {
        "created_at": _date(payload.get("created_at")),
        "open_issues": whole(payload.get("open_issues_count")),
        "has_wiki": _flag(payload.get("has_wiki")),
        "homepage": link(payload.get("homepage")),
    }
    return Repository(
        doc_id=f"{NAME}:{own_id}",
        title=title,
        description=text(payload.get("description")),
        url=link(payload.get("html_url")),
        identifiers=Identifiers(github=normal_name(title)),
        stars=whole(payload.get("stargazers_count")),
        language=text(payload.get("language")) or None,
        tags=tuple(filter(None, map(text, items(payload.get("topics"))))),
        source=NAME,
        licence=None if spdx.upper() in NO_LICENCE else spdx or None,
        forks=whole(payload.get("forks_count")),
        parent_stars=whole(mapping(payload.get("parent")).get("stargazers_count")),
        is_fork=_flag(payload.get("fork")),
        archived=_flag(payload.get("archived")),
        updated_at=_date(payload.get("pushed_at")),
        metadata={name: value for name, value in metadata.items() if value is not None},
    )


def find_refusal(reply: Reply) -> str:
    """The reason why GitHub rejected a query (`validation-error`)."""
    payload = mapping(reply.json())
    messages = [text(mapping(error).get("message")) for error in items(payload.get("errors"))]
    return "; ".join(filter(None, messages)) or text(payload.get("message")) or "no reason given"


def parse_readme(reply: Reply) -> str | None:
    """The text of a README (media type `raw`, or a `content-file` in base64); None for a file that is too large for base64."""
    kind = reply.headers.get("content-type", "")
    if not kind or kind.startswith("text/html"):  # from a proxy, or a page that reports an outage
        raise Malformed(f"{reply.url} did not answer with a file")
    if not kind.startswith("application/json"):
        return _body(reply.body)
    payload = mapping(reply.json())
    if not text(payload.get("encoding")):
        raise Malformed(f"{reply.url} did not answer with a file")
    if payload["encoding"] != "base64":
        return None
    try:
        return _body(b64decode(text(payload.get("content"))))
    except ValueError as error:
        raise Malformed(f"{reply.url} answered with a file whose base64 is invalid") from error


def _body(payload: bytes) -> str:
    """The decoded text without a byte order mark and without control characters, which Markdown does not need."""
    return UNSTORABLE.sub(" ", payload.decode("utf-8-sig", "replace"))


def parse_tree(reply: Reply) -> tuple[str, ...]:
    """Names of the entries of a `git-tree`."""
    entries = mapping(reply.json()).get("tree")
    if not isinstance(entries, list):
        raise Malformed(f"{reply.url} answered without a tree")
    return tuple(name for entry in entries[:MOST_NAMES] if (name := text(mapping(entry).get("path"))))


def parse_releases(reply: Reply) -> Releases:
    """The number of releases and the date of the last one, from a page with one release."""
    dates = [_date(payload.get("published_at")) for payload in parse_list(reply)]
    return Releases(parse_count(reply), next(filter(None, dates), None))


def parse_list(reply: Reply) -> list[dict[str, Any]]:
    """The objects of a list. Raises `Malformed` for anything else."""
    payload = reply.json()
    if not isinstance(payload, list) or not all(isinstance(one, dict) for one in payload):
        raise Malformed(f"{reply.url} did not answer with a list of objects")
    return payload


def parse_count(reply: Reply) -> int | None:
    """The number of items of a list with one item per page: the number of the last page (`Link`, RFC 8288).

    None if the list has further pages, but uses a cursor instead of page numbers.
    """
    links = {relation: url for url, relation in LINK.findall(reply.headers.get("link", ""))}
    if "last" in links:
        last = PAGE.search(links["last"])
        return int(last.group(1)) if last else None
    return None if "next" in links else len(parse_list(reply))


def parse_budget(reply: Reply, now: float) -> tuple[int | None, float | None]:
    """The number of remaining requests and the time of the reset, in seconds since the epoch; None for a missing value.

    A reset in the past, or more than a day ahead, counts as missing.
    """
    values = (reply.headers.get(f"x-ratelimit-{name}", "").strip() for name in ("remaining", "reset"))
    remaining, at = (int(value) if value.isdecimal() and len(value) < 12 else None for value in values)
    return remaining, float(at) if at is not None and now < at <= now + DAY_S else None


def count_closed_since(issues: Sequence[Mapping[str, Any]], since: float) -> int:
    """The number of issues closed at `since` (seconds since the epoch) or later."""
    return sum((_seconds(issue.get("closed_at")) or 0.0) >= since for issue in issues)


def median_response_days(issues: Sequence[Mapping[str, Any]], comments: Sequence[Mapping[str, Any]], *, all_comments: bool) -> float | None:
    """Median days from an issue or pull request to the first comment of another user who is not a bot. Issues without one do not count.

    `comments` are the newest of the repository. Unless they are complete (`all_comments`), issues older than the oldest comment do not
    count, because their first answer may be missing.
    """
    written = [at for comment in comments if (at := _seconds(comment.get("created_at"))) is not None]
    known_from = 0.0 if all_comments or not written else min(written)
    opened = {
        issue["number"]: (at, _login(issue))
        for issue in issues
        if isinstance(issue.get("number"), int) and (at := _seconds(issue.get("created_at"))) is not None and at >= known_from
    }
    first: dict[int, float] = {}
    for comment in comments:
        issue_url, at = ISSUE.search(text(comment.get("issue_url"))), _seconds(comment.get("created_at"))
        number = int(issue_url.group(1)) if issue_url else 0
        is_bot = mapping(comment.get("user")).get("type") == "Bot" or _login(comment).endswith("[bot]")
        if number in opened and at is not None and not is_bot and _login(comment) != opened[number][1]:
            first[number] = min(at, first.get(number, at))
    waits = [max(0.0, at - opened[number][0]) / DAY_S for number, at in sorted(first.items())]
    return round(median(waits), 2) if waits else None


def _login(payload: Mapping[str, Any]) -> str:
    return text(mapping(payload.get("user")).get("login")).lower()


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any) -> str | None:
    """The text unchanged if it is a date, else None."""
    return None if _seconds(value) is None else text(value)


def _seconds(value: Any) -> float | None:
    try:
        then = datetime.fromisoformat(text(value))
        return (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
