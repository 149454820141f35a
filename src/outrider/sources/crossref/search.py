"""Crossref: works that publishers have registered with a DOI, and the notices that correct or retract them.

Follows https://api.crossref.org/swagger-ui ("Works") and https://www.crossref.org/documentation/retrieve-metadata/rest-api/ as of
October 2026: `GET /works?query.bibliographic=`, at most 1,000 rows, and `GET /works/{doi}`. Limits of lists since December 2025: 1 request
a second and 1 at a time for everybody, 3 for who tells an e-mail address in the user agent; more with a key of Metadata Plus.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import quote

from outrider.linkage.identifiers import normal_doi
from outrider.settings.sources import CrossrefSettings
from outrider.sources.adapter import ServiceSource, answer_with_works, ends_at, read_works, spared, year_filters
from outrider.sources.crossref import parse as records
from outrider.sources.crossref.parse import NAME
from outrider.sources.http.client import Caller
from outrider.sources.http.service import MOVED, Service
from outrider.state.errors import Malformed
from outrider.state.intent import Constraints
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Paper

CAPABILITIES = Capabilities(frozenset({"paper"}), frozenset({"doi"}), most=1_000, queries=3)
MOST_CHARS = 500
"""Of a query: it stands in an address. What ranks needs no more."""
POLITE = 3
"""Times as often may ask who gives an e-mail address (api.crossref.org, "polite pool"; lists, as of December 2025)."""


@dataclass(frozen=True, slots=True)
class Crossref(ServiceSource):
    """A `Source`."""

    capabilities: Capabilities = CAPABILITIES
    name: str = NAME

    @classmethod
    def of(cls, settings: CrossrefSettings, caller: Caller) -> Self:
        key = settings.api_key.get_secret_value()
        more = POLITE if "@" in caller.contact else 1
        service = Service.of(NAME, settings, headers={"Crossref-Plus-API-Token": f"Bearer {key}"} if key else {})
        service = replace(service, requests=settings.requests * more, at_once=settings.at_once * more)
        return cls(caller, service, settings.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        words, limit = " ".join(query.text.split())[:MOST_CHARS], min(query.limit, self.capabilities.most)
        if not words or limit < 1:
            return SourceAnswer(())
        params = params_of(words, query.constraints, limit)
        reply = await self.caller.get(self.service, "/works", params, within_s=spared(query.within_s))
        works, total = read_works(reply.json(), records, self.service)
        return answer_with_works(works, records, total, limit, [reply])

    async def get(self, scheme: str, value: str, within_s: float) -> Paper | None:
        """A DOI that is only another name of a work is followed to the work's own."""
        until = ends_at(within_s)
        doi = normal_doi(value) if scheme == "doi" else None
        if doi is None:
            return None
        for _ in range(2):
            path = f"/works/{quote(doi, safe='')}"
            reply = await self.caller.get(self.service, path, within_s=until - time.monotonic(), accept=MOVED | {200, 404})
            if reply.status not in MOVED:
                return None if reply.status == 404 else records.work_of(reply.json())
            doi = normal_doi(reply.headers.get("location", ""))
            if doi is None:
                break
        raise Malformed(f"{NAME} sends from one address to the next and gives no work: {reply.url}")


def params_of(words: str, constraints: Constraints, rows: int) -> Mapping[str, str | int]:
    filters = year_filters(constraints, "from-pub-date", "until-pub-date")
    return {
        "query.bibliographic": words,
        "sort": "relevance",
        "order": "desc",
        "rows": rows,
        "select": ",".join(records.FIELDS),
        **({"filter": ",".join(filters)} if filters else {}),
    }
