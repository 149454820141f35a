"""Reading of a service to its last record, in slices below the service's limit.

Requests are not cached, and wait when the service asks for it. A slice that is larger than the limit is halved, and each half is read the
same way. `Harvest.remarks` reports a total that changes, records that come twice, and missing records; a remark that is more than a note
makes the harvest incomplete. Services whose lists have a cursor and no limit need one slice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from outrider.sources.adapter import WorkFormat, read_works
from outrider.sources.http.client import Caller, Params
from outrider.sources.http.service import Reply, Service
from outrider.sources.json_fields import mapping, text
from outrider.state.errors import BadRequest, RateLimited, SourceError, SourceTimeout, SourceUnavailable
from outrider.state.records import Record
from outrider.state.systematic import Harvest, MatchedPage, Slice
from outrider.systematic_search.services.verify_hits import HitVerifier

WITHIN_S = 60.0
"""Time limit of one request, with its turn and its tries: `Caller` handles shorter waits."""
PATIENCE_S = 600.0
"""Total wait for a service that says when it takes requests again; with a longer wait the run ends and can be resumed."""
PAUSES_S = (5.0, 10.0, 20.0, 40.0)
"""For a rate limit without a time: Semantic Scholar's pool of users without a key."""
LONG_S = 5.0
"""Longer waits are reported."""
OK = frozenset({200})

log = logging.getLogger(__name__)
Part = tuple[int, int] | None
"""First and last moment of a slice, in the service's own unit; None is the whole."""
MOST_NAMED = 5
NOTE = "note: "
"""Begins a remark about how the service read the query; such a remark does not make a harvest incomplete."""
START = "*"
"""The cursor of the first page."""


@dataclass(frozen=True, slots=True)
class ServiceClient:
    """Requests to one service. `caller` keeps no answers. Raises `SourceError`."""

    caller: Caller
    service: Service
    report: Callable[[str], None] = log.warning
    """Gets a message for every wait that is longer than `LONG_S`."""
    patience_s: float = PATIENCE_S
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.time

    async def get(self, path: str, params: Params, headers: Mapping[str, str] | None = None, accept: frozenset[int] = OK) -> Reply:
        """The answer to a GET request; statuses in `accept` are no error."""
        return await self._wait_and_retry(
            lambda: self.caller.get(self.service, path, params, within_s=WITHIN_S, headers=headers, accept=accept, fresh_s=0.0)
        )

    async def post_form(self, path: str, fields: Params, accept: frozenset[int] = OK) -> Reply:
        """The answer to a POST request with form fields; statuses in `accept` are no error."""
        return await self._wait_and_retry(
            lambda: self.caller.post_form(self.service, path, fields, within_s=WITHIN_S, accept=accept, fresh_s=0.0)
        )

    async def _wait_and_retry(self, send: Callable[[], Awaitable[Reply]]) -> Reply:
        pauses, waited_s = iter(PAUSES_S), 0.0
        while True:
            try:
                reply = await send()
            except (RateLimited, SourceUnavailable, SourceTimeout) as error:
                pause_s = next(pauses, None)
                if error.retry_at is not None:
                    pause_s = max(1.0, error.retry_at - self.clock())
                elif not isinstance(error, RateLimited):
                    raise
                if pause_s is None or waited_s + pause_s > self.patience_s:
                    raise
                if pause_s > LONG_S:
                    self.report(f"{self.service.name} is rate-limiting us; retry in {pause_s:,.0f} s")
                await self.sleep(pause_s)
                waited_s += pause_s
                continue
            if reply.stale and reply.why:
                raise reply.why
            return reply


@dataclass(frozen=True, slots=True)
class ServicePage:
    """One answer of a service. `place` asks for the next page of the slice; empty at its end."""

    records: tuple[Record, ...]
    total: int | None
    place: str = ""
    remarks: tuple[str, ...] = ()


class Reader(Protocol):
    """Reads one service. A reader may remember what it read: each harvest has its own."""

    @property
    def name(self) -> str: ...

    @property
    def most(self) -> int | None:
        """The service's limit of records a slice; None without a limit."""
        ...

    async def read(self, part: Part, place: str, *, anyway: bool) -> ServicePage:
        """One page of a slice. A slice larger than `most` needs no records, unless it must be read `anyway`."""
        ...

    def halves(self, part: Part) -> tuple[Part, Part] | None:
        """None for a slice that cannot be split."""
        ...

    def label(self, part: Part) -> str: ...


@dataclass(slots=True)
class ReadingPosition:
    """The position in a harvest. Its JSON is the cursor of a page, and is enough to resume the harvest."""

    pending: list[Part] = field(default_factory=lambda: [None])
    """The last one is the slice that is being read."""
    place: str = ""
    total: int | None = None
    """The total and the records so far of that slice."""
    fetched: int = 0
    anyway: bool = False

    def to_cursor(self) -> str:
        return json.dumps([self.pending, self.place, self.total, self.fetched, self.anyway], separators=(",", ":"))

    @classmethod
    def from_cursor(cls, cursor: str) -> ReadingPosition:
        """The position of a cursor; the beginning for an empty one. Raises `BadRequest`."""
        if not cursor:
            return cls()
        try:
            pending, place, total, fetched, anyway = json.loads(cursor)
            parts: list[Part] = [None if part is None else (int(part[0]), int(part[1])) for part in pending]
        except (ValueError, TypeError, IndexError) as error:
            raise BadRequest(f"{cursor[:40]!r} is no cursor of a service; use a cursor that a page gave, or start anew") from error
        return cls(parts, str(place), total, int(fetched), bool(anyway))


async def read_slices(
    reader: Reader, verifier: HitVerifier, into: Harvest, after: str = "", clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[MatchedPage]:
    """Every record that may match, page by page; `into` has the counts so far at any moment. Raises `SourceError`."""
    position = ReadingPosition.from_cursor(after)
    while position.pending:
        began = clock()
        try:
            page = await _read_page(reader, position, into)
        except SourceError as error:
            total = "" if into.total is None else f" of {into.total:,}"
            so_far = f"{into.fetched:,}{total} records had come, and are kept; go on after the last page"
            raise type(error)(f"{error}; {so_far}", error.retry_at) from error
        finally:
            into.took_s += clock() - began
        new = {record.doc_id: record for record in page.records if record.doc_id not in into.seen}
        into.seen.update(new)
        if len(new) < len(page.records):
            into.remarks.append(f"{reader.label(position.pending[-1])}: {len(page.records) - len(new):,} records came twice")
        _advance(reader, position, into, page, len(new))
        hits = verifier.verify(new.values())
        into.matched += len(hits)
        into.dropped = sorted(new.keys() - {hit.record.doc_id for hit in hits})
        yield MatchedPage(hits, position.to_cursor())
    _check_counts(into)


async def _read_page(reader: Reader, position: ReadingPosition, into: Harvest) -> ServicePage:
    """The next page; slices that are too large are halved first."""
    while True:
        part = position.pending[-1]
        page = await reader.read(part, position.place, anyway=position.anyway)
        if position.place:
            if page.total != position.total:
                totals = f"from {_format_total(position.total)} to {_format_total(page.total)}"
                changed = f"{reader.label(part)}: its total changed {totals} meanwhile"
                into.remarks += [changed] if changed not in into.remarks else []
            return page
        position.total = page.total
        if part is None:
            into.total = page.total
        if position.anyway or reader.most is None or (page.total or 0) <= reader.most:
            return page
        halves = reader.halves(part)
        if halves:
            position.pending[-1:] = reversed(halves)
            continue
        into.remarks.append(f"{reader.label(part)}: {_format_total(page.total)} records, of which {reader.name} gives {reader.most:,}")
        position.anyway = True


def _format_total(total: int | None) -> str:
    return "an unknown number" if total is None else f"{total:,}"


def _advance(reader: Reader, position: ReadingPosition, into: Harvest, page: ServicePage, count: int) -> None:
    """Count the new records of a page, and move to the next page or slice."""
    label = reader.label(position.pending[-1])
    into.fetched += count
    position.fetched += count
    remarks = (remark if remark.startswith(NOTE) else f"{label}: {remark}" for remark in page.remarks)
    into.remarks += [remark for remark in remarks if remark not in into.remarks]
    if page.place and (page.place != position.place or count):  # a cursor may stay the same while the service advances
        position.place = page.place
        return
    if page.place:
        into.remarks.append(f"{label}: {reader.name} leads from a page to the same page")
    if position.total is None:
        into.remarks.append(f"{label}: {reader.name} does not say how many there are")
    into.slices.append(Slice(label, position.fetched if position.total is None else position.total, position.fetched))
    position.pending.pop()
    position.place, position.total, position.fetched, position.anyway = "", None, 0, False


def _check_counts(into: Harvest) -> None:
    """At the end: complete if all that the service reported has come."""
    short = [part for part in into.slices if part.total != part.fetched]
    if short:
        named = ", ".join(f"{part.what}: {part.fetched:,} of {part.total:,}" for part in short[:MOST_NAMED])
        into.remarks.append(f"{len(short)} of {len(into.slices)} slices do not add up ({named}{', …' if len(short) > MOST_NAMED else ''})")
    together = sum(part.total for part in into.slices)
    if into.total is not None and together != into.total:
        into.remarks.append(f"the slices hold {together:,} records, the whole {into.total:,}")
    into.complete = all(remark.startswith(NOTE) for remark in into.remarks)


class Unsliced:
    """A `Reader` that needs no slices."""

    def halves(self, part: Part) -> tuple[Part, Part] | None:
        return None

    def label(self, part: Part) -> str:
        return "all"


@dataclass(slots=True)
class CursorReader(Unsliced):
    """Reads `/works`, page by page."""

    client: ServiceClient
    answers: WorkFormat
    params: Params
    next: tuple[str, str]
    """Object and key of the next cursor in an answer."""
    required: str
    """A work without this is not taken."""
    most: int | None = None
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.answers.name

    async def read(self, part: Part, place: str, *, anyway: bool) -> ServicePage:
        answer = await (await self.client.get("/works", {**self.params, "cursor": place or START})).decode()
        works, total = read_works(answer, self.answers, self.client.service)
        papers = [paper for work in works if (paper := self.answers.parse_paper(work)) is not None]
        remarks = (f"{len(works) - len(papers)} works without {self.required}",) if len(papers) < len(works) else ()
        within, key = self.next
        cursor = text(mapping(mapping(answer).get(within)).get(key)) if works else ""
        return ServicePage(tuple(papers), total, cursor, remarks)
