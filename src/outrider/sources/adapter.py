"""Common parts of the source adapters: fields, search words, time limits, answers"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from outrider.runtime.threads_and_loops import unless_abandoned
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Reply, Service
from outrider.state.boolean import And, Not
from outrider.state.errors import Malformed, SourceError, SourceOff, SourceTimeout, SourceUnavailable
from outrider.state.hits import Scored
from outrider.state.intent import Constraints
from outrider.state.ports import AnswerStatus, BooleanQuery, Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Paper, Record
from outrider.text.words import STOP_WORDS, WORD

SPARE = 0.03
"""Share of a search's time that is reserved for returning the results before the caller stops waiting."""
NO_CAPABILITIES = Capabilities(frozenset(), most=0, queries=1)
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


@dataclass(frozen=True, slots=True)
class DisabledSource:
    """A `Source` that is configured and cannot be searched here. `why` says how to enable it."""

    name: str
    strategies: tuple[str, ...]
    why: str
    capabilities: Capabilities = NO_CAPABILITIES
    timeout_s: float = 1.0

    async def search(self, query: SourceQuery) -> SourceAnswer:
        raise SourceOff(f"{self.name}: {self.why}")

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        return None


class WorkFormat(NamedTuple):
    """Functions that parse the works of one service."""

    name: str
    find_refusal: Callable[[Any], str]
    """The reason of a refusal; empty for an answer."""
    list_works: Callable[[Any], tuple[list[Any], int | None]]
    """The works of a list, and how many there are in all."""
    parse_paper: Callable[[Any], Paper | None]
    parse_score: Callable[[Any], float | None]


async def match_then_rank(
    query: SourceQuery,
    match: Callable[[BooleanQuery], Awaitable[SourceAnswer]],
    rank: Callable[[], Awaitable[SourceAnswer]],
    *,
    verified: bool = False,
) -> SourceAnswer:
    """The matches of the Boolean query, and if these are fewer than the limit, the results of `rank` after them.

    What the query excludes with NOT is left out, because a service may be unable to exclude it. `verified` also leaves out matches of a
    wider expression that the record itself contradicts. If the service does not accept the expression, or does not answer it in time
    (see `half_way`), only `rank` is used. If that has no time left either, the error of the Boolean query says why.
    """
    boolean = query.boolean
    if boolean is None or not boolean.expression:
        return await rank()
    failure: SourceError | None = None
    try:
        matched = await match(boolean)
    except (SourceUnavailable, SourceTimeout, Malformed) as error:
        failure, matched = error, SourceAnswer((), message=f"the Boolean query failed: {error}")
    if verified and boolean.wider and matched.results:
        from outrider.boolean.evaluator import Evaluator

        test = Evaluator(boolean.tree).matches
        matched = replace(matched, results=tuple(result for result in matched.results if test(result.record)))
    matched = leave_out_excluded(matched, boolean)
    if len(matched.results) >= query.limit:
        return matched
    try:
        ranked = leave_out_excluded(await rank(), boolean)
    except SourceError as error:
        if not matched.results:
            if failure is not None and isinstance(error, SourceTimeout):
                raise failure from None
            raise
        note = f"fewer than {query.limit:,} match the Boolean query, and the search by words failed: {error}"
        return replace(matched, status="partial", message="; ".join(filter(None, (matched.message, note))), retry_at=error.retry_at)
    return _append_ranked(matched, ranked, query.limit)


def _append_ranked(matched: SourceAnswer, ranked: SourceAnswer, limit: int) -> SourceAnswer:
    """Scores are 1/rank: those of two requests do not compare."""
    if not matched.results:
        return replace(ranked, message="; ".join(filter(None, (matched.message, ranked.message))))
    records = {result.record.doc_id: result.record for result in (*ranked.results, *matched.results)}
    order = dict.fromkeys(result.record.doc_id for result in (*matched.results, *ranked.results))
    results = tuple(Scored(records[doc_id], 1 / rank) for rank, doc_id in enumerate(order, start=1))[:limit]
    note = f"{len(matched.results):,} match the Boolean query, the others its words"
    statuses = (matched.status, ranked.status)
    return SourceAnswer(
        results,
        max((total for total in (matched.total, ranked.total) if total is not None), default=None),
        "; ".join(filter(None, dict.fromkeys((note, matched.message, ranked.message)))),
        status=next((status for status in ("partial", "stale", "cached") if status in statuses), ""),
        retry_at=max((at for at in (matched.retry_at, ranked.retry_at) if at is not None), default=None),
    )


def leave_out_excluded(answer: SourceAnswer, boolean: BooleanQuery) -> SourceAnswer:
    """The answer without records that hold what the query excludes with NOT."""
    parts = boolean.tree.parts if isinstance(boolean.tree, And) else (boolean.tree,)
    excluded = [part.part for part in parts if isinstance(part, Not)]
    if not excluded:
        return answer
    from outrider.boolean.evaluator import Evaluator

    tests = [Evaluator(part).matches for part in excluded]
    results = tuple(result for result in answer.results if not any(test(result.record) for test in tests))
    if len(results) == len(answer.results):
        return answer
    note = f"{len(answer.results) - len(results):,} hold what the query excludes"
    return replace(answer, results=results, message="; ".join(filter(None, (answer.message, note))))


def query_terms(query: SourceQuery) -> tuple[str, ...]:
    """Texts for a service that matches every word: the keywords, else the whole text."""
    return query.keywords or (query.text,)


def content_words(texts: Iterable[str], part: re.Pattern[str] = WORD, around: str = "", *, lower: bool = True) -> list[str]:
    """The result of `split_words` without stop words."""
    return drop_stop_words(split_words(texts, part, around, lower=lower))


def split_words(texts: Iterable[str], part: re.Pattern[str] = WORD, around: str = "", *, lower: bool = True) -> list[str]:
    """Matches of `part` without the characters `around` them, in order, each once regardless of case; in lower case, or as written."""
    words: dict[str, str] = {}
    for text in texts:
        for match in part.findall(text):
            word = match.strip(around)
            if WORD.search(word):
                words.setdefault(word.casefold(), word.lower() if lower else word)
    return list(words.values())


def drop_stop_words(terms: Sequence[str]) -> list[str]:
    """Words and phrases that are more than stop words; all of them if nothing else is left ("to be or not to be")."""
    return [term for term in terms if not STOP_WORDS.issuperset(WORD.findall(term.lower()))] or list(terms)


def usable_seconds(within_s: float) -> float:
    """The part of a search's time that requests may use."""
    return within_s * (1 - SPARE)


def deadline_after(within_s: float) -> float:
    """When requests must end, by `time.monotonic`."""
    return time.monotonic() + usable_seconds(within_s)


def half_way(until: float) -> float:
    """The middle between now and a deadline: an expression that a service is slow to match leaves the other half to its words."""
    return (time.monotonic() + until) / 2


def year_filters(constraints: Constraints, first: str, last: str) -> list[str]:
    """Filters `name:date` for the requested years; `first` and `last` name the filters of the two ends."""
    years = constraints.years
    return [
        f"{name}:{year:04d}-{day}"
        for name, year, day in ((first, years.min, "01-01"), (last, years.max, "12-31"))
        if year is not None and 0 < year <= 9999
    ]


def read_works(payload: Any, works_format: WorkFormat, service: Service) -> tuple[list[Any], int | None]:
    """The works of a response, and how many there are in all. Raises `Malformed` for a refusal."""
    if why := works_format.find_refusal(payload):
        raise Malformed(f"{works_format.name} refused the search: {service.redact(why)}")
    return works_format.list_works(payload)


def build_works_answer(
    works: Sequence[Any],
    works_format: WorkFormat,
    total: int | None,
    limit: int,
    replies: Sequence[Reply],
    notes: Sequence[str] = (),
    failed: Sequence[SourceError] = (),
) -> SourceAnswer:
    """The papers among the first works. A mismatch with the announced number of works is reported.

    `failed` has the errors of pages that could not be loaded.
    """
    missing = f"{len(failed)} of {len(replies) + len(failed)} pages could not be loaded: {failed[0]}" if failed else ""
    retry_at = next((error.retry_at for error in failed if error.retry_at is not None), None)
    papers = [(works_format.parse_paper(work), works_format.parse_score(work)) for work in unless_abandoned(works[:limit])]
    titled = [(paper, score) for paper, score in papers if paper is not None and paper.title]
    if not missing and total is not None and len(works) != (expected := min(total, limit)):
        mismatch = f"{works_format.name} reports {total:,} works and returned {len(works):,}"
        missing, notes = (mismatch, notes) if len(works) < expected else ("", [*notes, mismatch])
    return build_answer(score_results(titled), total, replies, len(papers) - len(titled), notes, missing, retry_at)


def score_results(results: Sequence[tuple[Record, float | None]]) -> tuple[Scored, ...]:
    """Results in the service's order, each record once, with the service's scores if every result has one, else 1/rank.

    The two kinds of score do not mix.
    """
    by_id: dict[str, tuple[Record, float | None]] = {}
    for record, score in results:
        by_id.setdefault(record.doc_id, (record, score))
    unique = list(by_id.values())
    own = [score for _, score in unique if score is not None]
    scores = own if len(own) == len(unique) else [1 / rank for rank in range(1, len(unique) + 1)]
    return tuple(Scored(record, score) for (record, _), score in zip(unique, scores, strict=True))


def build_answer(
    results: tuple[Scored, ...],
    total: int | None,
    replies: Sequence[Reply],
    untitled: int = 0,
    notes: Sequence[str] = (),
    missing: str = "",
    retry_at: float | None = None,
) -> SourceAnswer:
    """`missing` names results that did not arrive, `untitled` counts those that cannot be judged.

    A stale answer says why, and when to retry.
    """
    oldest = max(replies, key=lambda reply: reply.age_s)
    stale, cached = any(reply.stale for reply in replies), oldest.age_s > 0
    why = [reply.why for reply in replies if reply.why]
    times = [at for at in (retry_at, *(error.retry_at for error in why)) if at is not None]
    parts = [
        missing,
        str(why[0]) if why else "",
        f"{oldest.url.split('/')[2]} is unavailable; this is its response of {format_age(oldest.age_s)} ago" if stale else "",
        f"from the cache, {format_age(oldest.age_s)} old" if cached and not stale else "",
        f"{untitled} without a title" if untitled else "",
        *notes,
    ]
    status: AnswerStatus = "partial" if missing else "stale" if stale else "cached" if cached else ""
    return SourceAnswer(results, total, "; ".join(filter(None, parts)), status=status, retry_at=max(times, default=None))


def format_age(seconds: float) -> str:
    unit, size = next(((unit, size) for unit, size in UNITS if seconds >= size), UNITS[-1])
    count = int(seconds // size)
    return f"{count} {unit}{'s' if unit == 'day' and count != 1 else ''}"
