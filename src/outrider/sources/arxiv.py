"""arXiv: preprints of physics, mathematics, computer science and their neighbours.

Follows the arXiv API User's Manual, https://info.arxiv.org/help/api/user-manual.html: `/api/query` with `search_query` (fields, Boolean
operators, phrases in quotes, `submittedDate` in GMT) or `id_list`, answered as an Atom 1.0 feed with OpenSearch and arXiv elements;
errors are feeds too (§3.4). The terms of use (https://info.arxiv.org/help/api/tou.html) allow one request in 3 seconds and one
connection at a time: a search is one request.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, Self
from xml.etree.ElementTree import Element, ParseError  # the types only; defusedxml parses

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_arxiv, normal_doi
from outrider.sources import json_fields as said
from outrider.sources.adapter import ServiceSource, answered, scored, spared, telling
from outrider.sources.http.service import Reply, Service
from outrider.state.errors import Malformed
from outrider.state.intent import NumberRange
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Identifiers, Paper, Record
from outrider.text.sanitize import redact
from outrider.text.words import WORD

if TYPE_CHECKING:
    from outrider.settings.sources import ArxivSettings
    from outrider.sources.http.client import Caller

NAME = "arxiv"
RELEVANCE = "relevance"
QUERY = "/api/query"
MOST = 500
"""In one answer. The manual allows 2,000, and says that large answers are slow."""
MOST_TERMS = 6
FIRST_YEAR, LAST_YEAR = 1991, 2099
"""arXiv opened in August 1991; a range of dates needs an end."""
ERROR = "/api/errors"
WRONG_ID = "incorrect_id_format"
VERSION = re.compile(r"v(\d{1,4})$", re.ASCII)
SUBJECT_CLASS = re.compile(r"\.[a-z]{2}(?=/)", re.IGNORECASE)
"""Of an old identifier: `math.GT/0309136` is filed as `math/0309136`."""
YEAR = re.compile(r"(\d{4})-\d{2}-\d{2}", re.ASCII)

CAPABILITIES = Capabilities(frozenset({"paper"}), frozenset({"arxiv"}), MOST, queries=1)


Parts = defaultdict[str, list[Element]]
"""Of an element."""


class Page(NamedTuple):
    """What a feed says."""

    papers: list[Paper | None]
    """None for an entry that is none."""
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
        words, years = matching(terms_of(query.keywords or query.text.split())), submitted(query.constraints.years)
        if not words:
            return SourceAnswer(())
        if years is None:
            return SourceAnswer((), 0, f"it holds nothing from before {FIRST_YEAR}")
        params: dict[str, str | int] = {
            "search_query": f"({words}) AND {years}" if years else words,
            "sortBy": RELEVANCE,
            "sortOrder": "descending",
            "start": 0,
            "max_results": min(query.limit, MOST),
        }
        reply = await self._asked(params, query.within_s)
        return answer_of(page_of(reply), reply, min(query.limit, MOST))

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        arxiv = normal_arxiv(value) if scheme == "arxiv" else None
        if arxiv is None:
            return None
        reply = await self._asked({"id_list": SUBJECT_CLASS.sub("", arxiv), "max_results": 1}, within_s)
        try:
            page = page_of(reply)
        except WrongId:
            return None
        return next((paper for paper in page.papers if paper), None)

    async def _asked(self, params: dict[str, str | int], within_s: float) -> Reply:
        """Also with status 400: the feed says what was wrong."""
        return await self.caller.get(self.service, QUERY, params, within_s=spared(within_s), accept=frozenset({200, 400}))


class WrongId(Malformed):
    """It says that what was asked for is no identifier of its own."""


def terms_of(keywords: Iterable[str]) -> tuple[str, ...]:
    """Lower-case words, and phrases in quotes; nothing that the query language could take for its own.

    The first few only: more are found together nowhere.
    """
    phrases = dict.fromkeys(filter(None, (" ".join(WORD.findall(keyword.lower())) for keyword in keywords)))
    return tuple(f'"{phrase}"' if " " in phrase else phrase for phrase in telling(list(phrases)))[:MOST_TERMS]


def matching(terms: tuple[str, ...]) -> str:
    """Up to three terms must all be found, of more at least two: all of many are found nowhere, and one of many is found everywhere.

    A paper with more of the terms fits more of the pairs, so that the order by relevance puts it before others.
    """
    asked = [f"all:{term}" for term in terms]
    if len(asked) <= 3:
        return " AND ".join(asked)
    return " OR ".join(f"({one} AND {other})" for one, other in combinations(asked, 2))


def submitted(years: NumberRange) -> str | None:
    """The years of the first version; empty where any year will do, None where arXiv can have nothing."""
    if years.min is None and years.max is None:
        return ""
    low = max(FIRST_YEAR, years.min if years.min is not None else FIRST_YEAR)
    high = min(LAST_YEAR, years.max if years.max is not None else LAST_YEAR)
    return f"submittedDate:[{low}01010000 TO {high}12312359]" if low <= high else None


def page_of(reply: Reply) -> Page:
    """Raises `Malformed` for what is no Atom feed, and for one that reports an error."""
    feed = parts_of(feed_of(reply))
    entries = list(map(parts_of, feed["entry"]))
    for entry in entries:
        name = text_in(entry, "id")
        if ERROR in name:
            kind = WrongId if WRONG_ID in name else Malformed
            raise kind(f"{reply.url} was answered with an error: {redact(text_in(entry, 'summary') or name, '')}")
    if reply.status != 200:
        raise Malformed(f"{reply.url} was answered with {reply.status} and no reason")
    count = text_in(feed, "totalResults")
    total = said.whole(int(count)) if re.fullmatch(r"[0-9]{1,15}", count) else None
    return Page(list(map(paper_of, entries)), total)


def feed_of(reply: Reply) -> Element:
    """Raises `Malformed` for anything but an Atom feed."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        feed: Element = fromstring(reply.body)
    except (ParseError, DefusedXmlException, LookupError, ValueError) as error:  # the last two: an encoding that is unknown
        raise Malformed(f"{reply.url} answered with something else than an Atom feed: {redact(error, '')}") from error
    if feed.tag.rpartition("}")[2] != "feed":
        raise Malformed(f"{reply.url} answered with something else than an Atom feed: {redact(feed.tag, '')}")
    return feed


def answer_of(page: Page, reply: Reply, limit: int) -> SourceAnswer:
    found, total = page
    short = total is not None and len(found) < min(total, limit)
    missing = f"it says that there are {total} and gave {len(found)}" if short else ""
    results = scored([(paper, None) for paper in found if paper])[:limit]
    return answered(results, total, [reply], found.count(None), missing=missing)


def parts_of(element: Element) -> Parts:
    """What stands in it, by name without namespace, in one pass."""
    parts: Parts = defaultdict(list)
    for part in element:
        parts[part.tag.rpartition("}")[2]].append(part)
    return parts


def paper_of(entry: Parts) -> Paper | None:
    """None for an entry without an arXiv identifier, which is the service's own id."""
    named = text_in(entry, "id")
    arxiv = normal_arxiv(named)
    if arxiv is None:
        return None
    links = entry["link"]
    published, version = text_in(entry, "published"), VERSION.search(named)
    primary = next((one.get("term", "") for one in entry["primary_category"]), "")
    year = YEAR.match(published)
    metadata: dict[str, JsonValue] = {
        "published": published,
        "updated": text_in(entry, "updated"),
        "version": int(version.group(1)) if version else None,
        "primary_category": primary,
        "comment": text_in(entry, "comment"),
        "journal_ref": text_in(entry, "journal_ref"),
        "pdf_url": link_in(links, "title", "pdf"),
    }
    return Paper(
        doc_id=f"{NAME}:{arxiv}",
        source=NAME,
        title=text_in(entry, "title"),
        abstract=text_in(entry, "summary"),
        url=link_in(links, "rel", "alternate") or said.link(named),
        identifiers=Identifiers(arxiv=arxiv, doi=normal_doi(text_in(entry, "doi"))),
        authors=tuple(name for author in entry["author"] if (name := text_in(parts_of(author), "name"))),
        year=said.year(int(year.group(1))) if year else None,
        tags=tuple(dict.fromkeys(term for one in entry["category"] if (term := one.get("term", "").strip()))),
        metadata={name: value for name, value in metadata.items() if value},
    )


def text_in(parts: Parts, name: str) -> str:
    """On one line; of the first of several, empty where there is none."""
    return next((said.text("".join(part.itertext())) for part in parts[name]), "")


def link_in(links: list[Element], attribute: str, value: str) -> str | None:
    return next(filter(None, (said.link(link.get("href")) for link in links if link.get(attribute) == value)), None)
