"""An answer for reading: its sentences as text and code, the best ones, texts around them.

The response holds offsets into texts as they were found. Here markup is taken away, once, by `outrider.text.readable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from outrider.distiller.structure.read_structure import find_header, read_structure
from outrider.interfaces.web.score_parts import ScorePart, read_parts
from outrider.state.model import Model
from outrider.state.response import explain_unanswered
from outrider.text.readable import name_cells, read_plainly, split_inline
from outrider.text.sanitize import code_lines
from outrider.usecases.explain_hit import list_clauses

if TYPE_CHECKING:
    from outrider.distiller.structure.block import Block
    from outrider.settings.model import Settings
    from outrider.state.hits import Hit
    from outrider.state.response import ContextUnit, SearchResponse

MAX_PIECES = 3
"""Kept sentences of a card, among them at most one piece of code."""
MAX_CODE_LINES = 8
MAX_BEST, MAX_BEST_OF_HIT = 200, 2
"""Sentences for above the hits where no model wrote an answer: the most; the most of one hit. The page shows the first ones of hits that
pass its filters.
"""
MIN_BEST_CHARS, MAX_BEST_CHARS = 25, 420
SUMMARY_CHARS = 320
MAX_KEYWORDS = 8
SCHEMES = {"doi": "DOI", "pmid": "PubMed", "pmcid": "PMC", "arxiv": "arXiv", "pypi": "PyPI", "github": "GitHub"}
TEXT_CHARS = 60_000
"""Of a text, around its first kept sentence."""
HIDDEN = frozenset({"badge", "links", "furniture"})


class Part(Model):
    """A piece of a line in one style."""

    text: str
    is_code: bool = False
    kept: int | None = Field(None, description="The start of the kept sentence that it belongs to.")


class Piece(Model):
    """A kept sentence or block of code."""

    start: int
    kind: Literal["sentence", "code"] = "sentence"
    parts: tuple[Part, ...]
    more_lines: int = 0


class HitReading(Model):
    rank: int
    parts: tuple[ScorePart, ...] = Field((), description="What its score is made of; empty where that is not known.")
    why: tuple[str, ...] = Field(description="Why the hit is there, the most important reason first.")
    pieces: tuple[Piece, ...] = ()
    summary: str = Field("", description="Beginning of its abstract or description, where nothing was kept.")
    known: str = Field("", description="What is known of a work that has no text.")
    hidden: int = Field(0, description="Kept sentences besides.")
    labels: tuple[str, ...] = Field((), description="The user's own labels of its record in the library.")


class BestSentence(Model):
    rank: int
    start: int
    parts: tuple[Part, ...]
    uncertain: bool = False


class Reading(Model):
    hits: tuple[HitReading, ...]
    best: tuple[BestSentence, ...] = Field(
        (), description="The best kept sentences, best first, where no model wrote an answer; those that may not answer come last."
    )
    unanswered: str = Field("", description="Says so if no text that was read answers.")


class TextBlock(Model):
    kind: str
    level: int = 0
    parts: tuple[Part, ...]


class HitText(Model):
    rank: int
    blocks: tuple[TextBlock, ...]
    is_cut: bool = Field(False, description="Whether the text goes on before or after.")


def read_answer(answer: SearchResponse, settings: Settings, labels: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Reading:
    units: dict[str, list[ContextUnit]] = {}
    for unit in answer.context.units:
        units.setdefault(unit.doc_id, []).append(unit)
    results = {doc_id: f"result {hit.rank}" for hit in answer.hits for doc_id in (*(one.doc_id for one in hit.duplicates), hit.doc_id)}
    is_written = answer.answer is not None and bool(answer.answer.sentences)
    return Reading(
        hits=tuple(
            _read_hit(
                hit, units.get(hit.doc_id, ()), list_clauses(hit, results, str(answer.query)), read_parts(hit, answer, settings)
            ).model_copy(update={"labels": _find_labels(hit, labels)})
            for hit in answer.hits
        ),
        best=() if is_written else tuple(_choose_best(answer, units)),
        unanswered=explain_unanswered(answer.hits, str(answer.query)),
    )


def _read_hit(hit: Hit, units: Sequence[ContextUnit], why: Sequence[str], parts: tuple[ScorePart, ...]) -> HitReading:
    scores = {(unit.start, unit.end): unit for unit in units}
    spans = sorted(hit.spans, key=lambda span: -scores[span].score if span in scores else 0.0)
    code = [span for span in spans if span in scores and scores[span].kind == "code"]
    spans = [span for span in spans if span not in code[1:]][:MAX_PIECES]
    pieces = tuple(piece for span in sorted(spans) if (piece := _read_piece(hit, span, scores.get(span))).parts)
    about = hit.summary or hit.content
    summary = "" if pieces else _cut(read_plainly(about) if about else _read_beginning(hit.original_text), SUMMARY_CHARS)
    known = "" if pieces or summary else _name_known(hit)
    return HitReading(
        rank=hit.rank,
        parts=parts,
        why=tuple(why),
        pieces=pieces,
        summary=summary,
        known=known,
        hidden=len(hit.spans) - len(spans),
    )


def _find_labels(hit: Hit, labels: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Of the hit and of the records that were merged into it, each once."""
    ids = (hit.doc_id, *(one.doc_id for one in hit.duplicates))
    return tuple(dict.fromkeys(name for doc_id in ids for name in labels.get(doc_id, ())))


def _name_known(hit: Hit) -> str:
    """Its keywords and numbers: a card without a sentence would look broken."""
    version = hit.metadata.get("version")
    facts = (
        f"Keywords: {', '.join(hit.tags[:MAX_KEYWORDS])}" if hit.tags else "",
        f"Version {version}" if isinstance(version, str) else "",
        ", ".join(f"{SCHEMES.get(scheme, scheme)} {value}" for scheme, value in hit.identifiers.pairs()),
    )
    return " ".join(["No text of it is known, only its title.", *(f"{fact}." for fact in facts if fact)])


def _read_beginning(text: str) -> str:
    """The first prose of a text, without its headings and code; all of its beginning where it has no prose."""
    begin = text[: 4 * SUMMARY_CHARS]
    prose = (begin[block.start : block.end] for block in read_structure(begin) if block.kind in ("paragraph", "item"))
    return " ".join(filter(None, map(read_plainly, prose))) or read_plainly(begin)


def _read_piece(hit: Hit, span: tuple[int, int], unit: ContextUnit | None) -> Piece:
    start, end = span
    text = hit.original_text[start:end]
    if unit is not None and unit.kind == "row" and "|" in text:
        text = name_cells(find_header(hit.original_text, start), text)
    if unit is None or unit.kind != "code":
        return Piece(start=start, parts=tuple(_read_inline(text, start)))
    lines = code_lines(hit.original_text, start, end)
    parts = (Part(text="\n".join(lines[:MAX_CODE_LINES]), is_code=True, kept=start),) if lines else ()
    return Piece(start=start, kind="code", parts=parts, more_lines=max(0, len(lines) - MAX_CODE_LINES))


def _read_inline(text: str, sentence_start: int | None = None) -> Iterator[Part]:
    for run in split_inline(text):
        yield Part(text=run.text, is_code=run.is_code, kept=sentence_start)


def _choose_best(answer: SearchResponse, units: Mapping[str, Sequence[ContextUnit]]) -> Iterator[BestSentence]:
    """By score, at most so many of one hit; those that may not answer behind all others.

    Texts that were passed on unread have none, and neither has a hit that does not answer.
    """
    if answer.context.bypassed:
        return
    hits = {hit.doc_id: hit for hit in answer.hits if hit.answers in ("yes", "perhaps")}
    own = [unit for doc_id in hits for unit in units.get(doc_id, ()) if unit.kind == "sentence" and unit.why in ("relevant", "best")]
    chosen: dict[str, int] = {}
    number = 0
    for unit in sorted(own, key=lambda unit: (unit.why == "best", -unit.score, hits[unit.doc_id].rank, unit.start)):
        parts = tuple(_read_inline(unit.text))
        chars = sum(len(part.text) for part in parts)
        if number >= MAX_BEST:
            return
        most = MAX_BEST_OF_HIT if unit.why == "relevant" else 1
        if chosen.get(unit.doc_id, 0) < most and MIN_BEST_CHARS <= chars <= MAX_BEST_CHARS:
            chosen[unit.doc_id] = chosen.get(unit.doc_id, 0) + 1
            yield BestSentence(rank=hits[unit.doc_id].rank, start=unit.start, parts=parts, uncertain=unit.why == "best")
            number += 1


def read_text(hit: Hit) -> HitText:
    """The text of a hit in blocks, with its kept sentences. Badges, lists of links and running heads are left out."""
    spans = sorted(hit.spans)
    text = hit.original_text
    begin = max(0, (spans[0][0] if spans else 0) - TEXT_CHARS // 2)
    end = begin + TEXT_CHARS
    blocks = [block for block in read_structure(text) if block.end > begin and block.start < end]
    shown = (_read_block(text, block, spans) for block in blocks if block.kind not in HIDDEN or _cut_spans(block, spans))
    return HitText(rank=hit.rank, blocks=tuple(block for block in shown if block.parts), is_cut=begin > 0 or end < len(text))


def _cut_spans(block: Block, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(max(start, block.start), min(end, block.end)) for start, end in spans if start < block.end and end > block.start]


def _read_block(text: str, block: Block, spans: Sequence[tuple[int, int]]) -> TextBlock:
    own = _cut_spans(block, spans)
    if block.kind == "code":
        code = "\n".join(code_lines(text, block.start, block.end))
        parts = [Part(text=code, is_code=True, kept=own[0][0] if own else None)] if code else []
        return TextBlock(kind="code", parts=tuple(parts))
    if block.kind == "row" and "|" in (row := text[block.start : block.end]):
        return TextBlock(kind="row", parts=tuple(_read_inline(name_cells(block.introduced_by, row), own[0][0] if own else None)))
    parts, at = [], block.start
    for start, end in own:
        parts += [*_read_inline(text[at:start]), *_read_inline(text[start:end], start)]
        at = end
    parts += _read_inline(text[at : block.end])
    return TextBlock(kind=block.kind, level=block.level, parts=tuple(part for part in parts if part.text.strip() or len(parts) > 1))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rsplit(' ', 1)[0]} …"
