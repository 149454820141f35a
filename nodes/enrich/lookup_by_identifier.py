"""Lookup of a work by its identifiers at one source after another."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from outrider.linkage.lookup_match import identifiers_contradict, titles_agree
from outrider.linkage.merge import fill_missing, leading
from outrider.runtime.tape import read_monotonic
from outrider.state.errors import SearchError
from outrider.state.ports import BatchSource, Source
from outrider.state.records import Identifiers, Record

log = logging.getLogger(__name__)

SOURCE_ORDER = ("openalex", "pubmed", "arxiv", "semantic_scholar", "crossref")
"""Sources that allow many requests and often have abstracts come first; all others follow in the given order."""
OWN_SCHEMES = {"pubmed": frozenset({"pmid", "pmcid"}), "arxiv": frozenset({"arxiv"})}
"""Schemes of which a source has every work. For other schemes it comes last: PubMed needs two requests for a DOI and may not have it."""
MOMENT_S = 0.01
"""How long a lookup waits for others that can share its request."""


class Lookup(NamedTuple):
    """One identifier at one source; `scheme` is a field of `Identifiers`, the value is normalised."""

    source: Source
    scheme: str
    value: str


class LookupAnswer(NamedTuple):
    """The answer of one source, or its error."""

    lookup: Lookup
    record: Record | None = None
    error: SearchError | TimeoutError | None = None


class LookupResult(NamedTuple):
    record: Record | None
    """The fullest record; what it lacks comes from the others, named in `metadata["filled_from"]`."""
    problems: tuple[str, ...] = ()
    """`name: why` for each source that failed; a source without the work is no problem."""
    sources: tuple[str, ...] = ()
    """Names of the sources in order; empty if no source knows the scheme."""
    unreachable: tuple[str, ...] = ()
    """Names of those to which there is no connection: the same reason for all, which is no problem of its own."""


def plan_lookups(sources: Sequence[Source], identifiers: Identifiers, excluded: frozenset[str] = frozenset()) -> list[Lookup]:
    """One lookup per source that knows one of the identifiers, without the `excluded` sources; the most useful source first."""
    ranked: list[tuple[int, Lookup]] = []
    for source in sources:
        own = OWN_SCHEMES.get(source.name, frozenset())
        pairs = sorted(identifiers.pairs(), key=lambda pair: pair[0] not in own)  # stable: strongest first
        first = next((pair for pair in pairs if pair[0] in source.capabilities.identifiers), None)
        if first and source.name not in excluded:
            last = source.name not in SOURCE_ORDER or (own and first[0] not in own)
            ranked.append((len(SOURCE_ORDER) if last else SOURCE_ORDER.index(source.name), Lookup(source, *first)))
    return [lookup for _, lookup in sorted(ranked, key=lambda pair: pair[0])]


async def run_lookups(
    lookups: Sequence[Lookup],
    until: float,
    batcher: LookupBatcher | None = None,
    patience_s: float = math.inf,
    excluded: Collection[str] = frozenset(),
) -> AsyncGenerator[LookupAnswer]:
    """Answers one after another; a lookup starts only when the caller asks for its answer. `until` is in `time.monotonic`.

    Each lookup gets an equal share of the remaining time, at most `patience_s`, or half of it if others follow. A `batcher` sends lookups
    of the same moment in one request. Sources in `excluded`, which may grow meanwhile, are skipped. Raises no error of a source.
    """
    for at, lookup in enumerate(lookups):
        if lookup.source.name in excluded:
            continue
        after = sum(other.source.name not in excluded for other in lookups[at + 1 :])
        share_s = max(0.0, until - read_monotonic(f"{lookup.source.name} {lookup.scheme}:{lookup.value}")) / (after + 1)
        within_s = min(lookup.source.timeout_s, share_s, patience_s / 2 if after else patience_s)
        try:
            async with asyncio.timeout(within_s):
                if batcher:
                    record = await batcher.get(lookup, within_s)
                else:
                    record = await lookup.source.get(lookup.scheme, lookup.value, within_s)
            answer = LookupAnswer(lookup, record)
        except SearchError as error:
            answer = LookupAnswer(lookup, error=error)
        except TimeoutError:
            answer = LookupAnswer(lookup, error=TimeoutError(f"no answer within {within_s:.3g} s"))
        yield answer


@dataclass(slots=True)
class LookupBatcher:
    """Lookups of the same moment at one source, in one request if the source accepts many identifiers (`BatchSource`).

    For one event loop. A caller that stops waiting stops the request for nobody else; `stop` ends all.
    """

    _open: dict[tuple[str, str], _Batch] = field(default_factory=dict)
    """Batches that accept more identifiers, by source and scheme."""
    _calls: dict[tuple[str, str, str], asyncio.Task[_Answer]] = field(default_factory=dict)
    """Requests under way, by source, scheme and identifier."""

    async def get(self, lookup: Lookup, within_s: float) -> Record | None:
        """Raises the errors of the source."""
        if lookup.source.capabilities.batch < 2:
            return await lookup.source.get(lookup.scheme, lookup.value, within_s)
        key = (lookup.source.name, lookup.scheme, lookup.value)
        call = self._calls.get(key)
        if call is None:
            batch = self._open.get(key[:2])
            if batch is None or len(batch.values) >= lookup.source.capabilities.batch:
                batch = self._open[key[:2]] = _Batch(lookup.source, lookup.scheme)
                batch.call = asyncio.create_task(self._send(batch))
            batch.values.append(lookup.value)
            batch.within_s = max(batch.within_s, within_s)
            assert batch.call is not None  # noqa: S101 - made with it
            call = self._calls[key] = batch.call
            call.add_done_callback(lambda _: self._calls.pop(key))
        answer = await asyncio.shield(call)
        if isinstance(answer, SearchError):
            raise answer
        return answer.get(lookup.value)

    async def stop(self) -> None:
        calls = {*self._calls.values()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def _send(self, batch: _Batch) -> _Answer:
        await asyncio.sleep(MOMENT_S)
        key = (batch.source.name, batch.scheme)
        if self._open.get(key) is batch:
            del self._open[key]
        try:
            if len(batch.values) > 1:
                return await cast("BatchSource", batch.source).get_many(batch.scheme, batch.values, batch.within_s)
            (value,) = batch.values
            record = await batch.source.get(batch.scheme, value, batch.within_s)
        except SearchError as error:
            return error
        return {value: record} if record else {}


@dataclass(slots=True, eq=False)
class _Batch:
    source: Source
    scheme: str
    values: list[str] = field(default_factory=list)
    within_s: float = 0.0
    call: asyncio.Task[_Answer] | None = None


_Answer = Mapping[str, Record] | SearchError


async def look_up(sources: Sequence[Source], scheme: str, value: str, within_s: float) -> LookupResult:
    """The work with the identifier `value` (normalised) of `scheme`, a field of `Identifiers`. Raises no error of a source."""
    records: list[Record] = []
    problems: list[str] = []
    names: list[str] = []
    unreachable: list[str] = []
    lookups = plan_lookups(sources, Identifiers(**{scheme: value}))
    async with aclosing(run_lookups(lookups, read_monotonic("look-up") + within_s)) as answers:
        async for lookup, record, error in answers:
            names.append(lookup.source.name)
            if error is not None and is_unreachable(error):
                log.info("%s", error)
                unreachable.append(lookup.source.name)
            elif error is not None:
                problems.append(f"{lookup.source.name}: {str(error).removeprefix(f'{lookup.source.name} ')}")
            elif record is not None:
                records.append(record)
                if record.abstract or record.kind != "paper":
                    break
    if not records:
        return LookupResult(None, tuple(problems), tuple(names), tuple(unreachable))
    leader = min(records, key=leading)
    # A record of another work fills nothing: services sometimes have a wrong identifier.
    others = [
        record
        for record in records
        if record is not leader
        and not identifiers_contradict(leader, record)
        and (not (leader.title and record.title) or titles_agree(leader.title, record.title))
    ]
    return LookupResult(fill_missing(leader, others) if others else leader, tuple(problems), tuple(names), tuple(unreachable))


def is_unreachable(error: Exception) -> bool:
    """Whether there is no connection to the service, as without a network."""
    from outrider.sources.http.transport import Unreachable

    return isinstance(error, Unreachable)
