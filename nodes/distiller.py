"""Only the sentences that answer: verbatim, with their offsets, under a token budget.

A sentence's score is the share of the query's information it holds: the sum of the idf of the query's stems found in it over
the sum for all of them, idf taken over the sentences at hand. It is in [0, 1] and asks for no model.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.nodes.runtime import run_setting
from outrider.prompts import Prompt
from outrider.settings.model import DistillerSettings
from outrider.state.hits import Hit
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.response import Bypass, ContextUnit, DistilledContext
from outrider.text.sentences import sentence_spans
from outrider.text.words import stems, words

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

MAX_CHARS_READ = 2_000_000
"""Characters of one text, about a thousand pages, whose sentences are scored; a longer text is read up to there, which is said."""
READ_UP_TO = f"of {{}} only the first {MAX_CHARS_READ:,} characters were read for sentences"


@dataclass(frozen=True, slots=True)
class Distiller:
    """Reads hits, strategy, distill_enabled, distill_top; writes hits, context, bypassed."""

    frame: Prompt
    settings: DistillerSettings

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if not state.distill_enabled:
            return {"bypassed": (*state.bypassed, Bypass(step="distiller", why="distill_enabled is false"))}
        query = state.strategy.queries[0].text if state.strategy else str(state.query)
        read = state.hits[: state.distill_top]
        units = await asyncio.to_thread(best_units, query, read, self.settings.min_score, self.settings.max_sentences_per_hit)
        budget = run_setting(runtime, "max_context_tokens", self.settings.max_context_tokens)
        context = assembled(self.frame, query, units, budget)
        cut = tuple(Bypass(step="distiller", why=READ_UP_TO.format(hit.doc_id)) for hit in read if len(hit.original_text) > MAX_CHARS_READ)
        return {"hits": with_spans(state.hits, context.units), "context": context, "bypassed": (*state.bypassed, *cut)}


def token_bound(text: str) -> int:
    """An upper estimate of a text's tokens: one for three ASCII characters, one for two bytes of anything else.

    English averages over four characters a token in the common byte-pair vocabularies, Chinese about one character.
    """
    ascii_chars = len(text.encode("ascii", "ignore"))
    return math.ceil(ascii_chars / 3 + (len(text.encode("utf-8", "surrogatepass")) - ascii_chars) / 2)


def best_units(query: str, hits: Sequence[Hit], min_score: float, per_hit: int) -> list[ContextUnit]:
    """The best sentences of each hit, best first over all hits; ties by rank of the hit, then place in its text."""
    wanted = list(dict.fromkeys(stems(query)))
    cut = [(hit, sentence_spans(hit.original_text[:MAX_CHARS_READ])) for hit in hits]
    bags = [[set(stems(hit.original_text[start:end])) for start, end in spans] for hit, spans in cut]
    idf = _idf(wanted, [bag for many in bags for bag in many])
    units: list[ContextUnit] = []
    for (hit, spans), many in zip(cut, bags, strict=True):
        scored = [(information(wanted, bag, idf), span) for span, bag in zip(spans, many, strict=True)]
        ordered = sorted((pair for pair in scored if pair[0] >= min_score), key=lambda pair: (-pair[0], pair[1]))
        units.extend(_distinct((_unit(hit, span, score) for score, span in ordered), per_hit))
    rank = {hit.doc_id: hit.rank for hit in hits}
    return sorted(units, key=lambda unit: (-unit.score, rank[unit.doc_id], unit.start))


def _distinct(units: Iterable[ContextUnit], limit: int) -> list[ContextUnit]:
    """The first `limit` that do not repeat the words of an earlier one: an abstract often stands again in the body."""
    kept: dict[tuple[str, ...], ContextUnit] = {}
    for unit in units:
        if len(kept) == limit:
            break
        kept.setdefault(tuple(words(unit.text)), unit)
    return list(kept.values())


def information(wanted: Sequence[str], bag: set[str], idf: dict[str, float]) -> float:
    """The share, in [0, 1], of the query's idf mass that a sentence covers."""
    total = sum(idf[stem] for stem in wanted)
    return sum(idf[stem] for stem in wanted if stem in bag) / total if total else 0.0


def assembled(frame: Prompt, query: str, units: Sequence[ContextUnit], budget: int) -> DistilledContext:
    """The best units that fit the budget, in the order of hits and texts, set into the frame that declares them data."""
    chosen: list[ContextUnit] = []
    for unit in units:
        wider = DistilledContext(text=_text(frame, query, [*chosen, unit]))
        if token_bound(wider.text) <= budget:
            chosen.append(unit)
    if not chosen:
        return DistilledContext()
    text = _text(frame, query, chosen)
    return DistilledContext(text=text, units=tuple(_reading_order(chosen)), tokens=token_bound(text))


def with_spans(hits: Sequence[Hit], units: Sequence[ContextUnit]) -> tuple[Hit, ...]:
    """Hits with the kept sentences as spans and, joined by ellipses where text was left out, as distilled_text."""
    kept: dict[str, list[tuple[int, int]]] = {}
    for unit in sorted(units, key=lambda unit: unit.start):
        kept.setdefault(unit.doc_id, []).append((unit.start, unit.end))
    return tuple(
        hit.model_copy(update={"spans": tuple(kept[hit.doc_id]), "distilled_text": _joined(hit, kept[hit.doc_id])})
        if hit.doc_id in kept
        else hit
        for hit in hits
    )


def _joined(hit: Hit, spans: Sequence[tuple[int, int]]) -> str:
    return " ".join(hit.original_text[start:end] for start, end in spans)


def _unit(hit: Hit, span: tuple[int, int], score: float) -> ContextUnit:
    start, end = span
    return ContextUnit(
        doc_id=hit.doc_id, key=f"[{hit.rank}]", start=start, end=end, text=hit.original_text[start:end], score=round(score, 6)
    )


def _idf(wanted: Sequence[str], bags: Sequence[set[str]]) -> dict[str, float]:
    seen = Counter(stem for bag in bags for stem in wanted if stem in bag)
    return {stem: math.log(1 + (len(bags) + 1) / (seen[stem] + 0.5)) for stem in wanted}


def _text(frame: Prompt, query: str, units: Sequence[ContextUnit]) -> str:
    return frame.filled(query=query, sentences="\n".join(f"{unit.key} {unit.text}" for unit in _reading_order(units)))


def _reading_order(units: Sequence[ContextUnit]) -> list[ContextUnit]:
    return sorted(units, key=lambda unit: (int(unit.key[1:-1]), unit.start))
