"""PubMed to the last hit: its own language, sliced by the date of entry.

ESearch returns at most the first 9,999 numbers of an answer: NBK25499, "ESearch", retmax. Every article has a date of entry (`edat`), so
slices by it lose none. Long queries and lists of numbers go by POST, as NBK25497 requires.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date

from outrider.sources.http.service import Reply
from outrider.sources.pubmed import NAME, parse_articles, parse_search
from outrider.state.boolean import LACKING, Everything, Field, Node
from outrider.state.errors import Malformed
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, SentQuery
from outrider.systematic_search.services.pubmed_syntax import is_native, native_text, render_query, translate_leaf
from outrider.systematic_search.services.slice_reader import NOTE, Part, ServiceClient, ServicePage, read_slices
from outrider.systematic_search.services.translate import Nothing, Wider, limit_notes, relax_query
from outrider.systematic_search.services.verify_hits import HitVerifier, RecordView

MOST = 9_999
FETCH_SIZE = 500
"""Articles of one request: megabytes of XML."""
PARAMETERS = (("db", "pubmed"),)
FIRST_DAY = date(1900, 1, 1).toordinal()
HIDDEN = frozenset(
    {Field.ALL, Field.PUBLICATION_TYPE, Field.LANGUAGE, Field.JOURNAL, Field.AUTHOR, Field.JOURNAL_WORDS, Field.MESH, *LACKING}
)
"""Fields that PubMed searches beyond what it returns: narrower types, codes, former names, words of headings and substances."""
ACCEPTED = frozenset({200, 400})


@dataclass(frozen=True, slots=True)
class PubmedSource:
    """A `RemoteSource`."""

    client: ServiceClient
    today: Callable[[], date] = date.today
    most: int = MOST
    fetch_size: int = FETCH_SIZE
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        if is_native(text, tree):
            return SentQuery(self.name, native_text(text), PARAMETERS, native=True)
        if isinstance(tree, Everything):
            return SentQuery(self.name, refused="it asks for every record of PubMed")
        relaxed = relax_query(tree, translate_leaf)
        if isinstance(relaxed.condition, Wider | Nothing):
            return SentQuery(self.name, refused=f"no part of the query can narrow the search there; {relaxed.condition.why}")
        query = render_query(relaxed.condition)
        return SentQuery(self.name, query, PARAMETERS, limit_notes(relaxed.widened), lacking=limit_notes(relaxed.lacking))

    def harvest(self, tree: Node, sent_query: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        verifier = HitVerifier(tree, view_record, keeps_all=sent_query.native)
        return read_slices(_Reader(self.client, sent_query, self.today(), self.most, self.fetch_size), verifier, into, after)


def view_record(record: Record) -> RecordView:
    """PubMed explodes headings, compares days, and searches text that it does not return: there a mismatch of ours proves nothing."""
    return RecordView(record, HIDDEN if record.abstract else HIDDEN | {Field.ABSTRACT}, headings=False, dates=False)


@dataclass(slots=True)
class _Reader:
    client: ServiceClient
    query: SentQuery
    today: date
    most: int | None
    fetch_size: int
    name: str = NAME
    _ids: dict[Part, tuple[tuple[int, ...], int | None, str]] = field(default_factory=dict)
    """Numbers, total and warning of the slice that is being read."""

    async def read(self, part: Part, place: str, *, anyway: bool) -> ServicePage:
        """The next articles, by PMID; `place` is the last one that was fetched."""
        if part not in self._ids:
            fields: dict[str, str | int] = {"term": self.query.query, **dict(self.query.parameters), "retmode": "json", "tool": "outrider"}
            if part is not None:
                fields |= {"datetype": "edat", "mindate": _format_day(part[0]), "maxdate": _format_day(part[1])}
            search_result = parse_search(await self._post("esearch", {**fields, "retmax": self.most or MOST}))
            self._ids = {part: (tuple(sorted(map(int, search_result.ids))), search_result.total, search_result.warned)}
        ids, total, warning = self._ids[part]
        if (total or 0) > (self.most or 0) and not anyway:
            return ServicePage((), total)
        start = bisect_right(ids, int(place)) if place else 0
        batch = ids[start : start + self.fetch_size]
        records = await self._fetch(batch) if batch else []
        remarks = [f"{NOTE}{NAME}: {warning}"] if warning and not place else []
        if len(records) < len(batch):
            missing = sorted(set(batch) - {int(record.identifiers.pmid or 0) for record in records})
            remarks.append(f"{len(missing):,} of {len(batch):,} numbers have no record: {', '.join(map(str, missing[:5]))}")
        is_last = not batch or start + self.fetch_size >= len(ids)
        return ServicePage(tuple(records), total, "" if is_last else str(batch[-1]), tuple(remarks))

    async def _fetch(self, ids: tuple[int, ...]) -> list[Record]:
        fields = {"db": "pubmed", "retmode": "xml", "tool": "outrider", "id": ",".join(map(str, ids))}
        fetched = await asyncio.to_thread(parse_articles, await self._post("efetch", fields))
        if not fetched.whole:
            raise Malformed(f"{NAME}: an answer with articles broke off")
        return [fetched.papers[str(pmid)] for pmid in ids if str(pmid) in fetched.papers]

    async def _post(self, tool: str, fields: Mapping[str, str | int]) -> Reply:
        return await self.client.post_form(f"/entrez/eutils/{tool}.fcgi", fields, ACCEPTED)

    def halves(self, part: Part) -> tuple[Part, Part] | None:
        """Split by days; the first and the last slice are open at their ends."""
        first, last = part or (1, date(3000, 12, 31).toordinal())
        if first == last:
            return None
        low, high = max(first, FIRST_DAY), min(last, self.today.toordinal() + 1)
        middle = (low + high) // 2 if low < high else (first + last) // 2
        return (first, middle), (middle + 1, last)

    def label(self, part: Part) -> str:
        return "all" if part is None else f"entered {' to '.join(map(_format_day, part))}"


def _format_day(number: int) -> str:
    day = date.fromordinal(number)
    return f"{day.year:04d}/{day.month:02d}/{day.day:02d}"
