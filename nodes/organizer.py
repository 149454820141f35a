"""Threshold, one total order, facets over all that passed, and the cut to `top_k`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import JsonValue

from outrider.nodes.fine_scorer.repositories import SHOWN_METADATA
from outrider.nodes.run_settings import run_setting
from outrider.settings.model import OrganizerSettings
from outrider.state.errors import SearchError
from outrider.state.hits import Candidate, Hit, SeenIn
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import LibraryReader
from outrider.state.records import LIBRARY, Record
from outrider.state.response import Facets, Failure, SourceReport, provenance_hash
from outrider.text.injection import suspicious
from outrider.text.words import STOP_WORDS, words

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

MIN_THEME_LETTERS = 3


@dataclass(frozen=True, slots=True)
class Organizer:
    """Reads candidates, strategy, snapshot; writes hits, facets, total_found, provenance_hash, and a failure where texts are cut."""

    library: LibraryReader
    settings: OrganizerSettings
    versions: Mapping[str, str]

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        threshold = run_setting(runtime, "relevance_threshold", self.settings.relevance_threshold)
        kept = select_and_sort(state.candidates, threshold)
        failures = state.failures
        whole: Sequence[Record] = [one.record for one in kept[: state.top_k]]
        try:
            whole = await self.library.whole(whole)
        except SearchError as error:  # the hits stand, with the beginning of their texts
            failures = (*failures, Failure(node="organizer", error=type(error).__name__, message=str(error)))
        first = [replace(one, record=record) for one, record in zip(kept, whole, strict=False)]
        hits = tuple(to_hit(one, rank) for rank, one in enumerate(first, start=1))
        contents = [(one.record.doc_id, one.record.content_hash()) for one in first]
        return {
            "hits": hits,
            "facets": count_facets(kept, self.settings),
            "failures": failures,
            "total_found": len(kept),
            "provenance_hash": provenance_hash(state, state.strategy, state.snapshot, {**self.versions, **list_models(state)}, contents),
        }


def list_models(state: PipelineState) -> dict[str, str]:
    """The models that had a part in the order of the hits."""
    rows = [row for row in state.sources or () if isinstance(row, SourceReport)]
    ranked = {f"{row.source}/{row.strategy}": row.model for row in rows if row.model}
    return {**ranked, **({"reranker": state.reranked_by} if state.reranked_by else {})}


def select_and_sort(candidates: Iterable[Candidate], threshold: float) -> tuple[Candidate, ...]:
    """What passes the threshold, in order: a reranker's place, relevance, citations, year, title, id.

    Only a model's score can fail the threshold. What a model left unread on purpose is not shown: it would hardly have passed.
    """
    kept = (one for one in candidates if not one.unread and (one.scored_by != "model" or one.score >= threshold))
    return tuple(sorted(kept, key=_order))


def count_facets(kept: Sequence[Candidate], settings: OrganizerSettings) -> Facets:
    """Counts over all that passed; ties in alphabetical order."""
    records = [one.record for one in kept]
    years = Counter(record.year for record in records if record.year is not None)
    authors = Counter(author for record in records for author in dict.fromkeys(record.authors))
    return Facets(
        by_year={str(year): years[year] for year in sorted(years, reverse=True)},
        by_venue=_counted(record.venue for record in records),
        by_language=_counted(record.language for record in records),
        top_authors=dict(sorted(authors.items(), key=lambda pair: (-pair[1], pair[0]))[: settings.authors]),
        key_themes=count_themes(kept, settings),
    )


def count_themes(kept: Sequence[Candidate], settings: OrganizerSettings) -> dict[str, int]:
    """The words that most titles have, each counted once a title; no stop words, numbers or words under three letters.

    Where a model scored, only titles of hits that it found relevant enough speak; else all do.
    """
    by_model = any(one.scored_by == "model" for one in kept)
    titles = [one.record.title for one in kept if not by_model or (one.scored_by == "model" and one.score >= settings.theme_threshold)]
    counts = Counter(word for title in titles for word in set(words(title)))
    themed = ((word, count) for word, count in counts.items() if _themed(word))
    return dict(sorted(themed, key=lambda pair: (-pair[1], pair[0]))[: settings.themes])


BIBLIOGRAPHIC = ("volume", "issue", "pages", "mesh", "licence")
"""What a record of one kind has and a hit has no field for; it stands in the hit's metadata."""


LONG_CHARS, SHORT_CHARS = 8_000, 1_000
"""How much of each text is looked through for what speaks to a model: more than any judge is shown of it."""
SCANNED_FIELDS = {
    **dict.fromkeys(("abstract", "description", "text"), LONG_CHARS),
    **dict.fromkeys(("title", "venue", "language", "updated_at", "tags", "authors", *BIBLIOGRAPHIC), SHORT_CHARS),
}
SCANNED_METADATA = frozenset({"tree", *SHOWN_METADATA})
"""Of the metadata, what a judge of repositories is shown."""


def to_hit(one: Candidate, rank: int) -> Hit:
    record = one.record
    same = {name: getattr(record, name) for name in Hit.model_fields if name in type(record).model_fields}
    present = record.model_dump(mode="json", include=set(BIBLIOGRAPHIC), exclude_defaults=True)
    best = min(one.found_by, key=lambda place: place.rank, default=None)
    return Hit(
        **{**same, "metadata": {**record.metadata, **present}, "tags": tuple(dict.fromkeys((*record.tags, *one.tags)))},
        rank=rank,
        score=one.score,
        scores={name: round(value, 6) for name, value in one.scores.items()},
        scored_by=one.scored_by,
        reason=one.reason,
        radar=one.radar,
        unchecked=one.unchecked,
        flags=_flags(record),
        found_by=one.found_by,
        duplicates=one.duplicates,
        related=one.related,
        seen_in=find_seen_in(one),
        content=record.abstract or record.description,
        original_text=record.full_text(),
        source_strategy=best.strategy if best else "",
    )


def find_seen_in(one: Candidate) -> SeenIn:
    """By whom a work is known, whoever holds it now: services, pages of the web, or both."""
    of_others = {record.kind == "page" for record in (one.members or (one.record,)) if record.source != LIBRARY}
    if not of_others:
        return "library-only"
    return "both" if len(of_others) > 1 else "web-only" if True in of_others else "api-only"


def _flags(record: Record) -> tuple[str, ...]:
    """Marks of what a record says, each part up to a length of its own, so that a long one hides no other. Put together, it is one look."""
    fields = ((getattr(record, name, None), chars) for name, chars in SCANNED_FIELDS.items())
    said = [_beginning(value, chars) for value, chars in fields if value]
    if record.metadata:
        parts = ({name: value for name, value in record.metadata.items() if (name in SCANNED_METADATA) == shown} for shown in (True, False))
        said += (_beginning(part, LONG_CHARS) for part in parts)
    return suspicious("\n\n".join(said))


def _beginning(said: JsonValue | tuple[str, ...], chars: int) -> str:
    if isinstance(said, str):
        return said[:chars]
    kept: list[str] = []
    for text in _texts(said):
        kept.append(text[:chars])
        chars -= len(text) + 1
        if chars <= 0:
            break
    return "\n".join(kept)


def _texts(said: JsonValue | tuple[str, ...]) -> Iterator[str]:
    """All texts in it, its keys too."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, Mapping):
        yield from (text for pair in said.items() for part in pair for text in _texts(part))
    elif isinstance(said, list | tuple):
        yield from (text for part in said for text in _texts(part))


def _order(one: Candidate) -> tuple[float, float, int, int, str, str]:
    record = one.record
    place = math.inf if one.reranked is None else one.reranked
    return (place, -one.score, -(record.citations or 0), -(record.year or 0), record.title.lower(), record.doc_id)


def _counted(names: Iterable[str | None]) -> dict[str, int]:
    """Counts by name, case and white space aside; each shown in its most frequent spelling."""
    spellings: dict[str, Counter[str]] = {}
    for name in names:
        if name and (plain := " ".join(name.split()).rstrip(".,;")):
            spellings.setdefault(plain.casefold(), Counter())[plain] += 1
    shown = {min(forms, key=lambda form: (-forms[form], form)): sum(forms.values()) for forms in spellings.values()}
    return dict(sorted(shown.items(), key=lambda pair: (-pair[1], pair[0])))


def _themed(word: str) -> bool:
    return len(word) >= MIN_THEME_LETTERS and word not in STOP_WORDS and not word.isdigit()
