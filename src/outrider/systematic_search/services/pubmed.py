"""PubMed to the last hit: its own language, sliced by the date of entry.

ESearch gives the first 9,999 numbers of an answer and no more, however they are asked for: NBK25499, "ESearch", retmax. Every article
has a date of entry (`edat`), so that slices by it lose none. Long queries and lists of numbers go by POST, as NBK25497 wants it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date

from outrider.sources.http.service import Reply
from outrider.sources.pubmed.search import NAME, fetched_of, found_of
from outrider.state.boolean import LACKING, Everything, Field, Node
from outrider.state.errors import Malformed
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, SentQuery
from outrider.systematic_search.services.client import Asker
from outrider.systematic_search.services.pubmed_syntax import is_native, leaf, native_text, said
from outrider.systematic_search.services.relax import Nothing, Wider, bounded, noted
from outrider.systematic_search.services.slice_reader import NOTE, Came, Part, harvested
from outrider.systematic_search.services.verify_hits import Judge, Sight

MOST = 9_999
FETCHED = 500
"""Articles of one answer: megabytes of XML."""
PARAMETERS = (("db", "pubmed"),)
FIRST_DAY = date(1900, 1, 1).toordinal()
OWN = frozenset({Field.ALL, Field.PUBLICATION_TYPE, Field.LANGUAGE, Field.JOURNAL, Field.AUTHOR, Field.JOURNAL_WORDS, Field.MESH, *LACKING})
"""What PubMed looks into and does not show whole: narrower types, codes, former names, words of headings and substances."""
ACCEPTED = frozenset({200, 400})


@dataclass(frozen=True, slots=True)
class PubmedWorld:
    """A `WorldSource`."""

    asker: Asker
    today: Callable[[], date] = date.today
    most: int = MOST
    fetched: int = FETCHED
    name: str = NAME

    def translate(self, tree: Node, text: str) -> SentQuery:
        if is_native(text, tree):
            return SentQuery(self.name, native_text(text), PARAMETERS, native=True)
        if isinstance(tree, Everything):
            return SentQuery(self.name, refused="it asks for every record of PubMed")
        found = bounded(tree, leaf)
        if isinstance(found.bound, Wider | Nothing):
            return SentQuery(self.name, refused=f"nothing that narrows it can be said there; {found.bound.why}")
        return SentQuery(self.name, said(found.bound), PARAMETERS, noted(found.widened), lacking=noted(found.lacking))

    def harvest(self, tree: Node, sent: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        judge = Judge(tree, look, keeps_all=sent.native)
        return harvested(_Reader(self.asker, sent, self.today(), self.most, self.fetched), judge, into, after)


def look(record: Record) -> Sight:
    """PubMed explodes headings, knows days, and looks into what it does not show: of all that only what agrees can be judged."""
    absent = OWN if record.abstract else OWN | {Field.ABSTRACT}
    return Sight(record, absent, headings=False, dates=False)


@dataclass(slots=True)
class _Reader:
    asker: Asker
    sent: SentQuery
    today: date
    most: int | None
    fetched: int
    name: str = NAME
    _ids: dict[Part, tuple[tuple[int, ...], int | None, str]] = field(default_factory=dict)
    """Of the slice that is being read."""

    async def read(self, part: Part, place: str, *, anyway: bool) -> Came:
        """In order of the numbers; `place` is the last one that was fetched."""
        if part not in self._ids:
            self._ids = {part: await self._found(part)}
        ids, total, warned = self._ids[part]
        if (total or 0) > (self.most or 0) and not anyway:
            return Came((), total)
        start = bisect_right(ids, int(place)) if place else 0
        asked = ids[start : start + self.fetched]
        records = await self._fetched(asked) if asked else []
        remarks = [f"{NOTE}{NAME}: {warned}"] if warned and not place else []
        if len(records) < len(asked):
            missing = sorted(set(asked) - {int(record.identifiers.pmid or 0) for record in records})
            remarks.append(f"{len(missing):,} of {len(asked):,} numbers have no record: {', '.join(map(str, missing[:5]))}")
        on = str(asked[-1]) if asked and start + self.fetched < len(ids) else ""
        return Came(tuple(records), total, on, tuple(remarks))

    async def _found(self, part: Part) -> tuple[tuple[int, ...], int | None, str]:
        said = {"term": self.sent.query, **dict(self.sent.parameters), "retmode": "json", "tool": "outrider", **_days(part)}
        fields: dict[str, str | int] = {**said, "retmax": self.most or MOST}
        found = found_of(await self._asked("esearch", fields))
        return tuple(sorted(map(int, found.ids))), found.total, found.warned

    async def _fetched(self, ids: tuple[int, ...]) -> list[Record]:
        fields = {"db": "pubmed", "retmode": "xml", "tool": "outrider", "id": ",".join(map(str, ids))}
        fetched = await asyncio.to_thread(fetched_of, await self._asked("efetch", fields))
        if not fetched.whole:
            raise Malformed(f"{NAME}: an answer with articles broke off")
        return [fetched.papers[str(one)] for one in ids if str(one) in fetched.papers]

    async def _asked(self, tool: str, fields: Mapping[str, str | int]) -> Reply:
        return await self.asker.post_form(f"/entrez/eutils/{tool}.fcgi", fields, ACCEPTED)

    def halves(self, part: Part) -> tuple[Part, Part] | None:
        """By days, the first and the last slice open at their ends."""
        first, last = part or (1, date(3000, 12, 31).toordinal())
        if first == last:
            return None
        low, high = max(first, FIRST_DAY), min(last, self.today.toordinal() + 1)
        middle = (low + high) // 2 if low < high else (first + last) // 2
        return (first, middle), (middle + 1, last)

    def label(self, part: Part) -> str:
        return "all" if part is None else f"entered {' to '.join(map(_day, part))}"


def _days(part: Part) -> Mapping[str, str]:
    return {} if part is None else {"datetype": "edat", "mindate": _day(part[0]), "maxdate": _day(part[1])}


def _day(number: int) -> str:
    day = date.fromordinal(number)
    return f"{day.year:04d}/{day.month:02d}/{day.day:02d}"
