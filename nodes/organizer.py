"""The node that applies the threshold, sorts, counts facets and cuts to `top_k`."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING

from pydantic import JsonValue

from outrider.nodes.code_links import find_conditions, rank_liveness
from outrider.nodes.fine_scorer.repositories import SHOWN_METADATA
from outrider.nodes.run_settings import run_setting
from outrider.settings.model import OrganizerSettings
from outrider.state.code_links import LIVENESS_ORDER, OWN, best_liveness
from outrider.state.errors import SearchError
from outrider.state.filters import parse_filter, split_code, split_retracted
from outrider.state.full_text import read_origin
from outrider.state.hits import Candidate, Hit, SeenIn
from outrider.state.learning import Preferences, list_features
from outrider.state.notices import KINDS, list_notices
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock, LibraryReader, PreferencesProvider
from outrider.state.records import LIBRARY, Record
from outrider.state.response import Bypass, Facets, Failure, SourceReport, provenance_hash
from outrider.text.injection import suspicious
from outrider.text.words import STOP_WORDS, title_words

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

MIN_THEME_LETTERS = 3
BIBLIOGRAPHIC = ("volume", "issue", "pages", "mesh", "licence")
"""Fields that only records of one kind have; a hit has them in its metadata."""
OF_REPOSITORIES = ("forks", "is_fork", "archived", "updated_at")
"""Likewise, and no texts."""
LONG_CHARS, SHORT_CHARS = 8_000, 1_000
"""Characters of each text that are checked for instructions to a model: more than any judge is shown."""
SCANNED_FIELDS = {
    **dict.fromkeys(("abstract", "description", "text"), LONG_CHARS),
    **dict.fromkeys(("title", "venue", "language", "updated_at", "tags", "authors", *BIBLIOGRAPHIC), SHORT_CHARS),
}
SCANNED_METADATA = frozenset({"tree", *SHOWN_METADATA})
"""Metadata that a judge of repositories is shown."""


@dataclass(frozen=True, slots=True)
class Organizer:
    """Reads candidates, strategy, filters, snapshot; writes hits, facets, total_found, provenance_hash, a failure if texts are cut, and in
    bypassed the records that the filters leave out for lack of a field, if there are fewer hits than requested.
    """

    library: LibraryReader
    settings: OrganizerSettings
    versions: Mapping[str, str]
    clock: Clock = time.time
    preferences: PreferencesProvider | None = None
    """What was learned from use; None while that is off."""

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        threshold = run_setting(runtime, "relevance_threshold", self.settings.relevance_threshold)
        conditions, now = find_conditions(state), self.clock()
        tier = partial(rank_liveness, conditions=conditions, now=now)
        passed = select_and_sort(state.candidates, threshold, tier)
        failures, bypassed = state.failures, state.bypassed
        learned, why_not = (None, "") if self.preferences is None else await self.preferences()
        if learned is not None:
            passed = select_and_sort(apply_preferences(passed, learned), 0.0, tier)
        elif self.preferences is not None:
            bypassed = (*bypassed, Bypass(step="learning", why=why_not))
        records: Sequence[Record] = [candidate.record for candidate in passed[: state.top_k]]
        is_searched = any(isinstance(row, SourceReport) and row.source == LIBRARY for row in state.sources or ())
        filters = parse_filter(state.filters or {}) if is_searched and len(passed) < state.top_k else None
        where, _ = split_retracted(split_code(filters)[0])
        try:
            records = await self.library.whole(records)
            if where is not None:
                bypassed = (*bypassed, *(Bypass(step="filters", why=why) for why in await self.library.explain_filter(where)))
        except SearchError as error:  # the hits stay, with the beginning of their texts
            failures = (*failures, Failure(node="organizer", error=type(error).__name__, message=str(error)))
        first = [replace(candidate, record=record) for candidate, record in zip(passed, records, strict=False)]
        contents = [(candidate.record.doc_id, candidate.record.content_hash()) for candidate in first]
        versions = {**self.versions, **list_models(state), **({"learning": learned.version} if learned is not None else {})}
        return {
            "hits": tuple(to_hit(candidate, rank) for rank, candidate in enumerate(first, start=1)),
            "facets": count_facets(passed, self.settings),
            "bypassed": bypassed,
            "failures": failures,
            "total_found": len(passed),
            "provenance_hash": provenance_hash(state, state.strategy, state.snapshot, versions, contents),
        }


def apply_preferences(candidates: Iterable[Candidate], preferences: Preferences) -> Iterator[Candidate]:
    """The candidates with what use adds to their scores; those that passed the threshold stay."""
    for candidate in candidates:
        boost, why = preferences.weigh(list_features(candidate.record))
        score = min(1.0, max(0.0, candidate.score + boost))
        if not why:
            yield candidate
        else:
            scores = {"model": model_score(candidate)} if candidate.scored_by == "model" else {}
            scores |= candidate.scores | {"learned": score - candidate.score}
            yield replace(candidate, score=score, scores=scores, learned=why)


def list_models(state: PipelineState) -> dict[str, str]:
    """The models that affected the order of the hits."""
    rows = [row for row in state.sources or () if isinstance(row, SourceReport)]
    ranked = {f"{row.source}/{row.strategy}": row.model for row in rows if row.model}
    return {**ranked, **({"reranker": state.reranked_by} if state.reranked_by else {})}


def model_score(candidate: Candidate) -> float:
    """What the model gave the work, before any reranking."""
    return candidate.scores.get("model", candidate.score)


def select_and_sort(
    candidates: Iterable[Candidate], threshold: float, tier: Callable[[Candidate], int] = lambda _: 0
) -> tuple[Candidate, ...]:
    """The candidates above the threshold, sorted by tier, score, the reranker's place, citations or stars, year, title, id.

    Only a model's own score can fail the threshold, whatever a reranker made of it. A work that a model left unread on purpose is not
    shown: it would hardly have passed.
    """
    passed = [one for one in candidates if not one.unread and (one.scored_by != "model" or model_score(one) >= threshold)]

    def order(candidate: Candidate) -> tuple[int, float, float, int, int, str, str]:
        record = candidate.record
        place = math.inf if candidate.reranked is None else candidate.reranked
        count = max(record.citations or 0, record.stars or 0)
        return (tier(candidate), -candidate.score, place, -count, -(record.year or 0), record.title.lower(), record.doc_id)

    return tuple(sorted(passed, key=order))


def count_facets(candidates: Sequence[Candidate], settings: OrganizerSettings) -> Facets:
    """Counts over all candidates that passed; ties in alphabetical order."""
    records = [candidate.record for candidate in candidates]
    years = Counter(record.year for record in records if record.year is not None)
    notices = Counter(kind for one in candidates for kind in {notice.kind for notice in list_notices(one.record, one.related)})
    authors = Counter(author for record in records for author in dict.fromkeys(record.authors))
    return Facets(
        by_year={str(year): years[year] for year in sorted(years, reverse=True)},
        by_venue=_count_names(record.venue for record in records),
        by_language=_count_names(record.language for record in records),
        by_code=_count_code(candidates),
        by_notice={kind: notices[kind] for kind in KINDS if kind in notices},
        top_authors=dict(sorted(authors.items(), key=lambda pair: (-pair[1], pair[0]))[: settings.authors]),
        key_themes=count_themes(candidates, settings),
    )


def _count_code(candidates: Sequence[Candidate]) -> dict[str, int]:
    """Papers and pages with code of their own, and of these by liveness."""
    own = [[code.liveness for code in one.code if code.kind in OWN] for one in candidates if one.record.kind != "repository"]
    counts = Counter(best_liveness(kinds) for kinds in own if kinds)
    return {"has code": counts.total(), **{kind: counts[kind] for kind in LIVENESS_ORDER if kind in counts}} if counts else {}


def count_themes(candidates: Sequence[Candidate], settings: OrganizerSettings) -> dict[str, int]:
    """The most frequent words in titles, each counted once per title; no stop words, numbers or words under three letters.

    If a model scored, only titles of works over `organizer.theme_threshold` count.
    """
    by_model = any(one.scored_by == "model" for one in candidates)
    relevant = [one for one in candidates if not by_model or (one.scored_by == "model" and model_score(one) >= settings.theme_threshold)]
    counts = Counter(chain.from_iterable(_list_themes(candidate.record.title) for candidate in relevant))
    least = min(sorted(counts.values(), reverse=True)[: settings.themes], default=0)  # numbers alone: there are hundreds of words
    first = sorted((pair for pair in counts.items() if pair[1] >= least), key=lambda pair: (-pair[1], pair[0]))
    return dict(first[: settings.themes])


@lru_cache(maxsize=4_096)
def _list_themes(title: str) -> tuple[str, ...]:
    themes = (word for word in title_words(title) if len(word) >= MIN_THEME_LETTERS and word not in STOP_WORDS and not word.isdigit())
    return tuple(dict.fromkeys(themes))


@cache
def _list_shared_fields(kind: type[Record]) -> tuple[str, ...]:
    """The fields that a hit has from a record of this kind."""
    return tuple(name for name in Hit.model_fields if name in kind.model_fields)


def to_hit(candidate: Candidate, rank: int) -> Hit:
    record = candidate.record
    same = {name: getattr(record, name) for name in _list_shared_fields(type(record))}
    present = record.model_dump(mode="json", include={*BIBLIOGRAPHIC, *OF_REPOSITORIES}, exclude_defaults=True)
    best = min(candidate.found_by, key=lambda found_by: found_by.rank, default=None)
    # each field is cut to its own length, so that a long field hides no other; all are checked in one pass
    fields = ((getattr(record, name, None), chars) for name, chars in SCANNED_FIELDS.items())
    texts = [_beginning(value, chars) for value, chars in fields if value]
    for in_prompt in (True, False) if record.metadata else ():
        part = {name: value for name, value in record.metadata.items() if (name in SCANNED_METADATA) == in_prompt}
        texts.append(_beginning(part, LONG_CHARS))
    return Hit(
        **{**same, "metadata": {**record.metadata, **present}, "tags": tuple(dict.fromkeys((*record.tags, *candidate.tags)))},
        rank=rank,
        file=_file_name(record.origin or ""),
        score=candidate.score,
        scores={name: round(value, 6) for name, value in candidate.scores.items()},
        scored_by=candidate.scored_by,
        reason=candidate.reason,
        learned=candidate.learned,
        radar=candidate.radar,
        unchecked=candidate.unchecked,
        flags=suspicious("\n\n".join(texts)),
        found_by=candidate.found_by,
        duplicates=candidate.duplicates,
        related=candidate.related,
        code=candidate.code,
        papers=candidate.papers,
        seen_in=find_seen_in(candidate),
        full_text=read_origin(record),
        content=record.abstract or record.description,
        original_text=record.full_text(),
        source_strategy=best.strategy if best else "",
    )


def find_seen_in(candidate: Candidate) -> SeenIn:
    """Whether services, pages of the web or both returned the work, regardless of its present source."""
    are_pages = {record.kind == "page" for record in (candidate.members or (candidate.record,)) if record.source != LIBRARY}
    if not are_pages:
        return "library-only"
    return "both" if len(are_pages) > 1 else "web-only" if True in are_pages else "api-only"


def _file_name(origin: str) -> str:
    """The name of a file that is the origin of a record; other origins are identifiers, links and collections."""
    return PurePath(origin).name if PurePath(origin).is_absolute() else ""


def _beginning(value: JsonValue | tuple[str, ...], chars: int) -> str:
    """The first characters of all texts in a value."""
    if isinstance(value, str):
        return value[:chars]
    parts: list[str] = []
    for text in _iter_texts(value):
        parts.append(text[:chars])
        chars -= len(text) + 1
        if chars <= 0:
            break
    return "\n".join(parts)


def _iter_texts(value: JsonValue | tuple[str, ...]) -> Iterator[str]:
    """All texts in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for part in pair for text in _iter_texts(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in _iter_texts(part))


def _count_names(names: Iterable[str | None]) -> dict[str, int]:
    """Counts by name, regardless of case and white space, each in its most frequent spelling."""
    spellings: dict[str, Counter[str]] = {}
    for name in names:
        if name and (plain := " ".join(name.split()).rstrip(".,;")):
            spellings.setdefault(plain.casefold(), Counter())[plain] += 1
    counts = {min(forms, key=lambda form: (-forms[form], form)): sum(forms.values()) for forms in spellings.values()}
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
