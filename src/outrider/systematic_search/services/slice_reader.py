"""Reading a service to the last hit: slice by slice where it gives no more than so many, each record once, until the counts add up.

A slice that is larger than the service gives is halved, and each half read the same way. What a service changes meanwhile, gives twice or
does not give is told in `Harvest.remarks`; with a remark that is no mere note nothing is complete.

Services whose lists are read on by a cursor, without a bound: one slice holds all.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Protocol

from outrider.sources.adapter import WorkFormat, read_works
from outrider.sources.http.client import Params
from outrider.sources.json_fields import mapping, text
from outrider.state.errors import BadRequest, SourceError
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, Slice
from outrider.systematic_search.services.client import Asker
from outrider.systematic_search.services.verify_hits import Judge

Part = tuple[int, int] | None
"""First and last moment of a slice, in the service's own unit; None is the whole."""
MOST_NAMED = 5
NOTE = "note: "
"""Begins a remark that says what the service made of the query, and speaks against nothing."""


@dataclass(frozen=True, slots=True)
class Came:
    """One answer. `place` leads on within the slice; empty at its end."""

    records: tuple[Record, ...]
    total: int | None
    place: str = ""
    remarks: tuple[str, ...] = ()


class Reader(Protocol):
    """How one service is read. It may remember what it read: each harvest has its own."""

    @property
    def name(self) -> str: ...

    @property
    def most(self) -> int | None:
        """Records of a slice that it gives at most; None where there is no such bound."""
        ...

    async def read(self, part: Part, place: str, *, anyway: bool) -> Came:
        """One page of a slice. One larger than `most` needs no records, unless it has to be read `anyway`."""
        ...

    def halves(self, part: Part) -> tuple[Part, Part] | None:
        """None for what cannot be parted any further."""
        ...

    def label(self, part: Part) -> str: ...


@dataclass(slots=True)
class Standing:
    """How far a harvest is: everything that is needed to go on. Its text is the cursor of a page."""

    pending: list[Part] = field(default_factory=lambda: [None])
    """The slice that is being read is the last."""
    place: str = ""
    total: int | None = None
    fetched: int = 0
    """Of that slice."""
    anyway: bool = False

    def cursor(self) -> str:
        return json.dumps([self.pending, self.place, self.total, self.fetched, self.anyway], separators=(",", ":"))

    @classmethod
    def after(cls, cursor: str) -> Standing:
        if not cursor:
            return cls()
        try:
            pending, place, total, fetched, anyway = json.loads(cursor)
            parts: list[Part] = [None if part is None else (int(part[0]), int(part[1])) for part in pending]
        except (ValueError, TypeError, IndexError) as error:
            raise BadRequest(f"{cursor[:40]!r} is no cursor of a service; go on with one that a page gave, or begin anew") from error
        return cls(parts, str(place), total, int(fetched), bool(anyway))


async def harvested(
    reader: Reader, judge: Judge, into: Harvest, after: str = "", clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[MatchedPage]:
    """Every record that is left after the evaluator, page by page; `into` says at any moment what came so far."""
    at = Standing.after(after)
    while at.pending:
        began = clock()
        try:
            came = await _next(reader, at, into)
        except SourceError as error:
            raise type(error)(f"{error}; {_so_far(into)}", error.retry_at) from error
        finally:
            into.took_s += clock() - began
        new = {record.doc_id: record for record in came.records if record.doc_id not in into.seen}
        into.seen.update(new)
        if len(new) < len(came.records):
            into.remarks.append(f"{reader.label(at.pending[-1])}: {len(came.records) - len(new):,} records came twice")
        _take(reader, at, into, came, len(new))
        hits = judge.judged(new.values())
        into.matched += len(hits)
        into.dropped = sorted(new.keys() - {hit.record.doc_id for hit in hits})
        yield MatchedPage(hits, at.cursor())
    _close(into)


async def _next(reader: Reader, at: Standing, into: Harvest) -> Came:
    """The next page; slices that are too large are parted first."""
    while True:
        part = at.pending[-1]
        came = await reader.read(part, at.place, anyway=at.anyway)
        if at.place:
            if came.total != at.total:
                changed = f"{reader.label(part)}: its total changed from {_said(at.total)} to {_said(came.total)} meanwhile"
                into.remarks += [changed] if changed not in into.remarks else []
            return came
        at.total = came.total
        if part is None:
            into.total = came.total
        if at.anyway or reader.most is None or (came.total or 0) <= reader.most:
            return came
        halves = reader.halves(part)
        if halves:
            first, second = halves
            at.pending[-1:] = [second, first]
            continue
        into.remarks.append(f"{reader.label(part)}: {_said(came.total)} records, of which {reader.name} gives {reader.most:,}")
        at.anyway = True


def _take(reader: Reader, at: Standing, into: Harvest, came: Came, count: int) -> None:
    """Counts a page, and steps on."""
    part = at.pending[-1]
    into.fetched += count
    at.fetched += count
    said = (remark if remark.startswith(NOTE) else f"{reader.label(part)}: {remark}" for remark in came.remarks)
    into.remarks += [remark for remark in said if remark not in into.remarks]
    if came.place and (came.place != at.place or count):  # a cursor may stay the same while the service steps on
        at.place = came.place
        return
    if came.place:
        into.remarks.append(f"{reader.label(part)}: {reader.name} leads from a page to the same page")
    if at.total is None:
        into.remarks.append(f"{reader.label(part)}: {reader.name} does not say how many there are")
    into.slices.append(Slice(reader.label(part), at.fetched if at.total is None else at.total, at.fetched))
    at.pending.pop()
    at.place, at.total, at.fetched, at.anyway = "", None, 0, False


def _close(into: Harvest) -> None:
    """At the end: whether all that the service says to have has come."""
    odd = [one for one in into.slices if one.total != one.fetched]
    if odd:
        named = ", ".join(f"{one.what}: {one.fetched:,} of {one.total:,}" for one in odd[:MOST_NAMED])
        into.remarks.append(f"{len(odd)} of {len(into.slices)} slices do not add up ({named}{', …' if len(odd) > MOST_NAMED else ''})")
    together = sum(one.total for one in into.slices)
    if into.total is not None and together != into.total:
        into.remarks.append(f"the slices hold {together:,} records, the whole {into.total:,}")
    into.complete = all(remark.startswith(NOTE) for remark in into.remarks)


def _so_far(into: Harvest) -> str:
    whole = "" if into.total is None else f" of {into.total:,}"
    return f"{into.fetched:,}{whole} records had come, and are kept; go on after the last page"


def _said(total: int | None) -> str:
    return "an unknown number" if total is None else f"{total:,}"


START = "*"


class Unsliced:
    """A `Reader` that needs no slices."""

    def halves(self, part: Part) -> tuple[Part, Part] | None:
        return None

    def label(self, part: Part) -> str:
        return "all"


@dataclass(slots=True)
class CursorReader(Unsliced):
    """`/works`, page by page."""

    asker: Asker
    answers: WorkFormat
    params: Params
    next: tuple[str, str]
    """Where the answer holds the next cursor."""
    named: str
    """What a work must have to be taken."""
    most: int | None = None
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.answers.name

    async def read(self, part: Part, place: str, *, anyway: bool) -> Came:
        said = (await self.asker.get("/works", {**self.params, "cursor": place or START})).json()
        works, total = read_works(said, self.answers, self.asker.service)
        papers = [paper for work in works if (paper := self.answers.parse_paper(work)) is not None]
        remarks = (f"{len(works) - len(papers)} works without {self.named}",) if len(papers) < len(works) else ()
        within, key = self.next
        on = text(mapping(mapping(said).get(within)).get(key)) if works else ""
        return Came(tuple(papers), total, on, remarks)
