"""Europe PMC: references, citations and open full texts of works in the life sciences

Follows the Articles RESTful API, https://europepmc.org/RestfulWebService: `/{source}/{id}/references` and `/{source}/{id}/citations` with
`MED/<PMID>` or `PMC/<PMCID>`, at most 1,000 a page, numbered from 1, answered as
`{"hitCount", "referenceList": {"reference": [...]}}` and `{"hitCount", "citationList": {"citation": [...]}}`. An unknown id has a
`hitCount` of 0. `/search?query=...&resultType=core` says whether a work is open (`isOpenAccess`, `license`), `/{PMCID}/fullTextXML`
is its text as JATS. No key; no limit is published.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from outrider.linkage.identifiers import normal_doi, normal_pmcid, normal_pmid
from outrider.settings.sections import EuropePmcSettings
from outrider.sources.adapter import build_answer, deadline_after, score_results, usable_seconds
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Reply, Service
from outrider.sources.json_fields import code, items, mapping, text, title, whole, year
from outrider.state.citations import BOTH_DIRECTIONS, Direction
from outrider.state.errors import Malformed, SourceError
from outrider.state.full_text import Located, OpenLocation
from outrider.state.ports import SourceAnswer
from outrider.state.records import Identifiers, Paper, Record
from outrider.text.sanitize import redact

NAME = "europe_pmc"
ROOT = "/europepmc/webservices/rest"
PAGE = 1_000
LISTS: Mapping[Direction, tuple[str, str]] = {"references": ("referenceList", "reference"), "citations": ("citationList", "citation")}


@dataclass(frozen=True, slots=True)
class EuropePmc:
    """A `LinkSource` and a `TextSource`."""

    caller: Caller
    service: Service
    timeout_s: float
    name: str = NAME
    directions: frozenset[Direction] = BOTH_DIRECTIONS
    schemes: tuple[str, ...] = ("pmid", "pmcid")

    @classmethod
    def of(cls, settings: EuropePmcSettings, caller: Caller) -> Self:
        return cls(caller, Service.of(NAME, settings), settings.timeout_s)

    async def references(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        """The works that it cites; those that match no record of Europe PMC have the title and no identifier."""
        return await self._find_links("references", scheme, value, within_s, limit)

    async def citations(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        return await self._find_links("citations", scheme, value, within_s, limit)

    async def locate(self, record: Record, within_s: float) -> Located:
        """The text of a work in the open access subset, and its PMCID."""
        pmcid, pmid, doi = record.identifiers.pmcid, record.identifiers.pmid, record.identifiers.doi
        query = f"PMCID:{pmcid}" if pmcid else f"EXT_ID:{pmid} AND SRC:MED" if pmid else f'DOI:"{doi}"' if doi else ""
        if not query:
            return Located()
        params: dict[str, str | int] = {"query": query, "format": "json", "resultType": "core", "pageSize": 2}
        reply = await self.caller.get(self.service, f"{ROOT}/search", params, within_s=usable_seconds(within_s))
        return parse_access(await reply.decode(), self.service.base_url)

    async def fetch_text(self, location: OpenLocation, within_s: float) -> bytes:
        path = location.url.removeprefix(self.service.base_url.rstrip("/"))
        return (await self.caller.get(self.service, path, within_s=within_s)).body

    async def _find_links(self, direction: Direction, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        """One page after another. Pages before a failure are used."""
        place = {"pmid": ("MED", normal_pmid), "pmcid": ("PMC", normal_pmcid)}.get(scheme)
        own = place[1](value) if place else None
        if place is None or own is None:
            return SourceAnswer(())
        until, total, missing = deadline_after(within_s), None, ""
        entries, replies, retry_at = list[Any](), list[Reply](), None
        while len(entries) < limit and (total is None or len(entries) < total):
            params: dict[str, str | int] = {"format": "json", "page": len(replies) + 1, "pageSize": PAGE}
            path = f"{ROOT}/{place[0]}/{own}/{direction}"
            try:
                reply = await self.caller.get(self.service, path, params, within_s=until - time.monotonic())
                total, listed = parse_page(await reply.decode(), direction)
            except SourceError as error:
                if not replies:
                    raise
                missing, retry_at = f"only the first {len(entries):,} were received: {error}", error.retry_at
                break
            replies.append(reply)
            entries += listed
            if not listed:
                break
        works = [parse_work(entry) for entry in entries[:limit]]
        known = [(work, None) for work in works if work is not None]
        if not missing and total is not None and len(entries) < min(total, limit):
            missing = f"it reports {total:,} and returned {len(entries):,}"
        return build_answer(score_results(known), total, replies, len(works) - len(known), missing=missing, retry_at=retry_at)


def parse_page(payload: Any, direction: Direction) -> tuple[int, list[Any]]:
    """The number of all entries, and those of this page. Raises `Malformed` for anything else."""
    answer, (outer, inner) = mapping(payload), LISTS[direction]
    total, listed = whole(answer.get("hitCount")), mapping(answer.get(outer)).get(inner)
    if total is None or (total and not isinstance(listed, list)):
        raise Malformed(f"{NAME} did not answer with a list of {direction}: {redact(text(answer.get('errMsg')) or str(payload), '')}")
    return total, items(listed)


def parse_access(payload: Any, base_url: str) -> Located:
    """Where the text of the one work of a search is. Raises `Malformed` for anything but the answer of a search."""
    listed = mapping(mapping(payload).get("resultList")).get("result")
    if not isinstance(listed, list):
        raise Malformed(f"{NAME} did not answer the search with a list of works")
    works = [mapping(one) for one in listed]
    if len(works) != 1:
        return Located()
    pmcid = normal_pmcid(code(works[0].get("pmcid")))
    identifiers = Identifiers(pmcid=pmcid)
    if pmcid is None or text(works[0].get("isOpenAccess")) != "Y":
        return Located(identifiers=identifiers)
    location = OpenLocation(
        url=f"{base_url.rstrip('/')}{ROOT}/{pmcid}/fullTextXML",
        form="jats",
        licence=text(works[0].get("license")),
        version="published",
        host="repository",
        found_by=NAME,
    )
    return Located(locations=(location,), identifiers=identifiers)


def parse_year(written: str) -> int | None:
    return int(written) if len(written) == 4 and written.isascii() and written.isdigit() else None


def parse_work(payload: Any) -> Paper | None:
    """None for an entry with neither an identifier nor a title. `source` says of which register `id` is a number."""
    entry = mapping(payload)
    own, register, name = code(entry.get("id")), text(entry.get("source")), title(entry.get("title"))
    identifiers = Identifiers(
        doi=normal_doi(code(entry.get("doi"))),
        pmid=normal_pmid(own) if register == "MED" else None,
        pmcid=normal_pmcid(own) if register == "PMC" else None,
    )
    strongest = next(iter(identifiers.pairs()), None)
    if strongest is None and not name:
        return None
    names = tuple(filter(None, (author.strip(" .") for author in text(entry.get("authorString")).split(","))))
    published = year(entry.get("pubYear")) or parse_year(text(entry.get("pubYear")))
    key = (
        ":".join(strongest) if strongest else f"reference:{hashlib.sha256(json.dumps([name, names, published]).encode()).hexdigest()[:16]}"
    )
    return Paper(
        doc_id=f"{NAME}:{key}",
        source=NAME,
        title=name,
        identifiers=identifiers,
        authors=tuple(author for author in names if author.lower() != "et al"),
        year=published,
        venue=title(entry.get("journalAbbreviation")) or None,
        volume=text(entry.get("volume")) or None,
        issue=text(entry.get("issue")) or None,
        pages=text(entry.get("pageInfo")) or None,
        citations=whole(entry.get("citedByCount")),
    )
