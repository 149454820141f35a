"""Reader of open full texts: where they are, the best one, and what was tried

Services are asked one after another, and only until a text is read: first those that return JATS (Europe PMC, PubMed Central), then the
addresses that the record holds and arXiv's, then Unpaywall. Within an answer JATS comes before PDF before HTML. An address that no service
calls open is never asked for. A text, and what one was refused for, is not asked for again within the cache's time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from pydantic import ValidationError

from outrider.full_text.licences import LicencePolicy, explain_refusal, normal_licence
from outrider.full_text.locations import find_barrier
from outrider.full_text.parse_text import NotRead, ParsedText, parse_text
from outrider.full_text.same_work import explain_other_work
from outrider.ingest.entry import ReadOptions
from outrider.runtime.threads_and_loops import in_background
from outrider.sources.web.access_barriers import find_reservation
from outrider.state.errors import Forbidden, SourceError
from outrider.state.full_text import (
    Attempt,
    FullText,
    Located,
    LocationSource,
    OpenLocation,
    TextSource,
    WorkText,
    add_text,
    read_origin,
    sort_locations,
)
from outrider.state.ports import Clock, TextCache
from outrider.state.records import RECORD, Paper, Record

AT_ONCE = 8
"""Works at a time. Each service and host has limits of its own."""
MOST_FILE_BYTES = 50 * 2**20
MOST_ATTEMPTS = 8
"""Locations of one work that are tried."""
SHARE = 0.5
"""Of the remaining time, for one location if others follow."""
LEAST_S = 0.05
PATIENCE_S = 1.0
"""A slower cache is treated as a miss."""
NOT_OPEN = "no service names an open copy"
NO_IDENTIFIER = "it has no identifier by which an open copy could be found, and no open address"
SCHEMES = ("doi", "pmid", "pmcid", "arxiv")


class FileFetcher(Protocol):
    """`PageFetcher.fetch_file`."""

    async def fetch_file(self, url: str, within_s: float, most_bytes: int, check: Callable[[str], str]) -> Any: ...


class LoadedText(NamedTuple):
    """A text as it was read, with the address after redirects."""

    url: str
    parsed: ParsedText


@dataclass(slots=True)
class _Work:
    """One work on its way."""

    record: Paper
    """With identifiers that services named, by which others are asked."""
    original: Paper
    """As it was: a text must be that of this record, since a service may take another work for it."""
    until: float
    attempts: list[Attempt] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class OpenTextReader:
    """A `TextFetcher` over services, and over a fetcher for addresses of others."""

    sources: Sequence[LocationSource]
    """In the order in which they are asked."""
    files: FileFetcher | None
    """None: only services that return texts are used."""
    policy: LicencePolicy = "open"
    options: ReadOptions = field(default_factory=ReadOptions)
    cache: TextCache | None = None
    fresh_s: float = 0.0
    clock: Clock = time.time
    missing: tuple[str, ...] = ()
    """Services that are not asked, and what they need."""

    async def fetch(self, records: Sequence[Record], within_s: float) -> list[tuple[Record, WorkText]]:
        """All at once, within the time. A record with a text of its own stays as it is."""
        until, free = time.monotonic() + within_s, asyncio.Semaphore(AT_ONCE)

        async def fetch_one(record: Record) -> tuple[Record, WorkText]:
            async with free:
                return await self._fetch_work(record, until)

        return list(await asyncio.gather(*map(fetch_one, records)))

    async def _fetch_work(self, record: Record, until: float) -> tuple[Record, WorkText]:
        known = {"doc_id": record.doc_id, "title": record.title}
        if record.text:
            origin = read_origin(record)
            return record, WorkText(**known, status="kept" if origin else "own text", full_text=origin)
        if not isinstance(record, Paper):
            return record, WorkText(**known, status="not a paper", reason="only papers have open copies elsewhere")
        work = _Work(record, record, until)
        async for located in self._locate(work):
            fresh = [one for one in located if one.url not in work.seen][: MOST_ATTEMPTS - len(work.attempts)]
            work.seen.update(one.url for one in fresh)
            for location in fresh:
                left_s = work.until - time.monotonic()
                if left_s < LEAST_S:
                    break
                if with_text := await self._try(work, location, left_s if location is fresh[-1] else left_s * SHARE):
                    attempts, notes = tuple(work.attempts), tuple(work.notes)
                    origin = read_origin(with_text)
                    return with_text, WorkText(**known, status="fetched", full_text=origin, attempts=attempts, notes=notes)
        return record, self._explain_failure(work)

    def _explain_failure(self, work: _Work) -> WorkText:
        record, attempts = work.record, tuple(work.attempts)
        notes = tuple(dict.fromkeys((*work.notes, *self.missing)))
        if time.monotonic() >= work.until:
            notes = (*notes, "the time was over (enrich.full_text_s)")
        known = {"doc_id": record.doc_id, "title": record.title, "attempts": attempts, "notes": notes}
        if attempts:
            status = "failed" if any(one.status == "failed" for one in attempts) else "refused"
            return WorkText.model_validate({**known, "status": status, "reason": attempts[-1].reason})
        has_identifier = any(getattr(record.identifiers, scheme) for scheme in SCHEMES)
        return WorkText.model_validate({**known, "status": "not open", "reason": NOT_OPEN if has_identifier else NO_IDENTIFIER})

    async def _locate(self, work: _Work) -> AsyncIterator[list[OpenLocation]]:
        """The locations that each service names, best first; a later service is asked only after all of them were tried."""
        for source in self.sources:
            left_s = work.until - time.monotonic()
            if left_s < LEAST_S:
                return
            try:
                located = await source.locate(work.record, left_s * SHARE)
            except SourceError as error:
                work.notes.append(f"{source.name}: {error}")
                continue
            self._learn(work, located)
            if located.locations:
                yield sort_locations(located.locations)

    def _learn(self, work: _Work, located: Located) -> None:
        """Identifiers that a service knows help the next one; the work's own stay."""
        own = dict(work.record.identifiers.pairs())
        new = {scheme: value for scheme, value in located.identifiers.pairs() if scheme not in own}
        if new:
            work.record = work.record.model_copy(update={"identifiers": work.record.identifiers.model_copy(update=new)})

    async def _try(self, work: _Work, location: OpenLocation, within_s: float) -> Paper | None:
        """The record with the text of a location, or None. The attempt is added to the work's."""
        status, reason, text = "read", "", None
        try:
            text = self._accept(work.original, location, await self._load(location, within_s))
        except (NotRead, Forbidden) as error:
            status, reason = "refused", str(error)
        except SourceError as error:
            status, reason = "failed", str(error)
        attempt = {"url": location.url, "form": location.form, "found_by": location.found_by, "status": status, "reason": reason}
        work.attempts.append(Attempt.model_validate(attempt))
        return text

    def _accept(self, record: Paper, location: OpenLocation, loaded: LoadedText) -> Paper:
        """The record with the text, unless its licence forbids it or it is another work's. Raises `NotRead`."""
        parsed = loaded.parsed
        licence = location.licence or parsed.licence
        if refusal := explain_refusal(parsed.licence, "open") or explain_refusal(licence, self.policy):
            raise NotRead(refusal)
        if other := explain_other_work(record, parsed.record):
            raise NotRead(other)
        origin = FullText(
            url=loaded.url,
            form=parsed.form,
            licence=normal_licence(licence),
            version=location.version,
            host=location.host,
            found_by=location.found_by,
            characters=len(parsed.record.text),
            fetched_at=datetime.fromtimestamp(self.clock(), UTC).date().isoformat(),
        )
        takes_abstract = parsed.form == "jats" and not record.abstract  # elsewhere it is guessed from the layout
        filled = record.model_copy(update={"abstract": parsed.record.abstract}) if takes_abstract else record
        return add_text(filled, parsed.record.text, origin)

    async def _load(self, location: OpenLocation, within_s: float) -> LoadedText:
        """A text from the cache, its service or its host; nothing is asked for if its licence forbids it. Raises `SourceError`."""
        # a text may state a licence that the service does not know
        if refusal := explain_refusal(location.licence, self.policy if location.licence else "open"):
            raise NotRead(refusal)
        key = hashlib.sha256(f"full text {location.url}".encode()).hexdigest()
        if self.cache and (cached := await self.cache.get(key, PATIENCE_S)) and cached.age_s < self.fresh_s:
            try:
                fields = json.loads(cached.text)
                if reason := fields.get("refused"):
                    raise NotRead(reason)
                return LoadedText(fields["url"], ParsedText(RECORD.validate_python(fields["record"]), fields["form"], fields["licence"]))
            except (ValueError, KeyError, ValidationError):  # written by another version
                pass
        try:
            loaded = await in_background(self._read(location, within_s))
        except NotRead as refusal:
            await self._keep(key, {"refused": str(refusal)})
            raise
        record = loaded.parsed.record.model_dump(mode="json") | {"kind": loaded.parsed.record.kind}
        await self._keep(key, {"url": loaded.url, "form": loaded.parsed.form, "licence": loaded.parsed.licence, "record": record})
        return loaded

    async def _keep(self, key: str, fields: dict[str, Any]) -> None:
        """What was read, or why not: neither a text nor a paywall is asked for twice within the time of the cache."""
        if self.cache and self.fresh_s:
            await self.cache.put(key, json.dumps(fields))

    async def _read(self, location: OpenLocation, within_s: float) -> LoadedText:
        until = time.monotonic() + within_s
        source = next((one for one in self.sources if one.name == location.found_by and hasattr(one, "fetch_text")), None)
        url, content_type = location.url, ""
        if source is not None:
            own: TextSource = source  # type: ignore[assignment]
            body = await own.fetch_text(location, within_s)
        elif self.files is None:
            raise SourceError("fetching pages is switched off")
        else:
            most_bytes = min(MOST_FILE_BYTES, self.options.max_bytes)
            fetched = await self.files.fetch_file(location.url, within_s, most_bytes, find_barrier)
            if reservation := find_reservation(fetched.headers):
                raise NotRead(reservation)
            url, body, content_type = fetched.url, fetched.body, fetched.content_type
        return LoadedText(url, await parse_text(body, content_type, location.form, url, until - time.monotonic(), self.options))
