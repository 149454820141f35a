"""A second look at the services for retractions and corrections of the library's records.

Crossref, PubMed, OpenAlex and arXiv are asked by DOI, PMID and arXiv number, many in a request, past the cache of answers. A record keeps
what it was read with. What the services say now stands beside it, one entry for each check that changed it: `metadata["notice_checks"]`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic import Field, JsonValue

from outrider.runtime.tape import without_port
from outrider.runtime.threads_and_loops import finish
from outrider.services.sources import without_cache
from outrider.state.errors import BadRequest, NothingSearchable, RateLimited, SearchError
from outrider.state.filters import Compare, Or
from outrider.state.model import Model
from outrider.state.notices import CHECKS, REPORTERS_OF, Notice, digest_notices, is_reported, list_notices
from outrider.state.records import Record

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.services import Services
    from outrider.state.ports import BatchSource, OnCount, Source

CHUNK = 200
"""Records that are asked about and written together: an interrupted check keeps whole chunks."""
WITHIN_S = 60.0
"""Of a request, its wait for the service's limit included."""
LONGEST_PAUSE_S = 120.0
"""A service that asks for a longer pause is left out of the rest."""
MAX_FAILURES = 2
"""Failed requests in a row after which a service is left out of the rest."""


class NoticeService(NamedTuple):
    """How a service is asked: identifiers by preference, and how many in a request."""

    schemes: tuple[str, ...]
    batch: int


SERVICES: Mapping[str, NoticeService] = {
    "crossref": NoticeService(("doi",), 40),
    "pubmed": NoticeService(("pmid", "doi"), 50),
    "openalex": NoticeService(("doi", "pmid", "openalex"), 50),
    "arxiv": NoticeService(("arxiv",), 50),
}


class NoticeChange(Model):
    """A record whose notices changed."""

    doc_id: str
    title: str
    added: tuple[Notice, ...] = Field((), description="Notices that the record did not have.")
    gone: tuple[Notice, ...] = Field((), description="Notices that the service which reported them no longer reports.")


class ServiceCheck(Model):
    """What one service answered."""

    name: str
    asked: int = Field(0, description="Records that it was asked about.")
    known: int = Field(0, description="Records that it knows.")
    failed: int = Field(0, description="Records that it was not asked about, or did not answer for.")
    problem: str = ""


class NoticeReport(Model):
    """The outcome of a check."""

    records: int = Field(description="Records with an identifier that a service knows.")
    checked: int = Field(0, description="Records that at least one service answered for.")
    unidentified: int = Field(0, description="Records without such an identifier, which cannot be looked up.")
    changes: tuple[NoticeChange, ...] = ()
    services: tuple[ServiceCheck, ...] = ()
    complete: bool = Field(True, description="Whether every service answered for every record that it was to be asked about.")


@dataclass(slots=True)
class NoticeCheck:
    """One run of the check. `report` says how far it came, also after it was cancelled."""

    services: Services
    progress: OnCount | None = None
    tallies: dict[str, ServiceCheck] = field(default_factory=dict)
    changes: list[NoticeChange] = field(default_factory=list)
    records: int = 0
    unidentified: int = 0
    checked: int = 0
    done: int = 0
    _in_a_row: dict[str, int] = field(default_factory=dict)
    """Failed requests of each service since it last answered."""

    async def run(self) -> NoticeReport:
        """Raises `BadRequest` offline, `NothingSearchable` if no such service is switched on, and `LibraryError`."""
        if self.services.settings.sources.offline:
            raise BadRequest("--retractions asks services, and this run is offline (--offline, sources.offline); nothing was checked")
        library = await self.services.library()
        await self.services.prepare()
        sources = {source.name: without_cache(source) for source in map(without_port, self.services.sources) if source.name in SERVICES}
        sources = {name: source for name, source in sources.items() if hasattr(source, "get_many")}
        if not sources:
            raise NothingSearchable(f"no service that reports retractions is switched on; these do: {', '.join(SERVICES)}")
        self.tallies = {name: ServiceCheck(name=name) for name in sources}
        schemes = dict.fromkeys(scheme for name in sources for scheme in SERVICES[name].schemes if scheme != "openalex")
        where = Or(tuple(Compare(scheme, "$exists", True) for scheme in schemes))
        self.records = await library.count(where)
        self.unidentified = await library.count() - self.records
        self._show(0)
        async for chunk in _iter_chunks(library, where):
            await self._check(library, sources, chunk)
            self._show(len(chunk))
        return self.report

    @property
    def report(self) -> NoticeReport:
        complete = self.done >= self.records and not any(one.failed for one in self.tallies.values())
        return NoticeReport(
            records=self.records,
            checked=self.checked,
            unidentified=self.unidentified,
            changes=tuple(self.changes),
            services=tuple(self.tallies.values()),
            complete=complete,
        )

    def _show(self, done: int) -> None:
        self.done += done
        if self.progress:
            self.progress(self.done, self.records)

    async def _check(self, library: Library, sources: Mapping[str, Source], records: Sequence[Record]) -> None:
        answers = dict(zip(sources, await asyncio.gather(*(self._ask(source, records) for source in sources.values())), strict=True))
        now = datetime.now(UTC).date().isoformat()
        renewed: list[Record] = []
        changes: list[NoticeChange] = []
        # the services took their time, and others may have written since
        for record in await library.fetch([record.doc_id for record in records]):
            own = {name: answer[record.doc_id] for name, answer in answers.items() if record.doc_id in answer}
            self.checked += bool(own)
            after, change = renew_notices(record, own, now)
            if change:
                renewed.append(after)
                changes.append(change)
        try:
            await finish(library.upsert(renewed))
        finally:  # a cancelled check has written them, too
            self.changes += changes

    async def _ask(self, source: Source, records: Sequence[Record]) -> dict[str, Record]:
        """The service's records by the ids of the library's."""
        schemes, batch = SERVICES[source.name]
        by_scheme: dict[str, dict[str, list[str]]] = {}
        for record in records:
            known = dict(record.identifiers.pairs())
            if scheme := next((scheme for scheme in schemes if scheme in known), None):
                by_scheme.setdefault(scheme, {}).setdefault(known[scheme], []).append(record.doc_id)
        answers: dict[str, Record] = {}
        for scheme, holders in by_scheme.items():
            values = list(holders)
            for start in range(0, len(values), batch):
                part = values[start : start + batch]
                found = await self._request(source, scheme, part, sum(len(holders[value]) for value in part))
                answers |= {doc_id: record for value, record in found.items() for doc_id in holders.get(value, ())}
        self._count(source.name, known=len(answers))
        return answers

    async def _request(self, source: Source, scheme: str, values: Sequence[str], records: int) -> Mapping[str, Record]:
        name = source.name
        if self._in_a_row.get(name, 0) >= MAX_FAILURES:
            self._count(name, failed=records)
            return {}
        for is_last in (False, True):
            try:
                found = await cast("BatchSource", source).get_many(scheme, values, WITHIN_S)
            except SearchError as error:
                pause_s = _read_pause(error, self.services.clock())
                if pause_s is None or is_last:
                    failures = MAX_FAILURES if isinstance(error, RateLimited) else self._in_a_row.get(name, 0) + 1
                    self._in_a_row[name] = failures
                    self._count(name, failed=records, problem=str(error))
                    return {}
                await asyncio.sleep(pause_s)
            else:
                self._in_a_row[name] = 0
                self._count(name, asked=records)
                return found
        raise AssertionError  # the last attempt returns

    def _count(self, name: str, *, problem: str = "", **counts: int) -> None:
        tally = self.tallies[name]
        update: dict[str, Any] = {field: getattr(tally, field) + count for field, count in counts.items()}
        self.tallies[name] = tally.model_copy(update=update | ({"problem": problem} if problem else {}))


async def check_notices(services: Services, progress: OnCount | None = None) -> NoticeReport:
    """Look all records up again, and update their notices. Raises as `NoticeCheck.run`.

    A cancelled check keeps the chunks that it has written.
    """
    return await NoticeCheck(services, progress).run()


def renew_notices(record: Record, answers: Mapping[str, Record], date: str) -> tuple[Record, NoticeChange | None]:
    """The record with what the services say now, and the change; the same record without one."""
    if not answers:
        return record, None
    before = list_notices(record)
    fresh = [_name_reporter(notice, name) for name, answer in answers.items() for notice in list_notices(answer)]
    reporters = {reporter for name in answers for reporter in REPORTERS_OF[name]}
    gone = [one for one in before if reporters.issuperset(one.reported_by) and one.reported_by and not is_reported(one, fresh)]
    entry: dict[str, JsonValue] = {
        "date": date,
        "services": [*sorted(answers)],
        "notices": [notice.model_dump(mode="json", exclude_defaults=True) for notice in fresh],
        "gone": [notice.model_dump(mode="json", exclude_defaults=True) for notice in gone],
        "basis": digest_notices(record.metadata),
    }
    checks = record.metadata.get(CHECKS)
    former = checks if isinstance(checks, list) else []
    after = record.model_copy(update={"metadata": {**record.metadata, CHECKS: [*former, entry]}})
    now = list_notices(after)
    added = tuple(one for one in now if not is_reported(one, before))
    lost = tuple(one for one in before if not is_reported(one, now))
    if not (added or lost):
        return record, None
    return after, NoticeChange(doc_id=record.doc_id, title=record.title, added=added, gone=lost)


def _name_reporter(notice: Notice, service: str) -> Notice:
    """Evidence from the title or type of a service's record is that service's report."""
    own = REPORTERS_OF[service]
    names = tuple(dict.fromkeys(name if name in own else service for name in notice.reported_by))
    return notice.model_copy(update={"reported_by": names})


def _read_pause(error: SearchError, now: float) -> float | None:
    """How long a service asks to wait; None if it does not, or for too long."""
    until = error.retry_at if isinstance(error, RateLimited) else None
    return until - now if until is not None and 0 < until - now <= LONGEST_PAUSE_S else None


async def _iter_chunks(library: Library, where: Or) -> AsyncIterator[list[Record]]:
    chunk: list[Record] = []
    async for record in library.scan(where):
        chunk.append(record)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
