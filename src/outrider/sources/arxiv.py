"""arXiv: preprints of physics, mathematics, computer science and related fields

Follows the arXiv API User's Manual, https://info.arxiv.org/help/api/user-manual.html: `/api/query` with `search_query` (fields, Boolean
operators, phrases in quotes, `submittedDate` in GMT) or `id_list`, answered as an Atom 1.0 feed with OpenSearch and arXiv elements;
errors are feeds too (§3.4). The terms of use (https://info.arxiv.org/help/api/tou.html) allow one request in 3 seconds and one
connection at a time: a search is one request.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, Self
from xml.etree.ElementTree import Element, ParseError  # the types only; defusedxml parses

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_arxiv, normal_doi
from outrider.runtime.threads_and_loops import run_in_thread
from outrider.sources import json_fields as fields
from outrider.sources.adapter import ServiceSource, build_answer, drop_stop_words, leave_out_excluded, score_results, usable_seconds
from outrider.sources.http.service import Reply, Service
from outrider.state.errors import Malformed
from outrider.state.intent import NumberRange
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Identifiers, Paper, Record
from outrider.text.sanitize import redact
from outrider.text.words import WORD

if TYPE_CHECKING:
    from outrider.settings.sections import ArxivSettings
    from outrider.sources.http.client import Caller

NAME = "arxiv"
RELEVANCE = "relevance"
QUERY = "/api/query"
MOST = 500
"""Results per response. The manual allows 2,000, but warns that large responses are slow."""
MOST_TERMS = 6
FIRST_YEAR, LAST_YEAR = 1991, 2099
"""arXiv opened in August 1991; a range of dates needs an end."""
ERROR = "/api/errors"
WRONG_ID = "incorrect_id_format"
VERSION = re.compile(r"v(\d{1,4})$", re.ASCII)
SUBJECT_CLASS = re.compile(r"\.[a-z]{2}(?=/)", re.IGNORECASE)
"""Of an old identifier: `math.GT/0309136` is filed as `math/0309136`."""
YEAR = re.compile(r"(\d{4})-\d{2}-\d{2}", re.ASCII)

CAPABILITIES = Capabilities(frozenset({"paper"}), frozenset({"arxiv"}), MOST, queries=1, boolean=True)


Parts = defaultdict[str, list[Element]]
"""Child elements by name."""


class Page(NamedTuple):
    """The papers of a feed."""

    papers: list[Paper | None]
    """None for an entry that is not a paper."""
    total: int | None


@dataclass(frozen=True, slots=True)
class Arxiv(ServiceSource):
    """A `Source`."""

    capabilities: Capabilities = CAPABILITIES
    name: str = NAME

    @classmethod
    def of(cls, settings: ArxivSettings, caller: Caller) -> Self:
        return cls(caller, Service.of(NAME, settings), settings.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        words, years = build_query(select_terms(query.keywords or query.text.split())), format_date_range(query.constraints.years)
        if not words:
            return SourceAnswer(())
        if years is None:
            return SourceAnswer((), 0, f"it has no papers from before {FIRST_YEAR}")
        boolean = query.boolean
        if boolean and boolean.expression and boolean.expression != words:
            # One request for both, because the next one may be sent after 3 s only; a match has more of the terms, and so ranks higher.
            words = f"({boolean.expression}) OR ({words})"
        params: dict[str, str | int] = {
            "search_query": f"({words}) AND {years}" if years else words,
            "sortBy": RELEVANCE,
            "sortOrder": "descending",
            "start": 0,
            "max_results": min(query.limit, MOST),
        }
        reply = await self._fetch(params, query.within_s)
        most = min(query.limit, MOST)
        answer = build_search_answer(await run_in_thread(lambda: parse_page(reply, most)), reply, most)
        return leave_out_excluded(answer, boolean) if boolean else answer

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        arxiv = normal_arxiv(value) if scheme == "arxiv" else None
        if arxiv is None:
            return None
        reply = await self._fetch({"id_list": SUBJECT_CLASS.sub("", arxiv), "max_results": 1}, within_s)
        try:
            page = await run_in_thread(lambda: parse_page(reply, 1))
        except InvalidId:
            return None
        return next((paper for paper in page.papers if paper), None)

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> Mapping[str, Record]:
        """Raises `InvalidId` if arXiv refuses one of the numbers."""
        own = {value: SUBJECT_CLASS.sub("", arxiv) for value in values if scheme == "arxiv" and (arxiv := normal_arxiv(value))}
        if not own:
            return {}
        numbers = list(dict.fromkeys(own.values()))
        reply = await self._fetch({"id_list": ",".join(numbers), "max_results": len(numbers)}, within_s)
        page = await run_in_thread(lambda: parse_page(reply, len(numbers)))
        papers = {SUBJECT_CLASS.sub("", paper.identifiers.arxiv or ""): paper for paper in page.papers if paper}
        return {value: papers[arxiv] for value, arxiv in own.items() if arxiv in papers}

    async def _fetch(self, params: dict[str, str | int], within_s: float) -> Reply:
        """Accepts status 400: its feed holds the error."""
        return await self.caller.get(self.service, QUERY, params, within_s=usable_seconds(within_s), accept=frozenset({200, 400}))


class InvalidId(Malformed):
    """arXiv reports that the requested identifier is not valid."""


def select_terms(keywords: Iterable[str]) -> tuple[str, ...]:
    """The first `MOST_TERMS` lower-case words and quoted phrases, without syntax of the query language.

    Hardly any paper contains more terms.
    """
    phrases = dict.fromkeys(filter(None, (" ".join(WORD.findall(keyword.lower())) for keyword in keywords)))
    return tuple(f'"{phrase}"' if " " in phrase else phrase for phrase in drop_stop_words(list(phrases)))[:MOST_TERMS]


def build_query(terms: tuple[str, ...]) -> str:
    """Join up to three terms with AND; of more terms, require any two: all of them would match nothing, one would match everything.

    A paper with more of the terms matches more pairs, so that it ranks higher by relevance.
    """
    clauses = [f"all:{term}" for term in terms]
    if len(clauses) <= 3:
        return " AND ".join(clauses)
    return " OR ".join(f"({one} AND {other})" for one, other in combinations(clauses, 2))


def format_date_range(years: NumberRange) -> str | None:
    """The years of the first version; empty for any year, None if arXiv has no papers of them."""
    if years.min is None and years.max is None:
        return ""
    low = max(FIRST_YEAR, years.min if years.min is not None else FIRST_YEAR)
    high = min(LAST_YEAR, years.max if years.max is not None else LAST_YEAR)
    return f"submittedDate:[{low}01010000 TO {high}12312359]" if low <= high else None


def parse_page(reply: Reply, most: int = MOST) -> Page:
    """The first `most` papers. Raises `Malformed` for anything but an Atom feed, and for one that reports an error."""
    feed = group_children(parse_feed(reply, most))
    entries = list(map(group_children, feed["entry"]))
    for entry in entries:
        name = read_text(entry, "id")
        if ERROR in name:
            kind = InvalidId if WRONG_ID in name else Malformed
            raise kind(f"{reply.url} returned an error: {redact(read_text(entry, 'summary') or name, '')}")
    if reply.status != 200:
        raise Malformed(f"{reply.url} returned {reply.status} without a reason")
    count = read_text(feed, "totalResults")
    total = fields.whole(int(count)) if re.fullmatch(r"[0-9]{1,15}", count) else None
    return Page(list(map(parse_paper, entries)), total)


def parse_feed(reply: Reply, most: int) -> Element:
    """The feed up to its entry number `most`; the rest is not read. Raises `Malformed` for anything but an Atom feed."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import iterparse

    feed: Element | None = None
    entries = 0
    try:
        for event, element in iterparse(BytesIO(reply.body), events=("start", "end")):
            feed = element if feed is None else feed
            entries += event == "end" and element.tag.rpartition("}")[2] == "entry"
            if entries == most:
                break
        assert feed is not None  # noqa: S101 - a body without an element raises `ParseError`
    except (ParseError, DefusedXmlException, LookupError, ValueError) as error:  # the last two for an unknown encoding
        raise Malformed(f"{reply.url} did not answer with an Atom feed: {redact(error, '')}") from error
    if feed.tag.rpartition("}")[2] != "feed":
        raise Malformed(f"{reply.url} did not answer with an Atom feed: {redact(feed.tag, '')}")
    return feed


def build_search_answer(page: Page, reply: Reply, limit: int) -> SourceAnswer:
    papers, total = page
    short = total is not None and len(papers) < min(total, limit)
    missing = f"it reports {total} and returned {len(papers)}" if short else ""
    results = score_results([(paper, None) for paper in papers if paper])[:limit]
    return build_answer(results, total, [reply], papers.count(None), missing=missing)


def group_children(element: Element) -> Parts:
    """The children by name without namespace, in one pass."""
    parts: Parts = defaultdict(list)
    for part in element:
        parts[part.tag.rpartition("}")[2]].append(part)
    return parts


def parse_paper(entry: Parts) -> Paper | None:
    """None for an entry without an arXiv identifier, which is the service's id."""
    named = read_text(entry, "id")
    arxiv = normal_arxiv(named)
    if arxiv is None:
        return None
    links = entry["link"]
    published, version = read_text(entry, "published"), VERSION.search(named)
    primary = next((one.get("term", "") for one in entry["primary_category"]), "")
    year = YEAR.match(published)
    metadata: dict[str, JsonValue] = {
        "published": published,
        "updated": read_text(entry, "updated"),
        "version": int(version.group(1)) if version else None,
        "primary_category": primary,
        "comment": read_text(entry, "comment"),
        "journal_ref": read_text(entry, "journal_ref"),
        "pdf_url": find_link(links, "title", "pdf"),
    }
    return Paper(
        doc_id=f"{NAME}:{arxiv}",
        source=NAME,
        title=read_text(entry, "title"),
        abstract=read_text(entry, "summary"),
        url=find_link(links, "rel", "alternate") or fields.link(named),
        identifiers=Identifiers(arxiv=arxiv, doi=normal_doi(read_text(entry, "doi"))),
        authors=tuple(name for author in entry["author"] if (name := read_text(group_children(author), "name"))),
        year=fields.year(int(year.group(1))) if year else None,
        tags=tuple(dict.fromkeys(term for one in entry["category"] if (term := one.get("term", "").strip()))),
        metadata={name: value for name, value in metadata.items() if value},
    )


def read_text(parts: Parts, name: str) -> str:
    """The text of the first element of that name on one line; empty if there is none."""
    return next((fields.text("".join(part.itertext())) for part in parts[name]), "")


def find_link(links: list[Element], attribute: str, value: str) -> str | None:
    return next(filter(None, (fields.link(link.get("href")) for link in links if link.get(attribute) == value)), None)
