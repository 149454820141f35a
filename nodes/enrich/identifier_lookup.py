"""A work by its identifiers: sources that know one of them are asked one after another, until one has the work with an abstract."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from outrider.linkage.confirm_work import identifiers_contradict, titles_agree
from outrider.linkage.merge import fill_missing, leading
from outrider.state.errors import SearchError
from outrider.state.ports import BatchSource, Source
from outrider.state.records import Identifiers, Record

SOURCE_ORDER = ("openalex", "pubmed", "arxiv", "semantic_scholar", "crossref")
"""Who is asked first: many requests allowed, abstracts likely. Others come after, in the order given."""
OWN_SCHEMES = {"pubmed": frozenset({"pmid", "pmcid"}), "arxiv": frozenset({"arxiv"})}
"""Who has all works under these schemes; under others they are asked last: PubMed needs two requests for a DOI, and may not have it."""


MOMENT_S = 0.01
"""How long a lookup waits for others that may go with it."""


class Lookup(NamedTuple):
    """One source asked for one identifier, normalised; `scheme` is a field of `Identifiers`."""

    source: Source
    scheme: str
    value: str


class LookupAnswer(NamedTuple):
    """What one source said, or why it did not."""

    way: Lookup
    record: Record | None = None
    error: SearchError | TimeoutError | None = None


class LookupResult(NamedTuple):
    record: Record | None
    """Led by the fullest of what came; what it lacks is from the others, and `metadata["filled_from"]` names them."""
    problems: tuple[str, ...] = ()
    """`name: why` of each source that could not say; one that does not have the work is no problem."""
    asked: tuple[str, ...] = ()
    """Names, in the order of asking; empty where no source knows the scheme."""


def plan_lookups(sources: Sequence[Source], known: Identifiers, but: frozenset[str] = frozenset()) -> list[Lookup]:
    """Each source at most once, who is likely to have an abstract and may be asked often first; `but` are not asked."""
    found: list[tuple[int, Lookup]] = []
    for source in sources:
        own = OWN_SCHEMES.get(source.name, frozenset())
        pairs = sorted(known.pairs(), key=lambda pair: pair[0] not in own)  # stable: strongest first
        first = next((pair for pair in pairs if pair[0] in source.capabilities.identifiers), None)
        if first and source.name not in but:
            late = source.name not in SOURCE_ORDER or (own and first[0] not in own)
            found.append((len(SOURCE_ORDER) if late else SOURCE_ORDER.index(source.name), Lookup(source, *first)))
    return [way for _, way in sorted(found, key=lambda pair: pair[0])]


async def run_lookups(
    ways: Sequence[Lookup],
    until: float,
    together: LookupBatcher | None = None,
    patience_s: float = math.inf,
    but: Collection[str] = frozenset(),
) -> AsyncGenerator[LookupAnswer]:
    """What they say, one after another; nobody is asked before the caller wants to hear them. `until` is by `time.monotonic`.

    Of the time that is left, each has an equal share with those after it: `patience_s` at most, half of it where others come after.
    With `together`, lookups of the same moment go with one call. Of `but`, which may grow meanwhile, nobody is asked. Raises nothing
    that a source may cause.
    """
    for at, way in enumerate(ways):
        if way.source.name in but:
            continue
        after = sum(other.source.name not in but for other in ways[at + 1 :])
        share_s = max(0.0, until - time.monotonic()) / (after + 1)
        within_s = min(way.source.timeout_s, share_s, patience_s / 2 if after else patience_s)
        try:
            async with asyncio.timeout(within_s):
                said = LookupAnswer(
                    way, await (together.get(way, within_s) if together else way.source.get(way.scheme, way.value, within_s))
                )
        except SearchError as error:
            said = LookupAnswer(way, error=error)
        except TimeoutError:
            said = LookupAnswer(way, error=TimeoutError(f"no answer within {within_s:.3g} s"))
        yield said


@dataclass(slots=True)
class LookupBatcher:
    """Lookups of the same moment at one source, with one call where it takes many identifiers (`BatchSource`).

    Used on one event loop. Whoever stops waiting for a call stops it for nobody else; `stopped` ends all.
    """

    _open: dict[tuple[str, str], _Batch] = field(default_factory=dict)
    """By source and scheme: those that more identifiers may still join."""
    _calls: dict[tuple[str, str, str], asyncio.Task[_Answer]] = field(default_factory=dict)
    """Not yet answered, by source, scheme and identifier."""

    async def get(self, way: Lookup, within_s: float) -> Record | None:
        """Raises what the source raises."""
        if way.source.capabilities.batch < 2:
            return await way.source.get(way.scheme, way.value, within_s)
        wanted = (way.source.name, way.scheme, way.value)
        call = self._calls.get(wanted)
        if call is None:
            call = self._calls[wanted] = self._joined(way, within_s)
            call.add_done_callback(lambda _: self._calls.pop(wanted))
        answer = await asyncio.shield(call)
        if isinstance(answer, SearchError):
            raise answer
        return answer.get(way.value)

    async def stop(self) -> None:
        calls = {*self._calls.values()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _joined(self, way: Lookup, within_s: float) -> asyncio.Task[_Answer]:
        of = (way.source.name, way.scheme)
        batch = self._open.get(of)
        if batch is None or len(batch.values) >= way.source.capabilities.batch:
            batch = self._open[of] = _Batch(way.source, way.scheme)
            batch.call = asyncio.create_task(self._asked(batch))
        batch.values.append(way.value)
        batch.within_s = max(batch.within_s, within_s)
        assert batch.call is not None  # noqa: S101 - made with it
        return batch.call

    async def _asked(self, batch: _Batch) -> _Answer:
        await asyncio.sleep(MOMENT_S)
        of = (batch.source.name, batch.scheme)
        if self._open.get(of) is batch:
            del self._open[of]
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
    """The work that has the identifier `value` (normalised) of `scheme`, a field of `Identifiers`.

    Raises nothing that a source may cause.
    """
    found: list[Record] = []
    problems: list[str] = []
    names: list[str] = []
    async with aclosing(run_lookups(plan_lookups(sources, Identifiers(**{scheme: value})), time.monotonic() + within_s)) as answers:
        async for way, record, error in answers:
            names.append(way.source.name)
            if error is not None:
                problems.append(f"{way.source.name}: {str(error).removeprefix(f'{way.source.name} ')}")
            elif record is not None:
                found.append(record)
                if record.abstract or record.kind != "paper":
                    break
    return LookupResult(_merged(found), tuple(problems), tuple(names))


def _merged(found: Sequence[Record]) -> Record | None:
    """A record that names another work than the leader fills nothing: services know an identifier wrongly now and then."""
    if not found:
        return None
    leader = min(found, key=leading)
    others = [one for one in found if one is not leader and not identifiers_contradict(leader, one) and _agree(leader, one)]
    return fill_missing(leader, others) if others else leader


def _agree(one: Record, other: Record) -> bool:
    return not (one.title and other.title) or titles_agree(one.title, other.title)
