"""The words of a request as a service takes them. Each service parts and counts them in its own way; which words tell is one rule.

Base of the adapters of HTTP services: their common fields, and answers with scores, gaps and age.

A source that is configured and cannot be asked here: its line in the answer says why.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from outrider.sources.http.client import Caller
from outrider.sources.http.service import Reply, Service
from outrider.state.errors import Malformed, SourceError, SourceOff
from outrider.state.hits import Scored
from outrider.state.intent import Constraints
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Paper, Record
from outrider.text.words import STOP_WORDS, WORD


def said_by(query: SourceQuery) -> tuple[str, ...]:
    """What a service that looks for every word is asked for: the keywords, else the text."""
    return query.keywords or (query.text,)


def content_words(texts: Iterable[str], part: re.Pattern[str] = WORD, around: str = "", *, lower: bool = True) -> list[str]:
    """The telling words among `parted_words`."""
    return telling(parted_words(texts, part, around, lower=lower))


def parted_words(texts: Iterable[str], part: re.Pattern[str] = WORD, around: str = "", *, lower: bool = True) -> list[str]:
    """What `part` finds, without the signs `around` it, each once in any case of letters, in order; in lower case, or as it is written."""
    known: dict[str, str] = {}
    for text in texts:
        for found in part.findall(text):
            word = found.strip(around)
            if WORD.search(word):
                known.setdefault(word.casefold(), word.lower() if lower else word)
    return list(known.values())


def telling(terms: Sequence[str]) -> list[str]:
    """Words and phrases that are more than stop words; all of them where nothing else is left ("to be or not to be")."""
    return [term for term in terms if not STOP_WORDS.issuperset(WORD.findall(term.lower()))] or list(terms)


Status = Literal["", "partial", "cached", "stale"]
SPARE = 0.03
"""Part of a search's time that is kept for handing over what came: who asks stops listening when the time is up."""
UNITS = (("day", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class ServiceSource:
    """Fields of a `Source` that searches one HTTP service."""

    caller: Caller
    service: Service
    timeout_s: float
    capabilities: Capabilities
    name: str
    strategies: tuple[str, ...] = ("relevance",)


class WorkFormat(NamedTuple):
    """Functions that parse the works of one service."""

    name: str
    find_refusal: Callable[[Any], str]
    """The reason of a refusal; empty for an answer."""
    list_works: Callable[[Any], tuple[list[Any], int | None]]
    """The works of a list, and how many there are in all."""
    parse_paper: Callable[[Any], Paper | None]
    parse_score: Callable[[Any], float | None]


def read_works(said: Any, works_format: WorkFormat, service: Service) -> tuple[list[Any], int | None]:
    """The works of an answer, and how many there are in all. Raises `Malformed` for a refusal."""
    if why := works_format.find_refusal(said):
        raise Malformed(f"{works_format.name} refused the search: {service.shown(why)}")
    return works_format.list_works(said)


def year_filters(constraints: Constraints, first: str, last: str) -> list[str]:
    """Filters `name:date` for the years asked for; `first` and `last` name the filters of the two ends."""
    years = constraints.years
    return [
        f"{name}:{year:04d}-{day}"
        for name, year, day in ((first, years.min, "01-01"), (last, years.max, "12-31"))
        if year is not None and 0 < year <= 9999
    ]


def answer_with_works(
    works: Sequence[Any],
    works_format: WorkFormat,
    total: int | None,
    limit: int,
    replies: Sequence[Reply],
    notes: Sequence[str] = (),
    failed: Sequence[SourceError] = (),
) -> SourceAnswer:
    """The papers among the first works; an answer with other than the announced number of works says so.

    `failed` are the errors of pages that did not come.
    """
    missing = f"{len(failed)} of {len(replies) + len(failed)} pages did not come: {failed[0]}" if failed else ""
    retry_at = next((error.retry_at for error in failed if error.retry_at is not None), None)
    papers = [(works_format.parse_paper(work), works_format.parse_score(work)) for work in works[:limit]]
    titled = [(paper, score) for paper, score in papers if paper is not None and paper.title]
    if not missing and total is not None and len(works) != (expected := min(total, limit)):
        mismatch = f"{works_format.name} says that it has {total:,} works and gave {len(works):,}"
        missing, notes = (mismatch, notes) if len(works) < expected else ("", [*notes, mismatch])
    return answered(scored(titled), total, replies, len(papers) - len(titled), notes, missing, retry_at)


def spared(within_s: float) -> float:
    """What of a search's time may be used for asking."""
    return within_s * (1 - SPARE)


def ends_at(within_s: float) -> float:
    """When asking must be over, by `time.monotonic`."""
    return time.monotonic() + spared(within_s)


def scored(found: Sequence[tuple[Record, float | None]]) -> tuple[Scored, ...]:
    """In the service's own order, with its own scores if it gave one to each, else 1/rank: the two do not mix. A record comes once."""
    kept: dict[str, tuple[Record, float | None]] = {}
    for record, score in found:
        kept.setdefault(record.doc_id, (record, score))
    once = list(kept.values())
    own = [score for _, score in once if score is not None]
    scores = own if len(own) == len(once) else [1 / rank for rank in range(1, len(once) + 1)]
    return tuple(Scored(record, score) for (record, _), score in zip(once, scores, strict=True))


def answered(
    results: tuple[Scored, ...],
    total: int | None,
    replies: Sequence[Reply],
    untitled: int = 0,
    notes: Sequence[str] = (),
    missing: str = "",
    retry_at: float | None = None,
) -> SourceAnswer:
    """`missing` says what was asked for and did not come, `untitled` counts what nobody could judge.

    An answer that is stale says why, and when a newer one may be had.
    """
    oldest = max(replies, key=lambda reply: reply.age_s)
    stale, cached = any(reply.stale for reply in replies), oldest.age_s > 0
    why = [reply.why for reply in replies if reply.why]
    known = [at for at in (retry_at, *(error.retry_at for error in why)) if at is not None]
    said = [
        missing,
        str(why[0]) if why else "",
        f"{oldest.url.split('/')[2]} could not be asked; this is its answer of {shown_age(oldest.age_s)} ago" if stale else "",
        f"from the cache, {shown_age(oldest.age_s)} old" if cached and not stale else "",
        f"{untitled} without a title" if untitled else "",
        *notes,
    ]
    status: Status = "partial" if missing else "stale" if stale else "cached" if cached else ""
    return SourceAnswer(results, total, "; ".join(filter(None, said)), status=status, retry_at=max(known, default=None))


def shown_age(seconds: float) -> str:
    unit, size = next(((unit, size) for unit, size in UNITS if seconds >= size), UNITS[-1])
    count = int(seconds // size)
    return f"{count} {unit}{'s' if unit == 'day' and count != 1 else ''}"


CAPABILITIES = Capabilities(frozenset(), most=0, queries=1)


@dataclass(frozen=True, slots=True)
class Off:
    """A `Source`. `why` says what to do to switch it on."""

    name: str
    strategies: tuple[str, ...]
    why: str
    capabilities: Capabilities = CAPABILITIES
    timeout_s: float = 1.0

    async def search(self, query: SourceQuery) -> SourceAnswer:
        raise SourceOff(f"{self.name}: {self.why}")

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        return None
